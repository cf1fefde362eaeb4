import { sha256 } from '@noble/hashes/sha2.js'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type Address, blockNumber, type Hash, logIndex } from '../chain/block.ts'
import type { Log } from '../chain/log.ts'
import { bytesToHex, type Hex, hexToBytes } from '../util/bytes.ts'
import { identify, type LogContent, stableId } from './identity.ts'

const hexOf = (minLength: number, maxLength = minLength): fc.Arbitrary<Hex> =>
  fc.uint8Array({ minLength, maxLength }).map(bytesToHex)

/** Data on both sides of the 768 bytes up to which one buffer serves all logs. */
const content: fc.Arbitrary<LogContent> = fc.record({
  address: hexOf(20),
  topics: fc.array(hexOf(32), { maxLength: 4 }),
  data: fc.oneof(hexOf(0, 96), hexOf(700, 900)),
  transactionHash: hexOf(32),
})

/** The documented text, hashed by the pure implementation. */
function byTheBook(chainId: number, log: LogContent, n: number): string {
  const whole = [
    uint64(chainId),
    log.transactionHash,
    log.address,
    byte(log.topics.length),
    ...log.topics,
    log.data,
    uint64(n),
  ]
  const bytes = hexToBytes(`0x${whole.map((part) => part.slice(2)).join('')}`)
  return bytesToHex(sha256(bytes).subarray(0, 16))
}

const uint64 = (n: number): string => `0x${n.toString(16).padStart(16, '0')}`
const byte = (n: number): string => `0x0${n}`

describe('the stable id', () => {
  test('is the documented digest, whatever was hashed before it', () => {
    const several = fc.array(fc.tuple(fc.integer({ min: 1, max: 2 ** 40 }), content, fc.nat(70_000)), {
      minLength: 1,
      maxLength: 5,
    })
    fc.assert(
      fc.property(several, (logs) => {
        for (const [chainId, log, n] of logs) expect(stableId(chainId, log, n)).toBe(byTheBook(chainId, log, n))
      }),
    )
  })

  test('is refused for what is not hex', () => {
    const good: LogContent = { address: '0x11', topics: [], data: '0x', transactionHash: '0x22' }
    for (const data of ['0x1', '0xgg', '0xé0', 'é000', '']) {
      expect(() => stableId(1, { ...good, data: data as Hex })).toThrow(/not a byte string/)
    }
  })
})

test('C07: identical logs of one transaction are counted, also with another transaction between them; equal logs of others are not', () => {
  const log = (transaction: string, index: number): Log => ({
    address: `0x${'70'.repeat(20)}` as Address,
    topics: [],
    data: '0x01',
    blockNumber: blockNumber(5),
    blockHash: `0x${'b1'.repeat(32)}` as Hash,
    transactionHash: `0x${transaction.repeat(32)}` as Hash,
    transactionIndex: 0,
    logIndex: logIndex(index),
  })
  const ids = identify(1, [log('aa', 0), log('bb', 1), log('aa', 2)]).map((one) => one.stableId)
  expect(ids).toEqual([stableId(1, log('aa', 0), 0), stableId(1, log('bb', 1), 0), stableId(1, log('aa', 2), 1)])
})
