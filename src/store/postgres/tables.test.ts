import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { describePostgres, postgresBench } from '../../../test/support/postgres.ts'
import { codeOf, id, kept, mark, number } from '../../testkit/store-cases/case.ts'
import { wait } from '../../util/op.ts'
import type { ManagedTable } from '../store.ts'
import type { PostgresStore } from './index.ts'

const bench = postgresBench()
const MAX = 2n ** 256n - 1n

const setFact = (store: PostgresStore) => store.transact((tx) => wait(tx.meta.set('fact', 'here')))

describePostgres('migrations', () => {
  test('of several processes that start at once, each step is applied once', async () => {
    const { url } = await bench.database()
    const stores = Array.from({ length: 5 }, () => bench.store({ url }))
    const reports = await Promise.all(stores.map((store) => store.migrate('auto')))
    expect(reports.flatMap((report) => report.applied)).toEqual([
      '1 first tables (breaking)',
      '2 changes of totals (safe while running)',
    ])
    for (const store of stores) expect((await store.migrate('check')).to).toBe(2)
  })

  test('the SQL for a person is what would run', async () => {
    const { url } = await bench.database()
    const store = bench.store({ url, schema: 'by_hand' })
    expect(await codeOf(store.migrate('check'))).toBe('STORE_MIGRATION_NEEDED')
    const client = await bench.client(url)
    await client.query(await store.pendingSql())
    expect((await store.migrate('check')).applied).toEqual([])
    await setFact(store)
  })

  test('a database of a newer version is refused', async () => {
    const { store, client } = await bench.migrated()
    await client.query("UPDATE tidemark.meta SET value = '99'")
    expect(await codeOf(store.migrate('auto'))).toBe('STORE_NEWER')
    expect(await codeOf(store.migrate('check'))).toBe('STORE_NEWER')
  })

  test('without the right to make a schema, one that is there is enough', async () => {
    const { url } = await bench.database()
    const client = await bench.client(url)
    const role = `tidemark_test_${randomBytes(6).toString('hex')}`
    await client.query(`CREATE ROLE ${role} LOGIN; CREATE SCHEMA tidemark AUTHORIZATION ${role}`)
    bench.later(() => client.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`))
    const poor = new URL(url)
    poor.username = role
    expect((await bench.store({ url: poor.href }).migrate('auto')).applied).toHaveLength(2)
  })
})

const payments: ManagedTable = {
  table: 'payments',
  columns: { name: 'text', amount: 'uint256', change: 'int256', raw: 'bytes' },
}
const payment = (values: Record<string, unknown>, block = 1, ordinal = 0) => ({
  blockNumber: number(block),
  stableId: id(block),
  ordinal,
  values: { name: 'alice', amount: 1n, change: 1n, raw: Uint8Array.of(), ...values },
})

describePostgres('two environments on one database', () => {
  test('share nothing, and neither takes the other one’s managed table', async () => {
    const { url, store: one, client } = await bench.migrated({ schema: 'staging' })
    const two = bench.store({ url, schema: 'production' })
    await two.migrate('auto')
    await one.transact((tx) => wait(tx.meta.set('environment', 'staging')))
    expect(await two.read((tx) => wait(tx.meta.get('environment')))).toBeNull()
    const [first, second] = await Promise.all([one, two].map((store) => store.acquire('deposits/ethereum')))
    expect(first && second).not.toBeNull()
    await one.transact((tx) => wait(tx.managed.ensureTable(payments)))
    expect(await codeOf(two.transact((tx) => wait(tx.managed.ensureTable(payments))))).toBe('STORE_TABLE_MISMATCH')
    await client.query('COMMENT ON TABLE payments IS NULL') // a table of the user's own is taken by either (control)
    await two.transact((tx) => wait(tx.managed.ensureTable(payments)))
  })
})

describePostgres('managed rows', () => {
  const insert = (store: PostgresStore, rows: ReturnType<typeof payment>[], table = payments) =>
    store.transact(function* (tx) {
      yield* wait(tx.managed.ensureTable(table))
      yield* wait(tx.managed.insertRows(table, 1, rows))
    })

  test('the largest and the smallest numbers, and any bytes, come back to the digit', async () => {
    const { store, client } = await bench.migrated()
    const raw = Uint8Array.of(0, 0xa7, 0xff)
    const text = '\u{1f30a} "quoted", {braced}, \\ back, NULL'
    await insert(store, [
      payment({ amount: MAX, change: -(2n ** 255n), raw, name: text }),
      payment({ amount: 0n, change: null, name: '' }, 1, 1),
    ])
    expect(
      (await client.query('SELECT amount, change, raw, name FROM payments ORDER BY tidemark_ordinal')).rows,
    ).toEqual([
      { amount: MAX.toString(), change: (-(2n ** 255n)).toString(), raw: Buffer.from(raw), name: text },
      { amount: '0', change: null, raw: Buffer.alloc(0), name: '' },
    ])
  })

  test.each(['a\0b', 'a\ud800b'])(
    'a text that PostgreSQL cannot keep stops the event, not the server: %j',
    async (name) => {
      const { store } = await bench.migrated()
      expect(await codeOf(insert(store, [payment({ name })]))).toBe('MANAGED_VALUE_INVALID')
    },
  )

  test('a constraint of the user names the block whose row it refused, among thousands', async () => {
    const { store, client } = await bench.migrated()
    await insert(store, [])
    await client.query("ALTER TABLE payments ADD CHECK (name <> 'bob')")
    const rows = Array.from({ length: 6_000 }, (_, i) => payment({ name: i === 4_321 ? 'bob' : 'alice' }, i))
    await expect(insert(store, rows)).rejects.toMatchObject({ code: 'MANAGED_REFUSED', values: { block: 4_321 } })
  })

  test.each(['int', 'float8', 'numeric(20,0)', 'numeric(78,2)'])(
    'a column of type %s would change amounts: refused',
    async (type) => {
      const { store, client } = await bench.migrated()
      await client.query(`CREATE TABLE narrow (amount ${type}, tidemark_watcher int, tidemark_block bigint,
      tidemark_event bytea, tidemark_ordinal bigint)`)
      const narrow = { table: 'narrow', columns: { amount: 'uint256' as const } }
      expect(await codeOf(store.transact((tx) => wait(tx.managed.ensureTable(narrow))))).toBe('STORE_TABLE_MISMATCH')
    },
  )
})

describePostgres('a handler that looks elsewhere', () => {
  test('moves the search path for itself, not for managed rows', async () => {
    const { store, client } = await bench.migrated()
    await store.transact((tx) => wait(tx.managed.ensureTable(payments)))
    await client.query('CREATE SCHEMA elsewhere; CREATE TABLE elsewhere.payments (LIKE public.payments)')
    await store.transact(function* (tx) {
      const scope = tx.openScope({ mayWrite: true, values: {}, deadline: Number.POSITIVE_INFINITY })
      yield* wait(scope.db.query('SET LOCAL search_path = elsewhere'))
      yield* wait(scope.close('returned'))
      yield* wait(tx.managed.insertRows(payments, 1, [payment({})]))
    })
    expect((await client.query('SELECT 1 FROM public.payments')).rowCount).toBe(1)
    expect((await client.query('SELECT 1 FROM elsewhere.payments')).rowCount).toBe(0)
  })
})

describePostgres('bulk', () => {
  test('11,000 marks and 2,500 kept events, in their order', async () => {
    const { store } = await bench.migrated()
    const marks = Array.from({ length: 11_000 }, (_, i) => mark(i % 100, i))
    const events = Array.from({ length: 2_500 }, (_, i) => kept(7, i))
    const answers = await store.transact(function* (tx) {
      yield* wait(tx.marks.insert(1, marks.slice(0, 5)))
      yield* wait(tx.kept.add(1, events))
      return yield* wait(tx.marks.insert(1, marks))
    })
    expect([answers.length, answers.indexOf(true), answers.lastIndexOf(false)]).toEqual([11_000, 5, 4])
    const through = await store.read((tx) => wait(tx.kept.through(1, number(7), 10_000)))
    expect(through).toEqual(events)
  })
})
