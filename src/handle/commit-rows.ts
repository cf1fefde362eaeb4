import type { BlockNumber } from '../chain/block.ts'
import type { Tx } from '../store/store.ts'
import { invariant } from '../util/invariant.ts'
import { type Op, wait } from '../util/op.ts'
import { type Batch, digestOf } from './batch.ts'
import type { Run } from './run.ts'

/** Takes away the commit rows above a block. One that is cut in two is counted anew, from the marks that stay. */
export function* cutCommits(tx: Tx, run: Run, above: BlockNumber | -1): Op<void> {
  const row = yield* wait(tx.commits.straddling(run.id, above))
  if (!row) return yield* wait(tx.commits.cutAbove(run.id, above, null))
  const marks = yield* wait(tx.marks.between(run.id, row.from, above as BlockNumber))
  const rest = { events: marks.length, digest: digestOf(marks.map((mark) => mark.stableId)) }
  yield* wait(tx.commits.cutAbove(run.id, above, rest))
}

/**
 * The commit's own row. Below a cursor that was moved back by hand there are rows for the same blocks: the new ones, with
 * the same events in them, take their place.
 */
export function* recordCommit(tx: Tx, run: Run, batch: Batch): Op<void> {
  const { from, to, attempt } = batch
  const ids = batch.events.map((ready) => ready.stableId)
  const committedAt = run.world.now()
  const row = { from, to: to.number, events: ids.length, digest: digestOf(ids), committedAt, attempt, build: run.build }
  if (yield* wait(tx.commits.add(run.id, row))) return
  yield* cutCommits(tx, run, (from - 1) as BlockNumber | -1)
  invariant(yield* wait(tx.commits.add(run.id, row)), 'commit rows above a cut must be gone', { from })
}
