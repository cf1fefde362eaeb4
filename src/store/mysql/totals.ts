import type { BlockNumber } from '../../chain/block.ts'
import { TidemarkError } from '../../errors.ts'
import { afterChange, type TotalRow } from '../sums.ts'
import { checkNames, mismatch } from '../table-names.ts'
import type { KeptTotals, TotalChange, TotalsPort, TotalsTable } from '../totals.ts'
import { chunks, type SqlRows, type SqlValue } from './literals.ts'
import { checkColumns, checkKey, createSql, findOrMake, namesWith, type RunDdl } from './managed-tables.ts'
import { isConstraint } from './mysql-errors.ts'
import type { Session } from './session.ts'
import {
  definition,
  deleteSql,
  encodeKey,
  encodeRow,
  findSql,
  fitsKey,
  keyId,
  keysOf,
  makeSql,
  readKeyId,
  readRow,
  sumsOf,
  wantedColumns,
  writeSql,
} from './totals-sql.ts'
import { key as nameBytes, readBlock, readText } from './values.ts'

// A block that has changes already gets these besides.
const KEEP = `
  INSERT INTO {total_changes} (watcher, table_name, block_number, changes) VALUES ?
  ON DUPLICATE KEY UPDATE changes = CONCAT(changes, CHAR(10 USING utf8mb4), VALUES(changes))`
const KEPT = `
  SELECT block_number, changes FROM {total_changes} WHERE watcher = ? AND table_name = ? AND block_number > ?
  ORDER BY block_number`
const DELETE_ABOVE = 'DELETE FROM {total_changes} WHERE watcher = ? AND table_name = ? AND block_number > ?'
const DELETE_THROUGH = 'DELETE FROM {total_changes} WHERE watcher = ? AND table_name = ? AND block_number <= ?'

type Key = Readonly<Record<string, unknown>>

function refusal({ table }: TotalsTable, sentence: string, cause?: unknown): TidemarkError {
  return new TidemarkError('MANAGED_REFUSED', sentence, { values: { table }, cause })
}

/** A constraint that the user put on the table: permanent. */
function refused(table: TotalsTable, error: unknown): unknown {
  const cause = TidemarkError.is(error) ? error.cause : error
  return isConstraint(cause) ? refusal(table, 'A constraint of the managed table refused a sum', cause) : error
}

function nothing(table: TotalsTable): TotalRow {
  return { sums: Object.fromEntries(sumsOf(table).map((sum) => [sum, 0n])), additions: 0 }
}

/** Tables of `totals()`, and what was added to them in blocks that may be taken back. */
export class MysqlTotals implements TotalsPort {
  readonly #session: Session
  readonly #ddl: RunDdl

  constructor(session: Session, ddl: RunDdl) {
    this.#session = session
    this.#ddl = ddl
  }

  async ensureTable(table: TotalsTable): Promise<void> {
    checkNames(table.table, [...keysOf(table), ...sumsOf(table)], namesWith(this.#session.names.prefix))
    if (!fitsKey(table)) throw mismatch(table.table, 'The columns of the key are too many: at most three texts')
    await findOrMake(this.#session, this.#ddl, table.table, createSql(table.table, definition(table)))
    await checkColumns(this.#session, table.table, wantedColumns(table))
    await checkKey(this.#session, table.table, keysOf(table))
  }

  async get(table: TotalsTable, key: Key): Promise<Readonly<Record<string, bigint>> | null> {
    const wanted = encodeKey(table, key)
    return (await this.#find(table, [wanted], '')).get(keyId(wanted))?.sums ?? null
  }

  async add(table: TotalsTable, changes: readonly TotalChange[]): Promise<void> {
    let rest = changes
    for (const keys of chunks(changes.map((change) => encodeKey(table, change.key)))) {
      await this.#addSome(table, keys, rest)
      rest = rest.slice(keys.length)
    }
  }

  async keep(watcher: number, table: string, kept: readonly KeptTotals[]): Promise<void> {
    const name = nameBytes(table)
    const rows = kept.map(({ blockNumber, changes }): SqlValue[] => [watcher, name, blockNumber, changes])
    for (const some of chunks(rows)) await this.#session.run(KEEP, some)
  }

  async keptAbove(watcher: number, table: string, block: BlockNumber | -1): Promise<readonly KeptTotals[]> {
    const rows = await this.#session.all(KEPT, watcher, nameBytes(table), block)
    return rows.map((row) => ({ blockNumber: readBlock(row, 'block_number'), changes: readText(row, 'changes') }))
  }

  async deleteKeptAbove(watcher: number, table: string, block: BlockNumber | -1): Promise<void> {
    await this.#session.run(DELETE_ABOVE, watcher, nameBytes(table), block)
  }

  async deleteKeptThrough(watcher: number, table: string, block: BlockNumber): Promise<void> {
    await this.#session.run(DELETE_THROUGH, watcher, nameBytes(table), block)
  }

  async #find(table: TotalsTable, keys: SqlRows, lock: string): Promise<Map<string, TotalRow>> {
    const rows = await this.#session.all(`${findSql(table)}${lock}`, keys)
    return new Map(rows.map((row) => [readKeyId(table, row), readRow(table, row)]))
  }

  /**
   * The server cannot add numbers of 256 bits, so it is done here, on rows that are locked: those that are missing are made
   * first, which locks them all in the order of the changes (C59).
   */
  async #addSome(table: TotalsTable, keys: SqlRows, changes: readonly TotalChange[]): Promise<void> {
    const zeros = encodeRow(table, nothing(table))
    await this.#send(
      table,
      makeSql(table),
      keys.map((key) => [...key, ...zeros]),
    )
    // Locked again only to read what is there now, and not what was there when the transaction began.
    const before = await this.#find(table, keys, ' FOR UPDATE')
    const rows: SqlValue[][] = []
    const gone: SqlRows[number][] = []
    for (const [i, key] of keys.entries()) {
      const row = before.get(keyId(key))
      if (!row) throw refusal(table, 'The managed table does not tell two keys apart, or a trigger changes them')
      const after = afterChange(table, row, changes[i] as TotalChange)
      if (after) rows.push([...key, ...encodeRow(table, after)])
      else gone.push(key)
    }
    await this.#send(table, writeSql(table), rows)
    await this.#send(table, deleteSql(table), gone)
  }

  async #send(table: TotalsTable, sql: string, rows: SqlRows): Promise<void> {
    try {
      if (rows.length > 0) await this.#session.run(sql, rows)
    } catch (error) {
      throw refused(table, error)
    }
  }
}
