import { createTidemark, defineConfig } from '../../dist/index.js'

/**
 * The watcher's own process, on the built package, as a user would write it. It knows nothing of being killed.
 * Arguments: URL of the node, chain id, kind of store, its file or URL, address of the token.
 */
const [url, chainId, kind, place, token] = process.argv.slice(2)
const { rows, watch, [kind]: open } = await import(`../../dist/store/${kind}/index.js`)

const Transfer = { event: 'event Transfer(address indexed from, address indexed to, uint256 value)' }
const columns = {
  block: 'integer',
  block_hash: 'text',
  transaction_hash: 'text',
  transaction_index: 'integer',
  log_index: 'integer',
  sender: 'text',
  receiver: 'text',
  amount: 'uint256',
}

/** Statements one after the other, `?` for each value; SQLite answers at once, and its handlers must not wait. */
const RUN = {
  sqlite(db, statements) {
    for (const [sql, ...values] of statements) db.prepare(sql).run(...values)
  },
  async postgres(db, statements) {
    for (const [sql, ...values] of statements) {
      let n = 0
      await db.query(
        sql.replaceAll('?', () => `$${++n}`),
        values,
      )
    }
  },
  async mysql(db, statements) {
    for (const [sql, ...values] of statements) await db.execute(sql, values)
  },
}
const run = RUN[kind]

const ADD =
  kind === 'mysql'
    ? 'ON DUPLICATE KEY UPDATE amount = amount + VALUES(amount)'
    : 'ON CONFLICT (account) DO UPDATE SET amount = balances.amount + excluded.amount'

function add(table, account, amount) {
  return [`INSERT INTO ${table} (account, amount) VALUES (?, ?) ${ADD.replace('balances', table)}`, account, amount]
}

/** `balance += x`: the very thing that a redelivery, or an undo too few, breaks. In one order, since others write as well. */
function move(table, from, to, amount) {
  const both = [add(table, from, -amount), add(table, to, amount)]
  return from < to ? both : both.reverse()
}

function rowOf(event) {
  return {
    block: Number(event.blockNumber),
    block_hash: event.blockHash,
    transaction_hash: event.transactionHash,
    transaction_index: event.transactionIndex,
    log_index: event.logIndex,
    sender: event.args.from,
    receiver: event.args.to,
    amount: event.args.value,
  }
}

function insert(table, row) {
  const names = Object.keys(row)
  const statement = `INSERT INTO ${table} (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})`
  return [statement, ...Object.values(row).map((value) => (typeof value === 'bigint' ? Number(value) : value))]
}

const on = (at) => ({ node: { address: token, startBlock: 1, at } })
// Small commits, so that a kill finds many moments between them.
const batch = { maxEvents: 300 }

/** At the head: sums in plain SQL, taken back by hand; raw rows, taken back by themselves. */
const ledger = watch({
  on: on('latest'),
  events: { Transfer },
  tables: { transfers: rows({ table: 'ledger_transfers', columns }) },
  batch,
  handle({ event, db, tables }) {
    const { from, to, value } = event.args
    tables.transfers.insert(rowOf(event))
    const moved = run(db, move('ledger_balances', from, to, Number(value)))
    const memo = { from, to, amount: Number(value) }
    return moved ? moved.then(() => memo) : memo
  },
  undo({ memo, db }) {
    return run(db, move('ledger_balances', memo.to, memo.from, memo.amount))
  },
})

/** Twelve blocks late, and then for good: there is no way back. */
const credits = watch({
  on: on({ confirmations: 12 }),
  events: { Transfer },
  batch,
  handle({ event, db }) {
    const moves = move('credit_balances', event.args.from, event.args.to, Number(event.args.value))
    return run(db, [insert('credits', rowOf(event)), ...moves])
  },
})

/** Shown at the head, paid when settled. The payout is written from what `handle` left behind. */
const payouts = watch({
  on: on('latest'),
  events: { Transfer },
  tables: { shown: rows({ table: 'shown', columns }) },
  batch,
  handle({ event, tables }) {
    tables.shown.insert(rowOf(event))
    return String(event.args.value)
  },
  undo: 'managed',
  final({ event, memo, db }) {
    return run(db, [insert('payouts', { ...rowOf(event), amount: Number(memo) })])
  },
})

const tidemark = createTidemark(
  defineConfig({
    store: open(kind === 'sqlite' ? { file: place } : { url: place }),
    // The node's own finality is two blocks deep and holds for nothing; a depth above every reorg is what is true here.
    chains: { node: { id: Number(chainId), rpc: [url], finality: { depth: 16 }, pollMs: 100, maxRange: 40 } },
    watchers: { ledger, credits, payouts },
  }),
)
for (const type of ['applied', 'undone', 'settled', 'halted', 'failing', 'recovered']) {
  tidemark.on(type, (event) => {
    if (process.connected) process.send({ type, event })
  })
}
process.on('disconnect', () => process.exit(1)) // the test is gone: nobody is left to watch
process.once('message', () => void tidemark.stop().then(() => process.exit(0)))
await tidemark.start()
