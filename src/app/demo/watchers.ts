import { rows } from '../../managed/rows.ts'
import type { SqliteDb } from '../../store/sqlite/index.ts'
import { watch } from '../../store/sqlite/index.ts'
import { testAddress } from '../../testkit/fake-log.ts'

/** The token that the demo follows. */
export const TOKEN = testAddress('token')

/** What the demo's application keeps beside the managed table `transfers`: made before the watcher first runs. */
export const SCHEMA = `
  CREATE TABLE IF NOT EXISTS balances (account TEXT PRIMARY KEY, amount INTEGER NOT NULL);
  CREATE TABLE IF NOT EXISTS payouts (transaction_hash TEXT NOT NULL, receiver TEXT NOT NULL, amount INTEGER NOT NULL);
`

function add(db: SqliteDb, account: string, amount: number): void {
  db.prepare(
    'INSERT INTO balances (account, amount) VALUES (?, ?) ON CONFLICT (account) DO UPDATE SET amount = amount + excluded.amount',
  ).run(account, amount)
  db.prepare('DELETE FROM balances WHERE account = ? AND amount = 0').run(account)
}

function move(db: SqliteDb, from: string, to: string, amount: number): void {
  add(db, from, -amount)
  add(db, to, amount)
}

/**
 * The demo's watcher, written as a user would write it: `balance += x`, the very thing that redelivery breaks, taken
 * back by hand; raw rows taken back by themselves; payouts only once a block is settled.
 */
export const transfers = watch({
  on: { demo: { address: TOKEN, startBlock: 1, at: 'latest' } },
  events: { Transfer: { event: 'event Transfer(address indexed from, address indexed to, uint256 value)' } },
  tables: { transfers: rows({ table: 'transfers', columns: { sender: 'text', receiver: 'text', amount: 'uint256' } }) },
  handle({ event, db, tables }) {
    const { from, to, value } = event.args
    tables.transfers.insert({ sender: from, receiver: to, amount: value })
    move(db, from, to, Number(value))
  },
  undo({ event, db }) {
    move(db, event.args.to, event.args.from, Number(event.args.value))
  },
  final({ event, db }) {
    db.prepare('INSERT INTO payouts (transaction_hash, receiver, amount) VALUES (?, ?, ?)').run(
      event.transactionHash,
      event.args.to,
      Number(event.args.value),
    )
  },
})
