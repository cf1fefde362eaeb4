import { type BlockNumber, type BlockRef, blockNumber } from '../chain/block.ts'
import type { View } from './reader.ts'
import type { Position, SourceStep, WatchPlan } from './source.ts'

/** One call of `Source.next`: the watcher, where it stands, and what the chain looks like now. */
export interface Task {
  readonly plan: WatchPlan
  readonly position: Position
  readonly view: View
  /** The chain's finality as this view has it; null: it cannot say. */
  readonly final: BlockNumber | null
  /** The same, whatever is remembered: by it a branch that is not ours is judged. */
  readonly claim: BlockNumber | null
  /** The highest block that the watcher may act on now; null: none. */
  readonly target: BlockNumber | null
  readonly phase: 'backfill' | 'live'
  readonly signal: AbortSignal | undefined
}

export type BlocksStep = Extract<SourceStep, { kind: 'blocks' }>
export type IdleStep = Extract<SourceStep, { kind: 'idle' }>

/** The first block that is not applied yet. */
export function nextBlock({ plan, position }: Pick<Task, 'plan' | 'position'>): BlockNumber {
  return position.cursor === null ? plan.startBlock : blockNumber(position.cursor.number + 1)
}

/** The last block that is settled, or the one before the start block. May be −1. */
export function settledLine({ plan, position }: Pick<Task, 'plan' | 'position'>): number {
  return position.settled ?? plan.startBlock - 1
}

/**
 * Every block that the watcher remembers, newest first, the cursor included. Below a cursor that was moved back by hand
 * there are blocks too that were applied above it.
 */
export function remembered({ position }: Pick<Task, 'position'>): readonly BlockRef[] {
  const { cursor, trail } = position
  if (cursor === null || trail.some((block) => block.number === cursor.number)) return trail
  return [...trail, cursor].sort((a, b) => b.number - a.number)
}

/** A header without what only this folder needs. */
export function refOf(block: BlockRef): BlockRef {
  return { number: block.number, hash: block.hash }
}

/**
 * The finality to store with a commit that ends at `block`: no higher than it. A height above says nothing about the branch
 * that will be applied there, and would make a violation of an ordinary reorg later.
 */
export function finalityAt({ final }: Task, block: BlockNumber): BlockNumber | null {
  return final === null ? null : blockNumber(Math.min(final, block))
}
