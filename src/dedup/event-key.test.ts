import * as Log from 'ox/Log'
import { describe, expect, test } from 'vitest'
import { TidemarkError } from '../errors.ts'
import type { Hex } from '../util/bytes.ts'
import { type DeduplicationEvent, eventKey, numberIdenticalLogs } from './event-key.ts'

const TX = `0x${'ab'.repeat(32)}` as Hex
const TOPIC = `0x${'0d'.repeat(32)}` as Hex
const bare: DeduplicationEvent = { transactionHash: TX, logIndex: 3, blockNumber: 100 }
const unnumbered: DeduplicationEvent = {
  ...bare,
  address: `0x${'Ee'.repeat(20)}`,
  topics: [TOPIC],
  data: '0xC0FFEE',
}
const full: DeduplicationEvent = { ...unnumbered, n: 0 }

/** As a node sends it in JSON. */
const rawLog = (more: Partial<DeduplicationEvent>): DeduplicationEvent => ({
  ...unnumbered,
  blockNumber: '0x64',
  blockHash: `0x${'bb'.repeat(32)}`,
  logIndex: '0x3',
  removed: false,
  ...{ transactionIndex: '0x1' },
  ...more,
})

const key = (event: DeduplicationEvent, chainId = 1) => eventKey(chainId, event).key
const upper = (hex: Hex | undefined) => `0x${(hex ?? '0x').slice(2).toUpperCase()}` as Hex

function codeOf(event: unknown, identity?: (event: DeduplicationEvent) => string): string {
  try {
    return eventKey(1, event as DeduplicationEvent, identity).key
  } catch (error) {
    return TidemarkError.is(error) ? error.code : String(error)
  }
}

describe('which event is it', () => {
  test('without content it is the event id', () => {
    expect(eventKey(1, bare)).toEqual({ chainId: 1, key: `event-1-${TX}-3`, block: 100 })
  })

  test('with content a re-included log is the same at another index and in another block', () => {
    expect(key({ ...full, logIndex: 9, blockNumber: 101 })).toBe(key(full))
    expect(key({ ...bare, logIndex: 9 })).not.toBe(key(bare))
  })

  test('other content is another event', () => {
    for (const other of [{ data: '0x' }, { topics: [] }, { address: `0x${'11'.repeat(20)}` }, { n: 1 }]) {
      expect(key({ ...full, ...other } as DeduplicationEvent)).not.toBe(key(full))
    }
  })

  test('C41: the same hash on two chains is two events, in every form', () => {
    expect(key(bare, 10)).not.toBe(key(bare, 1))
    expect(key(full, 10)).not.toBe(key(full, 1))
    expect(eventKey(1, { ...full, chainId: 10 })).toEqual(eventKey(10, full))
  })

  test('C46: any spelling of address, hash, topic and data gives one key', () => {
    const shouted = {
      ...full,
      address: upper(full.address),
      transactionHash: upper(TX),
      topics: [upper(TOPIC)],
      data: upper(full.data),
    }
    expect(key(shouted)).toBe(key(full))
    expect(key({ ...bare, transactionHash: upper(TX) })).toBe(key(bare))
  })

  test('quantities may be bigint or the hex text of a node', () => {
    expect(eventKey(1, { ...bare, logIndex: 3n, blockNumber: 100n })).toEqual(eventKey(1, bare))
    expect(eventKey(1, { ...bare, logIndex: '0x3', blockNumber: '0X64' as Hex })).toEqual(eventKey(1, bare))
  })

  test('the three kinds of key never collide', () => {
    const own = codeOf(bare, () => eventKey(1, bare).key)
    expect(own).not.toBe(key(bare))
    expect(new Set([own, key(bare), key(full)].map((one) => one.split('-')[0]))).toEqual(
      new Set(['own', 'event', 'stable']),
    )
  })
})

