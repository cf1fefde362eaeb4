import { TidemarkError } from '../../errors.ts'
import { type Op, runSync } from '../../util/op.ts'
import type { DbScope, ScopeRules, Tx } from '../store.ts'
import { SqliteAudit } from './audit.ts'
import { SqliteCommits } from './commits.ts'
import type { Connection } from './connection.ts'
import { SqliteCursors } from './cursors.ts'
import { SqliteHandled } from './handled.ts'
import { callWithin } from './interrupt.ts'
import { SqliteKept } from './kept.ts'
import { SqliteManaged } from './managed.ts'
import { SqliteMarks } from './marks.ts'
import { SqliteMeta } from './meta.ts'
import { openScope, type SqliteDb } from './scope.ts'
import { isConstraint, storeError } from './sqlite-errors.ts'
import { SqliteTotals } from './totals.ts'
import { SqliteTrail } from './trail.ts'

/**
 * The ports on one connection. They hold no state of a transaction, so one set serves all of them; each verb checks
 * that a transaction is open.
 */
export class SqliteTx implements Tx<SqliteDb> {
  readonly cursors: SqliteCursors
  readonly trail: SqliteTrail
  readonly marks: SqliteMarks
  readonly kept: SqliteKept
  readonly commits: SqliteCommits
  readonly managed: SqliteManaged
  readonly totals: SqliteTotals
  readonly handled: SqliteHandled
  readonly audit: SqliteAudit
  readonly meta: SqliteMeta
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
    this.cursors = new SqliteCursors(connection)
    this.trail = new SqliteTrail(connection)
    this.marks = new SqliteMarks(connection)
    this.kept = new SqliteKept(connection)
    this.commits = new SqliteCommits(connection)
    this.managed = new SqliteManaged(connection)
    this.totals = new SqliteTotals(connection)
    this.handled = new SqliteHandled(connection)
    this.audit = new SqliteAudit(connection)
    this.meta = new SqliteMeta(connection)
  }

  inTransaction(): boolean {
    return this.#connection.inTransaction
  }

  savepoint(name: string): void {
    this.#connection.openSavepoint(savepointSql(name).open)
  }

  release(name: string): void {
    this.#connection.savepoint(savepointSql(name).release)
  }

  rollbackTo(name: string): void {
    this.#connection.savepoint(savepointSql(name).rollbackTo)
  }

  openScope(rules: ScopeRules): DbScope<SqliteDb> {
    return openScope(this.#connection, rules)
  }

  drive<T>(op: Op<T>): T {
    return runSync(op)
  }

  *interruptible<T>(op: () => Op<T>, hardLimitMs: number): Op<T> {
    if (this.#connection.world.simulated) return runSync(op())
    return callWithin(() => runSync(op()), hardLimitMs)
  }
}

function lost(): TidemarkError {
  return new TidemarkError('TRANSACTION_LOST', 'The transaction ended before Tidemark was done with it')
}

interface SavepointSql {
  readonly open: string
  readonly release: string
  readonly rollbackTo: string
}

/** Texts made once a name: two of them run for every event. Names are constants of the engine, so there are few. */
const savepoints = new Map<string, SavepointSql>()

/** The name becomes part of statements that are kept, so it is one of few, and plain. */
function savepointSql(name: string): SavepointSql {
  const known = savepoints.get(name)
  if (known) return known
  if (!/^[a-z_]{1,40}$/.test(name)) throw new TypeError('a savepoint is named with lower-case letters and underscores')
  const made = { open: `SAVEPOINT ${name}`, release: `RELEASE ${name}`, rollbackTo: `ROLLBACK TO ${name}` }
  savepoints.set(name, made)
  return made
}

/**
 * Runs `body` between BEGIN IMMEDIATE and COMMIT, without leaving this call: the write lock is taken at once, so a
 * transaction never reads first and then finds that it may not write (C57).
 */
export function writeTransaction<T>(connection: Connection, tx: SqliteTx, body: (tx: SqliteTx) => Op<T>): T {
  // A handler may have switched it off through `raw`; inside a transaction the setting cannot be changed (P1).
  begin(connection, 'PRAGMA foreign_keys = ON')
  begin(connection, 'BEGIN IMMEDIATE')
  let result: T
  try {
    result = runSync(body(tx))
    if (!connection.inTransaction) throw lost()
  } catch (error) {
    rollBack(connection)
    throw error
  }
  commit(connection)
  return result
}

/** Runs `body` on one snapshot and rolls back whatever it may have written. */
export function readTransaction<T>(connection: Connection, tx: SqliteTx, body: (tx: SqliteTx) => Op<T>): T {
  begin(connection, 'BEGIN')
  try {
    return runSync(body(tx))
  } finally {
    rollBack(connection)
  }
}

function begin(connection: Connection, sql: string): void {
  try {
    connection.control(sql)
  } catch (error) {
    throw storeError(error)
  }
}

function commit(connection: Connection): void {
  try {
    connection.control('COMMIT')
  } catch (error) {
    throw commitError(connection, error)
  }
}

/** Still in the transaction: nothing was committed. No longer: SQLite ended it, and only the file knows how. */
function commitError(connection: Connection, error: unknown): unknown {
  if (!connection.inTransaction) {
    return new TidemarkError('COMMIT_UNKNOWN', 'COMMIT failed and the transaction is over', { cause: error })
  }
  rollBack(connection)
  if (isConstraint(error)) {
    return new TidemarkError('HANDLER_FAILED', 'A deferred constraint of the database does not hold at COMMIT', {
      cause: error,
    })
  }
  return storeError(error)
}

/**
 * SQLite has rolled back by itself after some errors: a full disk, INSERT OR ROLLBACK. A ROLLBACK that fails hides
 * nothing: the first error goes on, and the store drops a connection that it finds in a transaction.
 */
function rollBack(connection: Connection): void {
  if (!connection.inTransaction) return
  try {
    connection.control('ROLLBACK')
  } catch {
    // see above
  }
}
