import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import mysqlDriver from 'mysql2/promise'
import pg from 'pg'
import { describe } from 'vitest'
import type { ErasedDefinition, Watcher } from '../../src/handle/watch.ts'
import { mysql, watch as watchMysql } from '../../src/store/mysql/index.ts'
import { postgres, watch as watchPostgres } from '../../src/store/postgres/index.ts'
import { openDefault } from '../../src/store/sqlite/driver.ts'
import { sqlite, watch as watchSqlite } from '../../src/store/sqlite/index.ts'
import type { Store } from '../../src/store/store.ts'
import { type Maybe, type Op, runAsync, runSync } from '../../src/util/op.ts'
import type { World } from '../../src/util/world.ts'
import { describeMysql, makeDatabase } from './mysql.ts'
import { describePostgres, emptyDatabase } from './postgres.ts'

/**
 * The three stores in one shape, so that a test is written once and runs on each. Statements are written with `?` for each
 * value; what the databases spell differently is asked of the backend.
 */

export type Row = Readonly<Record<string, unknown>>

/** A handler's `db`, of whichever store. */
export type AnyDb = any

/** A definition with its types taken off. */
export type Definition = ErasedDefinition<AnyDb>

export interface OpenOptions {
  readonly world: World
  /** A `pg` or `mysql2/promise` pool that the store is to use instead of the url. */
  readonly pool?: unknown
  /** What only one store knows: `schema`, `isolation`, … */
  readonly more?: Readonly<Record<string, unknown>>
}

/** An empty database of a test's own. Rows are plain objects: whole numbers that are safe as numbers. */
export interface Database {
  readonly backend: Backend
  /** A url, or the path of a file. */
  readonly url: string
  open(options: OpenOptions): Store
  /** A statement on a connection outside of every store. */
  rows(sql: string, ...values: unknown[]): Promise<Row[]>
  /** Deletes all rows, and drops the tables named: quicker than a new database. */
  empty(drop?: readonly string[]): Promise<void>
  drop(): Promise<void>
}

export interface Backend {
  readonly kind: 'sqlite' | 'postgres' | 'mysql'
  /** Says loudly what did not run where no server answers; with CI=true that is a failure. */
  describe(name: string, tests: () => void): void
  watch(definition: Definition): Watcher
  /** A statement on a handler's `db`. The embedded store answers at once. */
  send(db: AnyDb, sql: string, ...values: unknown[]): Maybe<readonly Row[]>
  /** Runs an operation in the way of the store's handlers. */
  drive<T>(op: Op<T>): Maybe<T>
  /** SQL types: a text that is compared as it is, 64 bits, bytes, exact digits of 256 bits. */
  readonly types: { readonly text: string; readonly whole: string; readonly bytes: string; readonly digits: string }
  /** The name of one of Tidemark's own tables. */
  own(table: string): string
  /** A new row of two columns, or its number added to the row that is there. */
  addTo(table: string, key: string, number: string): string
  database(): Promise<Database>
}

// ------------------------------------------------------------------------------------------------------- SQLite

const onConflict = (table: string, key: string, number: string) =>
  `INSERT INTO ${table} (${key}, ${number}) VALUES (?, ?)
    ON CONFLICT (${key}) DO UPDATE SET ${number} = ${table}.${number} + excluded.${number}`

function fileDatabase(): Database {
  const folder = mkdtempSync(join(tmpdir(), 'tidemark-stores-'))
  const url = join(folder, 'test.db')
  const db = openDefault(url)
  db.exec('PRAGMA journal_mode = WAL; PRAGMA busy_timeout = 5000')
  const rows = async (sql: string, ...values: unknown[]) => db.prepare(sql).all(...(values as never[])) as Row[]
  const drop = async () => {
    db.close()
    rmSync(folder, { recursive: true, force: true })
  }
  const empty = async (dropped: readonly string[] = []) => {
    for (const table of dropped) db.exec(`DROP TABLE IF EXISTS ${table}`)
    const tables = db.prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'").all()
    for (const { name } of tables) if (name !== 'tidemark_meta') db.exec(`DELETE FROM ${name}`)
  }
  const open = ({ world, more }: OpenOptions) => sqlite({ file: url, world, ...more })
  return { backend: onSqlite, url, open, rows, empty, drop }
}

export const onSqlite: Backend = {
  kind: 'sqlite',
  describe: (name, tests) => describe(`sqlite: ${name}`, tests),
  watch: (definition) => watchSqlite(definition as never),
  send: (db, sql, ...values) => db.prepare(sql).all(...values),
  drive: runSync,
  types: { text: 'TEXT', whole: 'INTEGER', bytes: 'BLOB', digits: 'TEXT' },
  own: (table) => `tidemark_${table}`,
  addTo: onConflict,
  database: async () => fileDatabase(),
}

// --------------------------------------------------------------------------------------------------- PostgreSQL

function numbered(sql: string): string {
  let n = 0
  return sql.replaceAll('?', () => `$${++n}`)
}

function asNumber(text: string): number | string {
  const number = Number(text)
  return Number.isSafeInteger(number) ? number : text
}

const INT8 = 20
/** Whole numbers as numbers where that is exact; everything else as the driver reads it. */
export const plainTypes = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') =>
    oid === INT8 ? asNumber : pg.types.getTypeParser(oid, format as 'text'),
}

