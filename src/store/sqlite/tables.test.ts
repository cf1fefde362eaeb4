import { DatabaseSync } from '@photostructure/sqlite'
import { describe, expect, test } from 'vitest'
import { TidemarkError } from '../../errors.ts'
import { hash, id, kept, makeWatcher, mark, number, ref } from '../../testkit/store-cases/case.ts'
import { wait } from '../../util/op.ts'
import { encodeInt256, encodeUint256, type SqliteDatabaseLike, type SqliteStore, sqlite } from './index.ts'

/** A store in memory with its tables, and the driver's database under it. */
async function migrated() {
  const raw = new DatabaseSync(':memory:')
  const store = sqlite({ file: ':memory:', open: () => raw })
  await store.migrate('auto')
  return { store, raw }
}

async function failure(work: Promise<unknown>): Promise<TidemarkError> {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (!TidemarkError.is(error)) throw new Error(`expected a TidemarkError, got ${String(error)}`)
  return error
}

describe('numbers that JavaScript cannot hold (C45)', () => {
  test('a counter beyond 2^53 is an error when read, never a rounded value', async () => {
    const { store, raw } = await migrated()
    await store.transact((tx) => makeWatcher(tx))
    raw.exec('UPDATE tidemark_watchers SET applied = 9007199254740993')
    await expect(store.read((tx) => wait(tx.cursors.list()))).rejects.toThrow('too large')
  })

  test('every number is kept as a 64-bit integer, none as a float', async () => {
    const { store, raw } = await migrated()
    await store.transact(function* (tx) {
      const watcher = yield* makeWatcher(tx)
      yield* wait(tx.cursors.change(watcher, { add: { applied: 2 ** 31 }, cursor: ref(2 ** 40), updatedAt: 2 ** 41 }))
      yield* wait(tx.marks.insert(watcher, [mark(2 ** 40, 2 ** 32)]))
    })
    const types = raw
      .prepare('SELECT typeof(applied) AS a, typeof(cursor_block) AS b, typeof(updated_at) AS c FROM tidemark_watchers')
      .get()
    expect({ ...types }).toEqual({ a: 'integer', b: 'integer', c: 'integer' })
    const marked = raw
      .prepare('SELECT typeof(block_number) AS a, typeof(log_index) AS b FROM tidemark_processed_events')
      .get()
    expect({ ...marked }).toEqual({ a: 'integer', b: 'integer' })
  })
})

describe("tables that are the user's", () => {
  const table = { table: 'transfers', columns: { account: 'text', amount: 'uint256', change: 'int256' } } as const
  const keys = 'tidemark_watcher INTEGER, tidemark_block INTEGER, tidemark_event BLOB, tidemark_ordinal INTEGER'
  const ensure = (store: SqliteStore) => store.transact((tx) => wait(tx.managed.ensureTable(table)))

  test('missing columns are named, all of them', async () => {
    const { store, raw } = await migrated()
    raw.exec('CREATE TABLE transfers (ACCOUNT TEXT, tidemark_watcher INTEGER)')
    const error = await failure(ensure(store))
    expect([error.code, error.values.missing]).toEqual([
      'STORE_TABLE_MISMATCH',
      ['tidemark_block INTEGER', 'tidemark_event BLOB', 'tidemark_ordinal INTEGER', 'amount TEXT', 'change TEXT'],
    ])
  })

  test('a NUMERIC column would make a float of an amount (C44): refused', async () => {
    const { store, raw } = await migrated()
    raw.exec(`CREATE TABLE transfers (${keys}, account TEXT, amount NUMERIC(78), change TEXT)`)
    const error = await failure(ensure(store))
    expect([error.code, error.values.expected]).toEqual(['STORE_TABLE_MISMATCH', ['amount TEXT']])
    raw.prepare('INSERT INTO transfers (amount) VALUES (?)').run(encodeUint256(2n ** 255n))
    expect(raw.prepare('SELECT typeof(amount) AS t FROM transfers').get()?.t).toBe('real') // control
  })

  test('a view is refused; a table with more columns is taken, and values come back to the digit', async () => {
    const { store, raw } = await migrated()
    raw.exec('CREATE VIEW transfers AS SELECT 1 AS n')
    expect((await failure(ensure(store))).code).toBe('STORE_TABLE_MISMATCH')
    raw.exec(
      `DROP VIEW transfers; CREATE TABLE transfers (own INTEGER PRIMARY KEY, ${keys}, account VARCHAR, amount TEXT, change TEXT)`,
    )
    const amount = 2n ** 256n - 1n
    const change = -(2n ** 255n)
    await store.transact(function* (tx) {
      yield* wait(tx.managed.ensureTable(table))
      const rows = [{ blockNumber: number(5), stableId: id(1), ordinal: 0, values: { account: null, amount, change } }]
      yield* wait(tx.managed.insertRows(table, 1, rows))
    })
    const row = raw.prepare('SELECT account, amount, change FROM transfers').get()
    expect({ ...row }).toEqual({ account: null, amount: encodeUint256(amount), change: encodeInt256(change) })
  })

  test('a text that SQLite would cut is refused, without showing it (P12)', async () => {
    const { store } = await migrated()
    const secret = 'secret\0cut'
    const error = await failure(
      store.transact(function* (tx) {
        yield* wait(tx.managed.ensureTable(table))
        const rows = [
          { blockNumber: number(5), stableId: id(1), ordinal: 0, values: { account: secret, amount: 1n, change: 1n } },
        ]
        yield* wait(tx.managed.insertRows(table, 1, rows))
      }),
    )
    expect(error.code).toBe('MANAGED_VALUE_INVALID')
    expect(error.message).not.toContain('secret')
  })
})

