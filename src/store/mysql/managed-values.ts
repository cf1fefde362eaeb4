import { TidemarkError } from '../../errors.ts'
import { hexToBytes } from '../../util/bytes.ts'
import { encodeInt256, encodeUint256 } from '../amounts.ts'
import type { ColumnType } from '../store.ts'
import { isStorableText, type SqlValue } from './literals.ts'

/** @throws {TypeError | RangeError} when `value` is not of the type, or the database would not keep it as it is. */
type Encode = (value: unknown) => SqlValue

function refuse(): never {
  throw new TypeError('not a value of the type')
}

function integer(value: unknown): SqlValue {
  if (typeof value === 'number') return Number.isSafeInteger(value) ? value : refuse()
  return typeof value === 'bigint' && BigInt.asIntN(64, value) === value ? value : refuse()
}

function amount(value: unknown): bigint {
  if (typeof value === 'number' && Number.isSafeInteger(value)) return BigInt(value)
  return typeof value === 'bigint' ? value : refuse()
}

const ENCODE: Readonly<Record<ColumnType, Encode>> = {
  text: (value) => (typeof value === 'string' && isStorableText(value) ? value : refuse()),
  integer,
  bytes: (value) => (value instanceof Uint8Array ? value : typeof value === 'string' ? hexToBytes(value) : refuse()),
  boolean: (value) => (typeof value === 'boolean' ? Number(value) : refuse()),
  uint256: (value) => encodeUint256(amount(value)),
  int256: (value) => encodeInt256(amount(value)),
}

/**
 * A managed column's value as it is stored; null stays null.
 * @throws {TidemarkError} `MANAGED_VALUE_INVALID`: missing, of another type, out of range, or half a surrogate pair
 */
export function encodeManaged(table: string, column: string, type: ColumnType, value: unknown): SqlValue {
  if (value === null) return null
  try {
    return ENCODE[type](value)
  } catch (cause) {
    // The value itself is an event's argument and stays out of the message (P12).
    const sentence = `A value cannot be kept in a column of type ${type}`
    throw new TidemarkError('MANAGED_VALUE_INVALID', sentence, { values: { table, column }, cause })
  }
}
