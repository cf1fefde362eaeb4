import { type BlockNumber, blockNumber } from '../chain/block.ts'
import { TidemarkError } from '../errors.ts'
import { haltReason } from '../handle/failure.ts'
import { filterChanges } from '../handle/filter-change.ts'
import type { CompiledWatcher } from '../handle/watch.ts'
import type { CursorChange, HaltReason, NewWatcher, Store, WatcherRow } from '../store/store.ts'
import { invariant } from '../util/invariant.ts'
import { type Maybe, wait } from '../util/op.ts'
import type { Seen } from './seen.ts'

/** Written into a row that is older than what this process has seen of it. */
interface Halt {
  readonly state: 'halted'
  readonly reason: HaltReason
}

/** What a start brings to the rows of its watchers. */
export interface Registration {
  /** The names of all that are configured: a row with none of these names is orphaned. */
  readonly configured: ReadonlySet<string>
  /** `from-here`: a changed filter is taken over, from the cursor on. */
  readonly accept: 'from-here' | undefined
}

/** What a process brings that takes a watcher over. */
export interface TakeOver extends Registration {
  /** The fencing token of its lease: whoever held the watcher before can commit no more. */
  readonly token: Uint8Array
  /** Whether that lease is still held, by the store's own word. */
  readonly confirm: () => Maybe<boolean>
  /** The head, for `startBlock: 'now'` of a watcher without a row; null otherwise. */
  readonly head: BlockNumber | null
  /** What this process knows of the row. */
  readonly seen: Seen
  readonly now: number
}

/** The row of another name that this watcher was known by, if there is one: same chain, same fingerprint, not configured. */
function formerName(watcher: CompiledWatcher, rows: readonly WatcherRow[], names: ReadonlySet<string>): string | null {
  const orphan = rows.find(
    (row) => !names.has(row.name) && row.chainId === watcher.chainId && row.fingerprint === watcher.fingerprint,
  )
  return orphan?.name ?? null
}

function newRow(watcher: CompiledWatcher, head: BlockNumber | null): NewWatcher {
  const { name, chainId, fingerprint } = watcher
  if (watcher.startBlock !== 'now') return { name, chainId, fingerprint, startBlock: watcher.startBlock }
  invariant(head !== null, 'a watcher that starts now needs the head', { watcher: name })
  return { name, chainId, fingerprint, startBlock: head }
}

/**
 * An unknown name with a past start block, beside an orphaned one with the same filter, is most likely a rename: to
 * start it afresh would apply its whole history again.
 */
function refuseRename(watcher: CompiledWatcher, former: string | null): void {
  if (former === null || watcher.startBlock === 'now') return
  throw new TidemarkError('WATCHER_RENAMED', 'A new watcher has the filter of one that is no longer configured', {
    values: { watcher: watcher.name, formerly: former },
  })
}

function refuseChange(watcher: CompiledWatcher, row: WatcherRow, accept: Registration['accept']): void {
  if (row.chainId !== watcher.chainId) {
    throw new TidemarkError('CHAIN_MISMATCH', 'The watcher was made for another chain id', {
      values: { watcher: watcher.name, stored: row.chainId, configured: watcher.chainId },
    })
  }
  if (row.fingerprint === watcher.fingerprint || accept === 'from-here') return
  const changed = filterChanges(row.fingerprint, watcher.fingerprint)
  throw new TidemarkError('WATCHER_FILTER_CHANGED', 'The filter or start of a watcher changed', {
    values: { watcher: watcher.name, cursor: row.cursor?.number ?? null, changed },
  })
}

/** The watcher's row, if there is one. @throws {TidemarkError} `WATCHER_FILTER_CHANGED`, `WATCHER_RENAMED`, `CHAIN_MISMATCH` */
function checkedRow(
  watcher: CompiledWatcher,
  rows: readonly WatcherRow[],
  registration: Registration,
): WatcherRow | undefined {
  const row = rows.find((one) => one.name === watcher.name)
  if (row) refuseChange(watcher, row, registration.accept)
  else refuseRename(watcher, formerName(watcher, rows, registration.configured))
  return row
}

/**
 * Before blocks settle they are read again with the new filter, and differ from what the old one let through. A watcher
 * that can undo takes them back and does them again; elsewhere they can only stand as they are, so the line moves up to
 * the cursor.
 */
function settledUnder(row: WatcherRow, watcher: CompiledWatcher): { settled?: BlockNumber } {
  const canUndo = typeof watcher.undo === 'function' || watcher.undo === 'managed'
  if (canUndo || row.cursor === null) return {}
  return { settled: blockNumber(Math.max(row.cursor.number, row.settled ?? 0)) }
}

/** What the taker of a watcher writes into its row. */
function takeOverChange(watcher: CompiledWatcher, row: WatcherRow, taker: TakeOver, halt: Halt | null): CursorChange {
  const taken = { token: taker.token, updatedAt: taker.now, ...(halt ?? {}) }
  const { fingerprint } = watcher
  return row.fingerprint === fingerprint ? taken : { ...taken, fingerprint, ...settledUnder(row, watcher) }
}

/**
 * Looks at the rows of the watchers to be run, before any of them is run: what is refused is refused at the start.
 * @throws {TidemarkError} `WATCHER_FILTER_CHANGED`, `WATCHER_RENAMED`, `CHAIN_MISMATCH`
 */
export async function checkWatchers(
  store: Store,
  watchers: readonly CompiledWatcher[],
  registration: Registration,
): Promise<void> {
  const rows = await store.read((tx) => wait(tx.cursors.list()))
  for (const watcher of watchers) checkedRow(watcher, rows, registration)
}

/** A watcher's row as it was taken over, and why it was halted in the same commit, if it was. */
export interface Taken {
  readonly row: WatcherRow
  readonly halted: HaltReason | null
}

/**
 * Finds or makes the row of a watcher and its managed tables, and writes the lease's token into the row, in one transaction
 * that waits for a commit which the former holder has under way.
 * @throws {TidemarkError} as `checkWatchers`, and `FENCED` when the lease was lost before its token was written: a process
 *   that was held up on the way must not fence the one that has taken over from it (P9). Nothing was changed
 */
export async function takeOver(store: Store, watcher: CompiledWatcher, taker: TakeOver): Promise<Taken> {
  const taken = await store.transact(function* (tx) {
    const found = checkedRow(watcher, yield* wait(tx.cursors.list()), taker)
    const made = found ?? (yield* wait(tx.cursors.create(newRow(watcher, taker.head), taker.now)))
    const row = yield* wait(tx.cursors.lock(made.id))
    invariant(row, 'a watcher that was just read must be there', { watcher: watcher.name })
    refuseChange(watcher, row, taker.accept)
    if (!(yield* wait(taker.confirm()))) {
      throw new TidemarkError('FENCED', 'The lease was lost before the watcher was taken over', {
        values: { watcher: watcher.name },
      })
    }
    for (const table of Object.values(watcher.tables)) yield* table.ensure(tx)
    const older = yield* taker.seen.begin(tx, row)
    const halted = older ? haltReason(older, taker.now) : null
    const halt = halted && ({ state: 'halted', reason: halted } as const)
    yield* wait(tx.cursors.change(row.id, takeOverChange(watcher, row, taker, halt)))
    return { row, halted }
  })
  if (taken.halted) taker.seen.accept(taken.row)
  return taken
}
