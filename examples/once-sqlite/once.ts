import { DatabaseSync } from '@photostructure/sqlite'
import { DeduplicationManager } from 'tidemark'
import { sqlite } from 'tidemark/sqlite'

/**
 * `once` in the application's own transaction on a SQLite database: the effect and its mark commit together.
 * Run: DATABASE_FILE=app.db npx jiti examples/once-sqlite/once.ts
 */
const file = process.env['DATABASE_FILE'] ?? 'app.db'
const store = sqlite({ file })
await store.migrate('auto')
const dedup = new DeduplicationManager({ store, chainId: 1 })
const db = new DatabaseSync(file)

const event = { transactionHash: `0x${'ab'.repeat(32)}`, logIndex: 7, blockNumber: 19_000_000 } as const

/** Delivered twice, as every queue does now and then. */
function deliver(): string {
  // IMMEDIATE: a transaction that reads first and then wants to write fails at once when another one writes.
  db.exec('BEGIN IMMEDIATE')
  try {
    const { outcome } = dedup.once(db, event, () => db.exec("INSERT INTO balances (account, amount) VALUES ('bob', 5)"))
    db.exec('COMMIT')
    return outcome
  } catch (error) {
    db.exec('ROLLBACK')
    throw error
  }
}

console.log(deliver())
console.log(deliver())

db.close()
await store.close()
