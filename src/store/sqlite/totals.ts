import type { BlockNumber } from '../../chain/block.ts'
import { TidemarkError } from '../../errors.ts'
import { decodeInt256 } from '../amounts.ts'
import { afterChange, type TotalRow } from '../sums.ts'
import { checkNames } from '../table-names.ts'
import type { KeptTotals, TotalChange, TotalsPort, TotalsTable } from '../totals.ts'
import type { Connection } from './connection.ts'
import type { SqliteRow, SqliteValue } from './driver.ts'
import { type Column, checkColumns, declared, findOrMake, NAMES, quote, SQL_TYPE } from './managed-tables.ts'
import { encodeManaged } from './managed-values.ts'
import { isConstraint } from './sqlite-errors.ts'
import { int, readBlock, readNumber, readText, text } from './values.ts'

const KEEP = `
  INSERT INTO tidemark_total_changes (watcher, table_name, block_number, changes) VALUES (?, ?, ?, ?)
  ON CONFLICT (watcher, table_name, block_number) DO UPDATE SET changes = changes || char(10) || excluded.changes`
const KEPT = `
  SELECT block_number, changes FROM tidemark_total_changes
  WHERE watcher = ? AND table_name = ? AND block_number > ? ORDER BY block_number`
const DELETE_ABOVE = 'DELETE FROM tidemark_total_changes WHERE watcher = ? AND table_name = ? AND block_number > ?'
const DELETE_THROUGH = 'DELETE FROM tidemark_total_changes WHERE watcher = ? AND table_name = ? AND block_number <= ?'

/** How many additions a row holds: without any it goes. */
const ADDITIONS = 'tidemark_additions'

type Key = Readonly<Record<string, unknown>>

const keysOf = (table: TotalsTable): string[] => Object.keys(table.key)
const sumsOf = (table: TotalsTable): string[] => Object.keys(table.sum)

function allColumns(table: TotalsTable): Column[] {
  const typed = Object.entries({ ...table.key, ...table.sum }).map(([name, type]): Column => [name, SQL_TYPE[type]])
  return [...typed, [ADDITIONS, 'INTEGER']]
}

function createSql(table: TotalsTable): string {
  const columns = allColumns(table).map((column) => `${declared(column)} NOT NULL`)
  const primary = `PRIMARY KEY (${keysOf(table).map(quote).join(', ')})`
  return `CREATE TABLE ${quote(table.table)} (${[...columns, primary].join(', ')}) WITHOUT ROWID`
}

const whereKey = (table: TotalsTable): string =>
  keysOf(table)
    .map((name) => `${quote(name)} = ?`)
    .join(' AND ')

/** Integers as text: one of 64 bits may be more than a JavaScript number holds. */
function findSql(table: TotalsTable): string {
  const sums = sumsOf(table).map((sum) => `CAST(${quote(sum)} AS TEXT) AS ${quote(sum)}`)
  return `SELECT ${[...sums, ADDITIONS].join(', ')} FROM ${quote(table.table)} WHERE ${whereKey(table)}`
}

function insertSql(table: TotalsTable): string {
  const names = [...sumsOf(table), ADDITIONS, ...keysOf(table)]
  return `INSERT INTO ${quote(table.table)} (${names.map(quote).join(', ')}) VALUES (${names.map(() => '?').join(', ')})`
}

function updateSql(table: TotalsTable): string {
  const sets = [...sumsOf(table), ADDITIONS].map((name) => `${quote(name)} = ?`)
  return `UPDATE ${quote(table.table)} SET ${sets.join(', ')} WHERE ${whereKey(table)}`
}

/** The statements of one table, put together once for many keys. */
interface Statements {
  readonly find: string
  readonly insert: string
  readonly update: string
  readonly remove: string
}

function statementsOf(table: TotalsTable): Statements {
  const remove = `DELETE FROM ${quote(table.table)} WHERE ${whereKey(table)}`
  return { find: findSql(table), insert: insertSql(table), update: updateSql(table), remove }
}

function encodeKey({ table, key }: TotalsTable, values: Key): SqliteValue[] {
  return Object.entries(key).map(([column, type]) => encodeManaged(table, column, type, values[column]))
}

function encodeRow({ table, sum }: TotalsTable, row: TotalRow): SqliteValue[] {
  const sums = Object.entries(sum).map(([column, type]) => encodeManaged(table, column, type, row.sums[column]))
  return [...sums, int(row.additions)]
}

function readRow(table: TotalsTable, row: SqliteRow): TotalRow {
  const entries = Object.entries(table.sum).map(([sum, type]): [string, bigint] => {
    const stored = readText(row, sum)
    return [sum, type === 'int256' ? decodeInt256(stored) : BigInt(stored)]
  })
  return { sums: Object.fromEntries(entries), additions: readNumber(row, ADDITIONS) }
}

/** A constraint that the user put on the table: permanent. */
function refused({ table }: TotalsTable, error: unknown): unknown {
  const cause = TidemarkError.is(error) ? error.cause : error
  if (!isConstraint(cause)) return error
  return new TidemarkError('MANAGED_REFUSED', 'A constraint of the managed table refused a sum', {
    values: { table },
    cause,
  })
}

/** Tables of `totals()`, and what was added to them in blocks that may be taken back. */
export class SqliteTotals implements TotalsPort {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  ensureTable(table: TotalsTable): void {
    checkNames(table.table, [...keysOf(table), ...sumsOf(table)], NAMES)
    if (!findOrMake(this.#connection, table.table, createSql(table))) return
    checkColumns(this.#connection, table.table, allColumns(table), keysOf(table))
  }

  get(table: TotalsTable, key: Key): Readonly<Record<string, bigint>> | null {
    return this.#find(table, findSql(table), encodeKey(table, key))?.sums ?? null
  }

  add(table: TotalsTable, changes: readonly TotalChange[]): void {
    const statements = statementsOf(table)
    for (const change of changes) this.#addOne(table, statements, change)
  }

  keep(watcher: number, table: string, kept: readonly KeptTotals[]): void {
    for (const { blockNumber, changes } of kept) {
      this.#connection.run(KEEP, int(watcher), text(table), int(blockNumber), text(changes))
    }
  }

  keptAbove(watcher: number, table: string, block: BlockNumber | -1): readonly KeptTotals[] {
    const rows = this.#connection.all(KEPT, int(watcher), text(table), int(block))
    return rows.map((row) => ({ blockNumber: readBlock(row, 'block_number'), changes: readText(row, 'changes') }))
  }

  deleteKeptAbove(watcher: number, table: string, block: BlockNumber | -1): void {
    this.#connection.run(DELETE_ABOVE, int(watcher), text(table), int(block))
  }

  deleteKeptThrough(watcher: number, table: string, block: BlockNumber): void {
    this.#connection.run(DELETE_THROUGH, int(watcher), text(table), int(block))
  }

  #find(table: TotalsTable, sql: string, key: readonly SqliteValue[]): TotalRow | null {
    const row = this.#connection.get(sql, ...key)
    return row ? readRow(table, row) : null
  }

  #addOne(table: TotalsTable, { find, insert, update, remove }: Statements, change: TotalChange): void {
    const key = encodeKey(table, change.key)
    const before = this.#find(table, find, key)
    const after = afterChange(table, before, change)
    try {
      if (after) this.#connection.run(before ? update : insert, ...encodeRow(table, after), ...key)
      else this.#connection.run(remove, ...key)
    } catch (error) {
      throw refused(table, error)
    }
  }
}
