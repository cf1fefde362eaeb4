import type { BlockRef, Header } from '../chain/block.ts'
import { linkedPrefix } from '../chain/reorg.ts'
import { type ChainReader, viewStale } from './reader.ts'
import type { Task } from './task.ts'

/**
 * The line of headers below the head. Behind one URL there may be many nodes, and one of them may be stuck on an orphaned
 * branch: a block counts as final, or as confirmed, only if the head stands on it, parent by parent.
 *
 * Cost: one header a block between the two, 64 in a request, kept while heads link. Further down than this distance no
 * node is expected to know siblings, and nothing is asked.
 */
export const LINE_DEPTH = 1024

/** The chain under a view is not one chain: it is looked at anew. */
export function staleLine(reader: ChainReader, sentence: string, block: number): Error {
  reader.dropView()
  return viewStale(sentence, { block })
}

/**
 * The headers from a height up to the head, linked.
 * @throws {TidemarkError} `EVIDENCE_MISSING` when they do not link
 */
export async function lineToHead(reader: ChainReader, { view, signal }: Task, from: number): Promise<Header[]> {
  const numbers = Array.from({ length: Math.max(0, view.head.number - from + 1) }, (_, i) => from + i)
  const line = linkedPrefix(null, await reader.headers(view, numbers, signal))
  if (line.length < numbers.length)
    throw staleLine(reader, 'The headers up to the head do not link.', from + line.length)
  return line
}

/** Checks that the head stands on a block, when it is at most 1,024 blocks above. */
export async function checkBelowHead(reader: ChainReader, task: Task, block: BlockRef): Promise<void> {
  if (task.view.head.number - block.number >= LINE_DEPTH) return
  const [found] = await lineToHead(reader, task, block.number)
  if (found?.hash !== block.hash) throw staleLine(reader, 'The head does not stand on the block.', block.number)
}

/** Checks that the head of a view stands on the view's own `finalized` block: else its number says nothing about this branch. */
export async function checkFinalized(reader: ChainReader, task: Task): Promise<void> {
  const { finalized } = task.view
  if (finalized) await checkBelowHead(reader, task, finalized)
}
