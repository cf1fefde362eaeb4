import type { BlockNumber, BlockRef } from '../chain/block.ts'
import type { Maybe } from '../util/op.ts'

/** The sub-port of the parts used alone: their marks, claims and cursors. */

/** State of a `DeduplicationManager` on one chain. */
export interface ScopeState {
  readonly cursor: BlockRef | null
  readonly lowWater: BlockNumber | null
  readonly updatedAt: number | null
}

/** `claimed`: someone works on it outside a transaction, or did and died. */
export type HandledState = 'done' | 'claimed'

/** Which key, of which part, on which chain. */
export interface HandledKey {
  readonly scope: string
  readonly chainId: number
  readonly key: string
}

export interface HandledPort {
  /**
   * Inserts the key as done if it is not there. Answers `new`, or what it was: a key that is there keeps the higher of both
   * blocks, since an event re-included in a later block must not be forgotten with its first one, and nothing else changes.
   */
  insert(key: HandledKey, block: BlockNumber, now: number): Maybe<'new' | HandledState>
  find(key: HandledKey): Maybe<HandledState | null>
  /**
   * Claims the key for `leaseMs` by the database's clock: when it is not there, or when the claim on it has expired. Answers
   * `new`, `taken-over`, or what stands in the way. Keeps the higher block as `insert` does.
   */
  claim(
    key: HandledKey,
    block: BlockNumber,
    token: Uint8Array,
    leaseMs: number,
    now: number,
  ): Maybe<'new' | 'taken-over' | HandledState>
  /** Turns the claim with this token into done. False: it expired and another one has it, or it was given back. */
  finish(key: HandledKey, token: Uint8Array): Maybe<boolean>
  /** Removes the claim with this token. False: there is none. */
  unclaim(key: HandledKey, token: Uint8Array): Maybe<boolean>
  /** Claims that have expired by the database's clock, oldest first, at most `limit`. */
  expired(scope: string, limit: number): Maybe<readonly { readonly chainId: number; readonly key: string }[]>
  count(scope: string): Maybe<number>
  state(scope: string, chainId: number): Maybe<ScopeState>
  /** Every chain of the scope with a mark, a cursor or a low-water mark, in ascending order. */
  chains(scope: string): Maybe<readonly number[]>
  setCursor(scope: string, chainId: number, cursor: BlockRef, now: number): Maybe<void>
  /** Raises the low-water mark; it never goes back. Where readers mark first, they read it under a lock that this waits for. */
  raiseLowWater(scope: string, chainId: number, block: BlockNumber): Maybe<void>
  /** Deletes marks at or below `block`, at most `limit`, and answers how many. Claims stay: they are not done (P7). */
  deleteThrough(scope: string, chainId: number, block: BlockNumber, limit: number): Maybe<number>
}
