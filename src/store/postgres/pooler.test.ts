import { expect, test } from 'vitest'
import {
  cornersOfOneDatabase,
  describePostgres,
  numbersProbe,
  postgresBench,
  transactionPooler,
} from '../../../test/support/postgres.ts'
import { storeContract } from '../../testkit/store-contract.ts'
import { postgres } from './index.ts'

describePostgres('the contract through a transaction pooler, at serializable', () => {
  const bench = postgresBench()
  const makeStore = cornersOfOneDatabase('pooled', async (url, schema) => {
    const pool = await transactionPooler(url)
    bench.later(() => pool.end())
    return postgres({ pool, schema, isolation: 'serializable' })
  })
  storeContract('postgres', makeStore, { test, probe: numbersProbe })

  test('the pooler of these tests does move transactions between sessions, and wipes them (control)', async () => {
    const { url } = await bench.database()
    const pool = await transactionPooler(url, 3)
    bench.later(() => pool.end())
    const client = await pool.connect()
    const ask = async (text: string) => (await client.query({ text })).rows[0]
    await ask("SET application_name = 'left behind'")
    for (let i = 0; i < 3; i++) await ask('SELECT pg_advisory_lock(1)')
    expect(pool.seen.size).toBe(3)
    expect(await ask('SHOW application_name')).toEqual({ application_name: '' })
    const own = '(SELECT oid FROM pg_database WHERE datname = current_database())'
    const locks = `SELECT count(*)::int AS n FROM pg_locks WHERE locktype = 'advisory' AND database = ${own}`
    expect(await ask(locks)).toEqual({ n: 0 })
  })
})
