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
  const { longestTransactionMs } = run.store.capabilities
  // No clock is asked where none is needed: one that was set back would hold up an embedded store.
  if (longestTransactionMs === 0) return true
  return row.lowWaterAt !== null && run.world.now() - row.lowWaterAt >= longestTransactionMs
}

/** What a call of `forget` did. */
export interface Forgot {
  /** Whether it committed anything. */
  readonly worked: boolean
  /** Whether marks below the low-water mark may be left: `pending` of the next call. */
  readonly pending: boolean
}

/**
 * Forgets in two steps (P7): the low-water mark is committed first; marks below it are deleted by later calls, in bounded
 * pieces, once no older transaction can be open. Nothing at or below the mark is ever new again. It is not raised again
 * before those marks are gone, so what is left of them stays bounded, and the wait always ends.
 * @param pending whether marks below the low-water mark may be left; true when a process starts
 */
export async function forget(run: Run, row: WatcherRow, retention: number, pending: boolean): Promise<Forgot> {
  const expected: Expected = { cursor: row.cursor, epoch: row.epoch }
  if (pending && row.lowWater !== null) {
    if (!mayDelete(run, row)) return { worked: false, pending }
    return { worked: true, pending: (await deleteForgotten(run, expected, row.lowWater)) === DELETE_LIMIT }
  }
  const raised = nextLowWater(row, retention)
  if (raised === null) return { worked: false, pending: false }
  await raiseLowWater(run, expected, raised)
  return { worked: true, pending: true }
}

function deleteForgotten(run: Run, expected: Expected, lowWater: BlockNumber): Promise<number> {
  return guardedCommit(run, expected, function* (tx): Op<{ result: number; change: { updatedAt: number } }> {
    const result = yield* wait(tx.marks.deleteThrough(run.id, lowWater, DELETE_LIMIT))
    yield* wait(tx.commits.compact(run.id, lowWater, COMMIT_SPAN, DELETE_LIMIT))
    return { result, change: { updatedAt: run.world.now() } }
  })
}

function raiseLowWater(run: Run, expected: Expected, lowWater: BlockNumber): Promise<void> {
  return guardedCommit(run, expected, function* () {
    const now = run.world.now()
    return { result: undefined, change: { lowWater, lowWaterAt: now, updatedAt: now } }
  })
}
