import type { BlockNumber } from '../../chain/block.ts'
import { TidemarkError } from '../../errors.ts'
import type { ManagedPort, ManagedRow, ManagedTable } from '../store.ts'
import { checkNames } from '../table-names.ts'
import type { Connection } from './connection.ts'
import { type Column, checkColumns, declared, findOrMake, NAMES, nameOf, quote, SQL_TYPE } from './managed-tables.ts'
import { encodeManaged } from './managed-values.ts'
import { isConstraint } from './pg-errors.ts'
import { blob, int } from './values.ts'

/** The columns that tie a row to the event that made it; the key leads with them, so undo is a range of it. */
const KEY_COLUMNS = {
  tidemark_watcher: 'integer',
  tidemark_block: 'bigint',
  tidemark_event: 'bytea',
  tidemark_ordinal: 'bigint',
} as const

/** Rows of one statement. */
const CHUNK = 5_000
const SAVEPOINT = 'tidemark_rows'

/** Every column of the table with its SQL type, Tidemark's four first. */
function allColumns(table: ManagedTable): Column[] {
  const own = Object.entries(table.columns).map(([name, type]): Column => [name, SQL_TYPE[type]])
  return [...Object.entries(KEY_COLUMNS), ...own]
}

/** The table as it is made. */
function definition(table: ManagedTable): string[] {
  const own = Object.entries(table.columns).map(([name, type]) => declared([name, SQL_TYPE[type]]))
  const key = Object.entries(KEY_COLUMNS).map(([name, type]) => `${name} ${type} NOT NULL`)
  return [...key, ...own, `PRIMARY KEY (${Object.keys(KEY_COLUMNS).join(', ')})`]
}

/** The columns come as arrays, one parameter each, however many rows there are. */
function insertSql(table: ManagedTable, name: string): string {
  const columns = allColumns(table)
  const names = columns.map(([name]) => quote(name)).join(', ')
  const arrays = columns.map(([, type], i) => `$${i + 1}::${type}[]`).join(', ')
  return `INSERT INTO ${name} (${names}) SELECT * FROM unnest(${arrays})`
}

/** A constraint that the user put on the table: permanent, and of the event that wrote the row. */
function refused(table: ManagedTable, block: BlockNumber | undefined, error: unknown): TidemarkError {
  const cause = TidemarkError.is(error) ? error.cause : error
  const values = { table: table.table, block }
  return new TidemarkError('MANAGED_REFUSED', 'A constraint of the managed table refused a row', { values, cause })
}

const isRefused = (error: unknown): boolean => isConstraint(TidemarkError.is(error) ? error.cause : error)

type Bound = readonly unknown[]

/** Tables of `rows()`: Tidemark's own, or the user's with Tidemark's four columns added. */
export class PgManaged implements ManagedPort {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  async ensureTable(table: ManagedTable): Promise<void> {
    checkNames(table.table, Object.keys(table.columns), NAMES)
    await findOrMake(this.#connection, table.table, definition(table), (oid) =>
      checkColumns(this.#connection, table.table, oid, allColumns(table)),
    )
  }

  async insertRows(table: ManagedTable, watcher: number, rows: readonly ManagedRow[]): Promise<void> {
    const columns = Object.entries(table.columns)
    const bound = rows.map(({ blockNumber, stableId, ordinal, values }): Bound => {
      const own = columns.map(([column, type]) => encodeManaged(table.table, column, type, values[column]))
      return [int(watcher), int(blockNumber), blob(stableId), int(ordinal), ...own]
    })
    for (let at = 0; at < bound.length; at += CHUNK) await this.#insert(table, bound.slice(at, at + CHUNK))
  }

  async deleteRowsAbove(table: ManagedTable, watcher: number, block: BlockNumber | -1): Promise<number> {
    const sql = `DELETE FROM ${nameOf(this.#connection, table.table)} WHERE tidemark_watcher = $1::int AND tidemark_block > $2::bigint`
    return this.#connection.run(sql, int(watcher), int(block))
  }

  /** One row needs no savepoint: which row it was is known. */
  async #insert(table: ManagedTable, rows: readonly Bound[]): Promise<void> {
    if (rows.length > 1) return this.#insertMany(table, rows)
    try {
      await this.#send(table, rows)
    } catch (error) {
      throw isRefused(error) ? refused(table, rows[0]?.[1] as BlockNumber, error) : error
    }
  }

  /** The server does not say which row a constraint refused, so halves are tried until it is one row. */
  async #insertMany(table: ManagedTable, rows: readonly Bound[]): Promise<void> {
    await this.#connection.control(`SAVEPOINT ${SAVEPOINT}`)
    try {
      await this.#send(table, rows)
    } catch (error) {
      if (!isRefused(error)) throw error
      await this.#connection.control(`ROLLBACK TO ${SAVEPOINT}`)
      const half = Math.ceil(rows.length / 2)
      await this.#insert(table, rows.slice(0, half))
      await this.#insert(table, rows.slice(half))
      // Each half alone was taken: the constraint is about both together, and no one event is to blame.
      throw refused(table, undefined, error)
    }
    await this.#connection.control(`RELEASE ${SAVEPOINT}`)
  }

  async #send(table: ManagedTable, rows: readonly Bound[]): Promise<void> {
    const columns = allColumns(table).map((_, i) => rows.map((row) => row[i]))
    await this.#connection.run(insertSql(table, nameOf(this.#connection, table.table)), ...columns)
  }
}
