import { expectedTables, spellTables } from '../../src/app/demo/verdict.ts'
import { SCHEMA, TOKEN, transfers } from '../../src/app/demo/watchers.ts'
import type { At } from '../../src/collect/source.ts'
import type { ErasedDefinition, Watcher } from '../../src/handle/watch.ts'
import type { SqliteDatabaseLike } from '../../src/store/sqlite/driver.ts'
import { type SqliteDb, watch } from '../../src/store/sqlite/index.ts'
import { compareTables, type FakeLog, type OracleSource, testAddress, transfer } from '../../src/testkit/index.ts'

export { SCHEMA, TOKEN }

/** Names that are easy to find again in anything printed. */
export const [ALICE, BOB, CAROL] = [testAddress('alice'), testAddress('bob'), testAddress('carol')]

export type Changes = Partial<ErasedDefinition<SqliteDb>>

type Undo = Extract<NonNullable<ErasedDefinition<SqliteDb>['undo']>, (...args: never) => unknown>

/** The demo's own functions, to be wrapped by a test. */
export const good = transfers.definition as ErasedDefinition<SqliteDb> & {
  readonly undo: Undo
  readonly final: NonNullable<ErasedDefinition<SqliteDb>['final']>
}

/**
 * The demo's watcher with parts of it replaced: managed rows, `balance += x` with an undo function, payouts in the
 * `final` stage. What it must leave in its three tables is known to the oracle (`differences`).
 */
export function ledger(
  changes: Changes = {},
  on: { readonly startBlock?: number | 'now'; readonly endBlock?: number; readonly at?: At } = {},
): Watcher {
  const binding = { address: TOKEN, startBlock: 1, at: 'latest' as const, ...on }
  return watch({ ...good, on: { test: binding }, ...changes } as never)
}

export function pay(value: number | bigint, from = ALICE, to = BOB): FakeLog {
  return transfer(TOKEN, from, to, value)
}

export type TableName = 'transfers' | 'balances' | 'payouts'

/** Differences between the user's tables and a naive replay of the chain, in words; none means equal. */
export function differences(chain: OracleSource, db: SqliteDatabaseLike, only?: readonly TableName[]): string[] {
  const found = {
    transfers: db.prepare('SELECT sender, receiver, amount FROM transfers').all(),
    balances: db.prepare('SELECT account, amount FROM balances').all(),
    payouts: db.prepare('SELECT transaction_hash, receiver, amount FROM payouts').all(),
  }
  const wanted = <T>(all: Record<string, T>) =>
    Object.fromEntries(Object.entries(all).filter(([name]) => !only || only.includes(name as TableName)))
  return compareTables(wanted(expectedTables(chain)), wanted(spellTables(found)))
}
