import type { BlockNumber } from '../chain/block.ts'
import type { Refusal } from '../chain/rpc-errors.ts'
import { invariant } from '../util/invariant.ts'

/**
 * How many blocks to ask for at once. Pure: state in, state out. A span shrinks when a node refuses it, never because of
 * a rate limit, and grows again after successes, up to the configured ceiling (C14).
 */

/** A closed range of blocks. */
export interface BlockRange {
  readonly from: BlockNumber
  readonly to: BlockNumber
}

export interface Span {
  /** Blocks that the next range may hold. */
  readonly blocks: number
  /** The configured limit, or what a node stated as its limit (`Max range: 800`). */
  readonly ceiling: number
  /** Just below the last span that was refused; lifted after a run of successes. */
  readonly caution: number
  /** Successes since the last refusal. */
  readonly run: number
}

/** The first range is short: how dense the logs are is not known yet. */
const FIRST_SPAN = 64
/** After so many successes in a row the caution is doubled. */
const LIFT_AFTER = 16

/** @param ceiling most blocks in one request, from 1 */
export function firstSpan(ceiling: number): Span {
  invariant(Number.isSafeInteger(ceiling) && ceiling >= 1, 'the largest range is a whole number from 1', { ceiling })
  return { blocks: Math.min(FIRST_SPAN, ceiling), ceiling, caution: ceiling, run: 0 }
}

export function widthOf(range: BlockRange): number {
  return range.to - range.from + 1
}

/** The range that starts at `from` and ends at or before `last`. The next one starts at its end + 1 (C03). */
export function nextRange(span: Span, from: BlockNumber, last: BlockNumber): BlockRange {
  invariant(from <= last, 'a range of blocks starts at or below its end', { from, last })
  return { from, to: Math.min(last, from + span.blocks - 1) as BlockNumber }
}

/** A hinted range is used only if it starts where the request starts and is shorter (C11). */
function hintedWidth({ meaning, hint }: Refusal, asked: BlockRange): number | null {
  const width = widthOf(asked)
  if (hint.from === asked.from && hint.to !== undefined && hint.to >= asked.from && hint.to < asked.to) {
    return hint.to - asked.from + 1
  }
  if (meaning !== 'range-too-large' || hint.limit === undefined) return null
  // Some servers count the difference of the two ends, some the length: on a repeat one block less is asked for.
  if (hint.limit === width) return width - 1
  return hint.limit < width ? hint.limit : null
}

/**
 * The span after a refusal of `asked`. Null: one block was refused, and nothing smaller can be asked for (C10).
 */
export function shrink(span: Span, asked: BlockRange, refusal: Refusal): Span | null {
  const width = widthOf(asked)
  if (width <= 1) return null
  const hinted = hintedWidth(refusal, asked)
  const blocks = Math.max(1, hinted ?? Math.floor(width / 2))
  const stated = refusal.meaning === 'range-too-large' && hinted !== null
  return {
    blocks,
    ceiling: stated ? Math.min(span.ceiling, blocks) : span.ceiling,
    caution: Math.min(span.caution, Math.max(blocks, width - 1)),
    run: 0,
  }
}

/** Far above the wish: such an answer is not used, so that no commit holds many times more than it should. */
const FAR_ABOVE = 4

/** The span to ask again with, when an answer held far more logs than wished. Null: the answer is used. */
export function thin(span: Span, asked: BlockRange, logs: number, wished: number): Span | null {
  const width = widthOf(asked)
  if (width <= 1 || logs <= FAR_ABOVE * wished) return null
  return { ...span, blocks: Math.max(1, Math.floor((width * wished) / logs)) }
}

/** The span after a range was answered: towards `wished` logs a range, at most double. */
export function grow(span: Span, answered: BlockRange, logs: number, wished: number): Span {
  const run = span.run + 1
  const lifted = run % LIFT_AFTER === 0 ? span.caution * 2 : span.caution
  const caution = Math.min(span.ceiling, Math.max(lifted, 1))
  const width = widthOf(answered)
  const dense = logs > wished ? Math.max(1, Math.floor((width * wished) / logs)) : span.blocks
  // A range that was cut short by its end says nothing about longer ones.
  const sparse = width === span.blocks && logs * 2 <= wished ? span.blocks * 2 : dense
  return { ...span, blocks: Math.min(sparse, caution), caution, run }
}
