import { type BlockNumber, type BlockRef, blockNumber, type Hash, type Header } from '../chain/block.ts'
import type { Log } from '../chain/log.ts'
import { isProviderFault } from '../chain/rpc-errors.ts'
import { invariant } from '../util/invariant.ts'
import { matching } from './answer.ts'
import { checkBelowHead, LINE_DEPTH, lineToHead, staleLine } from './line.ts'
import type { RangeReader } from './range-reader.ts'
import type { BlockLogs, ChainReader } from './reader.ts'
import type { AppliedEvent, SourceStep } from './source.ts'
import { finalityAt, refOf, remembered, settledLine, type Task } from './task.ts'

/**
 * The cross-check before blocks settle: what the chain holds, read anew by range once it is final, against what was
 * applied. It finds logs that a node withheld while the block was fresh, and phantoms (C17, C30). Cost: one request for
 * up to 2,048 blocks, and the line of headers to the head; a second reading only of blocks in which the first differs.
 */

/** Gives logs their stable ids: `dedup/identity.ts`, handed in, since this folder comes before that one. */
export type Identify = (
  chainId: number,
  logs: readonly Log[],
) => readonly { readonly log: Log; readonly stableId: string }[]

export interface SweepParts {
  readonly reader: ChainReader
  readonly ranges: RangeReader
  readonly chainId: number
  readonly identify: Identify
}

/** Blocks in one settle step, where a remembered block allows it. */
const MAX_BLOCKS = 2048
const BLOCKS_A_ROUND = 12

function keyOf(event: AppliedEvent): string {
  return `${event.blockNumber}/${event.blockHash}/${event.stableId}`
}

/** The blocks in which two readings differ, lowest first. */
export function differingBlocks(a: readonly AppliedEvent[], b: readonly AppliedEvent[]): number[] {
  const inA = new Set(a.map(keyOf))
  const inB = new Set(b.map(keyOf))
  const different = [...a.filter((one) => !inB.has(keyOf(one))), ...b.filter((one) => !inA.has(keyOf(one)))]
  return [...new Set(different.map((one) => one.blockNumber as number))].sort((x, y) => x - y)
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
  return eventsOf(parts, task, logs)
}

/** What the watcher makes of logs: a log that it passes over has no mark, and is no difference. */
function eventsOf(parts: SweepParts, { plan }: Task, logs: readonly Log[]): AppliedEvent[] {
  const identified = parts.identify(parts.chainId, logs).filter(({ log }) => plan.accepts?.(log) ?? true)
  return identified.map(({ log, stableId }) => {
    return { blockNumber: log.blockNumber, blockHash: log.blockHash, stableId }
  })
}

/** The headers of some heights, on the line below the head where that is near enough to check. */
async function headersOf(parts: SweepParts, task: Task, numbers: readonly number[]): Promise<Header[]> {
  const lowest = numbers[0] ?? 0
  if (task.view.head.number - lowest < LINE_DEPTH) await lineToHead(parts.reader, task, lowest)
  const headers = await parts.reader.headers(task.view, numbers, task.signal)
  if (headers.includes(null)) throw staleLine(parts.reader, 'The node lacks a block below its head.', lowest)
  return headers as Header[]
}

/** Second readings, by hash: of another provider where there is one that has the block, else of the same one. */
async function readByHash(parts: SweepParts, task: Task, headers: readonly Header[]): Promise<AppliedEvent[]> {
  const { reader } = parts
  const { view, plan, signal } = task
  const other = reader.providers.others(view.provider)[0]
  const second = other === undefined ? null : await reader.freshBlocks(other, headers, signal).catch(passFault)
  const blocks = second && !second.includes(null) ? second : await reader.freshBlocks(view.provider, headers, signal)
  if (blocks.includes(null)) throw staleLine(reader, 'The node no longer has a final block.', headers[0]?.number ?? 0)
  return eventsOf(
    parts,
    task,
    matching(
      plan.filters,
      (blocks as BlockLogs[]).flatMap((block) => block.logs),
    ),
  )
}

function passFault(error: unknown): null {
  if (isProviderFault(error)) return null
  throw error
}

/**
 * The lowest block in which what was applied is wrong; null: the first reading was. A difference counts when a second
 * reading agrees with the first; a second one that agrees with what was applied clears the block, as on chains where nodes
 * leave logs out of long ranges (C33).
 */
async function wrongBlock(
  parts: SweepParts,
  task: Task,
  found: readonly AppliedEvent[],
  applied: readonly AppliedEvent[],
): Promise<number | null> {
  const different = differingBlocks(found, applied)
  for (let i = 0; i < different.length; i += BLOCKS_A_ROUND) {
    const numbers = different.slice(i, i + BLOCKS_A_ROUND)
    const second = await readByHash(parts, task, await headersOf(parts, task, numbers))
    const within = (one: AppliedEvent) => numbers.includes(one.blockNumber)
    const wrong = differingBlocks(second, applied.filter(within))[0]
    if (wrong === undefined) continue
    const disputed = differingBlocks(second, found.filter(within))
    if (disputed.includes(wrong)) throw staleLine(parts.reader, 'Two readings of a final block differ.', wrong)
    return wrong
  }
  return null
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

/**
 * Settles the next blocks that are final, or takes back what does not agree. Null: there is nothing to settle.
 * @throws {TidemarkError} `EVIDENCE_MISSING` when two readings differ from each other and from what was applied: which one
 * is right cannot be told, so nothing is settled and nothing taken back
 */
export async function sweep(parts: SweepParts, task: Task): Promise<SourceStep | null> {
  const to = settleTo(task)
  if (!to) return null
  await checkBelowHead(parts.reader, task, to)
  const from = blockNumber(settledLine(task) + 1)
  const found = await readAnew(parts, task, task.view.provider, to)
  const applied = await task.position.applied(from, to.number)
  const wrong = await wrongBlock(parts, task, found, applied)
  if (wrong === null) return settled(task, to.number)
  parts.reader.forgetBlocks([...found, ...applied].map((event) => event.blockHash as Hash))
  return { kind: 'rollback', to: await standingBelow(parts, task, wrong), why: 'sweep', head: refOf(task.view.head) }
}

function settled(task: Task, upTo: BlockNumber): SourceStep {
  invariant(task.final !== null && upTo <= task.final, 'only final blocks settle', { upTo, final: task.final })
  const finalized = finalityAt(task, task.position.cursor?.number ?? upTo) ?? upTo
  return { kind: 'settle', upTo, finalized, head: refOf(task.view.head) }
}
