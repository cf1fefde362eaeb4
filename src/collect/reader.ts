import type { BlockRef, Hash, Header } from '../chain/block.ts'
import { type EventFilter, type LogQuery, unionQuery } from '../chain/filter.ts'
import type { Sighting } from '../chain/finality.ts'
import type { Log } from '../chain/log.ts'
import { invalidAnswer } from '../chain/parse.ts'
import { isEmptyBloom } from '../chain/proof.ts'
import type { Providers } from '../chain/providers.ts'
import { linkedPrefix } from '../chain/reorg.ts'
import { type BlockTag, type RpcTransport, readBlocks, readHead, readHeaders, readRange } from '../chain/rpc.ts'
import { asksForSmaller, refusalOf } from '../chain/rpc-errors.ts'
import { TidemarkError } from '../errors.ts'
import { invariant } from '../util/invariant.ts'
import type { World } from '../util/world.ts'
import { readAnswer } from './answer.ts'
import { BoundedCache } from './cache.ts'
import type { BlockRange } from './range.ts'
import { SharedCall } from './shared-call.ts'

/**
 * One reader a chain for all its watchers: the head is asked for once a poll, a block's logs are fetched once for the union
 * of all filters, and everything under one view comes from one provider.
 *
 * Cost: one request a poll (the head with its tags), one for the logs of up to 12 new blocks, one for up to 64 headers.
 */

/** What one provider said the chain is. Answers under a view come from that provider alone (one view). */
export interface View extends Sighting {
  readonly head: Header
  readonly provider: number
  /** Headers by height, as this provider gave them. Kept from view to view while heads link. */
  readonly line: BoundedCache<number, Header>
  /** On the monotonic clock. */
  readonly seenAt: number
}

/** A block with its logs for the union of all filters. */
export interface BlockLogs {
  readonly header: Header
  readonly logs: readonly Log[]
}

export interface RangeLogs {
  readonly logs: readonly Log[]
  /** Headers of the witnesses, from the same request. */
  readonly headers: readonly (Header | null)[]
}

/**
 * The chain did not stay the same while it was read, or its nodes disagree. The work is begun anew under a fresh view; it
 * surfaces only when that goes on.
 */
export function viewStale(sentence: string, values: Record<string, unknown>): TidemarkError {
  return new TidemarkError('EVIDENCE_MISSING', sentence, { values })
}

const LINE_LIMIT = 4096
const HEADERS_A_REQUEST = 64
const BLOCKS_A_REQUEST = 12
/** More than the 256 replacement blocks that are fetched before a rollback. */
const BLOCK_CACHE_COUNT = 1024
const BLOCK_CACHE_BYTES = 32 * 1024 * 1024

export interface ReaderOptions {
  readonly providers: Providers
  readonly world: World
  /** Filters of all watchers of the chain. */
  readonly filters: readonly EventFilter[]
  readonly pollMs: number
}

/** Roughly what a log weighs in memory, in bytes. */
function weightOf(block: BlockLogs): number {
  return block.logs.reduce((sum, log) => sum + 600 + log.data.length + 70 * log.topics.length, 600)
}

export class ChainReader {
  readonly filters: readonly EventFilter[]
  readonly #options: ReaderOptions
  readonly #query: LogQuery
  readonly #blocks = new BoundedCache<Hash, BlockLogs>(BLOCK_CACHE_COUNT, BLOCK_CACHE_BYTES)
  /** Which provider showed a block on its own chain. */
  readonly #shownBy = new BoundedCache<Hash, number>(LINE_LIMIT)
  readonly #tags = new Set<BlockTag>()
  readonly #looking = new SharedCall<View>()
  #view: View | null = null
  #expired = false
  #lastHead: BlockRef | null = null
  #bloomSilent = false
  #tagSeen = false

  constructor(options: ReaderOptions) {
    this.#options = options
    this.filters = options.filters
    this.#query = unionQuery(options.filters)
  }

  /** The newest head seen, without asking. */
  get lastHead(): BlockRef | null {
    return this.#lastHead
  }

  /** True once a block with logs had a bloom of zeros: this chain's blooms say nothing (C17). */
  get bloomSilent(): boolean {
    return this.#bloomSilent
  }

  get providers(): Providers {
    return this.#options.providers
  }

