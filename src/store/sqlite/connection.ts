import { TidemarkError } from '../../errors.ts'
import type { World } from '../../util/world.ts'
import {
  adapt,
  type SqliteDatabaseLike,
  type SqliteDriverDatabase,
  type SqliteParameter,
  type SqliteRow,
  type SqliteStatementLike,
} from './driver.ts'
import { storeError } from './sqlite-errors.ts'

/**
 * One open database with its prepared statements. Tidemark's own statements are a fixed set (a few dozen, and three for
 * each managed table), so their cache needs no limit; those of handlers live in `StatementCache`.
 */
export class Connection {
  /** As the user or the loader opened it; `db.raw` of a handler. */
  readonly native: SqliteDriverDatabase
  readonly database: SqliteDatabaseLike
  readonly world: World
  readonly userStatements: StatementCache
  readonly #statements = new Map<string, SqliteStatementLike>()

  constructor(native: SqliteDriverDatabase, world: World) {
    this.native = native
    this.database = adapt(native)
    this.world = world
    this.userStatements = new StatementCache(this.database)
  }

  get inTransaction(): boolean {
    return this.database.isTransaction
  }

  /** Runs a writing statement of Tidemark. Answers how many rows it changed. */
  run(sql: string, ...parameters: SqliteParameter[]): number {
    this.#needTransaction()
    try {
      return Number(this.#prepared(sql).run(...parameters).changes)
    } catch (error) {
      throw storeError(error)
    }
  }

  get(sql: string, ...parameters: SqliteParameter[]): SqliteRow | undefined {
    this.#needTransaction()
    try {
      // node:sqlite answers undefined for "no row", other drivers may answer null.
      return this.#prepared(sql).get(...parameters) ?? undefined
    } catch (error) {
      throw storeError(error)
    }
  }

  all(sql: string, ...parameters: SqliteParameter[]): SqliteRow[] {
    this.#needTransaction()
    try {
      return this.#prepared(sql).all(...parameters)
    } catch (error) {
      throw storeError(error)
    }
  }

  /** BEGIN, COMMIT, ROLLBACK and the like: outside the check that a transaction is open, errors as the driver threw them. */
  control(sql: string): void {
    this.#prepared(sql).run()
  }

  /**
   * SAVEPOINT, RELEASE and ROLLBACK TO, as `control` runs them. `get`, since the report on changed rows that `run` makes costs
   * three times what the statement does, and two of these run for every event.
   */
  savepoint(sql: string): void {
    this.#prepared(sql).get()
  }

  /** Opens a savepoint among Tidemark's own statements. Outside a transaction SQLite would open one by itself here: refused. */
  openSavepoint(sql: string): void {
    this.#needTransaction()
    try {
      this.savepoint(sql)
    } catch (error) {
      throw storeError(error)
    }
  }

  /** Rows changed since the connection was opened. Answers outside a transaction too: that it is gone is found out apart. */
  totalChanges(): number {
    return Number(this.#prepared('SELECT total_changes() AS n').get()?.n)
  }

  close(): void {
    this.#statements.clear()
    this.userStatements.clear()
    this.database.close()
  }

  /**
   * A statement of Tidemark outside a transaction would commit by itself, apart from marks and cursor (P1): refused.
   */
  #needTransaction(): void {
    if (this.database.isTransaction) return
    throw new TidemarkError('TRANSACTION_LOST', 'The transaction ended before Tidemark was done with it')
  }

  #prepared(sql: string): SqliteStatementLike {
    const known = this.#statements.get(sql)
    if (known) return known
    const statement = this.database.prepare(sql)
    this.#statements.set(sql, statement)
    return statement
  }
}

/** Statements of handlers kept for the next event, for each of the two ways to read integers. */
export const USER_STATEMENTS = 256

/** Prepared statements by text, the least recently used dropped first. */
export class StatementCache {
  readonly #database: SqliteDatabaseLike
  // Two maps, since two users of one text may want different integers, and a key made of both would be a new text to be
  // hashed at every call.
  readonly #numbers = new Map<string, SqliteStatementLike>()
  readonly #bigints = new Map<string, SqliteStatementLike>()
  // The newest of all, so its place in the order is right already: a handler prepares a text and runs it at once.
  #lastSql = ''
  #lastBigints = false
  #last: SqliteStatementLike | undefined

  constructor(database: SqliteDatabaseLike) {
    this.#database = database
  }

  get size(): number {
    return this.#numbers.size + this.#bigints.size
  }

  get(sql: string, bigints: boolean): SqliteStatementLike {
    return this.find(sql, bigints) ?? this.#keep(sql, bigints, this.fresh(sql, bigints))
  }

  /** The statement, if it is kept. */
  find(sql: string, bigints: boolean): SqliteStatementLike | undefined {
    if (this.#last && sql === this.#lastSql && bigints === this.#lastBigints) return this.#last
    const statements = bigints ? this.#bigints : this.#numbers
    const known = statements.get(sql)
    if (!known) return undefined
    // The order of a Map is that of insertion: taking it out and in again makes it the newest.
    statements.delete(sql)
    return this.#keep(sql, bigints, known)
  }

  #keep(sql: string, bigints: boolean, statement: SqliteStatementLike): SqliteStatementLike {
    const statements = bigints ? this.#bigints : this.#numbers
    statements.set(sql, statement)
    if (statements.size > USER_STATEMENTS) dropOldest(statements)
    this.#lastSql = sql
    this.#lastBigints = bigints
    this.#last = statement
    return statement
  }

  /** A statement of its own: an open iterator would be reset by another use of a shared one. */
  fresh(sql: string, bigints: boolean): SqliteStatementLike {
    const statement = this.#database.prepare(sql)
    if (bigints) statement.setReadBigInts(true)
    return statement
  }

  clear(): void {
    this.#numbers.clear()
    this.#bigints.clear()
    this.#last = undefined
  }
}

function dropOldest(statements: Map<string, unknown>): void {
  for (const oldest of statements.keys()) {
    statements.delete(oldest)
    return
  }
}
