import type { BlockRef } from '../chain/block.ts'
import { TidemarkError } from '../errors.ts'
import type { CursorChange, DbScope, KeptEvent, Mark, Tx, WatcherRow } from '../store/store.ts'
import { invariant } from '../util/invariant.ts'
import { decodeValue, encodeValue } from '../util/json.ts'
import { isThenable, type Maybe, type Op, wait } from '../util/op.ts'
import { type Batch, cutAfter, type ReadyEvent } from './batch.ts'
import { recordCommit } from './commit-rows.ts'
import { forEachEvent, hardLimit, hungAt, SLICE_MS } from './each-event.ts'
import { type Expected, guardedCommit, type Run } from './run.ts'
import { callUser, EventFailure, publicValues } from './scope.ts'

/** What one commit did. */
export interface BatchOutcome {
  /** The last block committed; below the batch's end when time ran out. */
  readonly to: BlockRef
  readonly applied: number
  /** Events that were marked already: delivered twice, applied once (P2). */
  readonly duplicates: number
  /** Whether the blocks were settled in the same commit, since they were final already. */
  readonly settled: boolean
}

/** A memo lives in an undo record, so its size is bounded. */
const MEMO_LIMIT = 65_536
/** Events marked in one statement, ahead of their handlers, where that is safe: what is then cut off for time is bounded. */
const MARK_AT_ONCE = 500
/** Managed rows buffered before they are written. */
const FLUSH_AT = 5_000

function markOf(ready: ReadyEvent): Mark {
  const { log, stableId } = ready
  return {
    blockNumber: log.blockNumber,
    blockHash: log.blockHash,
    stableId,
    transactionHash: log.transactionHash,
    logIndex: log.logIndex,
  }
}

function encodeMemo(run: Run, ready: ReadyEvent, memo: unknown): string | null {
  if (memo === undefined) return null
  const fail = (sentence: string, cause?: unknown) =>
    new TidemarkError('MEMO_INVALID', sentence, { values: publicValues(run, ready.event), cause })
  let text: string
  try {
    text = encodeValue(memo)
  } catch (cause) {
    throw fail('The handler returned something that cannot be kept as a memo', cause)
  }
  if (text.length > MEMO_LIMIT) throw fail(`The memo is longer than ${MEMO_LIMIT} characters`)
  return text
}

function keptEvent(ready: ReadyEvent, memo: string | null): KeptEvent {
  const { event, log, stableId, sequence, key } = ready
  return { eventName: event.name, log, stableId, sequence, key, memo }
}

export function* flushAll(tx: Tx, run: Run): Op<void> {
  for (const participant of run.participants) yield* participant.flush(tx)
}

/**
 * A nested savepoint takes managed writes with it: what is buffered is written before it begins, what is added inside is
 * written before it ends, or forgotten when it fails.
 */
function savepointWith<T>(tx: Tx, run: Run, scope: DbScope<unknown>, fn: () => T): T {
  if (run.participants.length === 0) return scope.savepoint(fn)
  const flush = () => wait(flushOwn(tx, run, scope))
  const inside = function* (): Op<unknown> {
    const checkpoints = run.participants.map((participant) => participant.checkpoint())
    try {
      const result = fn()
      // Left to the guard, which refuses it: an embedded store cannot wait.
      if (isThenable(result) && !run.store.capabilities.asyncHandlers) return result
      const value = yield* wait(result)
      yield* flush()
      return value
    } catch (error) {
      for (const rewind of checkpoints) rewind()
      throw error
    }
  }
  const whole = function* (): Op<unknown> {
    yield* flush()
    return yield* wait(scope.savepoint(() => tx.drive(inside())))
  }
  return tx.drive(whole()) as T
}

/** Writes what is buffered in the middle of a callback: Tidemark's own writes, not the user's. */
function flushOwn(tx: Tx, run: Run, scope: DbScope<unknown>): Maybe<void> {
  return scope.own(() => tx.drive(flushAll(tx, run)))
}

