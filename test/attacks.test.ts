import { expect, test } from 'vitest'
import { eip1193Transport } from '../src/chain/http.ts'
import { readRefusal } from '../src/chain/rpc-errors.ts'
import type { Watcher } from '../src/handle/watch.ts'
import { rows, type SqliteDb, watch } from '../src/store/sqlite/index.ts'
import { fakeChain, testAddress, testWorld, transfer } from '../src/testkit/index.ts'
import { Harness } from './support/harness.ts'

/** What an attack on the engine found once. Each stays, so that it is not found again. */

const TOKEN = testAddress('token')
const [ALICE, BOB] = [testAddress('alice'), testAddress('bob')]
const SCHEMA = 'CREATE TABLE balances (account TEXT PRIMARY KEY, amount INTEGER NOT NULL)'
const TRANSFER = {
  Transfer: { event: 'event Transfer(address indexed from, address indexed to, uint256 value)' },
} as const

function add(db: SqliteDb, account: string, amount: number): void {
  const sql = 'INSERT INTO balances VALUES (?, ?) ON CONFLICT (account) DO UPDATE SET amount = amount + excluded.amount'
  db.prepare(sql).run(account, amount)
}

const on = { test: { address: TOKEN, startBlock: 1, at: 'latest' as const } }

/** Adds to balances; the same handler under another `undo`. */
function adding(undo: 'irreversible' | 'function'): Watcher<SqliteDb> {
  if (undo === 'irreversible') {
    return watch({
      on,
      events: TRANSFER,
      undo,
      handle: ({ event, db }) => add(db, event.args.to, Number(event.args.value)),
    })
  }
  return watch({
    on,
    events: TRANSFER,
    handle: ({ event, db }) => add(db, event.args.to, Number(event.args.value)),
    undo: ({ event, db }) => add(db, event.args.to, -Number(event.args.value)),
  })
}

async function reasonOf(h: Harness): Promise<string | undefined> {
  await h.settle()
  return (await h.tidemark.status()).watchers[0]?.reason?.code
}

test('undo that was declared otherwise when a block was applied: the reorg halts, nothing is credited twice', async () => {
  const chain = fakeChain({ chainId: 7 })
  const h = new Harness({ chain, watchers: { sums: adding('irreversible') }, schema: SCHEMA })
  chain.mine([transfer(TOKEN, ALICE, BOB, 5)])
  await h.settle()
  await h.restart({ watchers: { sums: adding('function') } })
  chain.reorg(1, { reinclude: 'same', extraBlocks: 1 })
  expect(await reasonOf(h)).toBe('UNDO_CHANGED')
  expect(h.rows('SELECT amount FROM balances')).toEqual([{ amount: 5 }])
  await h.close()
})

test('a handler cannot change its event, so a second run sees the first one', async () => {
  const chain = fakeChain({ chainId: 7 })
  const greedy = watch({
    on,
    events: TRANSFER,
    undo: 'irreversible',
    handle({ event, db }) {
      ;(event.args as { value: bigint }).value *= 10n
      add(db, event.args.to, Number(event.args.value))
    },
  })
  const h = new Harness({ chain, watchers: { greedy }, schema: SCHEMA })
  chain.mine([transfer(TOKEN, ALICE, BOB, 5)])
  expect(await reasonOf(h)).toBe('HANDLER_FAILED')
  expect(h.rows('SELECT * FROM balances')).toEqual([])
  await h.close()
})

test('tables that were kept beyond their callback are dead, for this event and the next', async () => {
  const chain = fakeChain({ chainId: 7 })
  let kept: { insert(values: { amount: bigint }): void } | undefined
  const keeper = watch({
    on,
    events: TRANSFER,
    tables: { entries: rows({ table: 'entries', columns: { amount: 'uint256' } }) },
    undo: 'managed',
    handle({ event, tables }) {
      kept ??= tables.entries
      kept.insert({ amount: event.args.value })
    },
  })
  const h = new Harness({ chain, watchers: { keeper } })
  chain.mine([transfer(TOKEN, ALICE, BOB, 1)])
  chain.mine([transfer(TOKEN, ALICE, BOB, 2)])
  expect(await reasonOf(h)).toBe('SCOPE_DEAD')
  // Run again without the second block, the first one meets its own dead tables of the first run.
  expect(h.rows('SELECT count(*) AS n FROM entries')).toEqual([{ n: 0 }])
  await h.close()
})

