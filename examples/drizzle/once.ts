import { drizzle } from 'drizzle-orm/node-postgres'
import pg from 'pg'
import { DeduplicationManager } from 'tidemark'
import { type DrizzleTransactionLike, postgres } from 'tidemark/postgres'
import { balances } from './schema.ts'

/**
 * `once` in a transaction that the application opened with Drizzle: the effect and its mark commit together.
 * Run: DATABASE_URL=postgres://… npx jiti examples/drizzle/once.ts
 */
const pool = new pg.Pool({ connectionString: process.env['DATABASE_URL'] })
const db = drizzle({ client: pool })
const store = postgres({ pool })
await store.migrate('auto')
const dedup = new DeduplicationManager({ store, chainId: 1 })

const event = { transactionHash: `0x${'ab'.repeat(32)}`, logIndex: 7, blockNumber: 19_000_000 } as const

// Delivered twice, as every queue does now and then.
for (let delivery = 1; delivery <= 2; delivery++) {
  const { outcome } = await db.transaction((tx) =>
    // Drizzle's types do not show the session that its transactions carry.
    dedup.once(tx as unknown as DrizzleTransactionLike, event, () =>
      tx.insert(balances).values({ account: 'bob', amount: 5n }),
    ),
  )
  console.log(outcome)
}

await store.close()
await pool.end()
