import type { At } from '../collect/source.ts'
import { invariant } from '../util/invariant.ts'
import { type BlockNumber, type BlockRef, blockNumber } from './block.ts'

/**
 * When a block is final: the only code that knows whether a chain has the tag or counts a depth.
 * `'tag'`: the node's `finalized` block. `{ depth }`: so many blocks below the head. `{ fallbackDepth }`: the tag, and the
 * depth only as long as no node has ever answered the tag (C40).
 */
export type FinalityOption = 'tag' | { readonly depth: number } | { readonly fallbackDepth: number }

export interface FinalityRule {
  readonly tag: boolean
  /** Blocks below the head; null: the tag alone decides. */
  readonly depth: number | null
  /** Undo is kept for at least so many blocks below the head, whatever the tag says (C30). */
  readonly minDepth: number
}

export function finalityRule(option: FinalityOption, minDepth: number): FinalityRule {
  invariant(Number.isSafeInteger(minDepth) && minDepth >= 0, 'the minimum depth is a whole number from 0', { minDepth })
  if (option === 'tag') return { tag: true, depth: null, minDepth }
  if ('depth' in option) return { tag: false, depth: option.depth, minDepth }
  return { tag: true, depth: option.fallbackDepth, minDepth }
}

/** What one node said in one request. */
export interface Sighting {
  readonly head: BlockRef
  /** The `finalized` block; null: not asked, null, or refused. All three mean "not known now". */
  readonly finalized: BlockRef | null
  readonly safe: BlockRef | null
  /** Whether the tag has been answered since the process started. */
  readonly tagSeen: boolean
}

function byRule(rule: FinalityRule, seen: Sighting): number | null {
  if (rule.tag && seen.finalized) return seen.finalized.number
  // A tag that worked and now does not is stale. Counting instead could call a block final in the middle of a stall.
  if (rule.tag && seen.tagSeen) return null
  return rule.depth === null ? null : seen.head.number - rule.depth
}

/** A finalized block counts only if it is the one that we remember at its height, where we remember one. */
function contradicts(finalized: BlockRef | null, trail: readonly BlockRef[]): boolean {
  return finalized !== null && trail.some((ours) => ours.number === finalized.number && ours.hash !== finalized.hash)
}

/**
 * The highest block that counts as final by what a node says now: min(tag or head − depth, head − minimum depth). Null: it
 * cannot say. The finality that is stored never goes back, and a tag that steps back is stale, not a violation; but what is
 * stored is a height, and does not make final what a node on another branch has there, so it is not looked at here.
 *
 * @param trail remembered blocks, in any order
 * @example head 1000, tag 1000, minDepth 64: final is 936
 */
export function finalBlock(rule: FinalityRule, seen: Sighting, trail: readonly BlockRef[]): BlockNumber | null {
  const found = contradicts(seen.finalized, trail) ? null : byRule(rule, seen)
  if (found === null) return null
  const effective = Math.min(found, seen.head.number - rule.minDepth)
  return effective < 0 ? null : blockNumber(effective)
}

/**
 * The highest block that a watcher may act on now; null: none. `{ confirmations: 1 }` means that the block itself is
 * the head, so the limit is head − n + 1.
 */
export function targetBlock(at: At, seen: Sighting, final: BlockNumber | null): BlockNumber | null {
  if (at === 'latest') return seen.head.number
  if (at === 'finalized') return final
  if (at === 'safe') return seen.safe === null ? final : blockNumber(Math.max(seen.safe.number, final ?? 0))
  const limit = seen.head.number - at.confirmations + 1
  return limit < 0 ? null : blockNumber(limit)
}
