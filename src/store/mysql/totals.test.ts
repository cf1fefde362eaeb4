import { afterAll, afterEach, beforeAll, expect } from 'vitest'
import { connectToServer, describeMysql, makeDatabase, rowsOf, type TestDatabase } from '../../../test/support/mysql.ts'
import { codeOf } from '../../testkit/store-cases/case.ts'
import { wait } from '../../util/op.ts'
import { realWorld } from '../../util/world.ts'
import type { TotalChange, TotalsTable } from '../totals.ts'
import { decodeInt256, encodeInt256, type MysqlStore, mysql } from './index.ts'

const BALANCES: TotalsTable = { table: 'balances', key: { account: 'text' }, sum: { amount: 'int256' } }
const plus = (account: string, amount: bigint): TotalChange => ({ key: { account }, add: { amount }, additions: 1 })

let database: TestDatabase
let store: MysqlStore

const add = (...changes: TotalChange[]) => store.transact((tx) => wait(tx.totals.add(BALANCES, changes)))
const ensure = (table = BALANCES) => store.transact((tx) => wait(tx.totals.ensureTable(table)))
const stored = async () =>
  (
    await rowsOf(database.outside, 'SELECT account, amount, tidemark_additions AS n FROM balances ORDER BY account')
  ).map(({ account, amount, n }) => `${account} ${decodeInt256(amount)} ${n}`)

/** Until a statement that adds is on the server, where it meets the lock that another holds by then. */
async function untilSent(): Promise<void> {
  const sent =
    "SELECT 1 FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND INFO LIKE 'INSERT INTO `balances`%'"
  while ((await rowsOf(database.outside, sent)).length === 0) await realWorld.sleep(5)
}

describeMysql('sums on mysql', (test) => {
  beforeAll(async () => {
    database = await makeDatabase()
    store = mysql({ url: database.url })
    await store.migrate('auto')
  })
  afterEach(() => database.outside.query('DROP TABLE IF EXISTS balances'))
  afterAll(async () => {
    await store?.close()
    await database?.drop()
  })

  test.each(['alice', 'carol'])(
    'a writer who was first to %s loses nothing, and takes nothing away',
    async (account) => {
      await ensure()
      await add(plus('alice', 5n))
      const other = await connectToServer(database.url)
      await other.beginTransaction()
      await other.query(
        'INSERT INTO balances VALUES (?, ?, 0) ON DUPLICATE KEY UPDATE amount = VALUES(amount), tidemark_additions = 7',
        [account, encodeInt256(100n)],
      )
      const work = add(plus('alice', 1n), plus('carol', 2n))
      await untilSent()
      await other.commit()
      await other.end()
      await work
      expect(await stored()).toEqual(account === 'alice' ? ['alice 101 8', 'carol 2 1'] : ['alice 6 2', 'carol 102 1'])
    },
  )

  test('two keys that the table takes for one are refused, and not added up', async () => {
    await ensure()
    await add(plus('a', 5n))
    expect(await codeOf(add(plus('a ', 1n)))).toBe('MANAGED_REFUSED')
    expect(await codeOf(add(plus('b', 1n), plus('b ', 1n)))).toBe('MANAGED_REFUSED')
    expect(await store.read((tx) => wait(tx.totals.get(BALANCES, { account: 'a ' })))).toBeNull()
    expect(await stored()).toEqual(['a 5 1'])
  })

  test('a key that is too long is refused, and not cut', async () => {
    await ensure()
    expect(await codeOf(add(plus('x'.repeat(256), 1n)))).toBe('MANAGED_REFUSED')
    await add(plus('\u{1f30a}'.repeat(255), 1n)) // characters of four bytes (control)
  })

  const amount = 'amount CHAR(78) CHARACTER SET ascii, tidemark_additions BIGINT'
  test.each([
    [`account VARCHAR(99) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PRIMARY KEY, ${amount}`, undefined],
    [`account VARCHAR(99) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci PRIMARY KEY, ${amount}`, 'MISMATCH'],
    [`account TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, ${amount}, PRIMARY KEY (account(9))`, 'MISMATCH'],
    [`account VARCHAR(99) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin UNIQUE, ${amount}`, 'MISMATCH'],
  ])('%s: %s', async (columns, expected) => {
    await database.outside.query(`CREATE TABLE balances (${columns}) ENGINE = InnoDB`)
    if (expected !== undefined) return expect(await codeOf(ensure())).toBe(`STORE_TABLE_${expected}`)
    await database.outside.query("INSERT INTO balances (account) VALUES ('alice')")
    await ensure()
    await add(plus('alice', 5n), plus('bob', 6n))
    expect(await stored(), 'nulls of the user count as nothing').toEqual(['alice 5 1', 'bob 6 1'])
  })

  test('every kind of column may be in the key, and three texts fit', async () => {
    const key = { account: 'text', raw: 'bytes', n: 'integer', yes: 'boolean', id: 'uint256', less: 'int256' } as const
    const table: TotalsTable = { table: 'balances', key, sum: { count: 'integer' } }
    await ensure(table)
    const one = { account: 'Ab', raw: '0x00ff', n: -(2n ** 63n), yes: true, id: 2n ** 256n - 1n, less: -(2n ** 255n) }
    const other = { ...one, yes: false, raw: '0x' }
    const changes = [one, other].map((key) => ({ key, add: { count: 3n }, additions: 1 }))
    await store.transact((tx) => wait(tx.totals.add(table, changes)))
    await store.transact((tx) => wait(tx.totals.add(table, changes.slice(0, 1))))
    const found = [one, other].map((key) => store.read((tx) => wait(tx.totals.get(table, key))))
    expect(await Promise.all(found)).toEqual([{ count: 6n }, { count: 3n }])
    const texts = { a: 'text', b: 'text', c: 'text' } as const
    await ensure({ table: 'texts', key: texts, sum: {} })
    expect(await codeOf(ensure({ table: 'more', key: { ...texts, d: 'bytes' }, sum: {} }))).toBe('STORE_TABLE_MISMATCH')
  })
})
