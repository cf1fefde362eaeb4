import type { BlockNumber } from '../../chain/block.ts'
import { TidemarkError } from '../../errors.ts'
import type { ManagedPort, ManagedRow, ManagedTable } from '../store.ts'
import { checkNames } from '../table-names.ts'
import { chunks, type SqlRows, type SqlValue } from './literals.ts'
import {
  BYTES,
  checkColumns,
  createSql,
  type FoundColumn,
  findOrMake,
  KEEPS,
  namesWith,
  quote,
  type RunDdl,
  SQL_TYPE,
  type WantedColumn,
} from './managed-tables.ts'
import { encodeManaged } from './managed-values.ts'
import { isConstraint } from './mysql-errors.ts'
import type { Session } from './session.ts'
import { blob } from './values.ts'

/** The columns that tie a row to the event that made it; the key leads with them, so undo is a range of it. */
const KEY_COLUMNS = {
  tidemark_watcher: 'BIGINT',
  tidemark_block: 'BIGINT',
  tidemark_event: 'BINARY(16)',
  tidemark_ordinal: 'BIGINT',
} as const

/** The table as it is made. */
function definition(table: ManagedTable): string[] {
  const key = Object.entries(KEY_COLUMNS).map(([name, type]) => `${name} ${type} NOT NULL`)
  const own = Object.entries(table.columns).map(([name, type]) => `${quote(name)} ${SQL_TYPE[type]}`)
  return [...key, ...own, `PRIMARY KEY (${Object.keys(KEY_COLUMNS).join(', ')})`]
}

function insertSql(table: ManagedTable): string {
  const names = [...Object.keys(KEY_COLUMNS), ...Object.keys(table.columns)].map(quote)
  return `INSERT INTO ${quote(table.table)} (${names.join(', ')}) VALUES ?`
}

function deleteAboveSql(table: ManagedTable): string {
  return `DELETE FROM ${quote(table.table)} WHERE tidemark_watcher = ? AND tidemark_block > ?`
}

function keepsKey(name: string, { type, length }: FoundColumn): boolean {
  if (name === 'tidemark_event') return (type === 'binary' && length === 16) || BYTES.has(type)
  return type === 'bigint'
}

function wantedColumns(table: ManagedTable): WantedColumn[] {
  const own = Object.entries(table.columns)
  return [
    ...Object.entries(KEY_COLUMNS).map(([name, type]) => {
      return { name, type, keeps: (one: FoundColumn) => keepsKey(name, one) }
    }),
    ...own.map(([name, type]) => ({ name, type: SQL_TYPE[type], keeps: KEEPS[type] })),
  ]
}

/** A constraint that the user put on the table: permanent, and of the event that wrote the row. */
function refused(table: ManagedTable, block: unknown, error: unknown): unknown {
  const cause = TidemarkError.is(error) ? error.cause : error
  if (!isConstraint(cause)) return error
  const values = { table: table.table, block }
  return new TidemarkError('MANAGED_REFUSED', 'A constraint of the managed table refused a row', { values, cause })
}

/** Tables of `rows()`: Tidemark's own, or the user's with Tidemark's four columns added. */
export class MysqlManaged implements ManagedPort {
  readonly #session: Session
  readonly #ddl: RunDdl

  constructor(session: Session, ddl: RunDdl) {
    this.#session = session
    this.#ddl = ddl
  }

  async ensureTable(table: ManagedTable): Promise<void> {
    checkNames(table.table, Object.keys(table.columns), namesWith(this.#session.names.prefix))
    await findOrMake(this.#session, this.#ddl, table.table, createSql(table.table, definition(table)))
    await checkColumns(this.#session, table.table, wantedColumns(table))
  }

  async insertRows(table: ManagedTable, watcher: number, rows: readonly ManagedRow[]): Promise<void> {
    const columns = Object.entries(table.columns)
    const all = rows.map(({ blockNumber, stableId, ordinal, values }): SqlValue[] => {
      const own = columns.map(([column, type]) => encodeManaged(table.table, column, type, values[column]))
      return [watcher, blockNumber, blob(stableId), ordinal, ...own]
    })
    for (const some of chunks(all)) await this.#insertSome(table, some)
  }

  deleteRowsAbove(table: ManagedTable, watcher: number, block: BlockNumber | -1): Promise<number> {
    return this.#session.run(deleteAboveSql(table), watcher, block)
  }

  async #insertSome(table: ManagedTable, rows: SqlRows): Promise<void> {
    try {
      await this.#session.run(insertSql(table), rows)
    } catch (error) {
      if (rows.length === 1) throw refused(table, rows[0]?.[1], error)
      if (!isConstraint(TidemarkError.is(error) ? error.cause : error)) throw error
      // The statement was taken back whole. One by one, to find the event that wrote the row.
      for (const row of rows) await this.#insertSome(table, [row])
    }
  }
}
