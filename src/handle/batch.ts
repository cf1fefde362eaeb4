import type { BlockNumber, BlockRef, Hash } from '../chain/block.ts'
import type { Log } from '../chain/log.ts'
import type { StableId } from '../dedup/identity.ts'
import { hexToBytes } from '../util/bytes.ts'
import type { TidemarkEvent } from './event.ts'

/** An event ready to be handled: decoded, with what `prepare` and `key` said. */
export interface ReadyEvent {
  readonly event: TidemarkEvent
  readonly log: Log
  readonly stableId: StableId
  /** Position among the watcher's events of its block, from 0. */
  readonly sequence: number
  readonly key: string | null
  readonly prepared: unknown
}

/** Whole blocks to commit together. */
export interface Batch {
  readonly phase: 'backfill' | 'live'
  readonly from: BlockNumber
  readonly to: BlockRef
  readonly events: readonly ReadyEvent[]
  readonly trail: readonly BlockRef[]
  readonly finalized: BlockNumber | null
  readonly head: BlockRef
  /** Which try this is, from 1. */
  readonly attempt: number
}

function lastBlockBefore(events: readonly ReadyEvent[], block: number): BlockRef | null {
  for (let i = events.length - 1; i >= 0; i--) {
    const log = events[i]?.log
    if (log && log.blockNumber < block) return { number: log.blockNumber, hash: log.blockHash as Hash }
  }
  return null
}

/**
 * The batch cut at the last block below `block` that holds an event: only there a hash to stop at is known.
 * @returns null when there is none: nothing can be committed before `block`
 */
export function cutBefore(batch: Batch, block: number): Batch | null {
  const to = lastBlockBefore(batch.events, block)
  return to ? cutAfter(batch, to) : null
}

/** The batch up to and including block `to`. */
export function cutAfter(batch: Batch, to: BlockRef): Batch {
  const trail = batch.trail.filter((ref) => ref.number <= to.number)
  const tip = trail.some((ref) => ref.number === to.number) || batch.trail.length === 0 ? trail : [...trail, to]
  // A height above the cut says nothing of the branch that will be applied there.
  const finalized = batch.finalized === null ? null : (Math.min(batch.finalized, to.number) as BlockNumber)
  return {
    ...batch,
    to,
    trail: tip,
    finalized,
    events: batch.events.filter((ready) => ready.log.blockNumber <= to.number),
  }
}

/** What is left of a batch after block `to`, or null when nothing is. */
export function cutRest(batch: Batch, to: BlockRef): Batch | null {
  if (to.number >= batch.to.number) return null
  return {
    ...batch,
    from: (to.number + 1) as BlockNumber,
    trail: batch.trail.filter((ref) => ref.number > to.number),
    events: batch.events.filter((ready) => ready.log.blockNumber > to.number),
  }
}

/** XOR of stable ids, 16 bytes: what was applied in a range, whatever the order. */
export function digestOf(ids: readonly StableId[]): Uint8Array {
  const digest = new Uint8Array(16)
  for (const id of ids) {
    const bytes = hexToBytes(id)
    for (let i = 0; i < 16; i++) digest[i] = (digest[i] as number) ^ (bytes[i] as number)
  }
  return digest
}
