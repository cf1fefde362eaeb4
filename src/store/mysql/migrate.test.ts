import { afterEach, expect } from 'vitest'
import { describeMysql, makeDatabase, rowsOf, type TestDatabase } from '../../../test/support/mysql.ts'
import { codeOf } from '../../../test/support/mysql-handler.ts'
import { endProcesses, startProcess } from '../../../test/support/mysql-process.ts'
import { wait } from '../../util/op.ts'
import { type MysqlOptions, type MysqlStore, mysql } from './index.ts'
import { applyPending, checkSchema, pendingText } from './migrate.ts'
import { type Migration, migrations } from './migrations.ts'
import { Names } from './names.ts'

const databases: TestDatabase[] = []
const stores: MysqlStore[] = []

async function fresh(): Promise<TestDatabase> {
  const made = await makeDatabase()
  databases.push(made)
  return made
}

function open(database: TestDatabase, options: MysqlOptions = {}): MysqlStore {
  const made = mysql({ url: database.url, ...options })
  stores.push(made)
  return made
}

const tables = async ({ outside }: TestDatabase) =>
  (
    await rowsOf(
      outside,
      'SELECT TABLE_NAME AS name FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() ORDER BY 1',
    )
  ).map(({ name }) => name)

/** A next version of the schema, whose second statement fails the first time. */
const next: Migration = {
  number: 3,
  name: 'more',
  kind: 'safe while running',
  sql: ['CREATE TABLE IF NOT EXISTS {more} (a BIGINT)', 'INSERT INTO {more} SELECT n FROM wanted'],
}

describeMysql('migrations on mysql', (test) => {
  afterEach(async () => {
    await endProcesses()
    for (const store of stores.splice(0)) await store.close()
    for (const database of databases.splice(0)) await database.drop()
  })

  test('two processes that migrate at once: one applies each step, the other finds it applied', async () => {
    const database = await fresh()
    const body = `print('ready'); await heard(); print((await store.migrate('auto')).applied.length); await store.close()`
    const both = [startProcess({ url: database.url }, body), startProcess({ url: database.url }, body)]
    for (const one of both) expect(await one.line()).toBe('ready')
    for (const one of both) one.say('go')
    const applied = [await both[0]?.line(), await both[1]?.line()]
    expect(applied.map(Number).sort()).toEqual([0, migrations.length])
    expect((await open(database).migrate('check')).to).toBe(migrations.length)
  })

  test('looking makes nothing; tables that are missing are said', async () => {
    const database = await fresh()
    const store = open(database)
    expect(await codeOf(store.migrate('check'))).toBe('STORE_MIGRATION_NEEDED')
    expect(await store.pendingSql()).toContain('-- 1 first tables (breaking)\n')
    expect(await tables(database)).toEqual([])
  })

  test('a step that was cut off half way is run again', async () => {
    const database = await fresh()
    await database.outside.query(new Names('tidemark_').fill(migrations[0]?.sql[1] ?? ''))
    expect((await open(database).migrate('auto')).applied).toEqual([
      '1 first tables (breaking)',
      '2 changes of totals (safe while running)',
    ])
    const place = { client: database.outside as any, names: new Names('tidemark_') }
    expect(await codeOf(applyPending(place, [...migrations, next]))).toBe('STORE_FAILED')
    expect((await open(database).migrate('check')).to, 'the version was not raised').toBe(migrations.length)
    await database.outside.query('CREATE TABLE wanted (n BIGINT)')
    const report = await applyPending(place, [...migrations, next])
    expect(report).toEqual({ from: 2, to: 3, applied: ['3 more (safe while running)'] })
    expect((await open(database).migrate('auto')).applied, 'older code may still run').toEqual([])
  })

  test('a database of newer code that broke with this one is refused', async () => {
    const database = await fresh()
    const breaking = { ...next, kind: 'breaking', sql: [] } as const
    await applyPending({ client: database.outside as any, names: new Names('tidemark_') }, [...migrations, breaking])
    const store = open(database)
    expect(await codeOf(store.migrate('auto'))).toBe('STORE_NEWER')
    expect(await codeOf(store.migrate('check'))).toBe('STORE_NEWER')
    expect(() => checkSchema({ version: 3, oldest: 3 }, [...migrations, breaking])).not.toThrow()
  })

  test('what is printed for a person does the same as migrating', async () => {
    const [byHand, byItself] = [await fresh(), await fresh()]
    const text = await open(byHand).pendingSql()
    for (const sql of text.split(';\n').filter((one) => one.trim() !== '')) await byHand.outside.query(sql)
    await open(byItself).migrate('auto')
    expect((await open(byHand).migrate('auto')).applied).toEqual([])
    const columns =
      'SELECT TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, COLLATION_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() ORDER BY 1, ORDINAL_POSITION'
    expect(await rowsOf(byHand.outside, columns)).toEqual(await rowsOf(byItself.outside, columns))
    expect(await open(byHand).pendingSql()).toBe('')
    expect(pendingText({ version: 2, oldest: 1 }, new Names('x_'), [...migrations, next])).not.toContain('oldest_code')
  })

  test('two environments in one database do not see each other', async () => {
    const database = await fresh()
    const [live, staging] = [open(database), open(database, { prefix: 'staging_' })]
    await Promise.all([live.migrate('auto'), staging.migrate('auto')])
    for (const [store, value] of [
      [live, 'live'],
      [staging, 'staging'],
    ] as const)
      await store.transact((tx) => wait(tx.meta.set('environment', value)))
    expect(await live.read((tx) => wait(tx.meta.get('environment')))).toBe('live')
    expect(await staging.read((tx) => wait(tx.meta.get('environment')))).toBe('staging')
    const leases = [await live.acquire('w/ethereum'), await staging.acquire('w/ethereum')]
    expect(leases.every((lease) => lease !== null)).toBe(true)
    const names = await tables(database)
    expect(names.filter((name) => name.startsWith('staging_')).length * 2).toBe(names.length)
    for (const prefix of ['', 'a b', 'a`b', '1a', 'x'.repeat(31)])
      expect(() => open(database, { prefix })).toThrow(/prefix/)
  })

  test('the view shows each event under its readable name', async () => {
    const database = await fresh()
    const store = open(database)
    await store.migrate('auto')
    const hash = `0x${'0a'.repeat(32)}`
    await store.transact(function* (tx) {
      const row = yield* wait(
        tx.cursors.create({ name: 'w/ethereum', chainId: 5, fingerprint: 'f', startBlock: 1 as never }, 1),
      )
      const event = {
        blockNumber: 7,
        blockHash: hash,
        stableId: `0x${'0b'.repeat(16)}`,
        transactionHash: hash,
        logIndex: 3,
      }
      yield* wait(tx.marks.insert(row.id, [event as never]))
    })
    const [row] = await rowsOf(database.outside, 'SELECT * FROM tidemark_events')
    expect(row).toMatchObject({ watcher: 'w/ethereum', event_id: `5-${hash}-3`, block_number: 7, block_hash: hash })
  })
})
