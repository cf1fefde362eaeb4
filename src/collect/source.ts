import type { BlockNumber, BlockRef } from '../chain/block.ts'
import type { EventFilter } from '../chain/filter.ts'
import type { Log } from '../chain/log.ts'

/**
 * The source port: an ordered, complete stream of steps for one watcher. A source keeps nothing that matters between
 * calls: everything it needs to go on is in `Position`, which comes from the store. Caches only save work.
 */
export interface Source {
  /** Decides and fetches the next bounded step. Throws `retries` errors for passing failures, `halts` errors to stop. */
  next(plan: WatchPlan, position: Position, signal?: AbortSignal): Promise<SourceStep>
  /** The newest block known, without asking again; null before the first answer. */
  readonly lastHead: BlockRef | null
}

/** Which blocks a watcher may act on. */
export type At = 'latest' | 'safe' | 'finalized' | { readonly confirmations: number }

/** What a source must know of a watcher. */
export interface WatchPlan {
  readonly name: string
  readonly filters: readonly EventFilter[]
  readonly startBlock: BlockNumber
  /** Last block to apply, inclusive; null: follow for ever. */
  readonly endBlock: BlockNumber | null
  readonly at: At
  /** Whether the watcher declares `undo`: it then takes a reorg back, or says itself that it cannot. */
  readonly keepsUndo: boolean
  /** Logs a backfill step should not exceed by much. */
  readonly maxEvents: number
  /**
   * Whether the watcher makes an event of a log that fits its filters: one of an anonymous event may fit by its shape
   * alone. Left out: of every log.
   */
  readonly accepts?: (log: Log) => boolean
}

/** Where a watcher stands, as its store says. */
export interface Position {
  readonly cursor: BlockRef | null
  /** Remembered blocks above the settled line, newest first; the tip is the cursor. */
  readonly trail: readonly BlockRef[]
  readonly settled: BlockNumber | null
  /** Finality as stored with the last commit; never goes back. */
  readonly finalized: BlockNumber | null
  /** An operator has said that blocks above the settled line may be given up, whatever their finality or confirmations. */
  readonly reorgAccepted?: boolean
  /** What was applied in unsettled blocks, asked for only by the cross-check before settling. */
  applied(from: BlockNumber, to: BlockNumber): Promise<readonly AppliedEvent[]>
}

export interface AppliedEvent {
  readonly blockNumber: BlockNumber
  readonly blockHash: string
  readonly stableId: string
}

export type Evidence = 'E0' | 'E1'

export type SourceStep =
  | {
      /** Blocks above the cursor to apply, whole, with every matching log in them. */
      readonly kind: 'blocks'
      readonly phase: 'backfill' | 'live'
      readonly from: BlockNumber
      readonly to: BlockRef
      /** Sorted by P5, none repeated, none removed, each matching at least one filter. */
      readonly logs: readonly Log[]
      /** Blocks to remember: those with logs, every k-th, and the tip. Empty where the range is final already. */
      readonly trail: readonly BlockRef[]
      /** The chain's effective finality when this was read, but no higher than `to`; null: not known yet. */
      readonly finalized: BlockNumber | null
      readonly head: BlockRef
      readonly evidence: Evidence
    }
  | {
      /** Blocks above `to` were orphaned, or found wrong by the sweep. Replacement blocks are on hand (cached). */
      readonly kind: 'rollback'
      /** The newest remembered block that is still on the chain; null: the block before the start block. */
      readonly to: BlockRef | null
      readonly why: 'reorg' | 'sweep'
      readonly head: BlockRef
    }
  | {
      /** Blocks up to `upTo` are final and cross-checked. */
      readonly kind: 'settle'
      readonly upTo: BlockNumber
      readonly finalized: BlockNumber
      readonly head: BlockRef
    }
  | {
      /** Nothing to do now. */
      readonly kind: 'idle'
      readonly why: 'at-head' | 'not-final' | 'node-behind' | 'ended' | 'finality-stalled'
      /** Milliseconds after which it is worth asking again; null: never (ended). */
      readonly waitMs: number | null
      readonly head: BlockRef | null
    }
