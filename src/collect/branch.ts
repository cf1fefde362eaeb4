import type { BlockRef, Hash, Header } from '../chain/block.ts'
import { targetBlock } from '../chain/finality.ts'
import { commonAncestor, linkedPrefix, orphaned } from '../chain/reorg.ts'
import { isProviderFault } from '../chain/rpc-errors.ts'
import { TidemarkError } from '../errors.ts'
import type { GenesisCheck } from './genesis.ts'
import { LINE_DEPTH, staleLine } from './line.ts'
import type { ChainReader } from './reader.ts'
import type { SourceStep } from './source.ts'
import { refOf, remembered, settledLine, type Task } from './task.ts'

/**
 * Whether the cursor is still on the chain, and the way back when it is not. A lower head is no reorg: hashes decide
 * (C02, C20). Nothing is given up before the replacement is on hand, linked block by block.
 */

/** Replacement blocks that are fetched before a rollback. */
const MAX_REPLACEMENT = 256
const HEADERS_A_REQUEST = 64

export type Standing = 'held' | 'gone' | 'behind'

/** Where the cursor stands on the chain. The check has no limit of distance (C21, C24). */
export async function standing(reader: ChainReader, task: Task): Promise<Standing> {
  const { position, view, signal } = task
  if (position.cursor === null) return 'held'
  const block = remembered(task).find((one) => one.number <= view.head.number)
  if (!block) return 'behind'
  const header = await reader.header(view, block.number, signal)
  if (!header) return 'behind'
  if (header.hash !== block.hash) return 'gone'
  return block.number >= position.cursor.number ? 'held' : 'behind'
}

/**
 * Another provider's sibling is followed only once it is higher than what was applied: two providers on sibling forks
 * must not make the watcher flip.
 */
function isSibling(reader: ChainReader, { position, view }: Task): boolean {
  if (position.cursor === null) return false
  const shownBy = reader.shownBy(position.cursor.hash)
  return shownBy !== undefined && shownBy !== view.provider && view.head.number <= position.cursor.number
}

async function ancestorOf(reader: ChainReader, task: Task): Promise<BlockRef | null> {
  const blocks = remembered(task)
  const chain = new Map<number, Hash | null>()
  for (const block of blocks) if (block.number > task.view.head.number) chain.set(block.number, null)
  for (;;) {
    const search = commonAncestor(blocks, chain)
    if (search.kind === 'found') return search.block
    if (search.kind === 'none') return null
    const headers = await reader.headers(task.view, search.numbers, task.signal)
    for (const [i, header] of headers.entries()) {
      const number = search.numbers[i] ?? -1
      if (!header) throw staleLine(reader, 'The node lacks a block below its head.', number)
      chain.set(number, header.hash)
    }
  }
}

/** The chain above the ancestor, linked, at most 256 blocks: up to the head where that is near enough. */
async function replacementOf(reader: ChainReader, task: Task, ancestor: BlockRef | null): Promise<Header[]> {
  const { plan, view, signal } = task
  const from = ancestor ? ancestor.number + 1 : plan.startBlock
  const count = Math.max(0, Math.min(view.head.number - from + 1, MAX_REPLACEMENT))
  const numbers = Array.from({ length: count }, (_, i) => from + i)
  const headers = linkedPrefix(ancestor, await reader.headers(view, numbers, signal))
  if (headers.length < count) throw staleLine(reader, 'The replacement blocks do not link.', from + headers.length)
  return headers
}

function lineOf({ finalized, settled }: Task['position']): number {
  return Math.max(finalized ?? -1, settled ?? -1)
}

/**
 * The block because of which a rollback is not allowed; undefined: it is allowed. Judged against the finality stored with
 * the commits, not against what the chain says today.
 */
async function forbidden(task: Task, ancestor: BlockRef | null): Promise<BlockRef | undefined> {
  const { plan, position } = task
  const given = orphaned(remembered(task), ancestor)
  const final = given.find((block) => block.number <= lineOf(position))
  if (final && !position.reorgAccepted) return final
  const below = ancestor === null ? plan.startBlock - 1 : ancestor.number
  if (below < settledLine(task)) return given[0]
  if (plan.keepsUndo || position.reorgAccepted || position.cursor === null) return undefined
  // Without undo a rollback over blocks without effects loses nothing; over effects it would.
  const first = (await position.applied((below + 1) as BlockRef['number'], position.cursor.number))[0]
  return first && { number: first.blockNumber, hash: first.blockHash as Hash }
}

/**
 * A halt needs a person, so it is made sure of: the other block is asked for anew with the line of headers from it up to
 * the head, and another provider is asked where there is one.
 */
