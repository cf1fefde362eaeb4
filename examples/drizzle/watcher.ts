import { eq, sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import { createTidemark, defineConfig } from 'tidemark'
import { postgres, watch } from 'tidemark/postgres'
import { balances } from './schema.ts'

/**
 * A watcher whose handlers write with Drizzle, inside Tidemark's transaction.
 * Run: DATABASE_URL=postgres://… RPC_URL=https://… npx jiti examples/drizzle/watcher.ts
 */
const received = watch({
  on: { ethereum: { address: '0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48', startBlock: 1, at: 'latest' } },
  events: { Transfer: { event: 'event Transfer(address indexed from, address indexed to, uint256 value)' } },
  async handle({ event, db }) {
    const { to, value } = event.args
    await drizzle({ client: db as never })
      .insert(balances)
      .values({ account: to, amount: value })
      .onConflictDoUpdate({ target: balances.account, set: { amount: sql`${balances.amount} + ${value}` } })
    return { to, value }
  },
  async undo({ memo, db }) {
    // A transaction of Drizzle's in here is a savepoint: it is taken back alone, or with everything else.
    await drizzle({ client: db as never }).transaction((tx) =>
      tx
        .update(balances)
        .set({ amount: sql`${balances.amount} - ${memo.value}` })
        .where(eq(balances.account, memo.to)),
    )
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
