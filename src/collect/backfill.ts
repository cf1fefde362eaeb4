import type { BlockNumber } from '../chain/block.ts'
import { proveNearHead } from './near-head.ts'
import type { RangeReader } from './range-reader.ts'
import { type ChainReader, viewStale } from './reader.ts'
import { type BlocksStep, nextBlock, refOf, type Task } from './task.ts'

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
  const { plan, position, view, final, phase, signal } = task
  const from = nextBlock(task)
  const witness = position.cursor?.number ?? null
  const { range, logs, end, witness: below } = await ranges.read({ plan, provider: view.provider, from, last, witness, signal })
  if (position.cursor && below?.hash !== position.cursor.hash) {
    reader.dropView()
    throw viewStale('The node that answered does not have the cursor on its chain.', { block: witness, from: range.from })
  }
  reader.note(view, end)
  const evidence = await proveNearHead(reader, task, range, logs)
  return {
    kind: 'blocks',
    phase,
    from: range.from,
    to: refOf(end),
    logs,
    // Final already: nothing of it will be searched for a common ancestor.
    trail: [],
    finalized: final,
    head: refOf(view.head),
    evidence,
  }
}
