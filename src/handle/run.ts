import type { BlockRef } from '../chain/block.ts'
import { TidemarkError } from '../errors.ts'
import type { CursorChange, Store, Tx, WatcherRow } from '../store/store.ts'
import type { Alarm } from '../util/alarm.ts'
import { sameBytes } from '../util/bytes.ts'
import { type Op, wait } from '../util/op.ts'
import type { World } from '../util/world.ts'
import type { OpenTable, Participant } from './participant.ts'
import type { CompiledWatcher } from './watch.ts'

/** One watcher as a process runs it: what it is, where it is kept, and who takes part in its commits. */
export interface Run {
  readonly watcher: CompiledWatcher
  /** The watcher's row id. */
  readonly id: number
  /** The fencing token of the lease that this process holds. */
  readonly token: Uint8Array
  readonly store: Store
  readonly world: World
  /** Ends what user code waits for in vain. */
  readonly alarm: Alarm
  readonly tables: Readonly<Record<string, OpenTable>>
  /** In the order of apply. */
  readonly participants: readonly Participant[]
  readonly build: string
  readonly signal: AbortSignal
}

/** What a run believes of its row. A commit checks it under the lock; a difference means someone else was here. */
export interface Expected {
  readonly cursor: BlockRef | null
  readonly epoch: number
}

function sameCursor(a: BlockRef | null, b: BlockRef | null): boolean {
  return a === null || b === null ? a === b : a.number === b.number && a.hash === b.hash
}

/** Marks at or below the low-water mark are gone, so a cursor below it would apply events twice (C65, P7). */
export function checkLowWater(row: WatcherRow): void {
  if (row.lowWater === null) return
  if (row.cursor !== null && row.cursor.number >= row.lowWater) return
  throw new TidemarkError('CURSOR_BELOW_LOW_WATER', 'The cursor lies below the low-water mark', {
    values: { watcher: row.name, cursor: row.cursor?.number ?? null, lowWater: row.lowWater },
  })
}

/** Compares a row with what a run believes of it; each difference has a code of its own. */
export function checkRow(run: Run, row: WatcherRow | undefined, expected: Expected): WatcherRow {
  const values = { watcher: run.watcher.name }
  if (!row) throw new TidemarkError('FENCED', 'The watcher has no row any more', { values })
  if (!row.token || !sameBytes(row.token, run.token)) {
    throw new TidemarkError('FENCED', 'Another process holds this watcher', { values })
  }
  if (row.epoch !== expected.epoch) {
    throw new TidemarkError('EPOCH_CHANGED', 'The watcher was rolled back meanwhile', {
      values: { ...values, expected: expected.epoch, found: row.epoch },
    })
  }
  if (row.state !== 'running' || !sameCursor(row.cursor, expected.cursor)) {
    throw new TidemarkError('POSITION_MOVED', 'The cursor moved, or the watcher was stopped, meanwhile', {
      values: {
        ...values,
        expected: expected.cursor?.number ?? null,
        found: row.cursor?.number ?? null,
        state: row.state,
      },
    })
  }
  return row
}

/**
 * Opens a commit: locks the cursor row and writes the nonce, the first write of the transaction, and compares the row
 * with what was expected. @returns the row as locked
 */
export function* openCommit(tx: Tx, run: Run, expected: Expected, nonce: Uint8Array): Op<WatcherRow> {
  const row = checkRow(run, yield* wait(tx.cursors.open(run.id, nonce)), expected)
  checkLowWater(row)
  return row
}

/**
 * Closes a commit: the cursor moves only where the nonce is still in its row. A transaction that was lost in between, by
 * `INSERT OR ROLLBACK` or by a deadlock that a handler swallowed, no longer holds the nonce: everything since ran
 * outside, and a cursor moved now would pass the events without their effects.
 */
export function* closeCommit(tx: Tx, run: Run, nonce: Uint8Array, change: CursorChange): Op<void> {
  const values = { watcher: run.watcher.name }
  if (!tx.inTransaction()) throw new TidemarkError('TRANSACTION_LOST', 'The transaction is no longer open', { values })
  if (yield* wait(tx.cursors.close(run.id, nonce, change))) return
  throw new TidemarkError('NONCE_LOST', 'The transaction was rolled back unseen', { values })
}

/** Whether a commit whose answer was lost is in the database after all: its nonce is there. */
export async function committedAfterAll(run: Run, nonce: Uint8Array): Promise<boolean> {
  return run.store.transact(function* (tx) {
    // The lock waits for an older transaction that is still ending on the server.
    yield* wait(tx.cursors.lock(run.id))
    const found = yield* wait(tx.cursors.readNonce(run.id))
    return found !== null && sameBytes(found, nonce)
  })
}

/**
 * Commits `body` between the guards. COMMIT is never sent again by itself: when its answer is lost, the nonce in the
 * database tells whether it happened.
 * @param body does the work and answers its result and the change of the cursor row
 */
export async function guardedCommit<T>(
  run: Run,
  expected: Expected,
  body: (tx: Tx, row: WatcherRow) => Op<{ result: T; change: CursorChange }>,
): Promise<T> {
  const nonce = run.world.randomBytes(16)
  let done: { result: T } | undefined
  try {
    return await run.store.transact(function* (tx) {
      const row = yield* openCommit(tx, run, expected, nonce)
      const { result, change } = yield* body(tx, row)
      yield* closeCommit(tx, run, nonce, change)
      done = { result }
      return result
    })
  } catch (error) {
    if (done && TidemarkError.has(error, 'COMMIT_UNKNOWN') && (await committedAfterAll(run, nonce))) return done.result
    throw error
  } finally {
    for (const participant of run.participants) participant.discard()
  }
}
