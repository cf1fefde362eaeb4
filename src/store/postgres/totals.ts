import type { BlockNumber } from '../../chain/block.ts'
import { TidemarkError } from '../../errors.ts'
import { conflict, overflow } from '../sums.ts'
import type { KeptTotals, TotalChange, TotalsPort, TotalsTable } from '../totals.ts'
import type { Connection } from './connection.ts'
import type { PgRow } from './driver.ts'
import { type Column, findOrMake, nameOf, quote, SQL_TYPE } from './managed-tables.ts'
import { encodeManaged } from './managed-values.ts'
import { isConstraint, sqlState } from './pg-errors.ts'
import { int, readBlock, readText, text } from './values.ts'

// A block that has changes already gets these besides.
const KEEP = `
  INSERT INTO tidemark.total_changes AS known (watcher, table_name, block_number, changes)
  SELECT $1::int, $2::text, block, change FROM unnest($3::bigint[], $4::text[]) AS kept (block, change)
  ON CONFLICT (watcher, table_name, block_number) DO UPDATE SET changes = known.changes || chr(10) || excluded.changes`
const KEPT = `
  SELECT block_number, changes FROM tidemark.total_changes
  WHERE watcher = $1::int AND table_name = $2::text AND block_number > $3::bigint ORDER BY block_number`
const DELETE_ABOVE = `
  DELETE FROM tidemark.total_changes WHERE watcher = $1::int AND table_name = $2::text AND block_number > $3::bigint`
const DELETE_THROUGH = `
  DELETE FROM tidemark.total_changes WHERE watcher = $1::int AND table_name = $2::text AND block_number <= $3::bigint`

/** How many additions a row holds: without any it goes. */
const ADDITIONS = 'tidemark_additions'
/** Keys of one statement: a parameter a column whatever their number. */
const CHUNK = 5_000
/** Of `numeric` and `bigint` alike. */
const OUT_OF_RANGE = '22003'
/** Of the check that keeps `int256` within 256 bits; `numeric(78,0)` reaches further. */
const FITS = 'tidemark_fits_int256'

type Key = Readonly<Record<string, unknown>>

const keysOf = (table: TotalsTable): string[] => Object.keys(table.key)
const sumsOf = (table: TotalsTable): string[] => Object.keys(table.sum)

const typed = (columns: TotalsTable['key'] | TotalsTable['sum']): Column[] =>
  Object.entries(columns).map(([name, type]): Column => [name, SQL_TYPE[type]])

const keyColumns = (table: TotalsTable): Column[] => typed(table.key)
const addedColumns = (table: TotalsTable): Column[] => [...typed(table.sum), [ADDITIONS, 'bigint']]

function createSql(table: TotalsTable, name: string): string {
  const columns = [...keyColumns(table), ...addedColumns(table)].map(
    ([column, type]) => `${quote(column)} ${type} NOT NULL`,
  )
  const primary = `PRIMARY KEY (${keysOf(table).map(quote).join(', ')})`
  const wide = sumsOf(table).filter((sum) => table.sum[sum] === 'int256')
  const checks = wide.map((sum, i) => {
    return `CONSTRAINT ${FITS}_${i} CHECK (${quote(sum)} BETWEEN -(2::numeric ^ 255) AND 2::numeric ^ 255 - 1)`
  })
  return `CREATE TABLE ${name} (${[...columns, primary, ...checks].join(', ')})`
}

function findSql(table: TotalsTable, name: string): string {
  const sums = sumsOf(table).map((sum) => `${quote(sum)}::text AS ${quote(sum)}`)
  const where = keyColumns(table).map(([column, type], i) => `${quote(column)} = $${i + 1}::${type}`)
  return `SELECT ${sums.join(', ')} FROM ${name} WHERE ${where.join(' AND ')}`
}

/** Adds in the database, so that what others add to the same row at the same time is not lost. */
function addSql(table: TotalsTable, name: string): string {
  const columns = [...keyColumns(table), ...addedColumns(table)]
  const names = columns.map(([column]) => quote(column)).join(', ')
  const arrays = columns.map(([, type], i) => `$${i + 1}::${type}[]`).join(', ')
  const sets = addedColumns(table).map(
    ([column]) => `${quote(column)} = held.${quote(column)} + excluded.${quote(column)}`,
  )
  return `
  INSERT INTO ${name} AS held (${names}) SELECT * FROM unnest(${arrays})
  ON CONFLICT (${keysOf(table).map(quote).join(', ')}) DO UPDATE SET ${sets.join(', ')}`
}