test('flush and savepoint of a managed watcher are its own writes, not untracked ones', async () => {
  const chain = fakeChain({ chainId: 7 })
  const flusher = watch({
    on,
    events: TRANSFER,
    tables: { entries: rows({ table: 'entries', columns: { data: 'bytes' } }) },
    undo: 'managed',
    handle({ tables, savepoint, flush }) {
      const buffer = Uint8Array.of(1)
      tables.entries.insert({ data: buffer })
      buffer[0] = 9
      flush()
      savepoint(() => tables.entries.insert({ data: buffer }))
      expect(() =>
        savepoint(() => {
          tables.entries.insert({ data: buffer })
          throw new Error('not this one')
        }),
      ).toThrow('not this one')
    },
  })
  const h = new Harness({ chain, watchers: { flusher } })
  chain.mine([transfer(TOKEN, ALICE, BOB, 1)])
  expect(await reasonOf(h)).toBeUndefined()
  expect(h.rows('SELECT hex(data) AS data FROM entries ORDER BY tidemark_ordinal')).toEqual([
    { data: '01' },
    { data: '09' },
  ])
  await h.close()
})

test('a row that a constraint of the managed table refuses halts at its block; what is older is committed', async () => {
  const chain = fakeChain({ chainId: 7 })
  const unique = watch({
    on,
    events: TRANSFER,
    tables: { entries: rows({ table: 'entries', columns: { amount: 'uint256' } }) },
    undo: 'managed',
    handle: ({ event, tables }) => tables.entries.insert({ amount: event.args.value }),
  })
  const h = new Harness({ chain, watchers: { unique } })
  await h.settle()
  h.sql((db) => db.exec('CREATE UNIQUE INDEX one_each ON entries (amount)'))
  for (const amount of [1, 2, 1]) chain.mine([transfer(TOKEN, ALICE, BOB, amount)])
  expect(await reasonOf(h)).toBe('MANAGED_REFUSED')
  expect((await h.tidemark.status()).watchers[0]?.cursor?.number).toBe(2)
  await h.close()
})

test('an end block below what is applied ends nothing while that can still be orphaned', async () => {
  const chain = fakeChain({ chainId: 7, finalized: { depth: 4 } })
  const until = (endBlock?: number) => {
    const { definition } = adding('function')
    const bound = { ...on.test, ...(endBlock === undefined ? {} : { endBlock }) }
    return { isTidemarkWatcher: true as const, definition: { ...definition, on: { test: bound } } }
  }
  const h = new Harness({ chain, watchers: { sums: until() }, schema: SCHEMA })
  for (let i = 1; i <= 9; i++) chain.mine([transfer(TOKEN, ALICE, BOB, 1)])
  await h.settle()
  await h.restart({ watchers: { sums: until(5) } })
  chain.reorg(2, { reinclude: 'none', extraBlocks: 1 })
  await h.settle()
  chain.mineEmpty(8)
  await h.settle()
  expect(h.rows('SELECT amount FROM balances')).toEqual([{ amount: 7 }])
  await h.close()
})

test('a provider that never answers is a failure after its time, and a long error text costs no time', async () => {
  const world = testWorld({ autoAdvance: true })
  const silent = { request: () => new Promise<never>(() => {}) }
  const transport = eip1193Transport(silent, { label: 'silent', timeoutMs: 200, world })
  const [outcome] = await transport.send([{ method: 'eth_chainId', params: [] }])
  expect(outcome).toMatchObject({ ok: false, error: { meaning: 'unanswered' } })
  expect(world.monotonic()).toBe(200)
  const long = { message: 'more than '.repeat(2_000_000), data: Array.from({ length: 100_000 }, () => 'more than ') }
  const started = process.cpuUsage().user
  expect(readRefusal(long).meaning).toBe('unknown')
  expect(process.cpuUsage(undefined).user - started).toBeLessThan(1_000_000)
})
