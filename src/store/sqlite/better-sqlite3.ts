import type {
  SqliteDatabaseLike,
  SqliteParameter,
  SqliteRow,
  SqliteRunResult,
  SqliteStatementLike,
  SqliteValue,
} from './driver.ts'

/** The part of a better-sqlite3 statement that is used. */
export interface BetterSqlite3Statement {
  /** Whether it answers rows: `run` refuses those, `get` and `all` refuse the others. */
  readonly reader: boolean
  run(...parameters: never[]): { changes: number; lastInsertRowid: number | bigint }
  get(...parameters: never[]): unknown
  all(...parameters: never[]): unknown[]
  iterate(...parameters: never[]): IterableIterator<unknown>
  safeIntegers(on?: boolean): unknown
  raw(on?: boolean): unknown
}

/** A better-sqlite3 database, recognised by shape: nothing here depends on that package. */
export interface BetterSqlite3Like {
  readonly inTransaction: boolean
  prepare(sql: string): BetterSqlite3Statement
  exec(sql: string): unknown
  close(): unknown
}

export function isBetterSqlite3(database: object): database is BetterSqlite3Like {
  return 'inTransaction' in database && !('isTransaction' in database)
}

/** Gives a better-sqlite3 database the shape of node:sqlite. */
export function adaptBetterSqlite3(native: BetterSqlite3Like): SqliteDatabaseLike {
  return new BetterDatabase(native)
}

class BetterDatabase implements SqliteDatabaseLike {
  readonly #native: BetterSqlite3Like

  constructor(native: BetterSqlite3Like) {
    this.#native = native
  }

  get isTransaction(): boolean {
    return this.#native.inTransaction
  }

  prepare(sql: string): SqliteStatementLike {
    return new BetterStatement(this.#native, this.#native.prepare(sql))
  }

  exec(sql: string): void {
    this.#native.exec(sql)
  }

  close(): void {
    this.#native.close()
  }
}

/**
 * Integers are always read as bigint and then narrowed: better-sqlite3 would round those beyond 2^53 without a word,
 * where node:sqlite throws.
 */
class BetterStatement implements SqliteStatementLike {
  readonly #native: BetterSqlite3Like
  readonly #statement: BetterSqlite3Statement
  #bigints = false

  constructor(native: BetterSqlite3Like, statement: BetterSqlite3Statement) {
    this.#native = native
    this.#statement = statement
    statement.safeIntegers(true)
  }

  setReadBigInts(on: boolean): void {
    this.#bigints = on
  }

  run(...parameters: SqliteParameter[]): SqliteRunResult {
    if (!this.#statement.reader) return this.#statement.run(...(parameters as never[]))
    this.#statement.all(...(parameters as never[]))
    const changed = this.#native.prepare('SELECT changes() AS changes, last_insert_rowid() AS lastInsertRowid')
    return changed.get() as unknown as SqliteRunResult
  }

  get(...parameters: SqliteParameter[]): SqliteRow | undefined {
    if (this.#statement.reader) return this.#narrow(this.#statement.get(...(parameters as never[])))
    this.#statement.run(...(parameters as never[]))
    return undefined
  }

  all(...parameters: SqliteParameter[]): SqliteRow[] {
    if (this.#statement.reader)
      return this.#statement.all(...(parameters as never[])).map((row) => this.#narrow(row) as SqliteRow)
    this.#statement.run(...(parameters as never[]))
    return []
  }

  *iterate(...parameters: SqliteParameter[]): IterableIterator<SqliteRow> {
    for (const row of this.#statement.iterate(...(parameters as never[]))) yield this.#narrow(row) as SqliteRow
  }

  #narrow(row: unknown): SqliteRow | undefined {
    if (row === undefined || this.#bigints) return row as SqliteRow | undefined
    const narrowed = row as SqliteRow
    for (const [column, value] of Object.entries(narrowed)) {
      if (typeof value === 'bigint') narrowed[column] = toNumber(value)
    }
    return narrowed
  }
}

function toNumber(value: SqliteValue): number {
  const number = Number(value)
  if (Number.isSafeInteger(number)) return number
  throw new RangeError('an integer beyond 2^53 was read as a number: use setReadBigInts(true)')
}
