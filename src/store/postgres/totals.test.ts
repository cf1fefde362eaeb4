import type pg from 'pg'
import { expect, test } from 'vitest'
import { describePostgres, postgresBench } from '../../../test/support/postgres.ts'
import { codeOf } from '../../testkit/store-cases/case.ts'
import { wait } from '../../util/op.ts'
import type { TotalChange, TotalsTable } from '../totals.ts'
import type { PostgresStore } from './index.ts'

const bench = postgresBench()
const BALANCES: TotalsTable = { table: 'balances', key: { account: 'text' }, sum: { amount: 'int256' } }
const plus = (account: string, amount: bigint, additions = 1): TotalChange => {
  return { key: { account }, add: { amount }, additions }
}

const add = (store: PostgresStore, ...changes: TotalChange[]) =>
  store.transact((tx) => wait(tx.totals.add(BALANCES, changes)))
const ensure = (store: PostgresStore) => store.transact((tx) => wait(tx.totals.ensureTable(BALANCES)))
const stored = async (client: pg.Client) =>
  (await client.query('SELECT account, amount, tidemark_additions AS n FROM balances ORDER BY account')).rows.map(
    ({ account, amount, n }) => `${account} ${amount} ${n}`,
  )

/** Until a session of this database waits for a row of another. */
async function untilBlocked(client: pg.Client): Promise<void> {
  const blocked =
    "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' LIMIT 1"
  while ((await client.query(blocked)).rowCount === 0);
}

async function withTable() {
  const made = await bench.migrated()
  await ensure(made.store)
  return made
}

describePostgres('sums that others write too', () => {
  test.each(['alice', 'carol'])(
    'a writer who was first to %s loses nothing, and takes nothing away',
    async (account) => {
      const { store, client, url } = await withTable()
      await add(store, plus('alice', 5n))
      const other = await bench.client(url)
      await other.query('BEGIN')
      await other.query(
        `INSERT INTO balances VALUES ('${account}', 100, 0)
      ON CONFLICT (account) DO UPDATE SET amount = balances.amount + 100`,
      )
      const work = add(store, plus('alice', 1n), plus('carol', 2n))
      await untilBlocked(client)
      await other.query('COMMIT')
      await work
      const mine = account === 'alice' ? ['alice 106 2', 'carol 2 1'] : ['alice 6 2', 'carol 102 1']
      expect(await stored(client)).toEqual(mine)
    },
  )

  test('rows are locked in the order of the changes, in whatever order they lie in the table (C59)', async () => {
    const { store, client, url } = await withTable()
    await add(store, plus('c', 1n), plus('a', 1n), plus('b', 1n))
    const other = await bench.client(url)
    await other.query("BEGIN; SELECT 1 FROM balances WHERE account = 'b' FOR UPDATE")
    const work = add(store, plus('a', 1n), plus('b', 1n), plus('c', 1n))
    await untilBlocked(client)
    // What comes after the row that is waited for is still free, and what comes before it is not (control).
    expect((await client.query("SELECT 1 FROM balances WHERE account = 'c' FOR UPDATE NOWAIT")).rowCount).toBe(1)
    const held = client.query("SELECT 1 FROM balances WHERE account = 'a' FOR UPDATE NOWAIT")
    await expect(held).rejects.toMatchObject({ code: '55P03' })
    await other.query('COMMIT')
    await work
    expect(await stored(client)).toEqual(['a 2 2', 'b 2 2', 'c 2 2'])
  })
})

describePostgres('a table of sums with constraints of the user', () => {
  test('holds what comes of an addition to them, not what is added', async () => {
    const { store, client } = await withTable()
    await client.query('ALTER TABLE balances ADD CHECK (amount >= 0)')
    await add(store, plus('alice', 5n))
    await add(store, plus('alice', -2n))
    expect(await stored(client)).toEqual(['alice 3 2'])
    expect(await codeOf(add(store, plus('alice', -4n)))).toBe('MANAGED_REFUSED')
    expect(await codeOf(add(store, plus('bob', -1n)))).toBe('MANAGED_REFUSED')
    expect(await stored(client)).toEqual(['alice 3 2'])
  })

  test('a key that is too long for its index stops the watcher with a word about the table', async () => {
    const { store } = await withTable()
    const text = Array.from({ length: 9_000 }, (_, i) => String.fromCodePoint(0x4e00 + ((i * 7_919) % 20_000))).join('')
    expect(await codeOf(add(store, plus(text, 1n)))).toBe('MANAGED_REFUSED')
  })

  test.each([
    ['account varchar(80) PRIMARY KEY, amount numeric, tidemark_additions bigint', undefined],
    ['account text PRIMARY KEY DEFERRABLE, amount numeric, tidemark_additions bigint', 'STORE_TABLE_MISMATCH'],
    ['account text UNIQUE, amount numeric, tidemark_additions bigint', 'STORE_TABLE_MISMATCH'],
    ['account text PRIMARY KEY, amount bigint, tidemark_additions bigint', 'STORE_TABLE_MISMATCH'],
    ['account text, amount numeric, tidemark_additions bigint, PRIMARY KEY (account) INCLUDE (amount)', undefined],
  ])('%s: %s', async (columns, expected) => {
    const { store, client } = await bench.migrated()
    await client.query(`CREATE TABLE balances (${columns})`)
    if (expected !== undefined) return expect(await codeOf(ensure(store))).toBe(expected)
    await client.query("INSERT INTO balances (account) VALUES ('alice')")
    await ensure(store)
    await add(store, plus('alice', 5n), plus('bob', 6n))
    expect(await stored(client), 'nulls of the user count as nothing').toEqual(['alice 5 1', 'bob 6 1'])
  })
})
