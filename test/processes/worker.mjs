import { createTidemark, defineConfig } from '../../dist/index.js'
import { dialects } from './worker-dialects.mjs'

/**
 * One of several identical processes, on the built package, as a user would write it. What it does beyond that: it freezes
 * itself at a place in its own work when told to, and tells what happens. Its only argument is a `WorkerSettings` as JSON.
 */
const settings = JSON.parse(process.argv[2])
const { kind, who, node, token } = settings
const { watch, rows, openStore, copyHalf, sql, amount } = await dialects[kind](settings)

/** Where to freeze: `prepare`, `handle` or `copy`; once, then nowhere. */
let freezeAt = null
const tell = (type, event) => {
  if (process.connected) process.send({ type, event: { ...event, ms: Date.now() } })
}

/** The process stands still in the middle of this call, until SIGCONT. */
function freeze(place, watcher) {
  if (freezeAt?.place !== place || freezeAt.watcher !== watcher) return false
  freezeAt = null
  tell('frozen', { place, at: Date.now() })
  process.kill(process.pid, 'SIGSTOP')
  return true
}

const Transfer = { event: 'event Transfer(address indexed from, address indexed to, uint256 value)' }
const on = (at) => ({ node: { address: token, startBlock: settings.startBlock ?? 1, at } })
// Small commits, so that there are many moments to be killed at.
const batch = { maxEvents: 40 }
const prepare = (watcher) => async () => void freeze('prepare', watcher)

/** Which process wrote: in the transaction of the write itself. */
const sign = (db, watcher, event) =>
  sql(db, "INSERT INTO history (kind, watcher, who, block) VALUES ('effect', ?, ?, ?)", [
    `${watcher}/node`,
    who,
    Number(event.blockNumber),
  ])

async function move(db, from, to, value) {
  // One order of rows for everybody (C59); the two may be the same account.
  for (const [account, by] of [
    [from, -value],
    [to, value],
  ].sort()) {
    await sql(db, 'UPSERT balances', [account, amount(by)])
  }
}

/** At the head: `balance += x`, taken back by hand. The very thing that a second writer breaks. */
const ledger = watch({
  on: on('latest'),
  events: { Transfer },
  batch,
  prepare: prepare('ledger'),
  async handle({ event, db }) {
    const { from, to, value } = event.args
    await sign(db, 'ledger', event)
    if (freezeAt?.place === 'copy') await copyHalf(db, () => freeze('copy', 'ledger'))
    await move(db, from, to, value)
    // The cursor row is locked, and the effects are written and not committed.
    freeze('handle', 'ledger')
    return { from, to, value }
  },
  async undo({ memo, db }) {
    await move(db, memo.to, memo.from, memo.value)
  },
})

/** Shown at the head, in rows that take themselves back; paid when settled. */
const shown = watch({
  on: on('latest'),
  events: { Transfer },
  tables: {
    shown: rows({
      table: 'shown',
      columns: { block_hash: 'text', transaction_hash: 'text', log_index: 'integer', amount: 'text' },
    }),
  },
  undo: 'managed',
  batch,
  prepare: prepare('shown'),
  async handle({ event, tables }) {
    const { blockHash, transactionHash, logIndex } = event
    const value = String(event.args.value)
    tables.shown.insert({
      block_hash: blockHash,
      transaction_hash: transactionHash,
      log_index: logIndex,
      amount: value,
    })
    freeze('handle', 'shown')
    return value
  },
  async final({ event, memo, db }) {
    await sign(db, 'shown', event)
    await pay(db, 'payouts', event, memo)
    freeze('final', 'shown')
  },
})

function pay(db, table, event, value) {
  return sql(db, `INSERT INTO ${table} (block_hash, transaction_hash, log_index, amount) VALUES (?, ?, ?, ?)`, [
    event.blockHash,
    event.transactionHash,
    event.logIndex,
    amount(BigInt(value)),
  ])
}

/** Final blocks only: nothing is ever taken back, so nothing may come twice. */
const credits = watch({
  on: on('finalized'),
  events: { Transfer },
  batch,
  prepare: prepare('credits'),
  async handle({ event, db }) {
    await sign(db, 'credits', event)
    await pay(db, 'credits', event, event.args.value)
    freeze('handle', 'credits')
  },
})

const store = openStore()
/** Also what a watcher that has lost its lease is no longer asked about: the refusal of its last commit. */
const { transact } = Object.getPrototypeOf(store)
store.transact = async (body) => {
  try {
    return await transact.call(store, body)
  } catch (error) {
    tell('refused', { code: (error.error ?? error).code ?? error.name })
    throw error
  }
}

const tidemark = createTidemark(
  defineConfig({
    store: settings.fenced === false ? (await import('./unfenced.mjs')).unfenced(store) : store,
    chains: {
      node: { id: settings.chainId, rpc: [node], finality: { depth: settings.finality }, pollMs: 50, maxRange: 40 },
    },
    watchers: { ledger, shown, credits },
    ...settings.config,
  }),
)
for (const type of ['applied', 'undone', 'settled', 'halted', 'failing', 'recovered']) {
  tidemark.on(type, (event) => tell(type, event))
}
process.on('disconnect', () => process.exit(1)) // the test is gone: nobody is left to watch
process.on('message', (message) => {
  if (message === 'stop') void tidemark.stop().then(() => process.exit(0))
  else if (message === 'go') void begin()
  else freezeAt = message
})

async function begin() {
  try {
    await tidemark.start()
    tell('started', {})
  } catch (error) {
    tell('not-started', { code: error.code ?? String(error) })
    await tidemark.stop()
    process.exit(3)
  }
}

if (settings.waits) tell('ready', {})
else await begin()
