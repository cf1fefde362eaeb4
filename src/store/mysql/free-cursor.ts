import type { PoolConnection } from 'mysql2/promise'
import { onClient } from './executors.ts'
import type { LeaseSetting } from './lease.ts'
import { bind } from './literals.ts'
import { ERRNO, errnoOf, storeError } from './mysql-errors.ts'
import type { Lent } from './pool.ts'
import { key, type Row, readNumber } from './values.ts'

/** How long a successor tries to get at the cursor row. It takes over all the same: its commits then wait for the lock. */
const FREE_MS = 10_000
/**
 * What the server tells of transactions is made anew only when nobody has asked for 100 ms. Several that ask every 100 ms would
 * keep each other from seeing anything new, so each waits for longer, and for another time each time.
 */
const LOOK_MS = 130
const LOOK_SPREAD_MS = 200

const LOCK = 'SELECT id FROM {watchers} WHERE name = ? FOR UPDATE'
const BORROW_WAIT = `SET @tidemark_wait = @@SESSION.innodb_lock_wait_timeout, SESSION innodb_lock_wait_timeout = 1`
const GIVE_BACK_WAIT = 'SET SESSION innodb_lock_wait_timeout = @tidemark_wait'
// Whoever asked for the same row earlier is named as blocking as well, and only waits like this one: it is left alone.
const BLOCKERS = `
  SELECT DISTINCT blocking.trx_mysql_thread_id AS id
  FROM information_schema.INNODB_LOCK_WAITS AS waits
  JOIN information_schema.INNODB_TRX AS waiting ON waiting.trx_id = waits.requesting_trx_id
  JOIN information_schema.INNODB_TRX AS blocking ON blocking.trx_id = waits.blocking_trx_id
  JOIN information_schema.INNODB_LOCKS AS ours ON ours.lock_id = waits.requested_lock_id
  LEFT JOIN information_schema.INNODB_LOCKS AS theirs ON theirs.lock_id = blocking.trx_requested_lock_id
  WHERE waiting.trx_mysql_thread_id = ? AND blocking.trx_mysql_thread_id <> 0
    AND (theirs.lock_id IS NULL OR theirs.lock_space <> ours.lock_space OR theirs.lock_page <> ours.lock_page
      OR theirs.lock_rec <> ours.lock_rec)`

/**
 * Makes sure that the lock of a watcher's cursor row can be had: asks for it, and ends the sessions that this request
 * waits for, and no others. A holder that is frozen in the middle of a transaction sends nothing that an error could
 * answer, so its session is ended from here (P9).
 *
 * Seeing who waits for whom needs the privilege PROCESS, ending the session of another user CONNECTION ADMIN (SUPER before
 * MariaDB 10.5). Without them, and on MySQL 8, which keeps these facts in other tables, the successor waits: the session of
 * a holder that sends nothing is ended by the server itself after the length of a lease (`settings.ts`).
 */
export async function freeCursor(setting: LeaseSetting, watcher: string): Promise<void> {
  const until = setting.world.monotonic() + FREE_MS
  while (setting.world.monotonic() < until) {
    if (await setting.connections.use((lent) => lockOnce(setting, watcher, lent))) return
  }
}

/** Asks for the lock once, for a second. Whether it was got; it is given back at once. */
async function lockOnce(setting: LeaseSetting, watcher: string, lent: Lent): Promise<boolean> {
  const { client, dialect } = lent
  try {
    await client.query(BORROW_WAIT)
    await client.query('SET TRANSACTION ISOLATION LEVEL READ COMMITTED')
    await client.query('START TRANSACTION')
    const locked = onClient(client).execute(bind(setting.names.parts(LOCK), [key(watcher)]))
    const looked = dialect === 'mariadb' ? endBlockers(setting, client, locked) : undefined
    return await locked.then(() => true, refuseOthers).finally(() => looked)
  } catch (error) {
    throw storeError(error)
  } finally {
    await giveBack(client)
  }
}

/** Waiting in vain is an outcome; anything else is an error. */
function refuseOthers(error: unknown): false {
  if (errnoOf(error) === ERRNO.LOCK_WAIT_TIMEOUT) return false
  throw error
}

async function giveBack(client: PoolConnection): Promise<void> {
  try {
    await client.query('ROLLBACK')
    await client.query(GIVE_BACK_WAIT)
  } catch {
    client.destroy()
  }
}

/** Looks who is in the way of the session, as long as it waits. Never throws: what it cannot do, time does. */
async function endBlockers(setting: LeaseSetting, waiting: PoolConnection, locked: Promise<unknown>): Promise<void> {
  const done = new AbortController()
  const stop = () => done.abort()
  locked.then(stop, stop)
  try {
    // Most locks are free at once.
    await setting.world.sleep(LOOK_MS, done.signal)
    if (done.signal.aborted) return
    await setting.connections.use(async ({ client }) => {
      while (!done.signal.aborted) {
        const { rows } = await onClient(client).execute(bind(setting.names.parts(BLOCKERS), [waiting.threadId]))
        for (const row of rows) await endSession(client, row)
        await setting.world.sleep(LOOK_MS + LOOK_SPREAD_MS * setting.world.random(), done.signal)
      }
    })
  } catch {
    // Not allowed to look, or no connection to look with.
  }
}

/** The ids of sessions are never given twice while the server runs. */
async function endSession(client: PoolConnection, row: Row): Promise<void> {
  await client.query(`KILL ${readNumber(row, 'id')}`).catch((error) => {
    if (errnoOf(error) !== ERRNO.NO_SUCH_THREAD) throw error
  })
}
