import { TidemarkError } from '../../errors.ts'
import { type Op, runAsync } from '../../util/op.ts'
import type { DbScope, ScopeRules, Tx } from '../store.ts'
import { PgAudit } from './audit.ts'
import { PgCommits } from './commits.ts'
import { Connection } from './connection.ts'
import { PgCursors } from './cursors.ts'
import { sessionExecutor } from './executors.ts'
import { PgHandled } from './handled.ts'
import { PgKept } from './kept.ts'
import { PgManaged } from './managed.ts'
import { PgMarks } from './marks.ts'
import { PgMeta } from './meta.ts'
import { isConstraint, LostConnection, saysRolledBack, storeError } from './pg-errors.ts'
import type { Place } from './place.ts'
import { openScope, type PgDb } from './scope.ts'
import type { Session } from './session.ts'
import { PgTotals } from './totals.ts'
import { PgTrail } from './trail.ts'

/** The ports on one transaction: Tidemark's own, or one that the application opened. */
export class PgTx implements Tx<PgDb> {
  readonly cursors: PgCursors
  readonly trail: PgTrail
  readonly marks: PgMarks
  readonly kept: PgKept
  readonly commits: PgCommits
  readonly managed: PgManaged
  readonly totals: PgTotals
  readonly handled: PgHandled
  readonly audit: PgAudit
  readonly meta: PgMeta
  readonly #connection: Connection
  readonly #session: Session | undefined

  constructor(connection: Connection, session?: Session) {
    this.#connection = connection
    this.#session = session
    this.cursors = new PgCursors(connection)
    this.trail = new PgTrail(connection)
    this.marks = new PgMarks(connection)
    this.kept = new PgKept(connection)
    this.commits = new PgCommits(connection)
    this.managed = new PgManaged(connection)
    this.totals = new PgTotals(connection)
    this.handled = new PgHandled(connection)
    this.audit = new PgAudit(connection)
    this.meta = new PgMeta(connection)
  }

  inTransaction(): boolean {
    return this.#connection.inTransaction
  }

  savepoint(name: string): Promise<void> {
    return this.#connection.control(`SAVEPOINT ${plain(name)}`)
  }

  release(name: string): Promise<void> {
    return this.#connection.control(`RELEASE ${plain(name)}`)
  }

  rollbackTo(name: string): Promise<void> {
    return this.#connection.control(`ROLLBACK TO ${plain(name)}`)
  }