describe('what an operator sees', () => {
  test('marks are readable in the view', async () => {
    const { store, raw } = await migrated()
    await store.transact(function* (tx) {
      const watcher = yield* makeWatcher(tx)
      yield* wait(tx.marks.insert(watcher, [mark(5, 0xab)]))
    })
    const row = raw.prepare('SELECT * FROM tidemark_events').get()
    expect({ ...row }).toEqual({
      watcher: 'deposits/ethereum',
      event_id: `1-${hash(0xab)}-171`,
      block_number: 5,
      block_hash: hash(5),
      transaction_hash: hash(0xab),
      log_index: 171,
      stable_id: id(0xab),
    })
  })

  test('pruning, undo and settling go along keys, never over the whole table', async () => {
    const seen = new Set<string>()
    const real = new DatabaseSync(':memory:')
    const watched: SqliteDatabaseLike = {
      get isTransaction() {
        return real.isTransaction
      },
      prepare: (sql) => seen.add(sql) && real.prepare(sql),
      exec: (sql) => real.exec(sql),
      close: () => real.close(),
    }
    const store = sqlite({ file: ':memory:', open: () => watched })
    await store.migrate('auto')
    seen.clear()
    await store.transact(function* (tx) {
      yield* wait(tx.kept.add(1, [kept(5, 0)]))
      yield* wait(tx.kept.above(1, -1))
      yield* wait(tx.kept.through(1, number(1), 1))
      yield* wait(tx.kept.deleteThrough(1, number(1)))
      yield* wait(tx.marks.between(1, number(1), number(2)))
      yield* wait(tx.marks.deleteAbove(1, number(1)))
      yield* wait(tx.marks.deleteThrough(1, number(1), 1))
      yield* wait(tx.commits.compact(1, number(1), 10, 10))
      yield* wait(tx.commits.straddling(1, number(1)))
      yield* wait(tx.trail.deleteBelow(1, number(1)))
      yield* wait(tx.handled.deleteThrough('s', 1, number(1), 1))
      yield* wait(tx.handled.chains('s'))
    })
    expect(seen.size).toBeGreaterThan(10)
    const scans = (sql: string) => {
      const plan = real.prepare(`EXPLAIN QUERY PLAN ${sql}`).all() as { detail: string }[]
      return plan.filter((line) => line.detail.startsWith('SCAN tidemark')).length
    }
    for (const sql of [...seen].filter((one) => /SELECT|DELETE/.test(one))) expect(scans(sql), sql).toBe(0)
    expect(scans('SELECT * FROM tidemark_processed_events WHERE log_index = 1')).toBe(1) // control
  })
})
