import type { BlockNumber } from '../../chain/block.ts'
import { TidemarkError } from '../../errors.ts'
import type { ManagedPort, ManagedRow, ManagedTable } from '../store.ts'
import { checkNames } from '../table-names.ts'
import type { Connection } from './connection.ts'
import { type Column, checkColumns, declared, findOrMake, NAMES, quote, SQL_TYPE } from './managed-tables.ts'
import { encodeManaged } from './managed-values.ts'
import { isConstraint } from './sqlite-errors.ts'
import { blob, int } from './values.ts'

/** The columns that tie a row to the event that made it; the key leads with them, so undo is a range of it. */
const KEY_COLUMNS = {
  tidemark_watcher: 'INTEGER',
  tidemark_block: 'INTEGER',
  tidemark_event: 'BLOB',
  tidemark_ordinal: 'INTEGER',
} as const

/** Every column of the table with its SQL type, Tidemark's four first. */
function allColumns(table: ManagedTable): Column[] {
  const own = Object.entries(table.columns).map(([name, type]): Column => [name, SQL_TYPE[type]])
  return [...Object.entries(KEY_COLUMNS), ...own]
}

const OWN = Object.keys(KEY_COLUMNS).length

function createSql(table: ManagedTable): string {
  const columns = allColumns(table).map((column, i) => (i < OWN ? `${declared(column)} NOT NULL` : declared(column)))
  const primary = `PRIMARY KEY (${Object.keys(KEY_COLUMNS).join(', ')})`
  return `CREATE TABLE ${quote(table.table)} (${[...columns, primary].join(', ')}) WITHOUT ROWID`
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

/** Tables of `rows()`: Tidemark's own, or the user's with Tidemark's four columns added. */
export class SqliteManaged implements ManagedPort {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  ensureTable(table: ManagedTable): void {
    checkNames(table.table, Object.keys(table.columns), NAMES)
    if (findOrMake(this.#connection, table.table, createSql(table))) {
      checkColumns(this.#connection, table.table, allColumns(table))
    }
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
}
