import type { DbScope, ScopeRules } from '../store.ts'
import type { Connection } from './connection.ts'
import type {
  SqliteDriverDatabase,
  SqliteParameter,
  SqliteRow,
  SqliteRunResult,
  SqliteStatementLike,
} from './driver.ts'
import { checkParameters, Guard } from './guard.ts'

/** A prepared statement of a handler. It ends with the callback. */
export interface SqliteStatement {
  /** Runs it for its effect. */
  run(...parameters: SqliteParameter[]): SqliteRunResult
  /** The first row, or undefined. */
  get(...parameters: SqliteParameter[]): SqliteRow | undefined
  all(...parameters: SqliteParameter[]): SqliteRow[]
  /** Rows one by one. An iterator left open is ended with the callback. */
  iterate(...parameters: SqliteParameter[]): IterableIterator<SqliteRow>
  /** Reads integers as bigint. Without it an integer beyond 2^53 throws a RangeError: it is never rounded. */
  setReadBigInts(on: boolean): void
}

/** What the parts used alone need of a connection: any of the drivers has it. */
export interface SqliteConnection {
  prepare(sql: string): SqliteStatement
  /** Runs one or more statements without parameters. */
  exec(sql: string): void
}

/**
 * What a handler works on: the shape of `DatabaseSync` of node:sqlite, inside Tidemark's transaction.
 *
 * Parameters may be null, number, bigint (64 bits signed), string and Uint8Array, by position or as one object of
 * names. Larger numbers go as text or bytes (`encodeUint256`). A text with a NUL is refused, since the driver cuts it.
 *
 * Refused are transaction control, PRAGMA, VACUUM, ATTACH and DETACH (`TRANSACTION_CONTROL_REFUSED`), and any use after
 * the callback (`SCOPE_DEAD`).
 */
export interface SqliteDb extends SqliteConnection {
  /** The driver's own database, unguarded: what it does to the transaction is found out only afterwards. */
  readonly raw: SqliteDriverDatabase
}

class GuardedDb implements SqliteDb {
  readonly #guard: Guard

  constructor(guard: Guard) {
    this.#guard = guard
  }

  /** The guard of a `db` that was made here; the brand of the class tells, not its shape. */
  static guardOf(db: object): Guard | undefined {
    return #guard in db ? db.#guard : undefined
  }

  get raw(): SqliteDriverDatabase {
    this.#guard.alive()
    return this.#guard.connection.native
  }

  prepare(sql: string): SqliteStatement {
    // Prepared now, so that an error of the text shows at its line; run from the cache later.
    this.#guard.compile(sql)
    return new GuardedStatement(this.#guard, sql)
  }

  exec(sql: string): void {
    this.#guard.statement(() => {
      this.#guard.checkText(sql, 'many')
      this.#guard.connection.database.exec(sql)
    })
  }
}

class GuardedStatement implements SqliteStatement {
  readonly #guard: Guard
  readonly #sql: string
  #bigints = false

  constructor(guard: Guard, sql: string) {
    this.#guard = guard
    this.#sql = sql
  }

  setReadBigInts(on: boolean): void {
    this.#guard.alive()
    this.#bigints = on
  }

  run(...parameters: SqliteParameter[]): SqliteRunResult {
    return this.#guard.statement(() => this.#bound(parameters).run(...parameters))
  }

  get(...parameters: SqliteParameter[]): SqliteRow | undefined {
    return this.#guard.statement(() => this.#bound(parameters).get(...parameters) ?? undefined)
  }

  all(...parameters: SqliteParameter[]): SqliteRow[] {
    return this.#guard.statement(() => this.#bound(parameters).all(...parameters))
  }

  iterate(...parameters: SqliteParameter[]): IterableIterator<SqliteRow> {
    const rows = this.#guard.statement(() => {
      checkParameters(parameters)
      return this.#guard.connection.userStatements.fresh(this.#sql, this.#bigints).iterate(...parameters)
    })
    return new GuardedIterator(this.#guard, rows)
  }

  #bound(parameters: readonly SqliteParameter[]): SqliteStatementLike {
    checkParameters(parameters)
    return this.#guard.prepared(this.#sql, this.#bigints)
  }
}

/** Each step is a statement of its own to the guard: it checks the deadline, and that the scope still lives. */
class GuardedIterator implements IterableIterator<SqliteRow> {
  readonly #guard: Guard
  readonly #rows: IterableIterator<SqliteRow>

  constructor(guard: Guard, rows: IterableIterator<SqliteRow>) {
    this.#guard = guard
    this.#rows = rows
    guard.keep(rows)
  }

  [Symbol.iterator](): IterableIterator<SqliteRow> {
    return this
  }

  next(): IteratorResult<SqliteRow> {
    const step = this.#guard.statement(() => this.#rows.next())
    if (step.done) this.#guard.drop(this.#rows)
    return step
  }

  return(): IteratorResult<SqliteRow> {
    this.#guard.drop(this.#rows)
    this.#rows.return?.()
    return { done: true, value: undefined }
  }
}

/** The connection behind a handler's `db`, when `db` is one. @throws `SCOPE_DEAD` after its callback */
export function connectionOfGuarded(db: object): Connection | undefined {
  const guard = GuardedDb.guardOf(db)
  guard?.alive()
  return guard?.connection
}

class GuardedScope implements DbScope<SqliteDb> {
  readonly db: GuardedDb
  readonly #guard: Guard

  constructor(guard: Guard) {
    this.#guard = guard
    this.db = new GuardedDb(guard)
  }

  /** Bound when it is asked for: it may be taken out of the scope, and few callbacks want it. */
  get savepoint(): DbScope<SqliteDb>['savepoint'] {
    return (fn) => this.#guard.savepoint(fn)
  }

  own<T>(work: () => T): T {
    return this.#guard.own(work)
  }

  close(outcome: 'returned' | 'threw'): void {
    this.#guard.close(outcome)
  }
}

/** The handler's savepoint costs next to nothing here, so each scope has one, whether `raw` is used or not. */
export function openScope(connection: Connection, rules: ScopeRules): DbScope<SqliteDb> {
  const guard = new Guard(connection, rules)
  guard.open()
  return new GuardedScope(guard)
}
