import type { BlockNumber } from '../chain/block.ts'
import { type Expected, guardedCommit, type Run } from '../handle/run.ts'
import type { WatcherRow } from '../store/store.ts'
import { type Op, wait } from '../util/op.ts'

/** Marks deleted in one transaction at most. */
const DELETE_LIMIT = 10_000
/** The low-water mark is raised in steps, so that forgetting costs a transaction now and then, not one a block. */
const STEP_BLOCKS = 256
/** Settled commit rows are merged into spans of this many blocks: the table grows by one row per span at most. */
const COMMIT_SPAN = 10_000

/** The block through which marks may be forgotten: settled, and `retention` blocks behind the cursor. */
export function forgettable(row: WatcherRow, retention: number): BlockNumber | null {
  if (row.cursor === null || row.settled === null) return null
  const through = Math.min(row.settled, row.cursor.number - retention)
  return through < row.startBlock ? null : (through as BlockNumber)
}

/** Whether the low-water mark should be raised now, and how far. */
export function nextLowWater(row: WatcherRow, retention: number): BlockNumber | null {
  const through = forgettable(row, retention)
  if (through === null) return null
  const from = row.lowWater ?? row.startBlock - 1
  return through - from >= STEP_BLOCKS ? through : null
}

/** Whether no transaction that began before the low-water mark can still be open. */
function mayDelete(run: Run, row: WatcherRow): boolean {
  if (row.lowWater === null || row.lowWaterAt === null) return false
  return run.world.now() - row.lowWaterAt >= run.store.capabilities.longestTransactionMs
}

/**
 * Forgets in two steps (P7): the low-water mark is committed first; marks below it are deleted by a later call, in
 * bounded pieces, once no older transaction can be open. Nothing at or below the mark is ever new again.
 * @returns how many marks were deleted; `more` when another call would find work
 */
export async function forget(run: Run, row: WatcherRow, retention: number): Promise<{ deleted: number; more: boolean }> {
  const expected: Expected = { cursor: row.cursor, epoch: row.epoch }
  let deleted = 0
  if (mayDelete(run, row)) deleted = await deleteForgotten(run, expected, row.lowWater as BlockNumber)
  if (deleted === DELETE_LIMIT) return { deleted, more: true }
  const raised = nextLowWater(row, retention)
  if (raised === null) return { deleted, more: false }
  await raiseLowWater(run, expected, raised)
  return { deleted, more: true }
}

function deleteForgotten(run: Run, expected: Expected, lowWater: BlockNumber): Promise<number> {
  return guardedCommit(run, expected, function* (tx): Op<{ result: number; change: { updatedAt: number } }> {
    const result = yield* wait(tx.marks.deleteThrough(run.id, lowWater, DELETE_LIMIT))
    yield* wait(tx.commits.compact(run.id, lowWater, COMMIT_SPAN, DELETE_LIMIT))
    return { result, change: { updatedAt: run.world.now() } }
  })
}

function raiseLowWater(run: Run, expected: Expected, lowWater: BlockNumber): Promise<void> {
  // biome-ignore lint/correctness/useYield: an operation of the port, although it has nothing to wait for
  return guardedCommit(run, expected, function* () {
    const now = run.world.now()
    return { result: undefined, change: { lowWater, lowWaterAt: now, updatedAt: now } }
  })
}
