import { TidemarkError } from '../../errors.ts'
import type { ColumnType, ManagedTable } from '../store.ts'
import type { Session } from './session.ts'
import { type Row, readNumberOrNull, readText, readTextOrNull } from './values.ts'

/** The columns that tie a row to the event that made it; the key leads with them, so undo is a range of it. */
const KEY_COLUMNS = {
  tidemark_watcher: 'BIGINT',
  tidemark_block: 'BIGINT',
  tidemark_event: 'BINARY(16)',
  tidemark_ordinal: 'BIGINT',
} as const

/** The SQL type of each kind of column. Amounts are text of a fixed width: DECIMAL ends at 65 digits, 2^256 − 1 has 78. */
export const SQL_TYPE: Readonly<Record<ColumnType, string>> = {
  text: 'LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin',
  integer: 'BIGINT',
  bytes: 'LONGBLOB',
  boolean: 'TINYINT',
  uint256: 'CHAR(78) CHARACTER SET ascii COLLATE ascii_bin',
  int256: 'CHAR(78) CHARACTER SET ascii COLLATE ascii_bin',
}

/** A column as `information_schema.COLUMNS` shows it. */
export interface Column {
  readonly type: string
  readonly length: number | null
  readonly charset: string | null
  readonly collation: string | null
}

const WHOLE = new Set(['tinyint', 'smallint', 'mediumint', 'int', 'bigint'])
export const TEXTS = new Set(['varchar', 'tinytext', 'text', 'mediumtext', 'longtext'])
export const BYTES = new Set(['varbinary', 'tinyblob', 'blob', 'mediumblob', 'longblob'])

function keepsDigits({ type, length }: Column): boolean {
  return TEXTS.has(type) ? (length ?? 0) >= 78 : type === 'char' && length === 78
}

/**
 * Which columns keep a value as it is, or refuse it in strict mode. CHAR drops spaces at the end, BINARY fills up with
 * zeros, a text column of another character set has no room for every character.
 */
export const KEEPS: Readonly<Record<ColumnType, (column: Column) => boolean>> = {
  text: ({ type, charset }) => TEXTS.has(type) && charset === 'utf8mb4',
  integer: ({ type }) => WHOLE.has(type),
  bytes: ({ type }) => BYTES.has(type),
  boolean: ({ type }) => WHOLE.has(type),
  uint256: keepsDigits,
  int256: keepsDigits,
}

const NAME = /^[A-Za-z_][A-Za-z0-9_]{0,62}$/

/** A column that a managed table needs, and what columns of the user's do for it. */
export interface Wanted {
  readonly name: string
  readonly type: string
  keeps(column: Column): boolean
}

interface Named {
  readonly table: string
}

export function mismatch(table: Named, sentence: string, values: Record<string, unknown> = {}): TidemarkError {
  return new TidemarkError('STORE_TABLE_MISMATCH', sentence, { values: { table: table.table, ...values } })
}

/** Names are written into SQL, so they are held to letters, digits and underscores, and quoted all the same. */
export function checkNames(table: Named, columns: readonly string[], prefix: string): void {
  const odd = [table.table, ...columns].find((name) => !NAME.test(name))
  if (odd !== undefined)
    throw mismatch(table, 'A name may hold letters, digits and underscores only, at most 63', {
      name: odd.slice(0, 80),
    })
  const taken = ['tidemark_', prefix.toLowerCase()].some((start) => table.table.toLowerCase().startsWith(start))
  if (taken) throw mismatch(table, "Names that begin as Tidemark's own tables do are taken")
  const own = columns.find((name) => /^tidemark_/i.test(name))
  if (own !== undefined) throw mismatch(table, 'Column names that begin with tidemark_ are taken', { column: own })
  if (new Set(columns.map((name) => name.toLowerCase())).size < columns.length) {
    throw mismatch(table, 'The database does not tell names of columns apart that differ only in case')
  }
}

export function quote(name: string): string {
  return `\`${name.replaceAll('`', '``')}\``
}

export function createSql(table: ManagedTable): string {
  const key = Object.entries(KEY_COLUMNS).map(([name, type]) => `${name} ${type} NOT NULL`)
  const own = Object.entries(table.columns).map(([name, type]) => `${quote(name)} ${SQL_TYPE[type]}`)
  const primary = `PRIMARY KEY (${Object.keys(KEY_COLUMNS).join(', ')})`
  return `CREATE TABLE IF NOT EXISTS ${quote(table.table)} (${[...key, ...own, primary].join(', ')}) ENGINE = InnoDB`
}

