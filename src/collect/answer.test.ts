import { expect, test } from 'vitest'
import { type Address, blockNumber, type Hash, logIndex } from '../chain/block.ts'
import type { LogQuery } from '../chain/filter.ts'
import type { Log } from '../chain/log.ts'
import { TidemarkError } from '../errors.ts'
import { readAnswer } from './answer.ts'

const TOPIC = `0x${'aa'.repeat(32)}` as Hash
const TOKEN = `0x${'11'.repeat(20)}` as Address
const hashOf = (text: string) => `0x${text.padStart(64, '0')}` as Hash
const query: LogQuery = { addresses: [TOKEN], topics: [TOPIC] }

function log(block: number, transaction: number, index: number, more: Partial<Log> = {}): Log {
  return {
    address: TOKEN,
    topics: [TOPIC],
    data: '0x01',
    blockNumber: blockNumber(block),
    blockHash: hashOf(`b${block}`),
    transactionHash: hashOf(`c${block}${transaction}`),
    transactionIndex: transaction,
    logIndex: logIndex(index),
    ...more,
  }
}

function read(logs: readonly Log[], removed: readonly Log[] = []): Log[] | string {
  const answer = [
    ...logs.map((one) => ({ log: one, removed: false })),
    ...removed.map((one) => ({ log: one, removed: true })),
  ]
  try {
    return readAnswer({ query, from: 10, to: 20 }, answer)
  } catch (error) {
    return TidemarkError.is(error) ? error.sentence : 'another error'
  }
}

test('C38, C32: newest first, or counted per transaction: the order is block, transaction, index', () => {
  const ordered = [log(12, 0, 0), log(12, 0, 1), log(12, 1, 0), log(15, 0, 0), log(19, 2, 5)]
  expect(read([...ordered].reverse())).toEqual(ordered)
})

test('C07: two logs of the same content are two logs; the same log twice is one', () => {
  const twins = [log(12, 0, 7), log(12, 0, 8), log(12, 0, 9, { data: '0x02' })]
  expect(read([...twins, ...twins, log(12, 0, 7)])).toEqual(twins)
})

test('C27: a removed entry is dropped first, so it is no second block of its height', () => {
  expect(read([log(12, 0, 0)], [log(12, 0, 0, { blockHash: hashOf('dead') })])).toEqual([log(12, 0, 0)])
})

test('two different logs in one place, two blocks of one height, a stranger, a log from outside: the answer is refused', () => {
  expect(read([log(12, 0, 0), log(12, 0, 0, { data: '0x02' })])).toMatch(/one place/)
  expect(read([log(12, 0, 0), log(12, 1, 1, { blockHash: hashOf('dead') })])).toMatch(/one height/)
  expect(read([log(12, 0, 0, { address: `0x${'22'.repeat(20)}` as Address })])).toMatch(/not asked for/)
  expect(read([log(12, 0, 0, { topics: [] })])).toMatch(/not asked for/)
  expect(read([log(9, 0, 0)])).toMatch(/outside/)
  expect(read([log(21, 0, 0)])).toMatch(/outside/)
})