function handlerScope(
  run: Run,
  tx: Tx,
  batch: Batch,
  ready: ReadyEvent,
  scope: DbScope<unknown>,
  tables: Readonly<Record<string, unknown>>,
): unknown {
  const { event, key, prepared } = ready
  return {
    event,
    key,
    prepared,
    phase: batch.phase,
    signal: run.signal,
    db: scope.db,
    tables,
    savepoint: <T>(fn: () => T) => savepointWith(tx, run, scope, fn),
    flush: () => flushOwn(tx, run, scope),
  }
}

/** Calls the handler for an event that was just marked. Answers its memo. */
function* applyEvent(tx: Tx, run: Run, batch: Batch, ready: ReadyEvent): Op<string | null> {
  const handle = run.watcher.handle as (scope: unknown) => unknown
  const result = yield* callUser(tx, run, 'handle', ready.event, (scope, tables) =>
    handle(handlerScope(run, tx, batch, ready, scope, tables)),
  )
  try {
    return encodeMemo(run, ready, result)
  } catch (error) {
    throw TidemarkError.is(error) ? new EventFailure(error, ready.log.blockNumber) : error
  }
}

/** Progress through a batch: kept outside the operation, since a slice may end in the middle. */
interface Progress {
  next: number
  /** For each event that was marked so far, in order: whether its mark was new. */
  readonly fresh: boolean[]
  readonly kept: KeptEvent[]
  duplicates: number
  readonly startedAt: number
  /** Set when the batch's time is over and a block has just ended. */
  cutAt: BlockRef | null
}

function outOfTime(run: Run, batch: Batch, progress: Progress): BlockRef | null {
  if (run.world.monotonic() - progress.startedAt <= run.watcher.batch.maxMs) return null
  const last = batch.events[progress.next - 1]?.log
  const following = batch.events[progress.next]?.log
  if (!last || !following || last.blockNumber === following.blockNumber) return null
  return { number: last.blockNumber, hash: last.blockHash }
}

/** Marks first, then works: a mark that was there already means that the effects are there too (P2). */
function* markNext(tx: Tx, run: Run, batch: Batch, progress: Progress): Op<void> {
  if (progress.next < progress.fresh.length) return
  const ahead = run.store.capabilities.refusesForeignCommit ? MARK_AT_ONCE : 1
  const some = batch.events.slice(progress.next, progress.next + ahead)
  progress.fresh.push(...(yield* wait(tx.marks.insert(run.id, some.map(markOf)))))
}

/** Handles events until the slice is over, the batch is done, or its time is up. */
function* handleSlice(tx: Tx, run: Run, batch: Batch, progress: Progress): Op<void> {
  const until = run.world.monotonic() + SLICE_MS
  while (progress.next < batch.events.length && !progress.cutAt) {
    yield* markNext(tx, run, batch, progress)
    const ready = batch.events[progress.next] as ReadyEvent
    if (progress.fresh[progress.next]) progress.kept.push(keptEvent(ready, yield* applyEvent(tx, run, batch, ready)))
    else progress.duplicates++
    progress.next++
    for (const participant of run.participants) if (participant.pending() > FLUSH_AT) yield* participant.flush(tx)
    progress.cutAt = outOfTime(run, batch, progress)
    if (run.world.monotonic() >= until) return
  }
}

function* handleAll(tx: Tx, run: Run, batch: Batch): Op<Progress> {
  const startedAt = run.world.monotonic()
  const progress: Progress = { next: 0, fresh: [], kept: [], duplicates: 0, startedAt, cutAt: null }
  try {
    while (progress.next < batch.events.length && !progress.cutAt) {
      yield* tx.interruptible(() => handleSlice(tx, run, batch, progress), hardLimit(run))
    }
  } catch (error) {
    throw hungAt(run, batch.events[progress.next]?.event, error)
  }
  // Events beyond the cut were marked ahead, and are not done.
  if (progress.cutAt) yield* wait(tx.marks.deleteAbove(run.id, progress.cutAt.number))
  yield* flushAll(tx, run)
  return progress
}

/** Whether the batch settles as it is applied: final already, and nothing unsettled below it. */
function settlesAtOnce(row: WatcherRow, batch: Batch): boolean {
  if (batch.finalized === null || batch.to.number > batch.finalized) return false
  // Both null: nothing was applied yet. A cursor that was moved back by hand stands below the line, which stays.
  return (row.cursor?.number ?? null) === row.settled
}

