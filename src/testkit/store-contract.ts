import type { Store } from '../store/store.ts'
import type { ContractCase, DbProbe } from './store-cases/case.ts'
import { cursorCases } from './store-cases/cursors.ts'
import { historyCases } from './store-cases/history.ts'
import { partCases } from './store-cases/parts.ts'
import { scopeCases } from './store-cases/scopes.ts'
import { totalsCases } from './store-cases/totals.ts'
import { transactionCases } from './store-cases/transactions.ts'

export type { DbProbe } from './store-cases/case.ts'

/** `test` of node:test, vitest or any other runner. */
export type RegisterTest = (name: string, run: () => Promise<void>) => unknown

/** A store made for one case, on an empty database of its own. */
export interface StoreUnderTest<Db> {
  readonly store: Store<Db>
  /** Closes the store, when it is still open, and removes its database. */
  close(): Promise<void>
}

export interface StoreContractOptions<Db> {
  readonly test: RegisterTest
  /** What the scope cases do through a handler's `db`. */
  readonly probe: DbProbe<Db>
}

const cases: readonly ContractCase[] = [
  ...transactionCases,
  ...cursorCases,
  ...historyCases,
  ...totalsCases,
  ...partCases,
  ...scopeCases,
]

/**
 * The contract of the store port: a store is supported when every case passes on it. Registers one test a case with the
 * runner that is passed in; assertions are those of `node:assert`.
 *
 * @param name of the store, the first word of each test's name
 * @param makeStore makes an empty store; the contract migrates it
 */
export function storeContract<Db>(
  name: string,
  makeStore: () => Promise<StoreUnderTest<Db>>,
  options: StoreContractOptions<Db>,
): void {
  const { test, probe } = options
  for (const one of cases) {
    test(`${name}: ${one.name}`, async () => {
      const { store, close } = await makeStore()
      try {
        await store.migrate('auto')
        await one.run({ store, probe })
      } finally {
        await close()
      }
    })
  }
}
