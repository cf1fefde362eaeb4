import type { BlockNumber } from '../../chain/block.ts'
import { TidemarkError } from '../../errors.ts'
import { conflict, overflow } from '../sums.ts'
import { checkNames } from '../table-names.ts'
import type { KeptTotals, TotalChange, TotalsPort, TotalsTable } from '../totals.ts'
import type { Connection } from './connection.ts'
import type { PgRow } from './driver.ts'
import { checkColumns, checkKey, declared, findOrMake, NAMES, nameOf, quote } from './managed-tables.ts'
import { encodeManaged } from './managed-values.ts'
import { sqlState } from './pg-errors.ts'
import { allColumns, deleteSql, findSql, insertSql, keysOf, sumsOf, updateSql } from './totals-sql.ts'
import { int, readBlock, readFlag, readNumber, readText, text } from './values.ts'

const KEEP = `
  INSERT INTO tidemark.total_changes AS known (watcher, table_name, block_number, changes)
  SELECT $1::int, $2::text, * FROM unnest($3::bigint[], $4::text[])
  ON CONFLICT (watcher, table_name, block_number) DO UPDATE SET changes = known.changes || chr(10) || excluded.changes`
const KEPT = `
  SELECT block_number, changes FROM tidemark.total_changes
  WHERE watcher = $1::int AND table_name = $2::text AND block_number > $3::bigint ORDER BY block_number`
const DELETE_ABOVE = `
  DELETE FROM tidemark.total_changes WHERE watcher = $1::int AND table_name = $2::text AND block_number > $3::bigint`
const DELETE_THROUGH = `
  DELETE FROM tidemark.total_changes WHERE watcher = $1::int AND table_name = $2::text AND block_number <= $3::bigint`

/** Keys of one statement. */
const CHUNK = 5_000

type Key = Readonly<Record<string, unknown>>
type Bound = readonly unknown[]

/** A change with its key as it is bound. */
interface Bind {
  readonly key: Bound
  readonly change: TotalChange
}

/** The table as it is made. */
function definition(table: TotalsTable): string[] {
  const columns = allColumns(table).map((column) => `${declared(column)} NOT NULL`)
  return [...columns, `PRIMARY KEY (${keysOf(table).map(quote).join(', ')})`]
}

function encodeKey({ table, key }: TotalsTable, values: Key): Bound {
  return Object.entries(key).map(([column, type]) => encodeManaged(table, column, type, values[column]))
}

function chunked(binds: readonly Bind[]): Bind[][] {
  const count = Math.ceil(binds.length / CHUNK)
  return Array.from({ length: count }, (_, i) => binds.slice(i * CHUNK, (i + 1) * CHUNK))
}

/** Rows as arrays, one for each column. */
function columnsOf(rows: readonly Bound[]): unknown[][] {
  return rows[0]?.map((_, i) => rows.map((row) => row[i])) ?? []
}

function changeColumns(table: TotalsTable, binds: readonly Bind[]): unknown[][] {
  const sums = sumsOf(table)
  return columnsOf(
    binds.map(({ key, change }) => {
      return [...key, ...sums.map((sum) => String(change.add[sum] ?? 0n)), int(change.additions)]
    }),
  )
}

/** A number out of range, or a constraint that the user put on the table: permanent. */
function refused(table: TotalsTable, error: unknown): unknown {
  const cause = TidemarkError.is(error) ? error.cause : error
  const state = sqlState(cause) ?? ''
  // The server does not say which column it was.
  if (state === '22003') return overflow(table.table, sumsOf(table).join(', '), cause)
  // 54000: a key that is too long for the index.
  if (!/^(22|23|54000)/.test(state)) return error
  return new TidemarkError('MANAGED_REFUSED', 'A constraint of the managed table refused a sum', {
    values: { table: table.table },
    cause,
  })
}

function checkOutcome(table: TotalsTable, rows: readonly PgRow[]): void {
  if (rows.some((row) => readFlag(row, 'taken'))) throw conflict(table.table)
  const wide = sumsOf(table).filter((sum) => table.sum[sum] === 'int256')
  if (rows.some((row) => readFlag(row, 'outside'))) throw overflow(table.table, wide.join(', '))
}

/** Rows that are to be made. What is taken back from a row that is gone was taken by somebody else. */
function toMake(table: TotalsTable, missing: readonly Bind[]): Bind[] {
  if (missing.some(({ change }) => change.additions < 0)) throw conflict(table.table)
  const adds = ({ additions, add }: TotalChange) => additions > 0 || Object.values(add).some((value) => value !== 0n)
  return missing.filter(({ change }) => adds(change))
}

/** Tables of `totals()`, and what was added to them in blocks that may be taken back. */
export class PgTotals implements TotalsPort {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  async ensureTable(table: TotalsTable): Promise<void> {
    checkNames(table.table, [...keysOf(table), ...sumsOf(table)], NAMES)
    await findOrMake(this.#connection, table.table, definition(table), async (oid) => {
      await checkColumns(this.#connection, table.table, oid, allColumns(table))
      await checkKey(this.#connection, table.table, oid, keysOf(table))
    })
  }

  async get(table: TotalsTable, key: Key): Promise<Readonly<Record<string, bigint>> | null> {
    const row = await this.#connection.get(findSql(table, this.#nameOf(table)), ...encodeKey(table, key))
    return row ? Object.fromEntries(sumsOf(table).map((sum) => [sum, BigInt(readText(row, sum))])) : null
  }

  /** All rows that are there come before those that are made, so that two writers meet in one order (C59). */
  async add(table: TotalsTable, changes: readonly TotalChange[]): Promise<void> {
    const missing: Bind[] = []
    const binds = changes.map((change) => ({ key: encodeKey(table, change.key), change }))
    for (const some of chunked(binds)) missing.push(...(await this.#update(table, some)))
    for (const some of chunked(toMake(table, missing))) {
      const sql = insertSql(table, this.#nameOf(table))
      checkOutcome(table, await this.#send(table, sql, changeColumns(table, some)))
    }
  }

  async keep(watcher: number, table: string, kept: readonly KeptTotals[]): Promise<void> {
    const blocks = kept.map(({ blockNumber }) => int(blockNumber))
    const changes = kept.map((one) => text(one.changes))
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

  /** Answers those whose rows are not there. */
  async #update(table: TotalsTable, binds: readonly Bind[]): Promise<Bind[]> {
    const rows = await this.#send(table, updateSql(table, this.#nameOf(table)), changeColumns(table, binds))
    checkOutcome(table, rows)
    const placed = (some: readonly PgRow[]) => new Set(some.map((row) => readNumber(row, 'place') - 1))
    const gone = placed(rows.filter((row) => readFlag(row, 'nothing')))
    const keys = binds.filter((_, i) => gone.has(i)).map(({ key }) => key)
    if (keys.length > 0) await this.#send(table, deleteSql(table, this.#nameOf(table)), columnsOf(keys))
    const found = placed(rows)
    return binds.filter((_, i) => !found.has(i))
  }

  async #send(table: TotalsTable, sql: string, columns: readonly unknown[]): Promise<readonly PgRow[]> {
    try {
      return await this.#connection.all(sql, ...columns)
    } catch (error) {
      throw refused(table, error)
    }
  }
}
