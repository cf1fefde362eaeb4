import { TidemarkError } from '../../errors.ts'
import { hexToBytes } from '../../util/bytes.ts'
import type { ColumnType } from '../store.ts'
import { bytes, isStorableText } from './values.ts'

/** @throws {TypeError | RangeError} when `value` is not of the type, or PostgreSQL would not keep it as it is. */
type Encode = (value: unknown) => string | Buffer | boolean

function refuse(): never {
  throw new TypeError('not a value of the type')
}

function whole(value: unknown): bigint {
  if (typeof value === 'number' && Number.isSafeInteger(value)) return BigInt(value)
  return typeof value === 'bigint' ? value : refuse()
}

/** Numbers go as text, which PostgreSQL reads exactly; a JavaScript number could not hold them. */
const within = (fits: (value: bigint) => bigint) => (value: unknown) => {
  const number = whole(value)
  return fits(number) === number ? number.toString() : refuse()
}

const ENCODE: Readonly<Record<ColumnType, Encode>> = {
  text: (value) => (typeof value === 'string' && isStorableText(value) ? value : refuse()),
  integer: within((value) => BigInt.asIntN(64, value)),
  bytes: (value) =>
    bytes(value instanceof Uint8Array ? value : typeof value === 'string' ? hexToBytes(value) : refuse()),
  boolean: (value) => (typeof value === 'boolean' ? value : refuse()),
  uint256: within((value) => BigInt.asUintN(256, value)),
  int256: within((value) => BigInt.asIntN(256, value)),
}

/**
 * A managed column's value as it is bound; null stays null.
 * @throws {TidemarkError} `MANAGED_VALUE_INVALID`: missing, of another type, out of range, or a text that cannot be kept
 */
export function encodeManaged(table: string, column: string, type: ColumnType, value: unknown): unknown {
  if (value === null) return null
  try {
    return ENCODE[type](value)
  } catch (cause) {
    // The value itself is an event's argument and stays out of the message (P12).
    const sentence = `A value cannot be kept in a column of type ${type}`
    throw new TidemarkError('MANAGED_VALUE_INVALID', sentence, { values: { table, column }, cause })
  }
}
