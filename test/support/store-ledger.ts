import { expectedTables, spellTables } from '../../src/app/demo/verdict.ts'
import { TOKEN } from '../../src/app/demo/watchers.ts'
import type { Watcher } from '../../src/handle/watch.ts'
import { rows } from '../../src/managed/rows.ts'
import { compareTables, type OracleSource } from '../../src/testkit/index.ts'
import { type Op, wait } from '../../src/util/op.ts'
import type { TableName } from './demo-ledger.ts'
import type { AnyDb, Backend, Database, Definition, Row } from './stores.ts'

/**
 * The demo's application on any store: managed rows, `balance += x` taken back by hand, payouts in the `final` stage. What
 * it must leave in its three tables is known to the oracle.
 */

export interface Moved {
  readonly from: string
  readonly to: string
  readonly value: bigint
}

export async function makeLedgerTables(database: Database): Promise<void> {
  const { text, whole } = database.backend.types
  await database.rows(`CREATE TABLE balances (account ${text} PRIMARY KEY, amount ${whole} NOT NULL)`)
  await database.rows(
    `CREATE TABLE payouts (transaction_hash ${text} NOT NULL, receiver ${text} NOT NULL, amount ${whole} NOT NULL)`,
  )
}

/** Adds to a balance; a row at zero is taken away, so that "no row" comes back after an undo. */
export function* add(backend: Backend, db: AnyDb, account: string, amount: number): Op<void> {
  yield* wait(backend.send(db, backend.addTo('balances', 'account', 'amount'), account, amount))
  yield* wait(backend.send(db, 'DELETE FROM balances WHERE account = ? AND amount = 0', account))
}

/** In the order of the accounts' names: two transactions that touch the same rows wait, and do not meet crosswise. */
export function* move(backend: Backend, db: AnyDb, from: string, to: string, amount: number): Op<void> {
  const both = [[from, -amount] as const, [to, amount] as const].sort(([a], [b]) => (a < b ? -1 : 1))
  for (const [account, change] of both) yield* add(backend, db, account, change)
}

const columns = { sender: 'text', receiver: 'text', amount: 'uint256' } as const
const PAY = 'INSERT INTO payouts (transaction_hash, receiver, amount) VALUES (?, ?, ?)'

export interface GoodDefinition extends Definition {
  readonly undo: Extract<NonNullable<Definition['undo']>, (...args: never) => unknown>
  readonly final: NonNullable<Definition['final']>
}

/** The functions as they should be, to be wrapped by a test. */
export function goodOn(backend: Backend): GoodDefinition {
  const moved = (event: { readonly args: unknown }) => event.args as Moved
  return {
    on: { test: { address: TOKEN, startBlock: 1, at: 'latest' } },
    events: { Transfer: { event: 'event Transfer(address indexed from, address indexed to, uint256 value)' } },
    tables: { transfers: rows({ table: 'transfers', columns }) },
    handle({ event, db, tables }) {
      const { from, to, value } = moved(event)
      ;(tables.transfers as { insert(row: Row): void }).insert({ sender: from, receiver: to, amount: value })
      return backend.drive(move(backend, db, from, to, Number(value)))
    },
    undo({ event, db }) {
      const { from, to, value } = moved(event)
      return backend.drive(move(backend, db, to, from, Number(value)))
    },
    final({ event, db }) {
      const { to, value } = moved(event)
      return backend.drive(wait(backend.send(db, PAY, event.transactionHash, to, Number(value)))) as never
    },
  }
}

export function ledgerOn(backend: Backend, changes: Partial<Definition> = {}): Watcher {
  return backend.watch({ ...goodOn(backend), ...changes } as Definition)
}

async function exists(database: Database, table: string): Promise<boolean> {
  return database.rows(`SELECT 1 FROM ${table} WHERE 1 = 0`).then(
    () => true,
    () => false,
  )
}

/** Differences between the user's tables and a naive replay of the chain, in words; none means equal. */
export async function differences(
  database: Database,
  chain: OracleSource,
  only: readonly TableName[] = ['transfers', 'balances', 'payouts'],
): Promise<string[]> {
  const found = {
    // Made by the store with the first row.
    transfers: (await exists(database, 'transfers'))
      ? await database.rows('SELECT sender, receiver, amount FROM transfers')
      : [],
    balances: await database.rows('SELECT account, amount FROM balances'),
    payouts: await database.rows('SELECT transaction_hash, receiver, amount FROM payouts'),
  }
  const wanted = <T>(all: Record<string, T>) =>
    Object.fromEntries(Object.entries(all).filter(([name]) => only.includes(name as TableName)))
  return compareTables(wanted(expectedTables(chain)), wanted(spellTables(found)))
}
