import { bytesToHex } from '../../util/bytes.ts'
import { decodeInt256 } from '../amounts.ts'
import type { ColumnType } from '../store.ts'
import type { TotalRow } from '../sums.ts'
import type { TotalChange, TotalsTable } from '../totals.ts'
import type { SqlValue } from './literals.ts'
import { KEEPS, quote, SQL_TYPE, type WantedColumn } from './managed-tables.ts'
import { encodeManaged } from './managed-values.ts'
import { type Row, readNumberOrNull, readText, readTextOrNull } from './values.ts'

/** How many additions a row holds: without any it goes. */
const ADDITIONS = 'tidemark_additions'

export const keysOf = (table: TotalsTable): string[] => Object.keys(table.key)
export const sumsOf = (table: TotalsTable): string[] => Object.keys(table.sum)

/** A key may be 3,072 bytes wide, so its texts and bytes end where those of `rows()` do not. */
const KEY_TYPE: Readonly<Record<ColumnType, string>> = {
  ...SQL_TYPE,
  text: 'VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin',
  bytes: 'VARBINARY(255)',
}
const WIDTH: Readonly<Record<ColumnType, number>> = {
  text: 1_020,
  bytes: 255,
  integer: 8,
  boolean: 1,
  uint256: 78,
  int256: 78,
}

/** Whether InnoDB has room for such a key. */
export function fitsKey(table: TotalsTable): boolean {
  return Object.values(table.key).reduce((sum, type) => sum + WIDTH[type], 0) <= 3_072
}

/** Other collations take two texts for one. */
function keyColumn(name: string, type: ColumnType): WantedColumn {
  const keeps: WantedColumn['keeps'] = (column) =>
    KEEPS[type](column) && (type !== 'text' || (column.collation ?? '').endsWith('_bin'))
  return { name, type: KEY_TYPE[type], keeps }
}

/** Every column of the table, as it is made and as one of the user's must be. */
export function wantedColumns(table: TotalsTable): WantedColumn[] {
  const sums = Object.entries(table.sum)
  return [
    ...Object.entries(table.key).map(([name, type]) => keyColumn(name, type)),
    ...sums.map(([name, type]) => ({ name, type: SQL_TYPE[type], keeps: KEEPS[type] })),
    { name: ADDITIONS, type: 'BIGINT', keeps: ({ type }) => type === 'bigint' },
  ]
}

/** The table as it is made. */
export function definition(table: TotalsTable): string[] {
  const columns = wantedColumns(table).map(({ name, type }) => `${quote(name)} ${type} NOT NULL`)
  return [...columns, `PRIMARY KEY (${keysOf(table).map(quote).join(', ')})`]
}

function insertSql(table: TotalsTable, update: string): string {
  const names = [...keysOf(table), ...sumsOf(table), ADDITIONS].map(quote)
  return `INSERT INTO ${quote(table.table)} (${names.join(', ')}) VALUES ? ON DUPLICATE KEY UPDATE ${update}`
}

/** Makes the rows that are not there, and locks those that are. */
export function makeSql(table: TotalsTable): string {
  const name = quote(keysOf(table)[0] ?? '')
  return insertSql(table, `${name} = ${quote(table.table)}.${name}`)
}

export function writeSql(table: TotalsTable): string {
  const names = [...sumsOf(table), ADDITIONS].map(quote)
  return insertSql(table, names.map((name) => `${name} = VALUES(${name})`).join(', '))
}

/** The list of keys is looked up in the primary key, one by one. */
function ofKeys(table: TotalsTable): string {
  return `FROM ${quote(table.table)} WHERE (${keysOf(table).map(quote).join(', ')}) IN (?)`
}

export function deleteSql(table: TotalsTable): string {
  return `DELETE ${ofKeys(table)}`
}

/** Keys as hex and numbers as text: no client and no character set reads these in another way. */
export function findSql(table: TotalsTable): string {
  const exact = (name: string, type: ColumnType) =>
    type === 'integer' || type === 'boolean' ? `CAST(${quote(name)} AS CHAR)` : `HEX(${quote(name)})`
  const keys = Object.entries(table.key).map(([name, type], i) => `${exact(name, type)} AS k${i}`)
  const sums = Object.entries(table.sum).map(([name, type], i) => {
    return `${type === 'integer' ? `CAST(${quote(name)} AS CHAR)` : quote(name)} AS s${i}`
  })
  return `SELECT ${[...keys, ...sums, ADDITIONS].join(', ')} ${ofKeys(table)}`
}

export function encodeKey({ table, key }: TotalsTable, values: TotalChange['key']): SqlValue[] {
  return Object.entries(key).map(([column, type]) => encodeManaged(table, column, type, values[column]))
}

export function encodeRow({ table, sum }: TotalsTable, row: TotalRow): SqlValue[] {
  const sums = Object.entries(sum).map(([column, type]) => encodeManaged(table, column, type, row.sums[column]))
  return [...sums, row.additions]
}

/** One text for each key, the same for one that was encoded and one that was read. */
export function keyId(key: readonly SqlValue[]): string {
  const exact = (value: SqlValue) => {
    if (typeof value === 'string') return Buffer.from(value, 'utf8').toString('hex')
    return value instanceof Uint8Array ? bytesToHex(value).slice(2) : String(value)
  }
  return key.map(exact).join(' ')
}

export function readKeyId(table: TotalsTable, row: Row): string {
  const exact = (type: ColumnType, text: string) =>
    // A column of the user's may fill up with zeros.
    type === 'integer' || type === 'boolean' ? BigInt(text).toString() : text.toLowerCase()
  return Object.values(table.key)
    .map((type, i) => exact(type, readText(row, `k${i}`)))
    .join(' ')
}

/** A column of the user's may be null where nothing was added yet. */
export function readRow(table: TotalsTable, row: Row): TotalRow {
  const entries = Object.entries(table.sum).map(([sum, type], i): [string, bigint] => {
    const stored = readTextOrNull(row, `s${i}`) ?? ''
    if (stored === '') return [sum, 0n]
    return [sum, type === 'int256' ? decodeInt256(stored) : BigInt(stored)]
  })
  return { sums: Object.fromEntries(entries), additions: readNumberOrNull(row, ADDITIONS) ?? 0 }
}
