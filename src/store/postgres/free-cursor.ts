import { TidemarkError } from '../../errors.ts'
import { sqlState, storeError } from './pg-errors.ts'
import type { Place } from './place.ts'
import type { Session } from './session.ts'
import { OWN_TYPES, readFlag, readNumber, readText, text } from './values.ts'

/** How long a successor tries to free the cursor row before it gives up, in ms. */
const FREE_MS = 10_000
/** How long one try waits for the lock, and how often its holder is looked at meanwhile, in ms. */
const WAIT_MS = 2_000
const LOOK_MS = 100

const LOCK = 'SELECT id FROM tidemark.watchers WHERE name = $1::text FOR UPDATE'

/**
 * The sessions that hold the row which session $1 waits for, each with the start of its transaction. Whoever is first in
 * line waits for the holder's transaction itself; the others wait for the first one, by a lock on the row's place, and
 * block nobody who could go on.
 */
const HOLDERS = `
  WITH waiting AS (SELECT pid, locktype FROM pg_locks WHERE NOT granted),
  first AS (
    SELECT pid FROM waiting WHERE pid = $1::int AND locktype = 'transactionid'
    UNION
    SELECT ahead.pid FROM waiting AS own, unnest(pg_blocking_pids(own.pid)) AS blocker (pid)
      JOIN waiting AS ahead ON ahead.pid = blocker.pid AND ahead.locktype = 'transactionid'
    WHERE own.pid = $1::int AND own.locktype = 'tuple')
  SELECT DISTINCT pid, coalesce(xact_start::text, '') AS since FROM pg_stat_activity
  WHERE pid IN (SELECT unnest(pg_blocking_pids(first.pid)) FROM first)`
const END = `
  SELECT pg_terminate_backend(pid) AS told FROM pg_stat_activity
  WHERE pid = $1::int AND coalesce(xact_start::text, '') = $2::text`

type Open = () => Promise<Session>

/**
 * Ends the sessions that hold the cursor row of a watcher, and no others. For the successor of a holder that expired or
 * died: it may be frozen in the middle of a transaction, and a session that waits for the rest of a COPY is ended by no
 * time-out of the server (P9).
 *
 * One session waits for the row, so that the server itself says who blocks it; another one looks, and ends who is seen
 * twice in the same transaction: an operator's short change of the row passes by.
 * @throws {TidemarkError} `STORE_BUSY` when the row is not free within 10 s; `STORE_FAILED` without the right to end the
 *   holder's session (another role's, without `pg_signal_backend`)
 */
export async function freeCursor(place: Place, open: Open, watcher: string): Promise<void> {
  const until = place.world.monotonic() + FREE_MS
  const waiter = await open()
  try {
    while (!(await isFree(waiter, place, watcher, open))) {
      if (place.world.monotonic() < until) continue
      throw new TidemarkError('STORE_BUSY', 'The cursor row of a dead holder could not be freed', {
        values: { watcher },
      })
    }
  } finally {
    waiter.release()
  }
}

/** Locks the row and lets it go; while it waits, whoever holds the row is ended. A watcher without a row is free. */
async function isFree(waiter: Session, place: Place, watcher: string, open: Open): Promise<boolean> {
  const limits = `SET LOCAL lock_timeout = ${WAIT_MS}; SET LOCAL statement_timeout = ${2 * WAIT_MS}`
  const stop = new AbortController()
  try {
    await waiter.run({ text: `BEGIN ISOLATION LEVEL READ COMMITTED; ${limits}` })
    const [own] = (await waiter.run({ text: 'SELECT pg_backend_pid() AS pid', types: OWN_TYPES })).rows
    const locking = waiter.run({ text: place.sql(LOCK), values: [text(watcher)], types: OWN_TYPES })
    const ending = endHolders(readNumber(own ?? {}, 'pid'), place, open, stop.signal)
    await Promise.all([locking.finally(() => stop.abort()), ending])
    return true
  } catch (error) {
    if (sqlState(error) === '55P03') return false
    throw storeError(error)
  } finally {
    stop.abort()
    await waiter.run({ text: 'ROLLBACK' }).catch(() => waiter.breakOff())
  }
}

/** Looks now and then, until the waiter has the row or has given up. Where nobody holds the row it does not look at all. */
async function endHolders(waiting: number, place: Place, open: Open, signal: AbortSignal): Promise<void> {
  await place.world.sleep(LOOK_MS, signal)
  if (signal.aborted) return
  const session = await open()
  let before = new Set<string>()
  try {
    while (!signal.aborted) {
      before = await look(session, waiting, before)
      await place.world.sleep(LOOK_MS, signal)
    }
  } finally {
    session.release()
  }
}

async function look(session: Session, waiting: number, before: ReadonlySet<string>): Promise<Set<string>> {
  const seen = new Set<string>()
  const { rows } = await session.run({ text: HOLDERS, values: [waiting], types: OWN_TYPES })
  for (const row of rows) {
    const holder = [readNumber(row, 'pid'), readText(row, 'since')] as const
    seen.add(holder.join(' '))
    if (before.has(holder.join(' '))) await end(session, holder)
  }
  return seen
}

async function end(session: Session, [pid, since]: readonly [number, string]): Promise<void> {
  const { rows } = await session.run({ text: END, values: [pid, since], types: OWN_TYPES })
  if (rows.every((row) => readFlag(row, 'told'))) return
  throw new TidemarkError('STORE_FAILED', 'The session of a dead holder could not be ended')
}
