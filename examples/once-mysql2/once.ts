import mysql2 from 'mysql2/promise'
import { DeduplicationManager } from 'tidemark'
import { mysql } from 'tidemark/mysql'

/**
 * `once` in the application's own transaction on a connection of `mysql2`: the effect and its mark commit together.
 * Run: DATABASE_URL=mysql://… npx jiti examples/once-mysql2/once.ts
 */
const url = process.env['DATABASE_URL'] ?? ''
const pool = mysql2.createPool(url)
const store = mysql({ pool })
await store.migrate('auto')
const dedup = new DeduplicationManager({ store, chainId: 1 })

const event = { transactionHash: `0x${'ab'.repeat(32)}`, logIndex: 7, blockNumber: 19_000_000 } as const

/** Delivered twice, as every queue does now and then. */
async function deliver(): Promise<string> {
  const connection = await pool.getConnection()
  try {
    await connection.beginTransaction()
    const { outcome } = await dedup.once(connection, event, () =>
      connection.query("INSERT INTO balances (account, amount) VALUES ('bob', 5)"),
    )
    await connection.commit()
    return outcome
  } catch (error) {
    await connection.rollback()
    throw error
  } finally {
    connection.release()
  }
}

console.log(await deliver())
console.log(await deliver())

await store.close()
await pool.end()
