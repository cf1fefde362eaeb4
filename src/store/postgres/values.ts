import type { BlockNumber, Hash } from '../../chain/block.ts'
import { bytesToHex, type Hex, hexToBytes } from '../../util/bytes.ts'
import type { PgRow, PgTypes } from './driver.ts'

/** @throws {RangeError} when it is not a safe integer */
export function int(value: number): number {
  if (!Number.isSafeInteger(value)) throw new RangeError('a number to be stored is not a safe integer')
  return value
}

export function intOrNull(value: number | null): number | null {
  return value === null ? null : int(value)
}

/** Bytes as `pg` binds them. Other views are bound as well, but only a Buffer is written without a copy. */
export function bytes(value: Uint8Array): Buffer {
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength)
}

/** Hex text as the bytes that are stored. @throws {TypeError} when it is not hex */
export function blob(hex: string): Buffer {
  return bytes(hexToBytes(hex))
}

const HEX = /^0x(?:[0-9a-f]{2})*$/i

/** The digits of hex text, whole bytes. @throws {TypeError} when it is not hex */
export function hexDigits(hex: string): string {
  if (!HEX.test(hex)) throw new TypeError('bytes to be stored are not hex')
  return hex.slice(2)
}

/**
 * Text as it may be bound: PostgreSQL refuses a NUL, which would abort the transaction, and the driver replaces half a
 * surrogate pair without a word.
 * @throws {RangeError} for such a text
 */
export function text(value: string): string {
  if (!isStorableText(value))
    throw new RangeError('a text holds a NUL or half a surrogate pair: PostgreSQL cannot keep it')
  return value
}

export function textOrNull(value: string | null): string | null {
  return value === null ? null : text(value)
}

export function isStorableText(value: string): boolean {
  return !value.includes('\0') && !/\p{Surrogate}/u.test(value)
}

const BOOL = 16
const BYTEA = 17
const INTEGERS: ReadonlySet<number> = new Set([20, 21, 23])

function narrow(value: string): number | string {
  const number = Number(value)
  return Number.isSafeInteger(number) ? number : value
}

/** How Tidemark reads its own columns, whatever parsers the application has set on the driver. */
export const OWN_TYPES: PgTypes = {
  getTypeParser: (oid, format) => {
    if (format === 'binary') throw new TypeError('the driver is in binary mode, which is not supported')
    if (oid === BOOL) return (value) => value === 't'
    if (oid === BYTEA) return (value) => hexToBytes(`0x${value.slice(2)}`)
    return INTEGERS.has(oid) ? narrow : (value) => value
  },
}

/** Reads one column as a number. The clients that an application brings answer 64-bit integers as text or bigint. */
export function readNumber(row: PgRow, column: string): number {
  const value = row[column]
  const number = typeof value === 'string' || typeof value === 'bigint' ? Number(value) : value
  if (typeof number !== 'number' || !Number.isSafeInteger(number))
    throw new TypeError(`column ${column} holds no number`)
  return number
}

export function readNumberOrNull(row: PgRow, column: string): number | null {
  return row[column] === null ? null : readNumber(row, column)
}

export function readBlock(row: PgRow, column: string): BlockNumber {
  return readNumber(row, column) as BlockNumber
}

export function readBlockOrNull(row: PgRow, column: string): BlockNumber | null {
  return readNumberOrNull(row, column) as BlockNumber | null
}

export function readBytes(row: PgRow, column: string): Uint8Array {
  const value = row[column]
  if (typeof value === 'string' && value.startsWith('\\x')) return hexToBytes(`0x${value.slice(2)}`)
  if (!(value instanceof Uint8Array)) throw new TypeError(`column ${column} holds no bytes`)
  // A Buffer has other methods; a plain view compares and prints the same everywhere.
  return value.constructor === Uint8Array ? value : new Uint8Array(value)
}

export function readBytesOrNull(row: PgRow, column: string): Uint8Array | null {
  return row[column] === null ? null : readBytes(row, column)
}

export function readHex(row: PgRow, column: string): Hex {
  return bytesToHex(readBytes(row, column))
}

export function readHash(row: PgRow, column: string): Hash {
  return readHex(row, column) as Hash
}

export function readText(row: PgRow, column: string): string {
  const value = row[column]
  if (typeof value !== 'string') throw new TypeError(`column ${column} holds no text`)
  return value
}

export function readTextOrNull(row: PgRow, column: string): string | null {
  return row[column] === null ? null : readText(row, column)
}

export function readFlag(row: PgRow, column: string): boolean {
  const value = row[column]
  if (typeof value !== 'boolean') throw new TypeError(`column ${column} holds no boolean`)
  return value
}