/** The rows among some keys of which all additions were taken back: those that are empty go, and one below zero is told. */
function clearSql(table: TotalsTable, name: string): string {
  const keys = keyColumns(table)
  const arrays = keys.map(([, type], i) => `$${i + 1}::${type}[]`).join(', ')
  const names = keysOf(table).map(quote)
  const given = `SELECT * FROM unnest(${arrays}) AS given (${names.join(', ')})`
  const same = names.map((column) => `held.${column} = given.${column}`).join(' AND ')
  const empty = sumsOf(table).map((sum) => `held.${quote(sum)} = 0`)
  return `
  WITH given AS (${given}), gone AS (
    DELETE FROM ${name} AS held USING given WHERE ${[same, `held.${ADDITIONS} = 0`, ...empty].join(' AND ')})
  SELECT 1 AS one FROM ${name} AS held JOIN given ON ${same} WHERE held.${ADDITIONS} < 0 LIMIT 1`
}

function constraintOf(error: unknown): string {
  const cause = TidemarkError.is(error) ? error.cause : error
  return String((cause as { constraint?: unknown } | undefined)?.constraint ?? '')
}

/** What the table refuses is permanent: a sum that is too large, or a constraint that the user put on it. */
function refused(table: TotalsTable, error: unknown): unknown {
  const cause = TidemarkError.is(error) ? error.cause : error
  const wide = sumsOf(table).filter((sum) => table.sum[sum] === 'int256')
  const constraint = constraintOf(error)
  if (constraint.startsWith(FITS))
    return overflow(table.table, wide[Number(constraint.slice(FITS.length + 1))] ?? '', cause)
  if (sqlState(cause) === OUT_OF_RANGE) return overflow(table.table, sumsOf(table).join(', '), cause)
  if (!isConstraint(cause)) return error
  const sentence = 'A constraint of the managed table refused a sum'
  return new TidemarkError('MANAGED_REFUSED', sentence, { values: { table: table.table }, cause })
}

function encodeKey({ table, key }: TotalsTable, values: Key): unknown[] {
  return Object.entries(key).map(([column, type]) => encodeManaged(table, column, type, values[column]))
}

function encodeAdded(table: TotalsTable, { add, additions }: TotalChange): unknown[] {
  return [...sumsOf(table).map((sum) => String(add[sum])), int(additions)]
}

/** Rows as columns. */
function columnsOf(rows: readonly (readonly unknown[])[]): unknown[][] {
  return (rows[0] ?? []).map((_, i) => rows.map((row) => row[i]))
}

/** Tables of `totals()`, and what was added to them in blocks that may be taken back. */
export class PgTotals implements TotalsPort {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  ensureTable(table: TotalsTable): Promise<void> {
    return findOrMake(this.#connection, {
      table: table.table,
      columns: [...keyColumns(table), ...addedColumns(table)],
      key: keysOf(table),
      createSql: (name) => createSql(table, name),
    })
  }

  async get(table: TotalsTable, key: Key): Promise<Readonly<Record<string, bigint>> | null> {
    const row = await this.#connection.get(findSql(table, this.#nameOf(table)), ...encodeKey(table, key))
    return row ? readSums(table, row) : null
  }

  async add(table: TotalsTable, changes: readonly TotalChange[]): Promise<void> {
    for (let at = 0; at < changes.length; at += CHUNK) await this.#add(table, changes.slice(at, at + CHUNK))
  }

  async keep(watcher: number, table: string, kept: readonly KeptTotals[]): Promise<void> {
    const blocks = kept.map(({ blockNumber }) => int(blockNumber))
    const changes = kept.map(({ changes }) => text(changes))
    await this.#connection.run(KEEP, int(watcher), text(table), blocks, changes)
  }

  async keptAbove(watcher: number, table: string, block: BlockNumber | -1): Promise<readonly KeptTotals[]> {
    const rows = await this.#connection.all(KEPT, int(watcher), text(table), int(block))
    return rows.map((row) => ({ blockNumber: readBlock(row, 'block_number'), changes: readText(row, 'changes') }))
  }

  async deleteKeptAbove(watcher: number, table: string, block: BlockNumber | -1): Promise<void> {
    await this.#connection.run(DELETE_ABOVE, int(watcher), text(table), int(block))
  }

  async deleteKeptThrough(watcher: number, table: string, block: BlockNumber): Promise<void> {
    await this.#connection.run(DELETE_THROUGH, int(watcher), text(table), int(block))
  }

  #nameOf({ table }: TotalsTable): string {
    return nameOf(this.#connection, table)
  }

  async #add(table: TotalsTable, changes: readonly TotalChange[]): Promise<void> {
    const name = this.#nameOf(table)
    const rows = changes.map((change) => [...encodeKey(table, change.key), ...encodeAdded(table, change)])
    try {
      await this.#connection.run(addSql(table, name), ...columnsOf(rows))
    } catch (error) {
      throw refused(table, error)
    }
    const less = changes.filter(({ additions }) => additions <= 0).map((change) => encodeKey(table, change.key))
    if (less.length === 0) return
    if (await this.#connection.get(clearSql(table, name), ...columnsOf(less))) throw conflict(table.table)
  }
}

function readSums(table: TotalsTable, row: PgRow): Record<string, bigint> {
  return Object.fromEntries(sumsOf(table).map((sum) => [sum, BigInt(readText(row, sum))]))
}