/** The second stage of blocks that settle in the commit that applies them. */
function* runFinals(tx: Tx, run: Run, kept: readonly KeptEvent[], batch: Batch): Op<void> {
  if (!run.watcher.final) return
  const byKey = new Map(batch.events.map((ready) => [`${ready.log.blockHash}${ready.stableId}`, ready.event]))
  const eventOf = ({ log, stableId }: KeptEvent) => {
    const event = byKey.get(`${log.blockHash}${stableId}`)
    invariant(event, 'a handled event must be one of the batch')
    return event
  }
  yield* forEachEvent(tx, run, kept, eventOf, (one) => callFinal(tx, run, eventOf(one), one.memo))
  yield* flushAll(tx, run)
}

/** Blocks that settle in the commit that applies them: their second stage, and the end of what was kept for undo. */
function* settleNow(tx: Tx, run: Run, kept: readonly KeptEvent[], batch: Batch): Op<void> {
  yield* runFinals(tx, run, kept, batch)
  for (const participant of run.participants) yield* participant.settle(tx, batch.to.number)
  // Remembered blocks below the line would otherwise stay until a step of its own settles, which may be never.
  yield* wait(tx.trail.deleteBelow(run.id, batch.to.number))
}

/** Calls the `final` stage for one event, with the memo that the handler left. */
export function* callFinal(tx: Tx, run: Run, event: ReadyEvent['event'], memo: string | null): Op<void> {
  const final = run.watcher.final as ((scope: unknown) => unknown) | undefined
  if (!final) return
  yield* callUser(tx, run, 'final', event, (scope, tables) =>
    final({
      event,
      memo: memo === null ? undefined : decodeValue(memo),
      db: scope.db,
      tables,
      signal: run.signal,
      savepoint: <T>(fn: () => T) => savepointWith(tx, run, scope, fn),
    }),
  )
}

function* keepForLater(tx: Tx, run: Run, batch: Batch, kept: readonly KeptEvent[]): Op<void> {
  const wanted = typeof run.watcher.undo === 'function' || run.watcher.final !== undefined
  if (wanted && kept.length > 0) yield* wait(tx.kept.add(run.id, kept))
  for (const participant of run.participants) yield* participant.keep(tx)
  if (batch.trail.length > 0) yield* wait(tx.trail.add(run.id, batch.trail))
}

function newFinality(row: WatcherRow, batch: Batch): WatcherRow['finalized'] {
  if (batch.finalized === null) return row.finalized
  return row.finalized === null || batch.finalized > row.finalized ? batch.finalized : row.finalized
}

function* commitBody(
  tx: Tx,
  run: Run,
  row: WatcherRow,
  whole: Batch,
): Op<{ result: BatchOutcome; change: CursorChange }> {
  invariant(row.cursor === null || whole.from === row.cursor.number + 1, 'a batch must start right above the cursor')
  const progress = yield* handleAll(tx, run, whole)
  const batch = progress.cutAt ? cutAfter(whole, progress.cutAt) : whole
  // An event that was marked already may wait for its `final` stage since then: a step of its own settles it.
  const settled = progress.duplicates === 0 && settlesAtOnce(row, batch)
  if (settled) yield* settleNow(tx, run, progress.kept, batch)
  else yield* keepForLater(tx, run, batch, progress.kept)
  yield* recordCommit(tx, run, batch)
  const change: CursorChange = {
    cursor: batch.to,
    finalized: newFinality(row, batch),
    ...(row.reason ? { reason: null } : {}),
    ...(settled ? { settled: batch.to.number } : {}),
    add: { applied: progress.kept.length, duplicates: progress.duplicates },
    updatedAt: run.world.now(),
  }
  const result = { to: batch.to, applied: progress.kept.length, duplicates: progress.duplicates, settled }
  return { result, change }
}

/**
 * Applies whole blocks: marks, effects, managed writes and cursor in one transaction (P1).
 * @throws {EventFailure} when the user's code failed at an event: the whole batch was rolled back
 * @throws {TidemarkError} of a guard, or of the store: nothing was committed
 */
export async function runBatch(run: Run, expected: Expected, batch: Batch): Promise<BatchOutcome> {
  return guardedCommit(run, expected, (tx, row) => commitBody(tx, run, row, batch))
}
