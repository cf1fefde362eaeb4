import { SCHEMA, TOKEN, transfers } from '../../src/app/demo/watchers.ts'
import { expectedTables, spellTables } from '../../src/app/demo/verdict.ts'
import type { At } from '../../src/collect/source.ts'
import type { ErasedDefinition, Watcher } from '../../src/handle/watch.ts'
import type { SqliteDatabaseLike } from '../../src/store/sqlite/driver.ts'
import { type SqliteDb, watch } from '../../src/store/sqlite/index.ts'
import { compareTables, type FakeChain, type FakeLog, testAddress, transfer } from '../../src/testkit/index.ts'

export { SCHEMA, TOKEN }

/** Addresses and amounts that are easy to find again in anything printed. */
export const [ALICE, BOB, CAROL] = [testAddress('alice'), testAddress('bob'), testAddress('carol')]

export type Changes = Partial<ErasedDefinition<SqliteDb>>

/**
 * The demo's watcher with parts of it replaced: managed rows, `balance += x` with an undo function, payouts in the
 * `final` stage. What it must leave in its three tables is known to the oracle (`differences`).
 */
export function ledger(changes: Changes = {}, on: { startBlock?: number | 'now'; endBlock?: number; at?: At } = {}): Watcher {
  const binding = { address: TOKEN, startBlock: 1, at: 'latest' as const, ...on }
  return watch({ ...transfers.definition, on: { test: binding }, ...changes } as never)
}

/** The demo's own functions, to be wrapped by a test. */
export const good = transfers.definition as Required<Pick<ErasedDefinition<SqliteDb>, 'handle' | 'final'>> & {
  readonly undo: Extract<NonNullable<ErasedDefinition<SqliteDb>['undo']>, (...args: never) => unknown>
}

export function pay(value: number | bigint, from = ALICE, to = BOB): FakeLog {
  return transfer(TOKEN, from, to, value)
}

function tablesOf(db: SqliteDatabaseLike) {
  return {
    transfers: db.prepare('SELECT sender, receiver, amount FROM transfers').all(),
    balances: db.prepare('SELECT account, amount FROM balances').all(),
    payouts: db.prepare('SELECT transaction_hash, receiver, amount FROM payouts').all(),
  }
}

/** Differences between the user's tables and a naive replay of the chain, in words; none means equal. */
export function differences(chain: FakeChain, db: SqliteDatabaseLike, tables?: readonly ('transfers' | 'balances' | 'payouts')[]): string[] {
  const wanted = tables ?? ['transfers', 'balances', 'payouts']
  const only = <T>(all: Record<string, T>) => Object.fromEntries(Object.entries(all).filter(([name]) => wanted.includes(name as never)))
  return compareTables(only(expectedTables(chain)), only(spellTables(tablesOf(db))))
}
