import type { ColumnType } from '../store.ts'
import { mismatch, type NameRules } from '../table-names.ts'
import type { Session } from './session.ts'
import { type Row, readNumberOrNull, readText, readTextOrNull } from './values.ts'

/** Runs DDL where it can end nobody's transaction: on a connection of its own. */
export type RunDdl = (sql: string) => Promise<void>

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
export interface FoundColumn {
  readonly type: string
  readonly length: number | null
  readonly charset: string | null
  readonly collation: string | null
}

/** A column as it must be. */
export interface WantedColumn {
  readonly name: string
  readonly type: string
  readonly keeps: (column: FoundColumn) => boolean
}

const WHOLE = new Set(['tinyint', 'smallint', 'mediumint', 'int', 'bigint'])
const TEXTS = new Set(['varchar', 'tinytext', 'text', 'mediumtext', 'longtext'])
export const BYTES: ReadonlySet<string> = new Set(['varbinary', 'tinyblob', 'blob', 'mediumblob', 'longblob'])

function keepsDigits({ type, length }: FoundColumn): boolean {
  return TEXTS.has(type) ? (length ?? 0) >= 78 : type === 'char' && length === 78
}

/**
 * Which columns keep a value as it is, or refuse it in strict mode. CHAR drops spaces at the end, BINARY fills up with
 * zeros, a text column of another character set has no room for every character.
 */
export const KEEPS: Readonly<Record<ColumnType, (column: FoundColumn) => boolean>> = {
  text: ({ type, charset }) => TEXTS.has(type) && charset === 'utf8mb4',
  integer: ({ type }) => WHOLE.has(type),
  bytes: ({ type }) => BYTES.has(type),
  boolean: ({ type }) => WHOLE.has(type),
  uint256: keepsDigits,
  int256: keepsDigits,
}

/** @param prefix of Tidemark's own tables */
export function namesWith(prefix: string): NameRules {
  return {
    isTaken: (table) => ['tidemark_', prefix.toLowerCase()].some((start) => table.toLowerCase().startsWith(start)),
    taken: "Names that begin as Tidemark's own tables do are taken",
    caseless: 'The database does not tell names of columns apart that differ only in case',
  }
}

export function quote(name: string): string {
  return `\`${name.replaceAll('`', '``')}\``
}

/** @param columns and keys of the table to be made, as SQL */
export function createSql(table: string, columns: readonly string[]): string {
  return `CREATE TABLE IF NOT EXISTS ${quote(table)} (${columns.join(', ')}) ENGINE = InnoDB`
}

const KIND = `
  SELECT TABLE_TYPE AS type, ENGINE AS engine FROM information_schema.TABLES
  WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?`
const COLUMNS = `
  SELECT COLUMN_NAME AS name, DATA_TYPE AS type, CHARACTER_MAXIMUM_LENGTH AS length, CHARACTER_SET_NAME AS charset,
    COLLATION_NAME AS collation
  FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?`
/** A part of a column in the key takes two values for one. */
const PRIMARY = `
  SELECT COLUMN_NAME AS name, SUB_PART AS part FROM information_schema.STATISTICS
  WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? AND INDEX_NAME = 'PRIMARY'`

/** The table is made on another connection, and stays when this transaction is rolled back: DDL commits by itself here. */
export async function findOrMake(session: Session, ddl: RunDdl, table: string, createSql: string): Promise<void> {
  const before = await session.get(KIND, table)
  if (!before) await ddl(createSql)
  const found = before ?? (await session.get(KIND, table)) ?? {}
  if (readText(found, 'type') !== 'BASE TABLE') throw mismatch(table, 'The name belongs to a view')
  if (readTextOrNull(found, 'engine') !== 'InnoDB') {
    throw mismatch(table, 'The engine of the table has no transactions', { expected: 'InnoDB' })
  }
}

function readColumn(row: Row): [name: string, column: FoundColumn] {
  const column = {
    type: readText(row, 'type').toLowerCase(),
    length: readNumberOrNull(row, 'length'),
    charset: readTextOrNull(row, 'charset'),
    collation: readTextOrNull(row, 'collation'),
  }
  return [readText(row, 'name').toLowerCase(), column]
}

/** @throws {TidemarkError} `STORE_TABLE_MISMATCH` when a column is missing, or would change what is put in */
export async function checkColumns(session: Session, table: string, wanted: readonly WantedColumn[]): Promise<void> {
  const found = new Map((await session.all(COLUMNS, table)).map(readColumn))
  const missing = wanted.filter(({ name }) => !found.has(name.toLowerCase()))
  if (missing.length > 0) {
    throw mismatch(table, 'The table lacks columns', { missing: missing.map(({ name, type }) => `${name} ${type}`) })
  }
  const wrong = wanted.filter(({ name, keeps }) => !keeps(found.get(name.toLowerCase()) as FoundColumn))
  if (wrong.length > 0) {
    throw mismatch(table, 'Columns of the table would change values', {
      expected: wrong.map(({ name, type }) => `${name} ${type}`),
    })
  }
}

/** Holds a table to a primary key of exactly these columns, whole. */
export async function checkKey(session: Session, table: string, key: readonly string[]): Promise<void> {
  const primary = await session.all(PRIMARY, table)
  const same = (names: readonly string[]) =>
    names
      .map((name) => name.toLowerCase())
      .sort()
      .join()
  const whole = primary.every((row) => readNumberOrNull(row, 'part') === null)
  if (whole && same(primary.map((row) => readText(row, 'name'))) === same(key)) return
  throw mismatch(table, 'The primary key of the table must be the columns of the key', { expected: key })
}
