import type { BlockRef, Header } from '../chain/block.ts'
import type { Log } from '../chain/log.ts'
import { bloomMayContain } from '../chain/proof.ts'
import { matching } from './answer.ts'
import { LINE_DEPTH, lineToHead, staleLine } from './line.ts'
import type { ProvenRange } from './range-reader.ts'
import type { ChainReader } from './reader.ts'
import type { Evidence } from './source.ts'
import { nextBlock, type Task } from './task.ts'

/**
 * Closer proof for the part of a final range that is near the head, where nodes still know siblings and may not have
 * indexed everything: the head stands on it; each log's block is the one in the line; no block is empty against its
 * bloom (E1). A watcher at `finalized` has no sweep, so what is withheld here would be lost.
 *
 * Cost: the line to the head, and the logs of those blocks whose bloom says "perhaps" while the range has none of them.
 */

/** What one request for blocks by hash may hold. */
const BLOCKS_A_ROUND = 12

function checkHashes(reader: ChainReader, line: readonly Header[], logs: readonly Log[]): void {
  const hashes = new Map<number, string>(line.map((header) => [header.number, header.hash]))
  const strange = logs.find((log) => hashes.has(log.blockNumber) && hashes.get(log.blockNumber) !== log.blockHash)
  if (strange) throw staleLine(reader, 'The range holds logs of a block that is not in the line.', strange.blockNumber)
}

/** The range begins on the cursor and ends on the block that its own answer named. */
function checkEnds(reader: ChainReader, line: readonly Header[], end: BlockRef, task: Task): void {
  const first = line[0]
  const { cursor } = task.position
  if (cursor && first?.number === nextBlock(task) && first.parentHash !== cursor.hash) {
    throw staleLine(reader, 'The range does not stand on the cursor.', first.number)
  }
  const top = line.find((header) => header.number === end.number)
  if (top?.hash !== end.hash) throw staleLine(reader, 'The head does not stand on the end of the range.', end.number)
}

/** Blocks without the watcher's logs, though their bloom says "perhaps", are asked for by hash. */
async function checkEmpty(
  reader: ChainReader,
  task: Task,
  line: readonly Header[],
  logs: readonly Log[],
): Promise<void> {
  const withLogs = new Set<string>(logs.map((log) => log.blockHash))
  const { filters } = task.plan
  const doubtful = line.filter(
    ({ hash, logsBloom }) => !withLogs.has(hash) && logsBloom !== null && bloomMayContain(logsBloom, filters),
  )
  if (reader.bloomSilent) return
  for (let at = 0; at < doubtful.length; at += BLOCKS_A_ROUND) {
    const round = doubtful.slice(at, at + BLOCKS_A_ROUND)
    // Asked for anew: a list that was empty while the block was fresh, and was cached for another watcher, proves nothing.
    const blocks = await reader.freshBlocks(task.view.provider, round, task.signal)
    const left = blocks.findIndex((block) => block === null || matching(filters, block.logs).length > 0)
    if (left >= 0) throw staleLine(reader, 'The range left out logs of a block.', round[left]?.number ?? -1)
  }
}

/**
 * @returns the evidence for the whole range: E1 when all of it was near the head
 * @throws {TidemarkError} `EVIDENCE_MISSING` when the answer and the headers do not agree: the range is asked for again
 */
export async function proveNearHead(
  reader: ChainReader,
  task: Task,
  { range, logs, end }: ProvenRange,
): Promise<Evidence> {
  const first = Math.max(range.from, task.view.head.number - LINE_DEPTH + 1)
  if (first > range.to) return 'E0'
  const line = await lineToHead(reader, task, first)
  checkEnds(reader, line, end, task)
  checkHashes(reader, line, logs)
  const own = line.filter((header) => header.number <= range.to)
  await checkEmpty(reader, task, own, logs)
  const known = !reader.bloomSilent && own.every((header) => header.logsBloom !== null)
  return first === range.from && known ? 'E1' : 'E0'
}
