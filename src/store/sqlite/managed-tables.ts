import type { ColumnType } from '../store.ts'
import { mismatch, type NameRules } from '../table-names.ts'
import type { Connection } from './connection.ts'
import { readNumber, readText } from './values.ts'

/** A column as it is declared. */
export type Column = readonly [name: string, type: string]

/** The SQL type of each kind of column. Amounts are text of a fixed width (`amounts.ts`). */
export const SQL_TYPE: Readonly<Record<ColumnType, string>> = {
  text: 'TEXT',
  integer: 'INTEGER',
  bytes: 'BLOB',
  boolean: 'INTEGER',
  uint256: 'TEXT',
  int256: 'TEXT',
}

type Affinity = 'INTEGER' | 'TEXT' | 'BLOB' | 'REAL' | 'NUMERIC'

/** What a declared type does to a value (https://sqlite.org/datatype3.html, 3.1). */
function affinity(declared: string): Affinity {
  const type = declared.toUpperCase()
  if (type.includes('INT')) return 'INTEGER'
  if (/CHAR|CLOB|TEXT/.test(type)) return 'TEXT'
  if (type === '' || type.includes('BLOB')) return 'BLOB'
  return /REAL|FLOA|DOUB/.test(type) ? 'REAL' : 'NUMERIC'
}

/**
 * Which affinities keep a value as it is. A 78-digit text in a NUMERIC or REAL column becomes a float, without a word.
 */
const KEEPS: Readonly<Record<string, readonly Affinity[]>> = {
  TEXT: ['TEXT', 'BLOB'],
  INTEGER: ['INTEGER', 'NUMERIC', 'BLOB'],
  BLOB: ['BLOB', 'TEXT', 'INTEGER', 'NUMERIC', 'REAL'],
}

export const NAMES: NameRules = {
  isTaken: (table) => /^(tidemark|sqlite)_/i.test(table),
  taken: 'Names that begin with tidemark_ or sqlite_ are taken',
  caseless: 'SQLite does not tell names apart that differ only in case',
}

export function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

export function declared([name, type]: Column): string {
  return `${quote(name)} ${type}`
}

const KIND = "SELECT type FROM sqlite_schema WHERE name = ? COLLATE NOCASE AND type IN ('table', 'view')"
const COLUMNS = 'SELECT name, type, pk FROM pragma_table_info(?)'

/** Whether the table is there; made by `createSql` where it is not. */
export function findOrMake(connection: Connection, table: string, createSql: string): boolean {
  const found = connection.get(KIND, table)
  if (!found) connection.run(createSql)
  else if (readText(found, 'type') !== 'table') throw mismatch(table, 'The name belongs to a view')
  return found !== undefined
}

/**
 * Holds a table of the user's to the columns that are needed.
 * @param key columns that must be the primary key, where that matters
 */
export function checkColumns(connection: Connection, table: string, columns: readonly Column[], key?: string[]): void {
  const rows = connection.all(COLUMNS, table)
  const found = new Map(rows.map((row) => [readText(row, 'name').toLowerCase(), readText(row, 'type')]))
  const missing = columns.filter(([name]) => !found.has(name.toLowerCase()))
  if (missing.length > 0) {
    throw mismatch(table, 'The table lacks columns', { missing: missing.map(([name, type]) => `${name} ${type}`) })
  }
  const wrong = columns.filter(([name, type]) => !KEEPS[type]?.includes(affinity(found.get(name.toLowerCase()) ?? '')))
  if (wrong.length > 0) {
    throw mismatch(table, 'Columns of the table would change values', {
      expected: wrong.map(([name, type]) => `${name} ${type}`),
    })
  }
  const primary = rows.filter((row) => readNumber(row, 'pk') > 0).map((row) => readText(row, 'name').toLowerCase())
  const same = (names: readonly string[]) => [...names].sort().join()
  if (key && same(primary) !== same(key.map((name) => name.toLowerCase()))) {
    throw mismatch(table, 'The primary key of the table must be the columns of the key', { expected: key })
  }
}