describe('several identical logs of one transaction (C07)', () => {
  const twins = [5, 2, 9].map((logIndex) => ({ ...full, logIndex }))

  test('each has a key of its own, whatever the order of delivery', () => {
    const keys = numberIdenticalLogs(twins).map((log) => [log.logIndex, key(log)])
    const again = numberIdenticalLogs([...twins].reverse()).map((log) => [log.logIndex, key(log)])
    expect(new Set(keys.map(([, one]) => one)).size).toBe(3)
    expect(Object.fromEntries(again)).toEqual(Object.fromEntries(keys))
  })

  test('content without `n` is refused, with the way out: a default would lose the second of two equal payouts', () => {
    expect(() => eventKey(1, unnumbered)).toThrow(/EVENT_KEY_INVALID/)
    expect(() => eventKey(1, unnumbered)).toThrow(/needs its `n`: pass the logs through `numberIdenticalLogs`/)
    expect(codeOf({ ...unnumbered, n: null })).toBe('EVENT_KEY_INVALID')
    // Neither content nor `n`: the event id tells the two apart by their index.
    expect(key(bare)).not.toBe(key({ ...bare, logIndex: 4 }))
  })

  test('logs of a raw JSON-RPC answer and of a client library get the same numbers and keys, also mixed', () => {
    const raw = [16, 9, 10].map((index) => rawLog({ logIndex: `0x${index.toString(16)}` }))
    // `Log.fromRpc` makes what viem returns: the block number as bigint, the index as number.
    const typed = raw.map((log) => Log.fromRpc(log as never) as unknown as DeduplicationEvent)
    expect(typed[0]).toMatchObject({ blockNumber: 100n, logIndex: 16 })
    const numbers = [raw, typed].map((logs) => numberIdenticalLogs(logs).map((log) => log.n))
    expect(numbers).toEqual([
      [2, 0, 1],
      [2, 0, 1],
    ])
    const keys = [raw, typed].map((logs) => numberIdenticalLogs(logs).map((log) => eventKey(1, log)))
    expect(keys[0]).toEqual(keys[1])
    const mixed = numberIdenticalLogs([raw[0], typed[1], raw[2], typed[2]] as DeduplicationEvent[])
    expect(mixed.map((log) => log.n)).toEqual([2, 0, 1, 1])
  })

  test.each([null, '', '0x', '10', 'latest', -1, 1.5])(
    'a log with the index %s has no place and gets no number',
    (bad) => {
      for (const field of ['logIndex', 'blockNumber']) {
        expect(() => numberIdenticalLogs([rawLog({ [field]: bad } as never)])).toThrow(/EVENT_KEY_INVALID/)
      }
    },
  )

  test('the same log delivered twice in one batch stays one', () => {
    const numbered = numberIdenticalLogs([...twins, ...twins])
    expect(numbered.map((log) => log.n)).toEqual([1, 0, 2, 1, 0, 2])
  })

  test('logs of sibling blocks, of other transactions and with other content are not counted together', () => {
    const other = [
      { ...full, transactionHash: TOPIC },
      { ...full, data: '0x' as Hex },
      { ...full, logIndex: 7, blockNumber: 101 },
      { ...full, logIndex: 8, blockHash: TOPIC },
    ]
    expect(numberIdenticalLogs([full, ...other]).map((log) => log.n)).toEqual([0, 0, 0, 0, 0])
  })
})

describe('bad input', () => {
  test.each([
    ['no block number', { ...bare, blockNumber: undefined }],
    ['a pending log', { ...bare, blockNumber: null, logIndex: null }],
    ['a decimal block number as text', { ...bare, blockNumber: '100' }],
    ['a block tag', { ...bare, blockNumber: 'latest' }],
    ['an empty quantity', { ...bare, logIndex: '0x' }],
    ['a null log index', { ...bare, logIndex: null }],
    ['a negative log index', { ...bare, logIndex: -1 }],
    ['a short hash', { ...bare, transactionHash: '0x12' }],
    ['no hash', { ...bare, transactionHash: undefined }],
    ['a chain id of 0', { ...bare, chainId: 0 }],
    ['a chain id as text', { ...bare, chainId: '1' }],
    ['a bad address', { ...full, address: 'vitalik.eth' }],
    ['a bad topic', { ...full, topics: ['0x01'] }],
    ['odd data', { ...full, data: '0x123' }],
    ['a negative n', { ...full, n: -1 }],
    ['a removed log', { ...full, removed: true }],
    ['nothing', undefined],
  ])('%s is refused', (_, event) => {
    expect(codeOf(event)).toBe('EVENT_KEY_INVALID')
  })

  test.each([undefined, '', 7, 'x'.repeat(256)])('identity returning %s is refused', (bad) => {
    expect(codeOf(bare, () => bad as string)).toBe('EVENT_KEY_INVALID')
  })

  test('P12: the message holds no argument of the event', () => {
    expect(() => eventKey(1, { ...full, data: '0x5ec4e7f' })).not.toThrow(/5ec4e7f/)
    expect(() => eventKey(1, { ...full, data: '0x5ec4e7f' })).toThrow(/'data'/)
  })
})
