import type { BlockNumber } from '../chain/block.ts'
import type { Maybe } from '../util/op.ts'
import type { ColumnType } from './store.ts'

/** What a sum is kept in: 64 bits, or 256 bits with a sign. */
export type SumType = 'integer' | 'int256'

/** A table of sums, one row for each key. */
export interface TotalsTable {
  readonly table: string
  readonly key: Readonly<Record<string, ColumnType>>
  readonly sum: Readonly<Record<string, SumType>>
}

/** What is added to the row of one key; negative to take back. */
export interface TotalChange {
  /** Every column of the key. */
  readonly key: Readonly<Record<string, unknown>>
  /** Every column of the sums. */
  readonly add: Readonly<Record<string, bigint>>
  /** How many additions these are. A row whose additions were all taken back is deleted. */
  readonly additions: number
}

/** The changes of one block, as lines of text, while they may be taken back. */
export interface KeptTotals {
  readonly blockNumber: BlockNumber
  readonly changes: string
}

export interface TotalsPort {
  /** Makes the table, or checks that it has the columns and the key. @throws `STORE_TABLE_MISMATCH` */
  ensureTable(table: TotalsTable): Maybe<void>
  /** The sums of a key as they are stored; null where there is no row. */
  get(table: TotalsTable, key: Readonly<Record<string, unknown>>): Maybe<Readonly<Record<string, bigint>> | null>
  /**
   * Adds to the rows of distinct keys, also against writers of the same rows that are no watcher: none is lost. In the order
   * in which the changes are given.
   * @throws {TidemarkError} `MANAGED_OVERFLOW` when a sum does not fit, `MANAGED_REFUSED` when a constraint refuses it
   */
  add(table: TotalsTable, changes: readonly TotalChange[]): Maybe<void>
  /**
   * A block of which changes are kept already gets these besides, on a line of their own: below a cursor that was moved back by
   * hand a block may show an event that it did not show before.
   */
  keep(watcher: number, table: string, kept: readonly KeptTotals[]): Maybe<void>
  /** What was kept of blocks above `block`. */
  keptAbove(watcher: number, table: string, block: BlockNumber | -1): Maybe<readonly KeptTotals[]>
  deleteKeptAbove(watcher: number, table: string, block: BlockNumber | -1): Maybe<void>
  deleteKeptThrough(watcher: number, table: string, block: BlockNumber): Maybe<void>
}
