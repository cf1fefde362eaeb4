import type { BlockNumber } from '../chain/block.ts'
import { TidemarkError } from '../errors.ts'
import type { OpenTable, Participant, WriteOrigin } from '../handle/participant.ts'
import { EventFailure } from '../handle/scope.ts'
import type { ManagedDefinition } from '../handle/watch.ts'
import type { ColumnType, ManagedRow, ManagedTable, Tx } from '../store/store.ts'
import { type Op, wait } from '../util/op.ts'

/** The TypeScript type of a managed column's value. Amounts are bigint: never a float, never a silent cut. */
export type ColumnValue<T extends ColumnType> = T extends 'text'
  ? string
  : T extends 'integer'
    ? number | bigint
    : T extends 'bytes'
      ? Uint8Array | `0x${string}`
      : T extends 'boolean'
        ? boolean
        : bigint

/** What the handler calls: `tables.transfers.insert({ … })`. */
export interface RowsApi<C extends Readonly<Record<string, ColumnType>>> {
  /**
   * Adds a row that belongs to the event being handled. It is written with the commit and removed by itself when the
   * event's block is orphaned. Every column must be given; null stands for an absent value.
   * @throws {TidemarkError} `MANAGED_VALUE_INVALID`, `MANAGED_LIMIT`
   */
  insert(values: { readonly [K in keyof C]: ColumnValue<C[K]> | null }): void
}

export interface RowsDefinition<C extends Readonly<Record<string, ColumnType>>> extends ManagedDefinition<RowsApi<C>> {
  readonly kind: 'rows'
  readonly table: string
  readonly columns: C
  open(watcher: number): OpenTable<RowsApi<C>>
}

/** Rows that one event may add to one table. */
const ROWS_PER_EVENT = 100_000

const FITS: Readonly<Record<ColumnType, (value: unknown) => boolean>> = {
  text: (value) => typeof value === 'string',
  integer: (value) => Number.isSafeInteger(value) || (typeof value === 'bigint' && BigInt.asIntN(64, value) === value),
  bytes: (value) => value instanceof Uint8Array || (typeof value === 'string' && /^0x([0-9a-fA-F]{2})*$/.test(value)),
  uint256: (value) => typeof value === 'bigint' && BigInt.asUintN(256, value) === value,
  int256: (value) => typeof value === 'bigint' && BigInt.asIntN(256, value) === value,
  boolean: (value) => typeof value === 'boolean',
}

function invalid(table: ManagedTable, column: string, sentence: string): TidemarkError {
  return new TidemarkError('MANAGED_VALUE_INVALID', sentence, { values: { table: table.table, column } })
}

function checkValues(table: ManagedTable, values: Readonly<Record<string, unknown>>): void {
  for (const column of Object.keys(values)) {
    if (!Object.hasOwn(table.columns, column)) throw invalid(table, column, 'The table has no such column')
  }
  for (const [column, type] of Object.entries(table.columns)) {
    const value = values[column]
    if (value === undefined) throw invalid(table, column, 'A column was not given')
    if (value !== null && !FITS[type](value))
      throw invalid(table, column, `A value does not fit the column type ${type}`)
  }
}

/** Rows are written later than they are given: a buffer that the handler uses again must not change them. */
function copied(values: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const entries = Object.entries(values)
  return Object.fromEntries(entries.map(([name, value]) => [name, value instanceof Uint8Array ? value.slice() : value]))
}

/** A row that the table refuses is a failure of its block: what is older is committed without it. */
function atItsBlock(error: unknown): unknown {
  if (!TidemarkError.has(error, 'MANAGED_REFUSED')) return error
  return new EventFailure(error, Number(error.values.block))
}

/** Raw rows, keyed by the event, buffered, and undone by event. */
class RowsParticipant implements Participant {
  readonly name: string
  readonly limits = `${ROWS_PER_EVENT} rows an event; buffered rows are written before each commit`
  private readonly table: ManagedTable
  private readonly watcher: number
  private buffer: ManagedRow[] = []

  constructor(table: ManagedTable, watcher: number) {
    this.name = `rows ${table.table}`
    this.table = table
    this.watcher = watcher
  }

  pending(): number {
    return this.buffer.length
  }

  add(origin: WriteOrigin, ordinal: number, values: Readonly<Record<string, unknown>>): void {
    origin.alive()
    checkValues(this.table, values)
    if (ordinal - origin.firstOrdinal >= ROWS_PER_EVENT) {
      throw new TidemarkError('MANAGED_LIMIT', 'One event wrote too many rows', {
        values: { table: this.table.table, limit: ROWS_PER_EVENT },
      })
    }
    this.buffer.push({ blockNumber: origin.blockNumber, stableId: origin.stableId, ordinal, values: copied(values) })
  }

  *flush(tx: Tx): Op<void> {
    if (this.buffer.length === 0) return
    const rows = this.buffer
    this.buffer = []
    try {
      yield* wait(tx.managed.insertRows(this.table, this.watcher, rows))
    } catch (error) {
      throw atItsBlock(error)
    }
  }

  *undo(tx: Tx, above: BlockNumber | -1): Op<number> {
    return yield* wait(tx.managed.deleteRowsAbove(this.table, this.watcher, above))
  }

  // Rows are kept by the user's table itself: settling frees nothing.
  *settle(): Op<void> {}

  discard(): void {
    this.buffer = []
  }
}

/**
 * A managed table of raw rows: what the handler inserts is keyed by the event, written in bulk with the commit, and
 * taken back exactly when the event's block is orphaned (P3). The table is made if it is missing; a table of your own
 * needs the columns `tidemark_watcher`, `tidemark_block`, `tidemark_event` and `tidemark_ordinal` beside those named.
 *
 * @example
 * ```ts
 * import { rows } from 'tidemark/sqlite'
 *
 * const transfers = rows({ table: 'transfers', columns: { sender: 'text', receiver: 'text', amount: 'uint256' } })
 * ```
 */
export function rows<const C extends Readonly<Record<string, ColumnType>>>(options: {
  readonly table: string
  readonly columns: C
}): RowsDefinition<C> {
  const table: ManagedTable = { table: options.table, columns: options.columns }
  return { kind: 'rows', table: options.table, columns: options.columns, open: (watcher) => openRows(table, watcher) }
}

function openRows<C extends Readonly<Record<string, ColumnType>>>(
  table: ManagedTable,
  watcher: number,
): OpenTable<RowsApi<C>> {
  const participant = new RowsParticipant(table, watcher)
  // The n-th row of an event has ordinal n, in every run of the handler: a replay gives the same keys.
  const api = (origin: WriteOrigin): RowsApi<C> => {
    let ordinal = origin.firstOrdinal
    return { insert: (values) => participant.add(origin, ordinal++, values as Readonly<Record<string, unknown>>) }
  }
  return { table, participant, api }
}
