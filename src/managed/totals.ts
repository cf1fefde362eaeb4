import type { BlockNumber } from '../chain/block.ts'
import { TidemarkError } from '../errors.ts'
import type { OpenTable, Participant, WriteOrigin } from '../handle/participant.ts'
import type { ManagedDefinition } from '../handle/watch.ts'
import type { ColumnType, Tx } from '../store/store.ts'
import type { SumType, TotalChange, TotalsTable } from '../store/totals.ts'
import { type Op, wait } from '../util/op.ts'
import { ChangeSet, decodeChanges, encodeChanges, negated, plainKey } from './changes.ts'
import { type ColumnValue, checkNames, checkValue } from './column-values.ts'

type Columns = Readonly<Record<string, ColumnType>>
type Sums = Readonly<Record<string, SumType>>

/** The columns that name a row. */
export type TotalKey<K extends Columns> = { readonly [N in keyof K]: ColumnValue<K[N]> }
/** A row's sums. Always bigint: a float would round, and a number would be cut in silence. */
export type TotalSums<S extends Sums> = { readonly [N in keyof S]: bigint }

/** What the handler calls on any store: `tables.balances.add({ account }, { amount: 5n })`. */
export interface TotalsWriter<K extends Columns, S extends Sums> {
  /**
   * Adds to the sums of a key, which begin at zero; negative amounts are taken off. Written with the commit, once for each
   * key, and taken back when the event's block is orphaned. A sum that is not named stays as it is.
   * @throws {TidemarkError} `MANAGED_VALUE_INVALID`, `MANAGED_LIMIT`
   */
  add(key: TotalKey<K>, amounts: { readonly [N in keyof S]?: bigint | number }): void
}

/** What the handler calls on an embedded store. */
export interface SyncTotalsApi<K extends Columns, S extends Sums> extends TotalsWriter<K, S> {
  /** The sums of a key with all that this handler and the events before it have added; null where nothing was. */
  get(key: TotalKey<K>): TotalSums<S> | null
}

/** What the handler calls on a database server. */
export interface TotalsApi<K extends Columns, S extends Sums> extends TotalsWriter<K, S> {
  /** The sums of a key with all that this handler and the events before it have added; null where nothing was. */
  get(key: TotalKey<K>): Promise<TotalSums<S> | null>
}

export interface TotalsDefinition<Api> extends ManagedDefinition<Api> {
  readonly kind: 'totals'
}

export interface TotalsOptions<K extends Columns, S extends Sums> {
  /** Made when it is missing. A table of your own has the key as its primary key, and a column `tidemark_additions`. */
  readonly table: string
  /** The columns that name a row. */
  readonly key: K
  /** The sums: `integer` has 64 bits, `int256` 256 and a sign. */
  readonly sum: S
}

/** Additions that one event may make to one table. */
const ADDITIONS_PER_EVENT = 100_000

/** What was added by one call: to one key, for one block. */
interface Addition {
  /** Null: by the `final` stage, which is never taken back. */
  readonly block: BlockNumber | null
  readonly change: TotalChange
}

/** Sums and counts by key: added up in memory, written once for each key, and taken back by what was added (P3). */
class TotalsParticipant implements Participant {
  readonly name: string
  readonly limits = `${ADDITIONS_PER_EVENT} additions an event; those of one commit are held until it ends`
  readonly table: TotalsTable
  private readonly watcher: number
  private readonly columns: readonly string[]
  /** Added, and not yet written. */
  private buffer: Addition[] = []
  /** The same by key: a handler that looks at a sum must not wait for all of them to be added up. */
  private waiting: ChangeSet
  /** Written in this transaction: what it takes to undo. */
  private written: (Addition & { readonly block: BlockNumber })[] = []

  constructor(table: TotalsTable, watcher: number) {
    this.name = `totals ${table.table}`
    this.table = table
    this.watcher = watcher
    this.columns = Object.keys(table.key)
    this.waiting = new ChangeSet(this.columns)
  }

  pending(): number {
    return this.buffer.length
  }

  add(origin: WriteOrigin, change: TotalChange): void {
    this.buffer.push({ block: origin.revocable ? origin.blockNumber : null, change })
    this.waiting.add(change)
  }

  *flush(tx: Tx): Op<void> {
    if (this.buffer.length === 0) return
    const additions = this.buffer
    const changes = this.waiting.inOrder()
    this.clear()
    yield* wait(tx.totals.add(this.table, changes))
    for (const { block, change } of additions) if (block !== null) this.written.push({ block, change })
  }

  *keep(tx: Tx): Op<void> {
    const byBlock = new Map<BlockNumber, ChangeSet>()
    for (const { block, change } of this.written) {
      const changes = byBlock.get(block) ?? new ChangeSet(this.columns)
      byBlock.set(block, changes)
      changes.add(change)
    }
    const kept = [...byBlock].map(([blockNumber, set]) => ({ blockNumber, changes: encodeChanges(set.inOrder()) }))
    this.written = []
    if (kept.length > 0) yield* wait(tx.totals.keep(this.watcher, this.table.table, kept))
  }

