import type { BlockNumber } from '../chain/block.ts'
import { staleLine } from './line.ts'
import { proveNearHead } from './near-head.ts'
import type { RangeReader } from './range-reader.ts'
import type { ChainReader } from './reader.ts'
import { type BlocksStep, finalityAt, nextBlock, refOf, type Task } from './task.ts'

/**
 * Final ranges, fast: one request a range. The same request brings the header of the range's end (E0) and the header at
 * the cursor's height: if that is not the cursor, the chain below is not the one that was applied.
 */
export async function backfill(
  reader: ChainReader,
  ranges: RangeReader,
  task: Task,
  last: BlockNumber,
): Promise<BlocksStep> {
  const { plan, position, view, phase, signal } = task
  const from = nextBlock(task)
  const witness = position.cursor?.number ?? null
  const proven = await ranges.read({ plan, provider: view.provider, from, last, witness, signal })
  const { range, logs, end } = proven
  if (position.cursor && proven.witness?.hash !== position.cursor.hash) {
    throw staleLine(reader, 'The node that answered does not have the cursor on its chain.', position.cursor.number)
  }
  const evidence = await proveNearHead(reader, task, proven)
  reader.note(view, end)
  return {
    kind: 'blocks',
    phase,
    from: range.from,
    to: refOf(end),
    logs,
    // Final already: nothing of it will be searched for a common ancestor.
    trail: [],
    finalized: finalityAt(task, end.number),
    head: refOf(view.head),
    evidence,
  }
}
