import type { BlockNumber } from '../chain/block.ts'
import { TidemarkError } from '../errors.ts'
import type { OpenTable, Participant, WriteOrigin } from '../handle/participant.ts'
import { EventFailure } from '../handle/scope.ts'
import type { ManagedDefinition } from '../handle/watch.ts'
import type { ColumnType, ManagedRow, ManagedTable, Tx } from '../store/store.ts'
import { type Op, wait } from '../util/op.ts'
import { type ColumnValue, checkNames, checkValue } from './column-values.ts'

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
  readonly columns: C
}

/** Rows that one event may add to one table. */
const ROWS_PER_EVENT = 100_000

function checkValues(table: ManagedTable, values: Readonly<Record<string, unknown>>): void {
  checkNames(table.table, table.columns, values)
  for (const [column, type] of Object.entries(table.columns)) {
    if (values[column] !== null) checkValue(table.table, column, type, values[column])
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

  // Rows are kept by the user's table itself: undo needs nothing else, and settling frees nothing.
  *keep(): Op<void> {}

  *settle(): Op<void> {}

  /** What was added before is written by now. */
  checkpoint(): () => void {
    return () => this.discard()
  }

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
  return {
    kind: 'rows',
    ...table,
    columns: options.columns,
    ensure: (tx) => wait(tx.managed.ensureTable(table)),
    open: (watcher) => openRows(table, watcher),
  }
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
  return { participant, api }
}