  *undo(tx: Tx, above: BlockNumber | -1): Op<number> {
    const kept = yield* wait(tx.totals.keptAbove(this.watcher, this.table.table, above))
    if (kept.length === 0) return 0
    const changes = kept.flatMap(({ changes }) => decodeChanges(changes))
    for (const change of changes) this.checkColumns(change)
    const taken = new ChangeSet(this.columns, changes.map(negated)).inOrder()
    yield* wait(tx.totals.add(this.table, taken))
    yield* wait(tx.totals.deleteKeptAbove(this.watcher, this.table.table, above))
    return taken.length
  }

  *settle(tx: Tx, through: BlockNumber): Op<void> {
    yield* wait(tx.totals.deleteKeptThrough(this.watcher, this.table.table, through))
  }

  checkpoint(): () => void {
    const { length } = this.written
    return () => {
      this.clear()
      this.written.length = length
    }
  }

  discard(): void {
    this.clear()
    this.written = []
  }

  /** The sums of a key as the handler must see them: what is stored, and what waits to be written. */
  *get(tx: Tx, key: Readonly<Record<string, unknown>>): Op<Record<string, bigint> | null> {
    const stored = yield* wait(tx.totals.get(this.table, key))
    const waiting = this.waiting.get(key)
    if (!stored && !waiting) return null
    const sumOf = (sum: string) => (stored?.[sum] ?? 0n) + (waiting?.add[sum] ?? 0n)
    return Object.fromEntries(Object.keys(this.table.sum).map((sum) => [sum, sumOf(sum)]))
  }

  private clear(): void {
    this.buffer = []
    this.waiting = new ChangeSet(this.columns)
  }

  /** Sums that were kept under other names cannot be taken back. */
  private checkColumns({ key, add }: TotalChange): void {
    const same = (a: object, b: object) => Object.keys(a).sort().join() === Object.keys(b).sort().join()
    if (same(key, this.table.key) && same(add, this.table.sum)) return
    throw new TidemarkError('STORE_TABLE_MISMATCH', 'The columns were changed while blocks could still be taken back', {
      values: { table: this.table.table, kept: [...Object.keys(key), ...Object.keys(add)] },
    })
  }
}

function checkedKey(table: TotalsTable, key: Readonly<Record<string, unknown>>): Record<string, unknown> {
  checkNames(table.table, table.key, key)
  for (const [column, type] of Object.entries(table.key)) checkValue(table.table, column, type, key[column])
  return plainKey(key)
}

/** Every sum of the table; those that were not named get nothing. */
function checkedAmounts(table: TotalsTable, amounts: Readonly<Record<string, unknown>>): Record<string, bigint> {
  checkNames(table.table, table.sum, amounts)
  return Object.fromEntries(
    Object.entries(table.sum).map(([sum, type]) => [sum, amountOf(table, sum, type, amounts[sum])]),
  )
}

function amountOf(table: TotalsTable, sum: string, type: SumType, amount: unknown): bigint {
  if (amount === undefined) return 0n
  const value = Number.isSafeInteger(amount) ? BigInt(amount as number) : amount
  checkValue(table.table, sum, type, value)
  return value as bigint
}

function openTotals(table: TotalsTable, watcher: number): OpenTable<TotalsApi<Columns, Sums>> {
  const participant = new TotalsParticipant(table, watcher)
  const api = (origin: WriteOrigin, tx: Tx): TotalsApi<Columns, Sums> => {
    let additions = 0
    const add = (key: Readonly<Record<string, unknown>>, amounts: Readonly<Record<string, unknown>>) => {
      origin.alive()
      if (additions++ >= ADDITIONS_PER_EVENT) {
        throw new TidemarkError('MANAGED_LIMIT', 'One event made too many additions', {
          values: { table: table.table, limit: ADDITIONS_PER_EVENT },
        })
      }
      const change = { key: checkedKey(table, key), add: checkedAmounts(table, amounts), additions: 1 }
      participant.add(origin, change)
    }
    const get = (key: Readonly<Record<string, unknown>>) => {
      origin.alive()
      return tx.drive(participant.get(tx, checkedKey(table, key))) as Promise<Record<string, bigint> | null>
    }
    return { add, get }
  }
  return { participant, api }
}

function define(options: TotalsOptions<Columns, Sums>): TotalsDefinition<TotalsApi<Columns, Sums>> {
  const table: TotalsTable = { table: options.table, key: options.key, sum: options.sum }
  return {
    kind: 'totals',
    table: options.table,
    ensure: (tx) => wait(tx.totals.ensureTable(table)),
    open: (watcher) => openTotals(table, watcher),
  }
}

/**
 * A managed table of sums and counts, one row for each key. Deltas are added up in memory and written once for each key with
 * the commit; when a block is orphaned what it added is taken off again, exactly (P3). So the sums may also be written by
 * others. A row from which all additions were taken back is deleted.
 *
 * @example
 * ```ts
 * import { totals } from 'tidemark/postgres'
 *
 * const balances = totals({ table: 'balances', key: { account: 'text' }, sum: { amount: 'int256', transfers: 'integer' } })
 * ```
 */
export function totals<const K extends Columns, const S extends Sums>(
  options: TotalsOptions<K, S>,
): TotalsDefinition<TotalsApi<K, S>> {
  return define(options) as never
}

/** `totals` on an embedded store, where `get` answers at once. */
export function syncTotals<const K extends Columns, const S extends Sums>(
  options: TotalsOptions<K, S>,
): TotalsDefinition<SyncTotalsApi<K, S>> {
  return define(options) as never
}