  /** From now on each view says where this tag points. */
  want(tag: BlockTag): void {
    if (this.#tags.has(tag)) return
    this.#tags.add(tag)
    this.dropView()
  }

  /** The view of this poll. Callers at the same time share one request: at most one is in flight (C01). */
  async view(signal?: AbortSignal): Promise<View> {
    const { world, pollMs } = this.#options
    if (this.#view && !this.#expired && world.monotonic() - this.#view.seenAt < pollMs) return this.#view
    return this.#looking.run((shared) => this.#look(shared), signal)
  }

  /** Notes a header that the view's provider showed on its chain, so that it need not be asked for again. */
  note(view: View, header: Header): void {
    this.#remember(view, header)
  }

  /** The next call of `view` asks anew and trusts no header read before. Blocks by hash stay: a hash cannot change. */
  dropView(): void {
    this.#view = null
  }

  async #look(signal: AbortSignal): Promise<View> {
    const { providers, world } = this.#options
    const { value, provider } = await providers.ask((node) => readHead(node, [...this.#tags], signal), signal)
    if (value.finalized) this.#tagSeen = true
    const line = await this.#lineFor(this.#view, provider, value.head, signal)
    const view: View = { ...value, provider, line, tagSeen: this.#tagSeen, seenAt: world.monotonic() }
    this.#remember(view, value.head)
    this.#view = view
    this.#expired = false
    this.#lastHead = { number: value.head.number, hash: value.head.hash }
    return view
  }

  /** The line read so far, where the new head stands on the old one; else an empty one. */
  async #lineFor(before: View | null, provider: number, head: Header, signal: AbortSignal): Promise<View['line']> {
    const fresh = () => new BoundedCache<number, Header>(LINE_LIMIT)
    if (before === null || before.provider !== provider) return fresh()
    if (head.hash === before.head.hash) return before.line
    const gap = head.number - before.head.number
    if (gap < 1 || gap > HEADERS_A_REQUEST) return fresh()
    const between = Array.from({ length: gap - 1 }, (_, i) => before.head.number + 1 + i)
    const headers = between.length > 0 ? await this.freshHeaders(provider, between, signal) : []
    const linked = linkedPrefix(before.head, [...headers, head])
    if (linked.length < gap) return fresh()
    for (const header of linked) before.line.set(header.number, header)
    return before.line
  }

  #remember(view: View, header: Header): void {
    view.line.set(header.number, header)
    this.#shownBy.set(header.hash, view.provider)
  }

  /** The provider that showed this block on its own chain, if that was seen by this process. */
  shownBy(hash: Hash): number | undefined {
    return this.#shownBy.get(hash)
  }

  /** Headers by height under a view, in order; null above its head, and where the node has none. */
  async headers(view: View, numbers: readonly number[], signal?: AbortSignal): Promise<(Header | null)[]> {
    const missing = numbers.filter((n) => n <= view.head.number && !view.line.get(n))
    const found = new Map<number, Header | null>()
    for (let i = 0; i < missing.length; i += HEADERS_A_REQUEST) {
      const part = missing.slice(i, i + HEADERS_A_REQUEST)
      const headers = await this.#guarded(view.provider, (node) => readHeaders(node, part, signal), signal)
      for (const [k, header] of headers.entries()) {
        found.set(part[k] ?? -1, header)
        if (header) this.#remember(view, header)
      }
    }
    return numbers.map((n) => (n > view.head.number ? null : (found.get(n) ?? view.line.get(n) ?? null)))
  }

  async header(view: View, number: number, signal?: AbortSignal): Promise<Header | null> {
    return (await this.headers(view, [number], signal))[0] ?? null
  }

  /** Headers asked for again, whatever was read before. */
  async freshHeaders(provider: number, numbers: readonly number[], signal?: AbortSignal): Promise<(Header | null)[]> {
    return this.#options.providers.askOne(provider, (node) => readHeaders(node, numbers, signal), signal)
  }

  /** Blocks with their logs, in order; null where the node does not have the block any more. Cached by hash. */
  async blocks(view: View, headers: readonly Header[], signal?: AbortSignal): Promise<(BlockLogs | null)[]> {
    const missing = headers.filter((header) => !this.#blocks.get(header.hash))
    const found = new Map<Hash, BlockLogs | null>()
    for (let i = 0; i < missing.length; i += BLOCKS_A_REQUEST) {
      const part = missing.slice(i, i + BLOCKS_A_REQUEST)
      const fetched = await this.#fetchPart(view.provider, part, signal)
      for (const [k, block] of fetched.entries()) found.set(part[k]?.hash as Hash, block)
    }
    return headers.map((header) => found.get(header.hash) ?? this.#blocks.get(header.hash) ?? null)
  }

  /** A refusal does not say which of several blocks is too large, so they are asked for one by one. */
  async #fetchPart(provider: number, part: readonly Header[], signal?: AbortSignal): Promise<(BlockLogs | null)[]> {
    try {
      return await this.freshBlocks(provider, part, signal)
    } catch (error) {
      const refusal = refusalOf(error)
      if (!asksForSmaller(refusal)) throw error
      const only = part.length === 1 ? part[0] : undefined
      if (only) throw blockTooLarge(only.number, error)
      const blocks: (BlockLogs | null)[] = []
      for (const header of part) blocks.push(...(await this.#fetchPart(provider, [header], signal)))
      return blocks
    }
  }

  /** Blocks asked for again, at most 12 at once, from one provider; what it has replaces what was cached. */
  async freshBlocks(provider: number, headers: readonly Header[], signal?: AbortSignal): Promise<(BlockLogs | null)[]> {
    const hashes = headers.map((header) => header.hash)
    const work = async (node: RpcTransport) => {
      const answers = await readBlocks(node, this.#query, hashes, signal)
      return answers.map(
        (answer) => answer && this.#checked(answer.header, readAnswer(this.#asked(answer.header), answer.logs)),
      )
    }
    const blocks = await this.#guarded(provider, work, signal)
    for (const block of blocks) if (block) this.#blocks.set(block.header.hash, block, weightOf(block))
    return blocks
  }

  #asked(header: Header): { query: LogQuery; from: number; to: number } {
    return { query: this.#query, from: header.number, to: header.number }
  }

  #checked(header: Header, logs: readonly Log[]): BlockLogs {
    const first = logs[0]
    if (first && first.blockHash !== header.hash) {
      const values = { block: header.number, asked: header.hash, got: first.blockHash }
      throw invalidAnswer('The node sent logs of another block than the one asked for.', values)
    }
    if (first && header.logsBloom !== null && isEmptyBloom(header.logsBloom)) this.#bloomSilent = true
    return { header, logs }
  }

  /** Logs of blocks that turned out wrong are not used again. */
  forgetBlocks(hashes: Iterable<Hash>): void {
    for (const hash of hashes) this.#blocks.delete(hash)
  }

  /** Logs of a closed range for one query, with the headers of `witnesses` from the same request (E0). Never cached. */
  async range(
    provider: number,
    query: LogQuery,
    range: BlockRange,
    witnesses: readonly number[],
    signal?: AbortSignal,
  ): Promise<RangeLogs> {
    const work = async (node: RpcTransport) => {
      const answer = await readRange(node, query, range, witnesses, signal)
      return { headers: answer.headers, logs: readAnswer({ query, ...range }, answer.logs) }
    }
    return this.#guarded(provider, work, signal)
  }

  /** After a failure the head is looked at anew, so that the next try may follow another provider. */
  async #guarded<T>(provider: number, work: (node: RpcTransport) => Promise<T>, signal?: AbortSignal): Promise<T> {
    invariant(provider >= 0, 'a view names its provider', { provider })
    try {
      return await this.#options.providers.askOne(provider, work, signal)
    } catch (error) {
      if (!TidemarkError.has(error, 'RPC_RANGE_TOO_LARGE')) this.#expired = true
      throw error
    }
  }
}

/**
 * The error for one block that a node refuses for its size (C10): nothing smaller can be asked for. A time-out at one
 * block is a passing failure and stays what it is.
 */
export function blockTooLarge(block: number, refused: unknown): unknown {
  const refusal = refusalOf(refused)
  if (refusal?.meaning !== 'too-many-results' && refusal?.meaning !== 'response-too-large') return refused
  const values = { block, limit: refusal.hint.limit }
  return new TidemarkError('RPC_BLOCK_TOO_LARGE', `Block ${block} holds more logs than the node returns.`, {
    values,
    cause: refused,
  })
}
