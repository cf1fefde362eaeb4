import type { BlockNumber, BlockRef, Header } from '../chain/block.ts'
import type { Log } from '../chain/log.ts'
import { bloomHoldsAll, bloomMayContain } from '../chain/proof.ts'
import { linkedPrefix } from '../chain/reorg.ts'
import { matching } from './answer.ts'
import type { EmptyBlocks } from './empty.ts'
import { checkBelowHead, staleLine } from './line.ts'
import type { BlockLogs, ChainReader } from './reader.ts'
import type { Evidence } from './source.ts'
import { type BlocksStep, finalityAt, nextBlock, refOf, type Task } from './task.ts'

/**
 * Unfinal blocks: header by number, linked to the cursor by parent hash, logs by block hash with the header in the same
 * request (E0). Several small blocks go into one step.
 */

/** Most blocks in one step. */
const MAX_BLOCKS = 64
const BLOCKS_A_ROUND = 12
/** Besides blocks with logs and the tip, every 16th block is remembered. */
const TRAIL_EVERY = 16

function numbersFrom(first: number, last: number): number[] {
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => first + i)
}

function evidenceOf(reader: ChainReader, { header, logs }: BlockLogs): Evidence {
  if (header.logsBloom === null || reader.bloomSilent) return 'E0'
  const agrees =
    logs.length > 0 ? bloomHoldsAll(header.logsBloom, logs) : !bloomMayContain(header.logsBloom, reader.filters)
  return agrees ? 'E1' : 'E0'
}

/** Headers above the cursor that link, the first of them to the cursor itself. Empty: the node is behind. */
async function linkedHeaders(reader: ChainReader, task: Task, last: number): Promise<Header[]> {
  const { position, view, signal } = task
  const first = nextBlock(task)
  const headers = await reader.headers(view, numbersFrom(first, Math.min(last, first + MAX_BLOCKS - 1)), signal)
  if (!headers[0]) return []
  const linked = linkedPrefix(position.cursor, headers)
  if (linked.length > 0) return linked
  throw staleLine(reader, 'The next block does not stand on the cursor.', first)
}

/** Blocks with their logs, until there are enough events or a block is no longer known. */
async function readBlocks(
  reader: ChainReader,
  empties: EmptyBlocks,
  task: Task,
  headers: readonly Header[],
): Promise<BlockLogs[]> {
  const { view, plan, signal } = task
  const blocks: BlockLogs[] = []
  let events = 0
  for (let i = 0; i < headers.length && events < plan.maxEvents; i += BLOCKS_A_ROUND) {
    const round = await reader.blocks(view, headers.slice(i, i + BLOCKS_A_ROUND), signal)
    const gap = round.indexOf(null)
    const known = (gap < 0 ? round : round.slice(0, gap)) as BlockLogs[]
    const checked = await empties.check(view, known, signal)
    blocks.push(...checked)
    events += checked.reduce((sum, block) => sum + matching(plan.filters, block.logs).length, 0)
    if (gap >= 0) break
  }
  if (blocks.length > 0) return blocks
  throw staleLine(reader, 'The node no longer has the block that it named.', nextBlock(task))
}

/** The cursor below is remembered too, when it is not yet: it is the last block on which both branches may agree. */
function trailOf(task: Task, blocks: readonly BlockLogs[], logs: readonly Log[]): BlockRef[] {
  const withLogs = new Set(logs.map((log) => log.blockHash))
  const tip = blocks.at(-1)
  const kept = blocks.filter(
    (block) => block === tip || block.header.number % TRAIL_EVERY === 0 || withLogs.has(block.header.hash),
  )
  const { cursor, trail } = task.position
  const base = cursor && !trail.some((block) => block.number === cursor.number) ? [refOf(cursor)] : []
  return [...base, ...kept.map((block) => refOf(block.header))]
}

/** The next unfinal blocks up to `last`. Null: the node does not have the next block yet. */
export async function follow(
  reader: ChainReader,
  empties: EmptyBlocks,
  task: Task,
  last: BlockNumber,
): Promise<BlocksStep | null> {
  const headers = await linkedHeaders(reader, task, last)
  const top = headers.at(-1)
  if (!top) return null
  // Confirmations are counted on a line: the head that confirms a block stands on it.
  if (typeof task.plan.at === 'object') await checkBelowHead(reader, task, top)
  const blocks = await readBlocks(reader, empties, task, headers)
  const logs = matching(
    task.plan.filters,
    blocks.flatMap((block) => block.logs),
  )
  const tip = blocks.at(-1)?.header ?? top
  return {
    kind: 'blocks',
    phase: 'live',
    from: nextBlock(task),
    to: refOf(tip),
    logs,
    trail: trailOf(task, blocks, logs),
    finalized: finalityAt(task, tip.number),
    head: refOf(task.view.head),
    evidence: blocks.every((block) => evidenceOf(reader, block) === 'E1') ? 'E1' : 'E0',
  }
}
