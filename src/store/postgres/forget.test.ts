import type pg from 'pg'
import { expect, test } from 'vitest'
import { describePostgres, postgresBench } from '../../../test/support/postgres.ts'
import { TidemarkError } from '../../errors.ts'
import { number } from '../../testkit/store-cases/case.ts'
import { wait } from '../../util/op.ts'
import type { PostgresStore } from './index.ts'

const bench = postgresBench()
const KEY = { scope: 'a', chainId: 1, key: 'event of block 5' }
const LEVELS = ['READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE'] as const

const markIt = (store: PostgresStore) => store.transact((tx) => wait(tx.handled.insert(KEY, number(5), 1)))
const raise = (store: PostgresStore, block: number) =>
  store.transact((tx) => wait(tx.handled.raiseLowWater('a', 1, number(block))))
const forgetThrough = (store: PostgresStore, block: number) =>
  store.transact((tx) => wait(tx.handled.deleteThrough('a', 1, number(block), 100)))

/** As `DeduplicationManager.once` does: mark first, then look at the low-water mark. */
async function once(store: PostgresStore, client: pg.Client): Promise<'apply' | 'duplicate' | 'too-old' | 'again'> {
  const { handled } = store.join(client)
  try {
    if ((await handled.insert(KEY, number(5), 2)) !== 'new') return 'duplicate'
    const { lowWater } = await handled.state('a', 1)
    return lowWater !== null && lowWater >= 5 ? 'too-old' : 'apply'
  } catch (error) {
    if (TidemarkError.has(error, 'STORE_BUSY')) return 'again'
    throw error
  }
}

describePostgres('forgetting, against a transaction that is older (P7)', () => {
  const cases = LEVELS.flatMap((level) => [false, true].map((before) => [level, before] as const))

  test.each(cases)('%s, a low-water mark there before: %s: the event is never applied twice', async (level, before) => {
    const { store, client } = await bench.migrated()
    await markIt(store)
    if (before) await raise(store, 2)
    await client.query(`BEGIN ISOLATION LEVEL ${level}`)
    await client.query('SELECT 1 FROM tidemark.meta') // the snapshot is taken here
    await raise(store, 10)
    expect(await forgetThrough(store, 10)).toBe(1)
    expect(await once(store, client)).toBe(level === 'READ COMMITTED' ? 'too-old' : 'again')
    await client.query('ROLLBACK')
  })

  test('a plain read on the old snapshot would have let it pass (control)', async () => {
    const { store, client } = await bench.migrated()
    await markIt(store)
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
    await client.query('SELECT 1 FROM tidemark.meta')
    await raise(store, 10)
    await forgetThrough(store, 10)
    expect(await store.join(client).handled.insert(KEY, number(5), 2)).toBe('new')
    expect((await client.query('SELECT low_water FROM tidemark.low_waters')).rows).toEqual([])
    await client.query('ROLLBACK')
  })

  test('raising waits for a transaction that has looked, and its mark is then there to be seen', async () => {
    const { store, client, url } = await bench.migrated()
    await client.query('BEGIN')
    expect(await once(store, client)).toBe('apply')
    const raising = raise(store, 10)
    const watch = await bench.client(url)
    const waiting = 'SELECT 1 FROM pg_locks WHERE NOT granted'
    while (!(await watch.query(waiting)).rowCount) await watch.query('SELECT pg_sleep(0.01)')
    await client.query('COMMIT')
    await raising
    await client.query('BEGIN')
    expect(await once(store, client)).toBe('duplicate')
    await client.query('COMMIT')
  })

  test('two that mark side by side and then move the cursor do not wait for each other', async () => {
    const { store, client, url } = await bench.migrated()
    const other = await bench.client(url)
    await raise(store, 1)
    for (const [i, one] of [client, other].entries()) {
      await one.query('BEGIN')
      const { handled } = store.join(one)
      await handled.insert({ ...KEY, key: `of ${i}` }, number(5), 1)
      await handled.state('a', 1)
    }
    const cursor = { number: number(5), hash: `0x${'11'.repeat(32)}` as never }
    const move = async (one: pg.Client) => {
      await store.join(one).handled.setCursor('a', 1, cursor, 1)
      await one.query('COMMIT')
    }
    await Promise.all([move(client), move(other)])
  })
})