export function insertSql(table: ManagedTable): string {
  const names = [...Object.keys(KEY_COLUMNS), ...Object.keys(table.columns)].map(quote)
  return `INSERT INTO ${quote(table.table)} (${names.join(', ')}) VALUES ?`
}

export function deleteAboveSql(table: ManagedTable): string {
  return `DELETE FROM ${quote(table.table)} WHERE tidemark_watcher = ? AND tidemark_block > ?`
}

function readColumn(row: Row): [name: string, column: Column] {
  const length = readNumberOrNull(row, 'length')
  const column = {
    type: readText(row, 'type').toLowerCase(),
    length,
    charset: readTextOrNull(row, 'charset'),
    collation: readTextOrNull(row, 'collation'),
  }
  return [readText(row, 'name').toLowerCase(), column]
}

function keepsKey(name: keyof typeof KEY_COLUMNS, { type, length }: Column): boolean {
  if (name === 'tidemark_event') return (type === 'binary' && length === 16) || BYTES.has(type)
  return type === 'bigint'
}

export function wantedColumns(table: ManagedTable): Wanted[] {
  return [
    ...Object.entries(KEY_COLUMNS).map(([name, type]) => {
      return { name, type, keeps: (one: Column) => keepsKey(name as keyof typeof KEY_COLUMNS, one) }
    }),
    ...Object.entries(table.columns).map(([name, type]) => ({ name, type: SQL_TYPE[type], keeps: KEEPS[type] })),
  ]
}

/** @throws {TidemarkError} `STORE_TABLE_MISMATCH` when a column is missing, or would change what is put in */
function checkColumns(table: Named, wanted: readonly Wanted[], rows: readonly Row[]): void {
  const found = new Map(rows.map(readColumn))
  const missing = wanted.filter(({ name }) => !found.has(name.toLowerCase()))
  if (missing.length > 0) {
    throw mismatch(table, 'The table lacks columns', { missing: missing.map(({ name, type }) => `${name} ${type}`) })
  }
  const wrong = wanted.filter(({ name, keeps }) => !keeps(found.get(name.toLowerCase()) as Column))
  if (wrong.length > 0) {
    throw mismatch(table, 'Columns of the table would change values', {
      expected: wrong.map(({ name, type }) => `${name} ${type}`),
    })
  }
}

/** Runs DDL where it can end nobody's transaction: on a connection of its own. */
export type RunDdl = (sql: string) => Promise<void>

const KIND = `
  SELECT TABLE_TYPE AS type, ENGINE AS engine FROM information_schema.TABLES
  WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?`
const COLUMNS = `
  SELECT COLUMN_NAME AS name, DATA_TYPE AS type, CHARACTER_MAXIMUM_LENGTH AS length, CHARACTER_SET_NAME AS charset,
    COLLATION_NAME AS collation
  FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?`
const KEY = `
  SELECT COLUMN_NAME AS name FROM information_schema.KEY_COLUMN_USAGE
  WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? AND CONSTRAINT_NAME = 'PRIMARY'`

/**
 * The table is made on another connection, and stays when this transaction is rolled back: DDL commits by itself here.
 * @param key columns that must be the primary key, where that matters
 */
export async function findOrMake(
  session: Session,
  ddl: RunDdl,
  table: Named,
  needed: { readonly createSql: string; readonly wanted: readonly Wanted[]; readonly key?: readonly string[] },
): Promise<void> {
  const before = await session.get(KIND, table.table)
  if (!before) await ddl(needed.createSql)
  const found = before ?? (await session.get(KIND, table.table)) ?? {}
  if (readText(found, 'type') !== 'BASE TABLE') throw mismatch(table, 'The name belongs to a view')
  if (readTextOrNull(found, 'engine') !== 'InnoDB') {
    throw mismatch(table, 'The engine of the table has no transactions', { expected: 'InnoDB' })
  }
  checkColumns(table, needed.wanted, await session.all(COLUMNS, table.table))
  if (!needed.key) return
  const primary = (await session.all(KEY, table.table)).map((row) => readText(row, 'name').toLowerCase())
  if (
    primary.sort().join() ===
    needed.key
      .map((name) => name.toLowerCase())
      .sort()
      .join()
  )
    return
  throw mismatch(table, 'The primary key of the table must be the columns of the key', { expected: needed.key })
}
