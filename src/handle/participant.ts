import type { BlockNumber } from '../chain/block.ts'
import type { StableId } from '../dedup/identity.ts'
import type { Tx } from '../store/store.ts'
import type { Op } from '../util/op.ts'

/**
 * Something that takes part in the commit of a watcher: managed writes now, outbox, parked events and others later.
 * It is registered with the run, never imported by it, and lives in the same transaction as marks and cursor (P1).
 */
export interface Participant {
  readonly name: string
  /** What it holds at most, in words; `pending` never exceeds it without a flush or an error (P6). */
  readonly limits: string
  /** Writes buffered and not yet flushed. */
  pending(): number
  /** Writes everything that is buffered. Called after a handler when much is pending, and before the commit. */
  flush(tx: Tx): Op<void>
  /** The blocks of this commit may be undone later: writes what that takes. Called after the last flush. */
  keep(tx: Tx): Op<void>
  /** Takes back all effects of blocks above `above`. Answers how many. Participants undo in reverse order of apply. */
  undo(tx: Tx, above: BlockNumber | -1): Op<number>
  /** Blocks up to `through` can no longer be undone: what was kept for that may go. */
  settle(tx: Tx, through: BlockNumber): Op<void>
  /**
   * Called after a flush, before a savepoint of the user's. Answers what forgets all that came since, for when the savepoint
   * is rolled back.
   */
  checkpoint(): () => void
  /** The transaction is over: forget what was buffered, and what was held for `keep`. */
  discard(): void
}

/** Which event a managed write belongs to. */
export interface WriteOrigin {
  readonly blockNumber: BlockNumber
  readonly stableId: StableId
  /** First ordinal to use: keeps the writes of the `final` stage apart from those of the handler. */
  readonly firstOrdinal: number
  /** Whether it is taken back with its block. Not so what the `final` stage writes. */
  readonly revocable: boolean
  /** Whether the callback that got the table still runs. @throws {TidemarkError} `SCOPE_DEAD` when not */
  alive(): void
}

/** A managed table opened for one watcher: what the handler calls, and what the commit calls. */
export interface OpenTable<Api = unknown> {
  readonly participant: Participant
  /** The handler's view for one event, in the transaction of its commit. */
  api(origin: WriteOrigin, tx: Tx): Api
}
