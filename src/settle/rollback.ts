import type { BlockNumber, BlockRef } from '../chain/block.ts'
import { TidemarkError } from '../errors.ts'
import { cutCommits } from '../handle/commit-rows.ts'
import { forEachEvent } from '../handle/each-event.ts'
import { eventOf, type TidemarkEvent } from '../handle/event.ts'
import { type Expected, guardedCommit, type Run } from '../handle/run.ts'
import { callUser } from '../handle/scope.ts'
import { type CursorChange, type KeptEvent, REORG_ACCEPTED, type Tx, type WatcherRow } from '../store/store.ts'
import { invariant } from '../util/invariant.ts'
import { decodeValue } from '../util/json.ts'
import { type Op, wait } from '../util/op.ts'

export interface RollbackOutcome {
  readonly events: number
  /** Blocks between the old cursor and the new one. */
  readonly blocks: number
}

type Above = BlockNumber | -1

function keptEvent(run: Run, { eventName, log, stableId }: KeptEvent): TidemarkEvent {
  return eventOf(run.watcher, eventName, { log, stableId })
}

function* undoOne(tx: Tx, run: Run, kept: KeptEvent, undo: (scope: unknown) => unknown): Op<void> {
  const event = keptEvent(run, kept)
  const memo = kept.memo === null ? undefined : decodeValue(kept.memo)
  yield* callUser(tx, run, 'undo', event, (scope) =>
    undo({ event, memo, db: scope.db, signal: run.signal, savepoint: <T>(fn: () => T) => scope.savepoint(fn) }),
  )
}

/**
 * Newest first: several changes of one row end at the value before the first of them (C71). Events that were applied
 * under another `undo` than today's are not there to be undone, or are there and would be passed over: neither is guessed.
 */
function* undoEvents(tx: Tx, run: Run, row: WatcherRow, above: Above, marks: number): Op<void> {
  const { undo, final } = run.watcher
  const all = yield* wait(tx.kept.above(run.id, above))
  const agrees = typeof undo === 'function' ? all.length === marks : all.length === 0 || final !== undefined
  if (!agrees && !reorgAccepted(row)) throw undoChanged(run, above, marks)
  if (typeof undo === 'function') {
    const call = (kept: KeptEvent) => undoOne(tx, run, kept, undo as (scope: unknown) => unknown)
    yield* forEachEvent(tx, run, all, (kept) => keptEvent(run, kept), call)
  }
  yield* wait(tx.kept.deleteAbove(run.id, above))
}

function undoChanged(run: Run, above: Above, events: number): TidemarkError {
  return new TidemarkError('UNDO_CHANGED', 'Blocks that were applied under another `undo` were orphaned', {
    values: { watcher: run.watcher.name, above, events },
  })
}

function cannotUndo(run: Run, why: 'reorg' | 'sweep', above: Above, events: number): TidemarkError {
  const values = { watcher: run.watcher.name, above, events }
  if (why === 'sweep')
    return new TidemarkError('SWEEP_DIFFERS', 'Applied blocks differ from what the chain holds now', { values })
  if (run.watcher.undo === 'irreversible') {
    return new TidemarkError('REORG_IRREVERSIBLE', 'Blocks with irreversible effects were orphaned', { values })
  }
  const byUser = typeof run.watcher.at === 'object'
  return byUser
    ? new TidemarkError('REORG_BELOW_CONFIRMATIONS', 'A reorg went deeper than the confirmations asked for', { values })
    : new TidemarkError('REORG_BELOW_FINALITY', 'Final blocks were replaced', { values })
}

/** Whether an operator has taken back by hand what Tidemark cannot: `resume --accept-reorg`. */
export function reorgAccepted(row: WatcherRow): boolean {
  return row.state === 'running' && row.reason?.code === REORG_ACCEPTED
}

function canUndo(run: Run): boolean {
  return typeof run.watcher.undo === 'function' || run.watcher.undo === 'managed'
}

/** In the reverse of the order of apply: commits, trail, participants, the user's own effects, marks. */
function* undoAbove(tx: Tx, run: Run, row: WatcherRow, above: Above, why: 'reorg' | 'sweep'): Op<number> {
  yield* cutCommits(tx, run, above)
  yield* wait(tx.trail.deleteAbove(run.id, above))
  for (const participant of [...run.participants].reverse()) yield* participant.undo(tx, above)
  const events = yield* wait(tx.marks.deleteAbove(run.id, above))
  yield* undoEvents(tx, run, row, above, events)
  if (events > 0 && !canUndo(run) && !reorgAccepted(row)) throw cannotUndo(run, why, above, events)
  return events
}

/** The cursor, or the newest remembered block above it: a cursor that was moved back by hand stands below what was applied. */
function* highestApplied(tx: Tx, run: Run, cursor: BlockRef): Op<number> {
  const [newest] = yield* wait(tx.trail.list(run.id))
  return Math.max(cursor.number, newest?.number ?? -1)
}

function checkLine(run: Run, row: WatcherRow, above: Above): void {
  if (row.settled === null || above >= row.settled) return
  throw new TidemarkError('REORG_BELOW_FINALITY', 'A rollback would pass the settled line', {
    values: { watcher: run.watcher.name, to: above, settled: row.settled },
  })
}

/**
 * Takes back everything above block `to`, newest first, in one transaction with the cursor, and raises the epoch (P3).
 * @param to the block to stand on afterwards; null: the one before the start block
 * @throws {TidemarkError} `halts` codes when the watcher cannot undo, or its undo function failed: nothing was undone
 */
export async function rollBack(
  run: Run,
  expected: Expected,
  to: BlockRef | null,
  why: 'reorg' | 'sweep',
): Promise<RollbackOutcome> {
  return guardedCommit(run, expected, function* (tx, row) {
    invariant(row.cursor !== null, 'only an applied block can be rolled back')
    const above = (to ? to.number : row.startBlock - 1) as Above
    const top = yield* highestApplied(tx, run, row.cursor)
    invariant(above < top, 'a rollback must go back', { above, top })
    checkLine(run, row, above)
    const events = yield* undoAbove(tx, run, row, above, why)
    const change: CursorChange = {
      cursor: above < row.cursor.number ? to : row.cursor,
      epoch: row.epoch + 1,
      // The operator's word was for this reorg, and for no other.
      reason: null,
      add: { undone: events, reorgs: why === 'reorg' ? 1 : 0 },
      updatedAt: run.world.now(),
    }
    return { result: { events, blocks: top - above }, change }
  })
}