async function postgresDatabase(): Promise<Database> {
  const { url, drop } = await emptyDatabase()
  const client = new pg.Client({ connectionString: url, types: plainTypes as never })
  client.on('error', () => {})
  await client.connect()
  // One after the other: a client that is asked while it works is going away (pg 9).
  let before: Promise<unknown> = Promise.resolve()
  const rows = (sql: string, ...values: unknown[]) => {
    const answer = before.then(async () => (await client.query(numbered(sql), values)).rows as Row[])
    before = answer.catch(() => {})
    return answer
  }
  const empty = async (dropped: readonly string[] = []) => {
    for (const table of dropped) await client.query(`DROP TABLE IF EXISTS ${table}`)
    const tables = await rows(
      "SELECT schemaname || '.' || tablename AS name FROM pg_tables WHERE schemaname IN ('public', 'tidemark')",
    )
    const kept = " WHERE name NOT IN ('schema_version', 'oldest_code')"
    const text = tables.map(({ name }) => `DELETE FROM ${name}${name === 'tidemark.meta' ? kept : ''}`)
    await client.query(text.join(';'))
  }
  const end = async () => {
    await client.end()
    await drop()
  }
  const open = ({ world, pool, more }: OpenOptions) =>
    postgres({ ...(pool ? { pool: pool as never } : { url }), world, ...more })
  return { backend: onPostgres, url, open, rows, empty, drop: end }
}

export const onPostgres: Backend = {
  kind: 'postgres',
  describe: (name, tests) => describePostgres(`postgres: ${name}`, tests),
  watch: (definition) => watchPostgres(definition as never),
  send: async (db, sql, ...values) => (await db.query(numbered(sql), values)).rows,
  drive: runAsync,
  types: { text: 'text', whole: 'bigint', bytes: 'bytea', digits: 'numeric(78,0)' },
  own: (table) => `tidemark.${table}`,
  addTo: onConflict,
  database: postgresDatabase,
}

// ------------------------------------------------------------------------------------------------------- MariaDB

async function mysqlDatabase(): Promise<Database> {
  const { url, outside, drop } = await makeDatabase()
  const rows = async (sql: string, ...values: unknown[]) => {
    const [found] = await outside.query(sql, values)
    return Array.isArray(found) ? (found as Row[]) : []
  }
  const empty = async (dropped: readonly string[] = []) => {
    for (const table of dropped) await rows(`DROP TABLE IF EXISTS ${table}`)
    const tables = await rows(
      "SELECT TABLE_NAME AS name FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_TYPE = 'BASE TABLE'",
    )
    for (const { name } of tables) if (name !== 'tidemark_meta') await rows(`DELETE FROM ${name}`)
  }
  const open = ({ world, pool, more }: OpenOptions) =>
    mysql({ ...(pool ? { pool: pool as never } : { url }), world, ...more })
  return { backend: onMysql, url, open, rows, empty, drop }
}

export const onMysql: Backend = {
  kind: 'mysql',
  describe: (name, tests) => describeMysql(`mysql: ${name}`, tests),
  watch: (definition) => watchMysql(definition as never),
  send: async (db, sql, ...values) => {
    const [found] = await db.query(sql, values)
    return Array.isArray(found) ? found : []
  },
  drive: runAsync,
  types: {
    text: 'VARCHAR(190) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin',
    whole: 'BIGINT',
    bytes: 'LONGBLOB',
    digits: 'CHAR(78)',
  },
  own: (table) => `tidemark_${table}`,
  addTo: (table, key, number) =>
    `INSERT INTO ${table} (${key}, ${number}) VALUES (?, ?) ON DUPLICATE KEY UPDATE ${number} = ${number} + VALUES(${number})`,
  database: mysqlDatabase,
}

export const backends: readonly Backend[] = [onSqlite, onPostgres, onMysql]
/** Those of which several processes, and the application, hold connections at once. */
export const servers: readonly Backend[] = [onPostgres, onMysql]

/** A pool of the user's own, on the same database. */
export function userPool({ backend, url }: Database, connections = 8): pg.Pool | mysqlDriver.Pool {
  if (backend.kind === 'mysql') return mysqlDriver.createPool({ uri: url, connectionLimit: connections })
  const pool = new pg.Pool({ connectionString: url, max: connections })
  pool.on('error', () => {})
  return pool
}

/** A connection of the application's own, for transactions that it opens itself. */
export interface Application {
  /** The driver's client, as the parts used alone take it. */
  readonly client: AnyDb
  send(sql: string): Promise<unknown>
  end(): Promise<void>
}

export async function application({ backend, url }: Database): Promise<Application> {
  if (backend.kind === 'sqlite') {
    const client = openDefault(url)
    client.exec('PRAGMA busy_timeout = 5000')
    return { client, send: async (sql) => client.exec(sql), end: async () => client.close() }
  }
  if (backend.kind === 'mysql') {
    const client = await mysqlDriver.createConnection({ uri: url })
    return { client, send: (sql) => client.query(sql), end: () => client.end() }
  }
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  return { client, send: (sql) => client.query(sql), end: () => client.end() }
}
