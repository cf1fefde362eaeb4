import type { Header } from '../chain/block.ts'
import type { Log } from '../chain/log.ts'
import { bloomMayContain } from '../chain/proof.ts'
import { linkedPrefix } from '../chain/reorg.ts'
import { matching } from './answer.ts'
import type { BlockRange } from './range.ts'
import { type ChainReader, viewStale } from './reader.ts'
import type { Evidence } from './source.ts'
import { nextBlock, type Task } from './task.ts'

/**
 * Closer proof for the part of a final range that is near the head, where nodes still know siblings and may not have indexed
 * everything: all headers of it, linked from the cursor up; each log's block is the one in the line; no block is empty
 * against its bloom (E1). A watcher at `finalized` has no sweep, so what is withheld here would be lost.
 *
 * Cost: one header a block, 64 in a request; below this distance none.
 */
const NEAR = 1024

function stale(reader: ChainReader, sentence: string, block: number): Error {
  reader.dropView()
  return viewStale(sentence, { block })
}

async function lineOf(reader: ChainReader, task: Task, first: number, last: number): Promise<Header[]> {
  const numbers = Array.from({ length: last - first + 1 }, (_, i) => first + i)
  const base = first === nextBlock(task) ? task.position.cursor : null
  const line = linkedPrefix(base, await reader.headers(task.view, numbers, task.signal))
  if (line.length < numbers.length) throw stale(reader, 'The headers of the range do not link.', first + line.length)
  return line
}

function checkHashes(reader: ChainReader, line: readonly Header[], logs: readonly Log[]): void {
  const hashes = new Map<number, string>(line.map((header) => [header.number, header.hash]))
  const strange = logs.find((log) => hashes.has(log.blockNumber) && hashes.get(log.blockNumber) !== log.blockHash)
  if (strange) throw stale(reader, 'The range holds logs of a block that is not in the line.', strange.blockNumber)
}

/** Blocks without the watcher's logs, though their bloom says "perhaps", are asked for by hash. */
async function checkEmpty(reader: ChainReader, task: Task, line: readonly Header[], logs: readonly Log[]): Promise<void> {
  const withLogs = new Set<string>(logs.map((log) => log.blockHash))
  const { filters } = task.plan
  const doubtful = line.filter(
    ({ hash, logsBloom }) => !withLogs.has(hash) && logsBloom !== null && bloomMayContain(logsBloom, filters),
  )
  const blocks = reader.bloomSilent ? [] : await reader.blocks(task.view, doubtful, task.signal)
  for (const [i, block] of blocks.entries()) {
    const left = block === null || matching(filters, block.logs).length > 0
    if (left) throw stale(reader, 'The range left out logs of a block.', doubtful[i]?.number ?? -1)
  }
}

/**
 * @returns the evidence for the whole range: E1 when all of it was near the head
 * @throws {TidemarkError} `EVIDENCE_MISSING` when the answer and the headers do not agree: the range is asked for again
 */
export async function proveNearHead(
  reader: ChainReader,
  task: Task,
  range: BlockRange,
  logs: readonly Log[],
): Promise<Evidence> {
  const first = Math.max(range.from, task.view.head.number - NEAR + 1)
  if (first > range.to) return 'E0'
  const line = await lineOf(reader, task, first, range.to)
  checkHashes(reader, line, logs)
  await checkEmpty(reader, task, line, logs)
  const known = !reader.bloomSilent && line.every((header) => header.logsBloom !== null)
  return first === range.from && known ? 'E1' : 'E0'
}
