import type { BlockNumber } from '../../chain/block.ts'
import { TidemarkError } from '../../errors.ts'
import { bytesToHex } from '../../util/bytes.ts'
import { invariant } from '../../util/invariant.ts'
import { decodeInt256 } from '../amounts.ts'
import type { ColumnType } from '../store.ts'
import { afterChange, type TotalRow } from '../sums.ts'
import type { KeptTotals, TotalChange, TotalsPort, TotalsTable } from '../totals.ts'
import { chunks, type SqlValue } from './literals.ts'
import {
  BYTES,
  type Column,
  checkNames,
  findOrMake,
  KEEPS,
  quote,
  type RunDdl,
  SQL_TYPE,
  TEXTS,
  type Wanted,
} from './managed-table.ts'
import { encodeManaged } from './managed-values.ts'
import { isConstraint } from './mysql-errors.ts'
import type { Session } from './session.ts'
import { key as bytesOf, type Row, readBlock, readBytes, readNumber, readText } from './values.ts'

// A block that has changes already gets these besides.
const KEEP = `
  INSERT INTO {total_changes} (watcher, table_name, block_number, changes) VALUES ?
  ON DUPLICATE KEY UPDATE changes = CONCAT(changes, CHAR(10 USING utf8mb4), VALUES(changes))`
const KEPT = `
  SELECT block_number, changes FROM {total_changes} WHERE watcher = ? AND table_name = ? AND block_number > ?
  ORDER BY block_number`
const DELETE_ABOVE = 'DELETE FROM {total_changes} WHERE watcher = ? AND table_name = ? AND block_number > ?'
const DELETE_THROUGH = 'DELETE FROM {total_changes} WHERE watcher = ? AND table_name = ? AND block_number <= ?'

/** How many additions a row holds: without any it goes. */
const ADDITIONS = 'tidemark_additions'
/** Bytes of a text in a key: 255 characters of four bytes. */
const LONGEST_TEXT = 1_020
const LONGEST_BYTES = 255

/** In a key text is bytes: text columns take 'a' and 'a ' for the same, and most of them 'a' and 'A'. */
const KEY_TYPE: Readonly<Record<ColumnType, string>> = {
  ...SQL_TYPE,
  text: `VARBINARY(${LONGEST_TEXT})`,
  bytes: `VARBINARY(${LONGEST_BYTES})`,
}

/** Of text columns those alone that tell all texts apart. */
function keepsText({ type, charset, collation }: Column): boolean {
  return BYTES.has(type) || (TEXTS.has(type) && charset === 'utf8mb4' && /_(nopad|0900)_bin$/.test(collation ?? ''))
}

type Key = Readonly<Record<string, unknown>>

const keysOf = (table: TotalsTable): string[] => Object.keys(table.key)
const sumsOf = (table: TotalsTable): string[] => Object.keys(table.sum)
const namesOf = (table: TotalsTable): string => [...keysOf(table), ...sumsOf(table), ADDITIONS].map(quote).join(', ')
const tuple = (table: TotalsTable): string => `(${keysOf(table).map(quote).join(', ')})`

function wantedColumns(table: TotalsTable): Wanted[] {
  const key = Object.entries(table.key).map(([name, type]): Wanted => {
    return { name, type: KEY_TYPE[type], keeps: type === 'text' ? keepsText : KEEPS[type] }
  })
  const sums = Object.entries(table.sum).map(([name, type]) => ({ name, type: SQL_TYPE[type], keeps: KEEPS[type] }))
  return [...key, ...sums, { name: ADDITIONS, type: SQL_TYPE.integer, keeps: KEEPS.integer }]
}

function createSql(table: TotalsTable): string {
  const columns = wantedColumns(table).map(({ name, type }) => `${quote(name)} ${type} NOT NULL`)
  const all = [...columns, `PRIMARY KEY ${tuple(table)}`].join(', ')
  return `CREATE TABLE IF NOT EXISTS ${quote(table.table)} (${all}) ENGINE = InnoDB`
}

/** Finds a row that is there already, and changes nothing in it; the row is locked either way. */
function makeSql(table: TotalsTable): string {
  return `
  INSERT INTO ${quote(table.table)} (${namesOf(table)}) VALUES ? ON DUPLICATE KEY UPDATE ${ADDITIONS} = ${ADDITIONS}`
}

function writeSql(table: TotalsTable): string {
  const sets = [...sumsOf(table), ADDITIONS].map((name) => `${quote(name)} = VALUES(${quote(name)})`)
  return `INSERT INTO ${quote(table.table)} (${namesOf(table)}) VALUES ? ON DUPLICATE KEY UPDATE ${sets.join(', ')}`
}

