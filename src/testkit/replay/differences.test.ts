import { describe, expect, test } from 'vitest'
import type { ScratchColumn, ScratchTable } from '../../store/sqlite/scratch.ts'
import { differences } from './differences.ts'

const SIDES = { actual: 'the faulty run', expected: 'the clean one' }

function column(name: string, more: Partial<ScratchColumn> = {}): ScratchColumn {
  return { name, key: 0, made: false, refersTo: null, ...more }
}

function table(name: string, columns: readonly ScratchColumn[], ...rows: ScratchTable['rows']): ScratchTable {
  return { name, columns, rows }
}

function between(
  actual: readonly ScratchTable[],
  expected: readonly ScratchTable[],
  ignore: readonly string[] = [],
): string[] {
  return differences(actual, expected, ignore, SIDES)
}

const KEYED = [column('account', { key: 1 }), column('balance')]

describe('rows with a key', () => {
  const clean = table('accounts', KEYED, { account: '0xa', balance: 10n }, { account: '0xb', balance: 1n })

  test('another value, a row too many, a row too few', () => {
    const faulty = table('accounts', KEYED, { account: '0xa', balance: 15n }, { account: '0xc', balance: 2n })
    expect(between([faulty], [clean])).toEqual([
      'table accounts, row account=0xa: balance is 15 in the faulty run, 10 in the clean one',
      'table accounts, row account=0xc, balance=2: it is in the faulty run, and not in the clean one',
      'table accounts, row account=0xb, balance=1: it is missing in the faulty run',
    ])
  })

  test('the order of rows is no difference, null and "null" are one', () => {
    const turned = table('accounts', KEYED, { account: '0xb', balance: 1n }, { account: '0xa', balance: 10n })
    expect(between([turned], [clean])).toEqual([])
    expect(
      between(
        [table('accounts', KEYED, { account: 'a', balance: null })],
        [table('accounts', KEYED, { account: 'a', balance: 'null' })],
      ),
    ).toHaveLength(0)
  })
})

describe('rows without a key', () => {
  const columns = [column('id', { key: 1, made: true }), column('account'), column('amount'), column('at')]
  const row = (id: bigint, at: bigint) => ({ id, account: '0xa', amount: 5n, at })

  test('ids that the database makes are no difference', () => {
    expect(between([table('log', columns, row(7n, 1n))], [table('log', columns, row(1n, 1n))])).toEqual([])
  })

  test('the row that is most alike is its partner', () => {
    expect(between([table('log', columns, row(1n, 1n))], [table('log', columns, row(1n, 2n))])).toEqual([
      'table log, row account=0xa, amount=5: at is 1 in the faulty run, 2 in the clean one',
    ])
  })

  test('one that is there twice', () => {
    expect(between([table('log', columns, row(1n, 1n), row(2n, 1n))], [table('log', columns, row(1n, 1n))])).toEqual([
      'table log, row account=0xa, amount=5, at=1: it is there more often in the faulty run than in the clean one',
    ])
  })
})

describe('foreign keys to ids that the database makes', () => {
  const owners = [column('id', { key: 1, made: true }), column('account')]
  const items = [column('token', { key: 1 }), column('owner', { refersTo: { table: 'owners', column: 'id' } })]
  const clean = [
    table('owners', owners, { id: 1n, account: '0xa' }, { id: 2n, account: '0xb' }),
    table('items', items, { token: 9n, owner: 1n }),
  ]

  test('are compared by the row that they refer to', () => {
    const same = [
      table('owners', owners, { id: 8n, account: '0xb' }, { id: 7n, account: '0xa' }),
      table('items', items, { token: 9n, owner: 7n }),
    ]
    expect(between(same, clean)).toEqual([])
    const other = [same[0] as ScratchTable, table('items', items, { token: 9n, owner: 8n })]
    expect(between(other, clean)).toEqual([
      'table items, row token=9: owner is {account=0xb} in the faulty run, {account=0xa} in the clean one',
    ])
  })
})

test('many differences are cut, and counted', () => {
  const rows = Array.from({ length: 9 }, (_, i) => ({ account: `0x${i}`, balance: 1n }))
  const words = between([table('accounts', KEYED)], [table('accounts', KEYED, ...rows)])
  expect(words).toHaveLength(6)
  expect(words.at(-1)).toBe('… and 4 more')
})

test('a table on one side only', () => {
  expect(between([], [table('accounts', KEYED, { account: '0xa', balance: 1n })])).toEqual([
    'table accounts, row account=0xa, balance=1: it is missing in the faulty run',
  ])
})