async function confirmGone(reader: ChainReader, task: Task, ours: BlockRef): Promise<Header> {
  const theirs = (await freshLine(reader, task, ours.number))[0]
  if (!theirs || theirs.hash === ours.hash)
    throw staleLine(reader, 'The node contradicts itself about a block.', ours.number)
  const { view, signal } = task
  for (const other of reader.providers.others(view.provider).slice(0, 1)) {
    if (!(await alsoHas(reader, other, ours, signal))) continue
    reader.providers.distrust(view.provider)
    throw staleLine(reader, 'Two providers disagree about a block that must not change.', ours.number)
  }
  return theirs
}

/** Headers from a height up to the head, at most 1,024, asked for anew and linked. */
async function freshLine(reader: ChainReader, { view, signal }: Task, from: number): Promise<Header[]> {
  const last = Math.min(view.head.number, from + LINE_DEPTH - 1)
  const line: (Header | null)[] = []
  for (let n = from; n <= last; n += HEADERS_A_REQUEST) {
    const numbers = Array.from({ length: Math.min(HEADERS_A_REQUEST, last - n + 1) }, (_, i) => n + i)
    line.push(...(await reader.freshHeaders(view.provider, numbers, signal)))
  }
  const linked = linkedPrefix(null, line)
  const top = linked.at(-1)
  const reaches = last < view.head.number || top?.hash === view.head.hash
  if (linked.length < line.length || !reaches) throw staleLine(reader, 'The headers up to the head do not link.', from)
  return linked
}

async function alsoHas(reader: ChainReader, provider: number, ours: BlockRef, signal?: AbortSignal): Promise<boolean> {
  try {
    return (await reader.freshHeaders(provider, [ours.number], signal))[0]?.hash === ours.hash
  } catch (error) {
    if (isProviderFault(error)) return false
    throw error
  }
}

/**
 * Whether the other chain has buried the block itself: by its own finality, or by the confirmations asked for. A node that
 * is stuck on an old sibling at the height of a final block is behind, and proves nothing.
 */
function isBuried({ plan, position, view, claim }: Task, block: BlockRef): boolean {
  const byUser = typeof plan.at === 'object' && block.number > lineOf(position)
  const shown = byUser ? targetBlock(plan.at, view, null) : claim
  return shown !== null && shown >= block.number
}

type Verdict = 'allowed' | 'behind'

async function guard(reader: ChainReader, task: Task, ancestor: BlockRef | null): Promise<Verdict> {
  const ours = await forbidden(task, ancestor)
  if (!ours) return 'allowed'
  if (!isBuried(task, ours)) return 'behind'
  const theirs = await confirmGone(reader, task, ours)
  const { plan, position } = task
  const values = {
    watcher: plan.name,
    block: ours.number,
    applied: ours.hash,
    found: theirs.hash,
    finalized: position.finalized,
    settled: position.settled,
  }
  if (typeof plan.at === 'object' && !plan.keepsUndo) {
    throw new TidemarkError('REORG_BELOW_CONFIRMATIONS', `Block ${ours.number} was replaced after its confirmations.`, {
      values,
    })
  }
  throw new TidemarkError('REORG_BELOW_FINALITY', `Block ${ours.number} was final, and was replaced.`, { values })
}

/** Puts the replacement blocks up to the old cursor into the cache. */
async function fetchAhead(reader: ChainReader, task: Task, headers: readonly Header[]): Promise<void> {
  const cursor = task.position.cursor?.number ?? -1
  const wanted = headers.filter((header) => header.number <= cursor)
  const blocks = await reader.blocks(task.view, wanted, task.signal)
  const gap = blocks.indexOf(null)
  if (gap >= 0) throw staleLine(reader, 'The node no longer has a replacement block.', wanted[gap]?.number ?? -1)
}

/**
 * The step back to the newest remembered block on the chain. Null: the node is behind, and is waited for.
 * @throws {TidemarkError} `REORG_BELOW_FINALITY`, `REORG_BELOW_CONFIRMATIONS`, `CHAIN_MISMATCH`: halts
 */
export async function rollback(reader: ChainReader, genesis: GenesisCheck, task: Task): Promise<SourceStep | null> {
  if (isSibling(reader, task)) return null
  const ancestor = await ancestorOf(reader, task)
  if (!ancestor) await genesis.check(task.view, true, task.signal)
  // With nothing in common and something settled there is no way back: the guard says so without a replacement.
  const lost = ancestor === null && task.position.settled !== null
  const replacement = lost ? [] : await replacementOf(reader, task, ancestor)
  if ((await guard(reader, task, ancestor)) === 'behind') return null
  await fetchAhead(reader, task, replacement)
  return { kind: 'rollback', to: ancestor, why: 'reorg', head: refOf(task.view.head) }
}
