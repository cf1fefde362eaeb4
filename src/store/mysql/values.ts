import type { BlockNumber, Hash } from '../../chain/block.ts'
import { bytesToHex, type Hex, hexToBytes } from '../../util/bytes.ts'

/**
 * A row as it arrives: bytes and null on Tidemark's own connections; through the user's Kysely or Prisma also numbers and
 * text, as their pools read them.
 */
export type Row = Readonly<Record<string, unknown>>

const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { fatal: true })

/** Bytes of a name or key: 255 characters of four bytes. */
export const LONGEST_KEY = 1_020

/**
 * A name or key as the bytes that are stored and compared. Text columns of MariaDB and MySQL take 'a' and 'a ' for the
 * same, and most of them 'a' and 'A'; bytes never do. The length is checked here: without strict mode the server would cut
 * the key, and two events would be one.
 * @throws {RangeError}
 */
export function key(value: string): Uint8Array {
  if (/\p{Surrogate}/u.test(value)) throw new RangeError('a key holds half a surrogate pair')
  const bytes = encoder.encode(value)
  if (bytes.length > LONGEST_KEY) throw new RangeError(`a key is longer than ${LONGEST_KEY} bytes`)
  return bytes
}

/** Hex text as the bytes that are stored. @throws {TypeError} when it is not hex */
export function blob(hex: string): Uint8Array {
  return hexToBytes(hex)
}

function asText(value: unknown): string | undefined {
  if (typeof value === 'string') return value
  return value instanceof Uint8Array ? decoder.decode(value) : undefined
}

/** Reads one column as a number. @throws {TypeError} when it holds none, or one that is not exact */
export function readNumber(row: Row, column: string): number {
  const value = row[column]
  const number =
    typeof value === 'number' || typeof value === 'bigint' ? Number(value) : Number(asText(value) || 'none')
  if (!Number.isSafeInteger(number)) throw new TypeError(`column ${column} holds no whole number`)
  return number
}

export function readNumberOrNull(row: Row, column: string): number | null {
  return row[column] === null ? null : readNumber(row, column)
}

export function readBlock(row: Row, column: string): BlockNumber {
  return readNumber(row, column) as BlockNumber
}

export function readBlockOrNull(row: Row, column: string): BlockNumber | null {
  return readNumberOrNull(row, column) as BlockNumber | null
}

/** Reads one column as bytes of its own: the driver's are a window on what it received. */
export function readBytes(row: Row, column: string): Uint8Array {
  const value = row[column]
  if (!(value instanceof Uint8Array)) throw new TypeError(`column ${column} holds no bytes`)
  return new Uint8Array(value)
}

export function readBytesOrNull(row: Row, column: string): Uint8Array | null {
  return row[column] === null ? null : readBytes(row, column)
}

export function readHex(row: Row, column: string): Hex {
  return bytesToHex(readBytes(row, column))
}

export function readHash(row: Row, column: string): Hash {
  return readHex(row, column) as Hash
}

export function readText(row: Row, column: string): string {
  const text = asText(row[column])
  if (text === undefined) throw new TypeError(`column ${column} holds no text`)
  return text
}

export function readTextOrNull(row: Row, column: string): string | null {
  return row[column] === null ? null : readText(row, column)
}
