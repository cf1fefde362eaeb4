import type { BlockNumber, Header } from '../chain/block.ts'
import { unionQuery } from '../chain/filter.ts'
import type { Log } from '../chain/log.ts'
import { invalidAnswer } from '../chain/parse.ts'
import { asksForSmaller, refusalOf } from '../chain/rpc-errors.ts'
import { invariant } from '../util/invariant.ts'
import { matching } from './answer.ts'
import { type BlockRange, firstSpan, grow, nextRange, type Span, shrink, thin, widthOf } from './range.ts'
import { blockTooLarge, type ChainReader, type RangeLogs, viewStale } from './reader.ts'
import type { WatchPlan } from './source.ts'

/** A range read with proof that the node which answered had its end (E0). */
export interface ProvenRange {
  readonly range: BlockRange
  /** The watcher's logs in the order of P5. */
  readonly logs: readonly Log[]
  /** Header of the range's last block, from the same request. */
  readonly end: Header
  /** Header at the height asked for, from the same request; null where the node has none, or none was asked for. */
  readonly witness: Header | null
}

export interface RangeRequest {
  readonly plan: WatchPlan
  readonly provider: number
  readonly from: BlockNumber
  /** The range ends here or earlier. */
  readonly last: BlockNumber
  /** A height whose header is wanted from the same request. */
  readonly witness: number | null
  readonly signal: AbortSignal | undefined
}

/** From 1,000,000 blocks down to one takes 20 halvings; a few more for answers that are too full. */
const MAX_TRIES = 48

/** Reads ranges of logs for watchers, each with a span of its own that follows what nodes allow and what the range holds. */
export class RangeReader {
  readonly #reader: ChainReader
  readonly #maxRange: number
  readonly #spans = new Map<string, Span>()

  constructor(reader: ChainReader, maxRange: number) {
    this.#reader = reader
    this.#maxRange = maxRange
  }

  /**
   * Reads from `from` as far as one answer goes. Refused ranges are made smaller and asked for again.
   * @throws {TidemarkError} `RPC_BLOCK_TOO_LARGE` when one block is over the node's cap; `EVIDENCE_MISSING` when the node
   * does not show that it has the range's end (C16): that is waited for, not halved and not skipped
   */
  async read(request: RangeRequest): Promise<ProvenRange> {
    const { plan, from, last } = request
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const span = this.#spans.get(plan.name) ?? firstSpan(this.#maxRange)
      const range = nextRange(span, from, last)
      const answer = await this.#ask(request, range, span)
      if (!answer) continue
      const thinner = thin(span, range, answer.logs.length, plan.maxEvents)
      if (thinner) {
        this.#spans.set(plan.name, thinner)
        continue
      }
      this.#spans.set(plan.name, grow(span, range, answer.logs.length, plan.maxEvents))
      return this.#proven(request, range, answer)
    }
    throw viewStale('A range was refused again and again.', { from, last })
  }

  /** Null: refused, and the span is smaller now. */
  async #ask(request: RangeRequest, range: BlockRange, span: Span): Promise<RangeLogs | null> {
    try {
      return await this.#send(request, request.provider, range)
    } catch (error) {
      const refusal = refusalOf(error)
      const smaller =
        refusal && (asksForSmaller(refusal) || refusal.meaning === 'unanswered') ? shrink(span, range, refusal) : null
      if (smaller) this.#spans.set(request.plan.name, smaller)
      if (!refusal || !asksForSmaller(refusal)) throw error
      return smaller ? null : this.#elsewhere(request, range, error)
    }
  }

  /** One block is over this node's cap: another provider may have a higher one (C10). */
  async #elsewhere(request: RangeRequest, range: BlockRange, refused: unknown): Promise<RangeLogs> {
    invariant(widthOf(range) === 1, 'only a single block cannot be made smaller', { ...range })
    for (const provider of this.#reader.providers.others(request.provider)) {
      try {
        return await this.#send(request, provider, range)
      } catch {
        // The next one may have it; if none has, the first refusal tells best.
      }
    }
    throw blockTooLarge(range.from, refused)
  }

  #send({ plan, witness, signal }: RangeRequest, provider: number, range: BlockRange): Promise<RangeLogs> {
    const witnesses = witness === null ? [range.to] : [range.to, witness]
    return this.#reader.range(provider, unionQuery(plan.filters), range, witnesses, signal)
  }

  #proven({ plan }: RangeRequest, range: BlockRange, answer: RangeLogs): ProvenRange {
    const end = answer.headers[0]
    if (!end) {
      this.#reader.dropView()
      throw viewStale('The node does not show that it has the end of the range.', { ...range })
    }
    const atEnd = answer.logs.find((log) => log.blockNumber === end.number && log.blockHash !== end.hash)
    if (atEnd) {
      const values = { block: end.number, hash: end.hash, other: atEnd.blockHash }
      throw invalidAnswer('The node sent logs of another block than its own header.', values)
    }
    return { range, logs: matching(plan.filters, answer.logs), end, witness: answer.headers[1] ?? null }
  }
}