  openScope(rules: ScopeRules): DbScope<PgDb> {
    if (this.#session) return openScope(this.#session, this.#connection.world, rules)
    throw new TypeError('handlers run in transactions of the store only')
  }

  drive<T>(op: Op<T>): Promise<T> {
    return runAsync(op)
  }

  /** The server ends a statement that is too long, and the guard of the scope ends a handler that uses none. */
  *interruptible<T>(op: () => Op<T>): Op<T> {
    return yield* op()
  }
}

function plain(name: string): string {
  if (!/^[a-z_]{1,40}$/.test(name)) throw new TypeError('a savepoint is named with lower-case letters and underscores')
  return name
}

/**
 * BEGIN and the limits of the transaction in one round trip, all of them gone with it, so that a transaction pooler may
 * give the connection to anybody afterwards (C60).
 *
 * Whether it may write is left to the database's own setting: a server that is full or moved is made read-only by it.
 *
 * - time-outs: no session of ours holds the cursor row for longer than the lease while it does nothing
 * - `standard_conforming_strings`: as the reader of statements expects
 *
 * @param more what else this connection needs
 */
function beginSql(place: Place, mode: string, more: string): string {
  const { statementTimeoutMs, lockTimeoutMs, leaseMs } = place
  return `BEGIN ${mode};
SET LOCAL statement_timeout = ${statementTimeoutMs};
SET LOCAL lock_timeout = ${lockTimeoutMs};
SET LOCAL idle_in_transaction_session_timeout = ${leaseMs};
SET LOCAL standard_conforming_strings = on${more}`
}

/** What each connection needs besides: asked once, since asking costs more than BEGIN and all limits together. */
const needs = new WeakMap<object, string>()

/**
 * - `client_connection_check_interval` (PostgreSQL 14 and later; empty before): a statement whose client has died is ended
 * - `synchronous_commit`: not off, or a crash of the server may lose commits that were answered
 */
const ASK = `SELECT coalesce(current_setting('client_connection_check_interval', true), '') AS looks,
  current_setting('synchronous_commit') AS waits`

async function learn(session: Session): Promise<void> {
  const [row = {}] = (await session.run({ text: ASK, query_timeout: ANSWER_MS })).rows
  const looks = row.looks === '0' ? ';\nSET LOCAL client_connection_check_interval = 1000' : ''
  const waits = row.waits === 'off' ? ';\nSET LOCAL synchronous_commit = on' : ''
  const more = `${looks}${waits}`
  needs.set(session.client, more)
  if (more !== '') await session.run({ text: more.slice(1), query_timeout: ANSWER_MS })
}

/** Time for an answer to BEGIN, COMMIT and ROLLBACK, in ms, before the connection is called lost. */
const ANSWER_MS = 30_000

async function begin(session: Session, place: Place, mode: string): Promise<void> {
  try {
    const more = needs.get(session.client)
    await session.run({ text: beginSql(place, mode, more ?? ''), query_timeout: ANSWER_MS })
    if (more === undefined) await learn(session)
  } catch (error) {
    throw storeError(error)
  }
}

function open(session: Session, place: Place, writes: boolean) {
  const connection = new Connection(sessionExecutor(session, place), place, writes)
  return { connection, tx: new PgTx(connection, session) }
}

/** Runs `body` between BEGIN and COMMIT. COMMIT is sent once. */
export async function writeTransaction<T>(session: Session, place: Place, body: (tx: PgTx) => Op<T>): Promise<T> {
  const { connection, tx } = open(session, place, true)
  let result: T
  try {
    await begin(session, place, `ISOLATION LEVEL ${place.isolation.toUpperCase()}`)
    result = await runAsync(body(tx))
    await session.quiet()
    checkBeforeCommit(session)
  } catch (error) {
    await rollBack(session)
    throw error
  } finally {
    connection.end()
  }
  await commit(session)
  return result
}

/** Runs `body` on one snapshot and rolls back whatever it may have done. */
export async function readTransaction<T>(session: Session, place: Place, body: (tx: PgTx) => Op<T>): Promise<T> {
  const { connection, tx } = open(session, place, false)
  try {
    await begin(session, place, 'ISOLATION LEVEL REPEATABLE READ READ ONLY')
    return await runAsync(body(tx))
  } finally {
    connection.end()
    await rollBack(session)
  }
}

/** A connection that is known to be lost before COMMIT is sent leaves nothing unknown. */
function checkBeforeCommit(session: Session): void {
  if (session.ended) throw storeError(new LostConnection(session.ended))
  if (session.status === 'T') return
  const sentence =
    session.status === 'E'
      ? 'The transaction was aborted by a statement whose failure was swallowed'
      : 'The transaction ended before Tidemark was done with it'
  throw new TidemarkError('TRANSACTION_LOST', sentence)
}

async function commit(session: Session): Promise<void> {
  let command: string
  try {
    command = (await session.run({ text: 'COMMIT', query_timeout: ANSWER_MS })).command
  } catch (error) {
    throw commitError(session, error)
  }
  if (command === 'COMMIT') return
  // The server answers ROLLBACK to the COMMIT of an aborted transaction: success in form, nothing in fact.
  throw new TidemarkError('TRANSACTION_LOST', 'The server rolled back instead of committing')
}

function commitError(session: Session, error: unknown): unknown {
  if (!saysRolledBack(error)) {
    session.breakOff()
    return new TidemarkError('COMMIT_UNKNOWN', 'The answer to COMMIT was lost', { cause: error })
  }
  if (isConstraint(error)) {
    return new TidemarkError('HANDLER_FAILED', 'A deferred constraint of the database does not hold at COMMIT', {
      cause: error,
    })
  }
  return storeError(error)
}

/** A connection on which a statement may still be running, or whose ROLLBACK failed, is closed: that rolls back. */
async function rollBack(session: Session): Promise<void> {
  if (session.waiting > 0 || session.ended) return session.breakOff()
  try {
    await session.run({ text: 'ROLLBACK', query_timeout: ANSWER_MS })
  } catch {
    session.breakOff()
  }
}
