import { type BlockNumber, blockNumber } from '../chain/block.ts'
import type { HandledPort } from '../store/store.ts'
import { invariant } from '../util/invariant.ts'
import { type Op, wait } from '../util/op.ts'
import type { World } from '../util/world.ts'
import type { MarkStore } from './mark-store.ts'

/** Rows deleted in one transaction: a few milliseconds of the write lock on SQLite. */
const ROWS_PER_STEP = 1_000

/** What is to be forgotten: marks of one scope that lie more than `retentionBlocks` behind their chain's cursor. */
export interface Forgetting {
  readonly scope: string
  readonly retentionBlocks: number
  /** Most rows that one call deletes. */
  readonly limit: number
}

export interface ForgottenChain {
  readonly chainId: number
  /** At or below it no event is ever new; null while the cursor is not yet `retentionBlocks` high. */
  readonly lowWater: BlockNumber | null
  readonly deleted: number
}

export interface CleanupReport {
  readonly chains: readonly ForgottenChain[]
  /** Chains with marks and without a cursor: nothing says how old their marks are, so they are kept. */
  readonly skipped: readonly number[]
  readonly deleted: number
  /** Whether `limit` was reached: call again. */
  readonly more: boolean
}

interface Mark {
  readonly chainId: number
  readonly lowWater: BlockNumber | null
}

/** Raises one chain's low-water mark. Answers undefined for a chain without a cursor. */
function* raise(handled: HandledPort, chainId: number, { scope, retentionBlocks }: Forgetting): Op<Mark | undefined> {
  const { cursor, lowWater } = yield* wait(handled.state(scope, chainId))
  if (cursor === null) return undefined
  const wanted = cursor.number - retentionBlocks
  if (wanted < 0 || (lowWater !== null && wanted <= lowWater)) return { chainId, lowWater }
  const raised = blockNumber(wanted)
  yield* wait(handled.raiseLowWater(scope, chainId, raised))
  return { chainId, lowWater: raised }
}

function* raiseAll(handled: HandledPort, plan: Forgetting): Op<{ marks: Mark[]; skipped: number[] }> {
  const marks: Mark[] = []
  const skipped: number[] = []
  for (const chainId of yield* wait(handled.chains(plan.scope))) {
    const mark = yield* raise(handled, chainId, plan)
    if (mark) marks.push(mark)
    else skipped.push(chainId)
  }
  return { marks, skipped }
}

/** Deletes the rows below one low-water mark, at most `limit`, in short transactions. Answers how many. */
async function deleteBelow(store: MarkStore, scope: string, mark: Mark, limit: number): Promise<number> {
  // A mark at exactly the low-water mark stays: it is `retentionBlocks` old, not older. Block 0 has nothing below it.
  if (mark.lowWater === null || mark.lowWater === 0) return 0
  const through = blockNumber(mark.lowWater - 1)
  let deleted = 0
  while (deleted < limit) {
    const step = Math.min(ROWS_PER_STEP, limit - deleted)
    const gone = await store.transact((tx) => wait(tx.handled.deleteThrough(scope, mark.chainId, through, step)))
    invariant(gone >= 0 && gone <= step, 'The store deleted more marks than it was asked to.', { gone, step })
    deleted += gone
    if (gone < step) break
  }
  return deleted
}

/**
 * Forgets in two steps (P7, guarantees.md "Forgetting"): first every low-water mark is raised and committed, then rows
 * are deleted in later transactions. A crash between leaves rows that the next call deletes; never the other way
 * round, where an old event would look new.
 *
 * Where writers run side by side on old snapshots, a transaction that began before the low-water mark was committed
 * may neither see it nor the rows that are then deleted; so the longest one is let pass in between. It is always waited
 * for: another process may have raised the mark a moment ago.
 */
export async function forget(store: MarkStore, plan: Forgetting, world: World): Promise<CleanupReport> {
  const { marks, skipped } = await store.transact((tx) => raiseAll(tx.handled, plan))
  const { longestTransactionMs } = store.capabilities
  if (longestTransactionMs > 0) await world.sleep(longestTransactionMs)
  const chains: ForgottenChain[] = []
  let left = plan.limit
  for (const mark of marks) {
    const deleted = await deleteBelow(store, plan.scope, mark, left)
    left -= deleted
    chains.push({ ...mark, deleted })
  }
  return { chains, skipped, deleted: plan.limit - left, more: left === 0 }
}
