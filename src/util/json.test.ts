import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { decodeValue, encodeValue } from './json.ts'

const key = fc.oneof(
  fc.string(),
  fc.constantFrom('$bigint', '$bytes', '$number', '$', '$$', '$$bigint', '__proto__', 'toJSON'),
)

const value = fc.letrec((tie) => ({
  any: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom(null, true, false, 0, -0),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.string({ unit: 'binary' }),
    fc.bigInt(),
    fc.uint8Array({ maxLength: 40 }),
    fc.array(tie('any'), { maxLength: 4 }),
    fc.dictionary(key, tie('any'), { maxKeys: 4, noNullPrototype: true }),
  ),
})).any

describe('a memo comes back as it was', () => {
  test('any value of bigint, bytes, numbers, texts, arrays and objects', () => {
    const holds = fc.property(value, (one) => {
      expect(decodeValue(encodeValue(one))).toStrictEqual(one)
    })
    fc.assert(holds, { numRuns: 500 })
  })

  test("a user's object that looks like a tag stays an object", () => {
    for (const one of [{ $bigint: '1' }, { $bytes: '0x00' }, { $$bigint: '1' }, { $: 1 }, { $bigint: 1n }]) {
      expect(decodeValue(encodeValue(one))).toStrictEqual(one)
    }
  })

  test('2^256 − 1 is exact to the digit, where plain JSON is not', () => {
    const most = 2n ** 256n - 1n
    expect(decodeValue(encodeValue({ most }))).toStrictEqual({ most })
    expect(BigInt(JSON.parse(most.toString()))).not.toBe(most) // control
  })

  test('an undefined property counts as absent', () => {
    expect(encodeValue({ a: undefined, b: 1 })).toBe('{"b":1}')
  })
})

describe('what would not come back is refused', () => {
  const cycle: Record<string, unknown> = {}
  cycle.self = { cycle }
  let deep: unknown = 1
  for (let i = 0; i < 200; i++) deep = [deep]
  const refused: [string, unknown][] = [
    ['undefined', undefined],
    ['undefined in an array', [undefined]],
    // biome-ignore lint/suspicious/noSparseArray: the hole is the point
    ['a hole', [1, , 2]],
    ['a function', () => 1],
    ['a function inside', { a: [() => 1] }],
    ['a symbol', Symbol('s')],
    ['a symbol key', { [Symbol('s')]: 1 }],
    ['NaN', Number.NaN],
    ['an infinity', { a: Number.POSITIVE_INFINITY }],
    ['a date', new Date(0)],
    ['a map', new Map()],
    ['an instance', new (class Thing {})()],
    ['a cycle', cycle],
    ['a very deep value', deep],
  ]
  test.each(refused)('%s', (_name, one) => {
    expect(() => encodeValue(one)).toThrow(TypeError)
  })

  test('the same object twice side by side is no cycle', () => {
    const twice = { a: 1 }
    expect(decodeValue(encodeValue([twice, twice]))).toStrictEqual([{ a: 1 }, { a: 1 }])
  })

  test('a tag that nobody writes', () => {
    expect(() => decodeValue('{"$date":"x"}')).toThrow(TypeError)
  })
})
