import pg from 'pg'
import { DeduplicationManager } from 'tidemark'
import { postgres } from 'tidemark/postgres'

/**
 * `once` in the application's own transaction on a client of `pg`: the effect and its mark commit together.
 * Run: DATABASE_URL=postgres://… npx jiti examples/once-pg/once.ts
 */
const pool = new pg.Pool({ connectionString: process.env['DATABASE_URL'] })
const store = postgres({ pool })
await store.migrate('auto')
const dedup = new DeduplicationManager({ store, chainId: 1 })

const event = { transactionHash: `0x${'ab'.repeat(32)}`, logIndex: 7, blockNumber: 19_000_000 } as const

/** Delivered twice, as every queue does now and then. */
async function deliver(): Promise<string> {
  const client = await pool.connect()
  try {
    await client.query('BEGIN')
    const { outcome } = await dedup.once(client, event, () =>
      client.query("INSERT INTO balances (account, amount) VALUES ('bob', 5)"),
    )
    await client.query('COMMIT')
    return outcome
  } catch (error) {
    await client.query('ROLLBACK')
    throw error
  } finally {
    client.release()
  }
}

console.log(await deliver())
console.log(await deliver())

await store.close()
await pool.end()
