import { describe, expect, test } from 'vitest'
import { TidemarkError } from '../errors.ts'
import { parseHeader, parseLogs, parseQuantity } from './parse.ts'

const hash = (digit: string) => `0x${digit.repeat(64)}`

const log = {
  address: `0x${'Ab'.repeat(20)}`,
  topics: [hash('A')],
  data: '0xFF',
  blockNumber: '0x10',
  blockHash: hash('b'),
  transactionHash: hash('C'),
  transactionIndex: '0x0',
  logIndex: '0x00',
}

function code(work: () => unknown): { code: string; field: unknown } {
  try {
    work()
  } catch (error) {
    if (TidemarkError.is(error)) return { code: error.code, field: error.values.field }
    throw error
  }
  return { code: 'no error', field: undefined }
}

describe('what nodes send', () => {
  test('C39: zero in three spellings is one number; text without 0x is refused', () => {
    for (const zero of ['0x0', '0x00', 0]) expect(parseQuantity(zero, 'n')).toBe(0)
    expect(parseQuantity('0x0a', 'n')).toBe(10)
    for (const bad of ['10', '', '0x', '0xg', -1, 1.5, 2 ** 53, '0xffffffffffffffff', null, undefined, {}]) {
      expect(code(() => parseQuantity(bad, 'n')).code).toBe('RPC_ANSWER_INVALID')
    }
  })

  test('C46: one spelling; C34: topics null is none; C37: a large index stays exact', () => {
    const [parsed] = parseLogs([{ ...log, topics: null, logIndex: '0xffffffe2' }])
    expect(parsed?.log.address).toBe(`0x${'ab'.repeat(20)}`)
    expect(parsed?.log.data).toBe('0xff')
    expect(parsed?.log.topics).toEqual([])
    expect(parsed?.log.logIndex).toBe(0xffffffe2)
  })

  test('C36, C38: pending, zero and missing hashes are refused, naming the field', () => {
    expect(code(() => parseLogs([{ ...log, blockHash: null, blockNumber: null }]))).toMatchObject({
      field: 'blockHash',
    })
    expect(code(() => parseLogs([{ ...log, blockHash: hash('0') }]))).toMatchObject({ field: 'blockHash' })
    expect(code(() => parseLogs([{ ...log, transactionHash: undefined }]))).toMatchObject({ field: 'transactionHash' })
    expect(code(() => parseLogs([{ ...log, logIndex: null }]))).toMatchObject({ field: 'logIndex' })
  })

  test('C05: whatever is not a list is an error', () => {
    for (const answer of [null, undefined, {}, '[]', 0, true]) {
      expect(code(() => parseLogs(answer)).code).toBe('RPC_ANSWER_INVALID')
    }
    expect(parseLogs([])).toEqual([])
  })

  test('C40: null is no block, and not block 0; the bloom may be missing', () => {
    expect(parseHeader(null)).toBe(null)
    const header = { number: '0x0', hash: hash('1'), parentHash: hash('0'), timestamp: '0x5' }
    expect(parseHeader(header)).toMatchObject({ number: 0, timestamp: 5, logsBloom: null })
    expect(code(() => parseHeader({})).code).toBe('RPC_ANSWER_INVALID')
    expect(code(() => parseHeader({ ...header, hash: null })).code).toBe('RPC_ANSWER_INVALID')
  })

  test('P12: a message names the kind of value, never the value', () => {
    try {
      parseLogs([{ ...log, topics: ['0xsecretargument'] }])
      expect.unreachable()
    } catch (error) {
      expect(String(error)).not.toContain('secretargument')
    }
  })
})
