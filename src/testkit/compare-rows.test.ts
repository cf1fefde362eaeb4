import { describe, expect, test } from 'vitest'
import { compareRows, compareTables } from './compare-rows.ts'

describe('comparing rows', () => {
  test('order, integer type and ignored columns make no difference', () => {
    const expected = [
      { id: 1, account: 'bob', amount: 5n },
      { id: 2, account: 'al', amount: 7 },
    ]
    const actual = [
      { account: 'al', amount: 7n, id: 9 },
      { account: 'bob', amount: 5, id: 8 },
    ]
    expect(compareRows(expected, actual, { ignore: ['id'] })).toEqual([])
    expect(compareRows(expected, actual, { ignore: ['*.id'] })).toEqual([])
    expect(compareRows(expected, actual)).toHaveLength(4)
  })

  test('a row that is there twice is told apart from one', () => {
    const row = { account: 'bob', amount: 5 }
    expect(compareRows([row], [row, row])).toEqual([
      'rows: {account: "bob", amount: 5} is there 2 times, expected once',
    ])
    expect(compareRows([row], [])).toEqual(['rows: missing: {account: "bob", amount: 5}'])
    expect(compareRows([], [row, row], { table: 'deposits' })).toEqual([
      'deposits: not expected: {account: "bob", amount: 5} (2 times)',
    ])
  })

  test('with a key the words name the column', () => {
    const words = compareRows(
      [
        { account: 'bob', amount: 5, note: null },
        { account: 'al', amount: 1, note: null },
      ],
      [{ account: 'bob', amount: 10, note: '' }],
      { table: 'balances', key: ['account'] },
    )
    expect(words).toEqual([
      'balances: missing: {account: "al", amount: 1, note: null}',
      'balances {account: "bob"}: amount is 10, expected 5; note is "", expected null',
    ])
  })

  test('values that only look equal are not: text and number, zero and minus zero, bytes', () => {
    expect(compareRows([{ v: '5' }], [{ v: 5 }])).toHaveLength(2)
    expect(compareRows([{ v: 0 }], [{ v: -0 }])).toHaveLength(2)
    expect(compareRows([{ v: Uint8Array.of(1, 2) }], [{ v: Uint8Array.of(1, 2) }])).toEqual([])
    expect(compareRows([{ v: Uint8Array.of(1, 2) }], [{ v: Uint8Array.of(2, 1) }])).toHaveLength(2)
    expect(compareRows([{ v: { n: 1n } }], [{ v: { n: 1n } }])).toEqual([])
  })

  test('many differences are cut short and counted', () => {
    const rows = Array.from({ length: 30 }, (_, i) => ({ i }))
    const words = compareRows(rows, [], { limit: 3 })
    expect(words).toHaveLength(4)
    expect(words.at(-1)).toBe('… and 27 more')
  })

  test('tables: one that is on one side only counts as empty on the other', () => {
    const options = { ignore: ['b.at'], keys: { a: ['k'] } }
    expect(
      compareTables({ a: [{ k: 1, v: 1 }], b: [{ at: 1 }] }, { a: [{ k: 1, v: 2 }], b: [{ at: 2 }] }, options),
    ).toEqual(['a {k: 1}: v is 2, expected 1'])
    expect(compareTables({}, { c: [{ x: 1 }] })).toEqual(['c: not expected: {x: 1}'])
  })
})
