import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { decodeInt256, decodeUint256, encodeInt256, encodeUint256 } from './amounts.ts'
import { openDefault } from './sqlite/driver.ts'

const uint256 = fc.bigInt({ min: 0n, max: 2n ** 256n - 1n })
const int256 = fc.bigInt({ min: -(2n ** 255n), max: 2n ** 255n - 1n })
const compare = (a: bigint | string, b: bigint | string) => (a < b ? -1 : a > b ? 1 : 0)

describe('an amount that SQLite would round or cut (C44)', () => {
  test('every uint256 comes back to the digit, in the order of the numbers', () => {
    const holds = fc.property(uint256, uint256, (a, b) => {
      expect(encodeUint256(a)).toHaveLength(78)
      expect(decodeUint256(encodeUint256(a))).toBe(a)
      expect(compare(encodeUint256(a), encodeUint256(b))).toBe(compare(a, b))
    })
    fc.assert(holds)
  })

  test('every int256 comes back to the digit, in the order of the numbers', () => {
    const holds = fc.property(int256, int256, (a, b) => {
      expect(encodeInt256(a)).toHaveLength(78)
      expect(decodeInt256(encodeInt256(a))).toBe(a)
      expect(compare(encodeInt256(a), encodeInt256(b))).toBe(compare(a, b))
    })
    fc.assert(holds)
  })

  test('the ends of the ranges', () => {
    for (const value of [0n, 1n, 2n ** 256n - 1n]) expect(decodeUint256(encodeUint256(value))).toBe(value)
    for (const value of [-(2n ** 255n), -1n, 0n, 1n, 2n ** 255n - 1n])
      expect(decodeInt256(encodeInt256(value))).toBe(value)
    for (const value of [-1n, 2n ** 256n]) expect(() => encodeUint256(value)).toThrow(RangeError)
    for (const value of [-(2n ** 255n) - 1n, 2n ** 255n]) expect(() => encodeInt256(value)).toThrow(RangeError)
  })

  test('a text of another origin is refused', () => {
    for (const text of ['', '1', '-1', '9'.repeat(78), `${'0'.repeat(77)}x`, ' '.repeat(78)]) {
      expect(() => decodeUint256(text)).toThrow(RangeError)
      expect(() => decodeInt256(text)).toThrow(RangeError)
    }
  })

  test('SQLite itself sorts the texts as numbers', () => {
    const db = openDefault(':memory:')
    db.exec('CREATE TABLE amounts (value TEXT)')
    const values = [5n, -1n, 2n ** 255n - 1n, -(2n ** 255n), 0n, 10n, -10n]
    for (const value of values) db.prepare('INSERT INTO amounts VALUES (?)').run(encodeInt256(value))
    const sorted = db
      .prepare('SELECT value FROM amounts ORDER BY value')
      .all()
      .map((row) => decodeInt256(String(row.value)))
    expect(sorted).toEqual([...values].sort(compare))
    db.close()
  })
})
