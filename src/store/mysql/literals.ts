import { bytesToHex } from '../../util/bytes.ts'

/** A value of one of Tidemark's own statements. */
export type SqlValue = null | number | bigint | string | Uint8Array

/** Rows of `VALUES ?`, or the list of `IN ?`. */
export type SqlRows = readonly (readonly SqlValue[])[]

/**
 * A value as SQL text. Text goes as hex behind its character set, bytes as hex: nothing in them can end a literal, whatever
 * `sql_mode` (NO_BACKSLASH_ESCAPES) and character set the connection of the user has, and no statement is left prepared on
 * the server (C60).
 * @throws {RangeError} for a number that is not a safe integer, or half a surrogate pair
 */
export function literal(value: SqlValue): string {
  if (value === null) return 'NULL'
  if (typeof value === 'bigint') return value.toString()
  if (typeof value === 'string') return `_utf8mb4 X'${hexOfText(value)}'`
  if (typeof value === 'number') return numberLiteral(value)
  return `X'${bytesToHex(value).slice(2)}'`
}

function numberLiteral(value: number): string {
  if (!Number.isSafeInteger(value)) throw new RangeError('a number to be stored is not a safe integer')
  return value.toString()
}

function hexOfText(value: string): string {
  if (!isStorableText(value)) throw new RangeError('a text holds half a surrogate pair, which no database can keep')
  return Buffer.from(value, 'utf8').toString('hex')
}

/** UTF-8 has no halves of surrogate pairs: the driver would write U+FFFD without a word. NUL is kept as it is. */
export function isStorableText(value: string): boolean {
  return !/\p{Surrogate}/u.test(value)
}

function rowLiteral(row: readonly SqlValue[]): string {
  return `(${row.map(literal).join(',')})`
}

/** Puts values in the place of `?`. The texts are Tidemark's own and hold no other question mark. */
export function bind(parts: readonly string[], values: readonly (SqlValue | SqlRows)[]): string {
  if (parts.length !== values.length + 1) throw new TypeError('a statement got another number of values than it takes')
  return parts.reduce((text, part, i) => text + printed(values[i - 1] as SqlValue | SqlRows) + part)
}

function printed(value: SqlValue | SqlRows): string {
  return Array.isArray(value) ? value.map(rowLiteral).join(',') : literal(value as SqlValue)
}

/** Rows in one statement, and characters of it: far below `max_allowed_packet` (16 MB by default) and quick to parse. */
const CHUNK_ROWS = 1_000
const CHUNK_CHARACTERS = 1_000_000

/** Cuts rows into pieces for one statement each. A row that is long by itself is a piece by itself. */
export function chunks(rows: SqlRows): SqlRows[] {
  const all: (readonly SqlValue[])[][] = []
  let room = 0
  for (const row of rows) {
    const size = row.reduce<number>((sum, value) => sum + sizeOf(value), 0)
    const last = all.at(-1)
    if (last && last.length < CHUNK_ROWS && size <= room) last.push(row)
    else all.push([row])
    room = (last === all.at(-1) ? room : CHUNK_CHARACTERS) - size
  }
  return all
}

function sizeOf(value: SqlValue): number {
  return typeof value === 'string' || value instanceof Uint8Array ? value.length * 2 + 20 : 24
}
