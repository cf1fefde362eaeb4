import { type BlockNumber, type BlockRef, blockNumber, type Hash } from '../chain/block.ts'
import type { Log } from '../chain/log.ts'
import { isProviderFault } from '../chain/rpc-errors.ts'
import { invariant } from '../util/invariant.ts'
import { checkBelowHead, staleLine } from './line.ts'
import type { RangeReader } from './range-reader.ts'
import type { ChainReader } from './reader.ts'
import type { AppliedEvent, SourceStep } from './source.ts'
import { refOf, remembered, settledLine, type Task } from './task.ts'

/**
 * The cross-check before blocks settle: what the chain holds, read anew by range once it is final, against what was
 * applied. It finds logs that a node withheld while the block was fresh, and phantoms (C17, C30). Cost: one request for
 * up to 2,048 blocks; a second reading only when the first differs.
 */

/** Gives logs their stable ids: `dedup/identity.ts`, handed in, since this folder comes before that one. */
export type Identify = (chainId: number, logs: readonly Log[]) => readonly { readonly log: Log; readonly stableId: string }[]

export interface SweepParts {
  readonly reader: ChainReader
  readonly ranges: RangeReader
  readonly chainId: number
  readonly identify: Identify
}

/** Blocks in one settle step, where a remembered block allows it. */
const MAX_BLOCKS = 2048

function keyOf(event: AppliedEvent): string {
  return `${event.blockNumber}/${event.blockHash}/${event.stableId}`
}

/** The lowest block in which two readings differ; null: they are equal. */
export function firstDifference(a: readonly AppliedEvent[], b: readonly AppliedEvent[]): number | null {
  const inA = new Set(a.map(keyOf))
  const inB = new Set(b.map(keyOf))
  const different = [...a.filter((one) => !inB.has(keyOf(one))), ...b.filter((one) => !inA.has(keyOf(one)))]
  return different.length === 0 ? null : different.reduce((low, one) => Math.min(low, one.blockNumber), Number.POSITIVE_INFINITY)
}

/**
 * The block to settle up to: a remembered one, so that its hash stays known when undo is trimmed. Null: nothing to settle.
 */
function settleTo(task: Task): BlockRef | null {
  const { position, final } = task
  if (final === null || position.cursor === null) return null
  const base = settledLine(task)
  const limit = Math.min(final, position.cursor.number)
  const choices = remembered(task).filter((block) => block.number > base && block.number <= limit)
  return choices.find((block) => block.number <= base + MAX_BLOCKS) ?? choices.at(-1) ?? null
}

/** Reads the blocks above the settled line from one provider, never from a cache. */
async function readAnew(parts: SweepParts, task: Task, provider: number, to: BlockRef): Promise<AppliedEvent[]> {
  const { plan, position, signal } = task
  const { cursor } = position
  invariant(cursor, 'only applied blocks are swept')
  const logs: Log[] = []
  for (let from = settledLine(task) + 1; from <= to.number; ) {
    const request = { plan, provider, from: blockNumber(from), last: to.number, witness: cursor.number, signal }
    const { range, logs: found, end, witness } = await parts.ranges.read(request)
    // With the cursor on the node's chain, every block below it is the one that was applied.
    if (witness?.hash !== cursor.hash || (end.number === to.number && end.hash !== to.hash)) {
      throw staleLine(parts.reader, 'The node that answered does not have the cursor on its chain.', cursor.number)
    }
    logs.push(...found)
    from = range.to + 1
  }
  return parts.identify(parts.chainId, logs).map(({ log, stableId }) => {
    return { blockNumber: log.blockNumber, blockHash: log.blockHash, stableId }
  })
}

/** A second reading: by another provider where there is one that can answer, else by the same one again. */
async function readAgain(parts: SweepParts, task: Task, to: BlockRef): Promise<AppliedEvent[]> {
  const other = parts.reader.providers.others(task.view.provider)[0]
  if (other === undefined) return readAnew(parts, task, task.view.provider, to)
  try {
    return await readAnew(parts, task, other, to)
  } catch (error) {
    if (!isProviderFault(error)) throw error
    return readAnew(parts, task, task.view.provider, to)
  }
}

/** The newest remembered block below `block`; null: the block before the start block. */
async function standingBelow(parts: SweepParts, task: Task, block: number): Promise<BlockRef | null> {
  const line = task.position.settled
  const kept = remembered(task).find((one) => one.number < block && one.number >= settledLine(task))
  if (kept || line === null) return kept ?? null
  // The cursor is on the chain, so the chain's block at the settled line is the one that was settled.
  const header = await parts.reader.header(task.view, line, task.signal)
  if (!header) throw staleLine(parts.reader, 'The node does not have the settled block.', line)
  return refOf(header)
}

async function correct(
  parts: SweepParts,
  task: Task,
  readings: readonly (readonly AppliedEvent[])[],
  block: number,
): Promise<SourceStep> {
  parts.reader.forgetBlocks(readings.flat().map((event) => event.blockHash as Hash))
  const to = await standingBelow(parts, task, block)
  return { kind: 'rollback', to, why: 'sweep', head: refOf(task.view.head) }
}

/**
 * Settles the next blocks that are final, or takes back what does not agree. Null: there is nothing to settle.
 * @throws {TidemarkError} `EVIDENCE_MISSING` when two readings differ from each other: which one is right cannot be told,
 * so nothing is settled and nothing taken back
 */
export async function sweep(parts: SweepParts, task: Task): Promise<SourceStep | null> {
  const to = settleTo(task)
  if (!to) return null
  await checkBelowHead(parts.reader, task, to)
  const from = blockNumber(settledLine(task) + 1)
  const found = await readAnew(parts, task, task.view.provider, to)
  const applied = await task.position.applied(from, to.number)
  const block = firstDifference(found, applied)
  if (block === null) return settled(task, to.number)
  const again = await readAgain(parts, task, to)
  if (firstDifference(found, again) !== null) {
    throw staleLine(parts.reader, 'Two readings of final blocks differ.', block)
  }
  return correct(parts, task, [found, applied], block)
}

function settled(task: Task, upTo: BlockNumber): SourceStep {
  invariant(task.final !== null && upTo <= task.final, 'only final blocks settle', { upTo, final: task.final })
  return { kind: 'settle', upTo, finalized: task.final, head: refOf(task.view.head) }
}
