import type { BlockNumber, Hash } from '../../chain/block.ts'
import { bytesToHex, type Hex, hexToBytes, writeHex } from '../../util/bytes.ts'
import type { SqliteRow, SqliteValue } from './driver.ts'

const INT32 = 0x7fffffff

/**
 * A whole number as SQLite stores it. Above 2^31 the drivers bind a JavaScript number as a float, so those go as bigint
 * (C45). @throws {RangeError} when it is not a safe integer
 */
export function int(value: number): number | bigint {
  if (!Number.isSafeInteger(value)) throw new RangeError('a number to be stored is not a safe integer')
  return value > INT32 || value < -INT32 ? BigInt(value) : value
}

export function intOrNull(value: number | null): number | bigint | null {
  return value === null ? null : int(value)
}

const POOL_BYTES = 8192
/** Above this an array of its own is cheaper than what a pool would waste. */
const POOLED_BYTES = 64
let pool = new ArrayBuffer(POOL_BYTES)
let used = 0

/**
 * Hex text as the bytes that are stored. Short ones are views of a buffer that many share, each on bytes of its own: V8 keeps
 * a small array inside its heap, and the drivers' first look at it costs an allocation outside (a third of an insert).
 * @throws {TypeError} when it is not hex
 */
export function blob(hex: string): Uint8Array {
  const length = hex.length / 2 - 1
  if (!(length >= 0 && length <= POOLED_BYTES)) return hexToBytes(hex)
  if (used + length > POOL_BYTES) {
    pool = new ArrayBuffer(POOL_BYTES)
    used = 0
  }
  const bytes = new Uint8Array(pool, used, length)
  writeHex(hex, bytes, 0)
  used += length
  return bytes
}

/**
 * Text as it may be bound. @photostructure/sqlite cuts a string at a NUL, and every driver changes a lone surrogate, both
 * without a word.
 * @throws {RangeError} for such a text
 */
export function text(value: string): string {
  if (!isStorableText(value))
    throw new RangeError('a text holds a NUL or half a surrogate pair: SQLite would change it')
  return value
}

export function isStorableText(value: string): boolean {
  return !value.includes('\0') && !/\p{Surrogate}/u.test(value)
}

/** Reads one column as a number. A type other than INTEGER means a damaged or foreign table. */
export function readNumber(row: SqliteRow, column: string): number {
  const value = row[column]
  if (typeof value !== 'number') throw new TypeError(`column ${column} holds no number`)
  return value
}

export function readNumberOrNull(row: SqliteRow, column: string): number | null {
  return row[column] === null ? null : readNumber(row, column)
}

export function readBlock(row: SqliteRow, column: string): BlockNumber {
  return readNumber(row, column) as BlockNumber
}

export function readBlockOrNull(row: SqliteRow, column: string): BlockNumber | null {
  return readNumberOrNull(row, column) as BlockNumber | null
}

export function readBytes(row: SqliteRow, column: string): Uint8Array {
  const value: SqliteValue | undefined = row[column]
  if (!(value instanceof Uint8Array)) throw new TypeError(`column ${column} holds no bytes`)
  // better-sqlite3 answers a Buffer, whose methods differ; a plain view compares and prints the same everywhere.
  return value.constructor === Uint8Array ? value : new Uint8Array(value)
}

export function readHex(row: SqliteRow, column: string): Hex {
  return bytesToHex(readBytes(row, column))
}

export function readHash(row: SqliteRow, column: string): Hash {
  return readHex(row, column) as Hash
}

export function readText(row: SqliteRow, column: string): string {
  const value = row[column]
  if (typeof value !== 'string') throw new TypeError(`column ${column} holds no text`)
  return value
}

export function readTextOrNull(row: SqliteRow, column: string): string | null {
  return row[column] === null ? null : readText(row, column)
}