function encodeKey({ table, key }: TotalsTable, values: Key): SqlValue[] {
  return Object.entries(key).map(([column, type]) => {
    const value = encodeManaged(table, column, type, values[column])
    const limit = type === 'bytes' ? LONGEST_BYTES : LONGEST_TEXT
    // Without strict mode the server would cut it, and two keys would be one.
    const bytes = typeof value === 'string' ? new TextEncoder().encode(value) : value
    if (!(bytes instanceof Uint8Array) || bytes.length <= limit) return type === 'text' ? bytes : value
    const sentence = `A value is longer than the ${limit} bytes of a key`
    throw new TidemarkError('MANAGED_VALUE_INVALID', sentence, { values: { table, column } })
  })
}

function encodeRow({ table, sum }: TotalsTable, { sums, additions }: TotalRow): SqlValue[] {
  return [...Object.entries(sum).map(([name, type]) => encodeManaged(table, name, type, sums[name])), additions]
}

/** A key as one text, the same for what is asked and for what is answered. */
function textOf(values: readonly SqlValue[]): string {
  return values.map((value) => (value instanceof Uint8Array ? bytesToHex(value) : String(value))).join(' ')
}

function keyTextOf(table: TotalsTable, row: Row): string {
  const values = Object.entries(table.key).map(([column, type]): SqlValue => {
    return type === 'bytes' || type === 'text' ? readBytes(row, column) : readText(row, column)
  })
  return textOf(values)
}

function readRow(table: TotalsTable, row: Row): TotalRow {
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
  const sentence = 'A constraint of the managed table refused a sum'
  return new TidemarkError('MANAGED_REFUSED', sentence, { values: { table }, cause })
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
    checkNames(table, [...keysOf(table), ...sumsOf(table)], this.#session.names.prefix)
    const needed = { createSql: createSql(table), wanted: wantedColumns(table), key: keysOf(table) }
    await findOrMake(this.#session, this.#ddl, table, needed)
  }

  async get(table: TotalsTable, key: Key): Promise<Readonly<Record<string, bigint>> | null> {
    const found = await this.#find(table, [encodeKey(table, key)], '')
    return [...found.values()][0]?.sums ?? null
  }

  /** The database has no numbers of 256 bits: rows are locked, read, added to here, and written. */
  async add(table: TotalsTable, changes: readonly TotalChange[]): Promise<void> {
    const zeros = encodeRow(table, { sums: Object.fromEntries(sumsOf(table).map((sum) => [sum, 0n])), additions: 0 })
    const byKey = new Map(changes.map((change) => [textOf(encodeKey(table, change.key)), change]))
    const keys = changes.map((change) => encodeKey(table, change.key))
    try {
      for (const some of chunks(keys)) {
        await this.#session.run(
          makeSql(table),
          some.map((key) => [...key, ...zeros]),
        )
        await this.#addSome(table, some, byKey)
      }
    } catch (error) {
      throw refused(table, error)
    }
  }

  async keep(watcher: number, table: string, kept: readonly KeptTotals[]): Promise<void> {
    const rows = kept.map(({ blockNumber, changes }) => [watcher, bytesOf(table), blockNumber, changes])
    for (const some of chunks(rows)) await this.#session.run(KEEP, some)
  }

  async keptAbove(watcher: number, table: string, block: BlockNumber | -1): Promise<readonly KeptTotals[]> {
    const rows = await this.#session.all(KEPT, watcher, bytesOf(table), block)
    return rows.map((row) => ({ blockNumber: readBlock(row, 'block_number'), changes: readText(row, 'changes') }))
  }

  async deleteKeptAbove(watcher: number, table: string, block: BlockNumber | -1): Promise<void> {
    await this.#session.run(DELETE_ABOVE, watcher, bytesOf(table), block)
  }

  async deleteKeptThrough(watcher: number, table: string, block: BlockNumber): Promise<void> {
    await this.#session.run(DELETE_THROUGH, watcher, bytesOf(table), block)
  }

  async #addSome(
    table: TotalsTable,
    keys: readonly (readonly SqlValue[])[],
    changes: ReadonlyMap<string, TotalChange>,
  ): Promise<void> {
    const found = await this.#find(table, keys, 'FOR UPDATE')
    const write: SqlValue[][] = []
    const gone: (readonly SqlValue[])[] = []
    for (const key of keys) {
      const change = changes.get(textOf(key))
      const row = found.get(textOf(key))
      invariant(change && row, 'a row that was just made must be there', { table: table.table })
      const after = afterChange(table, row, change)
      if (after) write.push([...key, ...encodeRow(table, after)])
      else gone.push(key)
    }
    if (write.length > 0) await this.#session.run(writeSql(table), write)
    if (gone.length > 0) await this.#session.run(`DELETE FROM ${quote(table.table)} WHERE ${tuple(table)} IN (?)`, gone)
  }

  async #find(
    table: TotalsTable,
    keys: readonly (readonly SqlValue[])[],
    lock: '' | 'FOR UPDATE',
  ): Promise<Map<string, TotalRow>> {
    const sql = `SELECT ${namesOf(table)} FROM ${quote(table.table)} WHERE ${tuple(table)} IN (?) ${lock}`
    const rows = await this.#session.all(sql, keys)
    return new Map(rows.map((row) => [keyTextOf(table, row), readRow(table, row)]))
  }
}
