import type { BlockNumber } from '../chain/block.ts'
import { forEachEvent } from '../handle/each-event.ts'
import { eventOf } from '../handle/event.ts'
import { type Expected, guardedCommit, type Run } from '../handle/run.ts'
import { callFinal, flushAll } from '../handle/run-batch.ts'
import type { CursorChange, KeptEvent, Tx, WatcherRow } from '../store/store.ts'
import { invariant } from '../util/invariant.ts'
import { type Op, wait } from '../util/op.ts'

export interface SettleOutcome {
  readonly through: BlockNumber
  readonly events: number
}

/** Kept events of whole blocks: cut before the last block when the limit was reached inside it. */
function wholeBlocks(
  kept: readonly KeptEvent[],
  limit: number,
  upTo: BlockNumber,
): { kept: readonly KeptEvent[]; through: BlockNumber } {
  const last = kept.at(-1)
  if (!last || kept.length < limit) return { kept, through: upTo }
  const block = last.log.blockNumber
  const whole = kept.filter((one) => one.log.blockNumber < block)
  // A block with events is remembered: from the line on, the search for a common ancestor must find one.
  return { kept: whole, through: (whole.at(-1)?.log.blockNumber ?? block - 1) as BlockNumber }
}

/** Reads until at least one whole block fits, so that a block with more events than the limit still settles. */
function* nextWholeBlocks(
  tx: Tx,
  run: Run,
  upTo: BlockNumber,
): Op<{ kept: readonly KeptEvent[]; through: BlockNumber }> {
  for (let limit = run.watcher.batch.maxEvents; ; limit *= 2) {
    const kept = yield* wait(tx.kept.through(run.id, upTo, limit))
    const whole = wholeBlocks(kept, limit, upTo)
    if (whole.kept.length > 0 || kept.length < limit) return whole
  }
}

function* runFinalStage(tx: Tx, run: Run, kept: readonly KeptEvent[]): Op<void> {
  const event = ({ eventName, log, stableId }: KeptEvent) => eventOf(run.watcher, eventName, { log, stableId })
  yield* forEachEvent(tx, run, kept, event, (one) => callFinal(tx, run, event(one), one.memo))
  yield* flushAll(tx, run)
}

function checkSettle(row: WatcherRow, upTo: BlockNumber): void {
  invariant(row.cursor !== null && upTo <= row.cursor.number, 'only applied blocks can settle', { upTo })
  invariant(row.settled === null || upTo > row.settled, 'the settled line never goes back', {
    upTo,
    settled: row.settled,
  })
}

function* settleBody(
  tx: Tx,
  run: Run,
  row: WatcherRow,
  upTo: BlockNumber,
): Op<{ result: SettleOutcome; through: BlockNumber }> {
  checkSettle(row, upTo)
  const staged = run.watcher.final !== undefined
  const { kept, through } = staged ? yield* nextWholeBlocks(tx, run, upTo) : { kept: [], through: upTo }
  yield* runFinalStage(tx, run, kept)
  for (const participant of run.participants) yield* participant.settle(tx, through)
  yield* wait(tx.kept.deleteThrough(run.id, through))
  // The block on the line stays: it is the last resort of the search for a common ancestor.
  yield* wait(tx.trail.deleteBelow(run.id, through))
  return { result: { through, events: kept.length }, through }
}

/**
 * Moves the settled line: blocks up to `upTo` are final and cross-checked. Runs the `final` stage in order, trims undo.
 * One call settles at most about one batch of events; the source answers with the rest in its next step.
 * @throws {EventFailure} when the `final` stage failed at an event: nothing of this call was settled
 */
export async function settleThrough(
  run: Run,
  expected: Expected,
  upTo: BlockNumber,
  finalized: BlockNumber,
): Promise<SettleOutcome> {
  return guardedCommit(run, expected, function* (tx, row) {
    const { result, through } = yield* settleBody(tx, run, row, upTo)
    const newer = row.finalized === null || finalized > row.finalized ? finalized : row.finalized
    const change: CursorChange = { settled: through, finalized: newer, updatedAt: run.world.now() }
    return { result, change }
  })
}
