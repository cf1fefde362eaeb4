import { createRequire } from 'node:module'
import { adaptBetterSqlite3, type BetterSqlite3Like, isBetterSqlite3 } from './better-sqlite3.ts'

/** What a value bound to a statement can be. Booleans, dates and `undefined` are refused by the drivers. */
export type SqliteValue = null | number | bigint | string | Uint8Array
/** A positional value, or one object of named values (`{ account: 1n }` for `:account`). */
export type SqliteParameter = SqliteValue | Readonly<Record<string, SqliteValue>>
/** A row as the driver answers it. Integers are numbers, or bigints after `setReadBigInts(true)`. */
export type SqliteRow = Record<string, SqliteValue>

export interface SqliteRunResult {
  readonly changes: number | bigint
  readonly lastInsertRowid: number | bigint
}

/** The part of `StatementSync` (node:sqlite) that is used. */
export interface SqliteStatementLike {
  run(...parameters: SqliteParameter[]): SqliteRunResult
  get(...parameters: SqliteParameter[]): SqliteRow | undefined
  all(...parameters: SqliteParameter[]): SqliteRow[]
  iterate(...parameters: SqliteParameter[]): IterableIterator<SqliteRow>
  /** An integer beyond 2^53 that is read as a number throws a RangeError: it is never rounded. */
  setReadBigInts(on: boolean): void
}

/** The part of `DatabaseSync` (node:sqlite, @photostructure/sqlite) that is used. */
export interface SqliteDatabaseLike {
  readonly isTransaction: boolean
  prepare(sql: string): SqliteStatementLike
  exec(sql: string): void
  close(): void
}

/** A database that a user may pass in: any of the three drivers. */
export type SqliteDriverDatabase = SqliteDatabaseLike | BetterSqlite3Like

interface DriverModule {
  readonly DatabaseSync: new (file: string, options?: { readonly readOnly: boolean }) => SqliteDatabaseLike
}

/** Node's own driver, where it is new enough to say whether a transaction is open (from Node 22.16 and 24). */
function builtIn(): DriverModule | undefined {
  const found = process.getBuiltinModule?.('node:sqlite' as 'node:fs') as unknown as DriverModule | undefined
  return found && 'isTransaction' in found.DatabaseSync.prototype ? found : undefined
}

let loaded: DriverModule | undefined

function driver(): DriverModule {
  loaded ??= builtIn() ?? (createRequire(import.meta.url)('@photostructure/sqlite') as DriverModule)
  return loaded
}

/** Opens a file with Node's own driver, else with `@photostructure/sqlite`: the same API, prebuilt. */
export function openDefault(file: string): SqliteDatabaseLike {
  return new (driver().DatabaseSync)(file)
}

/** Opens a file that must be there, and cannot be changed through what is answered. */
export function openReadOnly(file: string): SqliteDatabaseLike {
  return new (driver().DatabaseSync)(file, { readOnly: true })
}

/** The database as the rest of this folder sees it, whichever driver it came from. */
export function adapt(native: SqliteDriverDatabase): SqliteDatabaseLike {
  return isBetterSqlite3(native) ? adaptBetterSqlite3(native) : native
}
