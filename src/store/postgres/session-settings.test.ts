import pg from 'pg'
import { expect, test } from 'vitest'
import { describePostgres, postgresBench } from '../../../test/support/postgres.ts'
import { type Op, wait } from '../../util/op.ts'
import type { ScopeRules, Tx } from '../store.ts'
import type { PgDb, PostgresStore } from './index.ts'

const bench = postgresBench()
const RULES: ScopeRules = { mayWrite: true, values: {}, deadline: Number.POSITIVE_INFINITY }
const SETTINGS = `SELECT current_setting('synchronous_commit') AS waits,
  current_setting('client_connection_check_interval') AS looks`

function* settings(tx: Tx<PgDb>): Op<unknown> {
  const scope = tx.openScope(RULES)
  const { rows } = (yield* wait(scope.db.query(SETTINGS))) as pg.QueryResult
  yield* wait(scope.close('returned'))
  return rows[0]
}

const inside = (store: PostgresStore) => store.transact(settings)

describePostgres('a database that does not wait for its disk', () => {
  test.each([
    ['off', '0', { waits: 'on', looks: '1s' }],
    ['local', '5s', { waits: 'local', looks: '5s' }],
  ])('synchronous_commit = %s, client_connection_check_interval = %s', async (waits, looks, expected) => {
    const { url } = await bench.migrated()
    const pool = new pg.Pool({
      connectionString: url,
      max: 4,
      options: `-c synchronous_commit=${waits} -c client_connection_check_interval=${looks}`,
    })
    bench.later(() => pool.end())
    const store = bench.store({ pool })
    // The second transaction of a connection goes by what the first one has asked.
    for (const _ of [1, 2]) expect(await inside(store)).toEqual(expected)
    const after = (await pool.query(SETTINGS)).rows[0]
    expect(after).toEqual({ waits, looks })
  })
})
