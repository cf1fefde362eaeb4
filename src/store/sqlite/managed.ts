import type { BlockNumber } from '../../chain/block.ts'
import { TidemarkError } from '../../errors.ts'
import type { ColumnType, ManagedPort, ManagedRow, ManagedTable } from '../store.ts'
import type { Connection } from './connection.ts'
import { encodeManaged } from './managed-values.ts'
import { isConstraint } from './sqlite-errors.ts'
import { blob, int, readText } from './values.ts'

/** The columns that tie a row to the event that made it; the key leads with them, so undo is a range of it. */
const KEY_COLUMNS = {
  tidemark_watcher: 'INTEGER',
  tidemark_block: 'INTEGER',
  tidemark_event: 'BLOB',
  tidemark_ordinal: 'INTEGER',
} as const

/** The SQL type of each kind of column. Amounts are text of a fixed width (`amounts.ts`). */
const SQL_TYPE: Readonly<Record<ColumnType, string>> = {
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

const NAME = /^[A-Za-z_][A-Za-z0-9_]{0,62}$/

function mismatch(table: ManagedTable, sentence: string, values: Record<string, unknown> = {}): TidemarkError {
  return new TidemarkError('STORE_TABLE_MISMATCH', sentence, { values: { table: table.table, ...values } })
}

/** Names are written into SQL, so they are held to letters, digits and underscores, and quoted all the same. */
function checkNames(table: ManagedTable): void {
  const columns = Object.keys(table.columns)
  const odd = [table.table, ...columns].find((name) => !NAME.test(name))
  if (odd !== undefined)
    throw mismatch(table, 'A name may hold letters, digits and underscores only, at most 63', {
      name: odd.slice(0, 80),
    })
  if (/^(tidemark|sqlite)_/i.test(table.table))
    throw mismatch(table, 'Names that begin with tidemark_ or sqlite_ are taken')
  const own = columns.find((name) => /^tidemark_/i.test(name))
  if (own !== undefined) throw mismatch(table, 'Column names that begin with tidemark_ are taken', { column: own })
  if (new Set(columns.map((name) => name.toLowerCase())).size < columns.length) {
    throw mismatch(table, 'SQLite does not tell names apart that differ only in case')
  }
}

function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

/** Every column of the table with its SQL type, Tidemark's four first. */
function allColumns(table: ManagedTable): [name: string, type: string][] {
  const own = Object.entries(table.columns).map(([name, type]): [string, string] => [name, SQL_TYPE[type]])
  return [...Object.entries(KEY_COLUMNS), ...own]
}

function createSql(table: ManagedTable): string {
  const own = Object.entries(table.columns).map(([name, type]) => `${quote(name)} ${SQL_TYPE[type]}`)
  const key = Object.entries(KEY_COLUMNS).map(([name, type]) => `${name} ${type} NOT NULL`)
  const primary = `PRIMARY KEY (${Object.keys(KEY_COLUMNS).join(', ')})`
  return `CREATE TABLE ${quote(table.table)} (${[...key, ...own, primary].join(', ')}) WITHOUT ROWID`
}

/** A constraint that the user put on the table: permanent, and of the event that wrote the row. */
function refused(table: ManagedTable, block: BlockNumber, error: unknown): unknown {
  const cause = TidemarkError.is(error) ? error.cause : error
  if (!isConstraint(cause)) return error
  const values = { table: table.table, block }
  return new TidemarkError('MANAGED_REFUSED', 'A constraint of the managed table refused a row', { values, cause })
}

function insertSql(table: ManagedTable): string {
  const names = allColumns(table).map(([name]) => quote(name))
  return `INSERT INTO ${quote(table.table)} (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})`
}

const KIND = "SELECT type FROM sqlite_schema WHERE name = ? COLLATE NOCASE AND type IN ('table', 'view')"
const COLUMNS = 'SELECT name, type FROM pragma_table_info(?)'

/** Tables of `rows()`: Tidemark's own, or the user's with Tidemark's four columns added. */
export class SqliteManaged implements ManagedPort {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  ensureTable(table: ManagedTable): void {
    checkNames(table)
    const found = this.#connection.get(KIND, table.table)
    if (!found) {
      this.#connection.run(createSql(table))
      return
    }
    if (readText(found, 'type') !== 'table') throw mismatch(table, 'The name belongs to a view')
    this.#checkColumns(table)
  }

  insertRows(table: ManagedTable, watcher: number, rows: readonly ManagedRow[]): void {
    const sql = insertSql(table)
    const columns = Object.entries(table.columns)
    for (const { blockNumber, stableId, ordinal, values } of rows) {
      const own = columns.map(([column, type]) => encodeManaged(table.table, column, type, values[column]))
      try {
        this.#connection.run(sql, int(watcher), int(blockNumber), blob(stableId), int(ordinal), ...own)
      } catch (error) {
        throw refused(table, blockNumber, error)
      }
    }
  }

  deleteRowsAbove(table: ManagedTable, watcher: number, block: BlockNumber | -1): number {
    const sql = `DELETE FROM ${quote(table.table)} WHERE tidemark_watcher = ? AND tidemark_block > ?`
    return this.#connection.run(sql, int(watcher), int(block))
  }

  #checkColumns(table: ManagedTable): void {
    const rows = this.#connection.all(COLUMNS, table.table)
    const found = new Map(rows.map((row) => [readText(row, 'name').toLowerCase(), readText(row, 'type')]))
    const missing = allColumns(table).filter(([name]) => !found.has(name.toLowerCase()))
    if (missing.length > 0) {
      throw mismatch(table, 'The table lacks columns', { missing: missing.map(([name, type]) => `${name} ${type}`) })
    }
    const wrong = allColumns(table).filter(
      ([name, type]) => !KEEPS[type]?.includes(affinity(found.get(name.toLowerCase()) ?? '')),
    )
    if (wrong.length > 0) {
      throw mismatch(table, 'Columns of the table would change values', {
        expected: wrong.map(([name, type]) => `${name} ${type}`),
      })
    }
  }
}
