import { Kysely, PostgresDialect, sql } from 'kysely'
import { createTidemark, defineConfig } from 'tidemark'
import { type PgDb, postgres, watch } from 'tidemark/postgres'
import type { Tables } from './tables.ts'

/**
 * A watcher whose handlers write with Kysely, inside Tidemark's transaction.
 * Run: DATABASE_URL=postgres://… RPC_URL=https://… npx jiti examples/kysely/watcher.ts
 */
const on = (db: PgDb) => new Kysely<Tables>({ dialect: new PostgresDialect({ pool: db }) })

const received = watch({
  on: { ethereum: { address: '0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48', startBlock: 1, at: 'latest' } },
  events: { Transfer: { event: 'event Transfer(address indexed from, address indexed to, uint256 value)' } },
  async handle({ event, db }) {
    const { to, value } = event.args
    await on(db)
      .insertInto('balances')
      .values({ account: to, amount: value })
      .onConflict((row) => row.column('account').doUpdateSet({ amount: sql`balances.amount + excluded.amount` }))
      .execute()
    return { to, value }
  },
  async undo({ memo, db }) {
    await on(db)
      .updateTable('balances')
      .set({ amount: sql`amount - ${memo.value}` })
      .where('account', '=', memo.to)
      .execute()
  },
})

const tidemark = createTidemark(
  defineConfig({
    store: postgres({ url: process.env['DATABASE_URL'] }),
    chains: { ethereum: { id: 1, rpc: [process.env['RPC_URL']] } },
    watchers: { received },
  }),
)
process.once('SIGTERM', () => void tidemark.stop())
await tidemark.start()
