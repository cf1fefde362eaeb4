/**
 * 256-bit numbers as text. SQLite has no such number, and a float or a cut would be silent, so amounts are kept as 78
 * decimal digits: exact, and the order of the text (`ORDER BY`, `<`, `max`) is the order of the numbers.
 *
 * - `uint256`: the number, zero-padded to 78 digits; 2^256 − 1 has 78
 * - `int256`: the number + 10^77, zero-padded to 78 digits. A leading 1 means zero or more, with the value in the other
 *   77 digits; a leading 0 means below zero. |int256| ≤ 2^255 < 10^77, so every value fits
 */
const DIGITS = 78
const OFFSET = 10n ** 77n
const PATTERN = /^\d{78}$/

/** @throws {RangeError} when `value` is not from 0 to 2^256 − 1. */
export function encodeUint256(value: bigint): string {
  if (BigInt.asUintN(256, value) !== value) throw new RangeError('not a uint256')
  return value.toString().padStart(DIGITS, '0')
}

/** @throws {RangeError} when `text` is not what `encodeUint256` writes. */
export function decodeUint256(text: string): bigint {
  const value = PATTERN.test(text) ? BigInt(text) : -1n
  if (BigInt.asUintN(256, value) !== value) throw new RangeError('not the text of a uint256')
  return value
}

/** @throws {RangeError} when `value` is not from −2^255 to 2^255 − 1. */
export function encodeInt256(value: bigint): string {
  if (BigInt.asIntN(256, value) !== value) throw new RangeError('not an int256')
  return (value + OFFSET).toString().padStart(DIGITS, '0')
}

/** @throws {RangeError} when `text` is not what `encodeInt256` writes. */
export function decodeInt256(text: string): bigint {
  if (!PATTERN.test(text)) throw new RangeError('not the text of an int256')
  const value = BigInt(text) - OFFSET
  if (BigInt.asIntN(256, value) !== value) throw new RangeError('not the text of an int256')
  return value
}
