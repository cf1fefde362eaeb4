import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import { DeduplicationManager } from 'tidemark'
import { postgres } from 'tidemark/postgres'
import type { Tables } from './tables.ts'

/**
 * `once` in a transaction that the application opened with Kysely: the effect and its mark commit together.
 * Run: DATABASE_URL=postgres://… npx jiti examples/kysely/once.ts
 */
const pool = new pg.Pool({ connectionString: process.env['DATABASE_URL'] })
const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) })
const store = postgres({ pool })
await store.migrate('auto')
const dedup = new DeduplicationManager({ store, chainId: 1 })

const event = { transactionHash: `0x${'ab'.repeat(32)}`, logIndex: 7, blockNumber: 19_000_000 } as const

// Delivered twice, as every queue does now and then.
for (let delivery = 1; delivery <= 2; delivery++) {
  const { outcome } = await db
    .transaction()
    .execute((tx) =>
      dedup.once(tx, event, () => tx.insertInto('balances').values({ account: 'bob', amount: 5n }).execute()),
    )
  console.log(outcome)
}

await store.close()
await db.destroy()
