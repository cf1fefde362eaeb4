import { describe, expect, test } from 'vitest'
import { address, blockNumber, hash, logIndex } from '../chain/block.ts'
import type { Log } from '../chain/log.ts'
import { type IdentifiedLog, stableId } from '../dedup/identity.ts'
import { TidemarkError } from '../errors.ts'
import type { Hex } from '../util/bytes.ts'
import { hashText } from './abi.ts'
import { decodeEvent, eventOf, type TidemarkEvent } from './event.ts'
import { compileWatcher, defineWatch } from './watch.ts'

const watch = defineWatch<unknown, 'sync'>()
const TOKEN = `0x${'70'.repeat(20)}` as const
const ALICE = `0x${'a1'.repeat(20)}`
const BOB = `0x${'b0'.repeat(20)}`
const ERC20 = 'event Transfer(address indexed from, address indexed to, uint256 value)'
const ERC721 = 'event Transfer(address indexed from, address indexed to, uint256 indexed tokenId)'
const KITTY = 'event Transfer(address from, address to, uint256 tokenId)'

function word(value: string | bigint | number): Hex {
  const digits = typeof value === 'string' ? value.slice(2) : BigInt.asUintN(256, BigInt(value)).toString(16)
  return `0x${digits.padStart(64, '0')}`
}

function logOf(topics: readonly string[], data: string, emitter: string = TOKEN): IdentifiedLog {
  const log: Log = {
    address: address(emitter),
    topics: topics.map(hash),
    data: data as Hex,
    blockNumber: blockNumber(20_000_000),
    blockHash: hash(word(0xb10c)),
    transactionHash: hash(word(0x7a)),
    transactionIndex: 4,
    logIndex: logIndex(9),
  }
  return { log, stableId: stableId(1, log) }
}

function decoder(events: Record<string, string>, contract: string | undefined = TOKEN) {
  const definitions = Object.fromEntries(Object.entries(events).map(([name, event]) => [name, { event }]))
  const on = { ethereum: { startBlock: 1, ...(contract && { address: contract }) } }
  return compileWatcher('deposits', watch({ on, events: definitions, handle: () => {} }), 'ethereum', 1)
}

function failure(fn: () => unknown): TidemarkError {
  try {
    fn()
  } catch (error) {
    if (TidemarkError.is(error)) return error
    throw error
  }
  throw new Error('no error')
}

const TOPIC = hashText('Transfer(address,address,uint256)')
const erc20 = (value: bigint) => logOf([TOPIC, word(ALICE), word(BOB)], word(value))
const erc721 = logOf([TOPIC, word(ALICE), word(BOB), word(77)], '0x')
const kitty = logOf([TOPIC], `${word(ALICE)}${word(BOB).slice(2)}${word(5).slice(2)}`)

describe('a log becomes an event', () => {
  test('with the names of viem, the key, and everything in lower case', () => {
    const event = decodeEvent(decoder({ Deposit: ERC20 }, TOKEN.toUpperCase()), erc20(5n)) as TidemarkEvent
    expect(event).toEqual({
      name: 'Deposit',
      eventName: 'Transfer',
      args: { from: ALICE, to: BOB, value: 5n },
      address: TOKEN,
      blockNumber: 20_000_000n,
      blockHash: word(0xb10c),
      transactionHash: word(0x7a),
      transactionIndex: 4,
      logIndex: 9,
      chainId: 1,
      id: `1-${word(0x7a)}-9`,
      stableId: erc20(5n).stableId,
      topics: [TOPIC, word(ALICE), word(BOB)],
      data: word(5),
    })
  })

  test('C44: the largest and the negative stay exact', () => {
    const values = decoder({ Transfer: ERC20, Change: 'event Change(int256 by)' })
    expect(decodeEvent(values, erc20(2n ** 256n - 1n))?.args).toMatchObject({ value: 2n ** 256n - 1n })
    expect(decodeEvent(values, logOf([hashText('Change(int256)')], word(-1)))?.args).toEqual({ by: -1n })
  })

  test('C48: three texts, two of them broken, all come, and the raw bytes keep them apart', () => {
    const named = decoder({ Named: 'event Named(string name)' })
    const text = (bytes: string) => `${word(32)}${word(bytes.length / 2).slice(2)}${bytes.padEnd(64, '0')}`
    const events = ['a7', 'f09f8c', '6869'].map((bytes) =>
      decodeEvent(named, logOf([hashText('Named(string)')], text(bytes))),
    )
    expect(events.map((event) => event?.args)).toEqual([{ name: '\uFFFD' }, { name: '\uFFFD' }, { name: 'hi' }])
    expect(new Set(events.map((event) => event?.data)).size).toBe(3)
  })

  test('an indexed text, array or tuple is the hash that the chain keeps', () => {
    const signature = hashText('Mixed(string,uint256[],(bool,bytes),uint8)')
    const mixed = decoder({
      Mixed: 'event Mixed(string indexed a, uint256[] indexed b, (bool x, bytes y) indexed c, uint8 d)',
    })
    const event = decodeEvent(mixed, logOf([signature, word(1), word(2), word(3)], word(4)))
    expect(event?.args).toEqual({ a: word(1), b: word(2), c: word(3), d: 4 })
  })

  test('an event with an unnamed argument gives a list, one without arguments an empty object', () => {
    const both = decoder({ Bare: 'event Bare(address indexed, uint256 amount)', Empty: 'event Empty()' })
    expect(decodeEvent(both, logOf([hashText('Bare(address,uint256)'), word(ALICE)], word(3)))?.args).toEqual([
      ALICE,
      3n,
    ])
    expect(decodeEvent(both, logOf([hashText('Empty()')], '0x'))?.args).toEqual({})
  })
})

describe('C42: logs that share topic 0', () => {
  const batch = [erc20(5n), erc721, kitty]

  test('with the ERC-20 alone, the two others are passed over', () => {
    const events = batch.map((log) => decodeEvent(decoder({ Transfer: ERC20 }), log)?.name)
    expect(events).toEqual(['Transfer', undefined, undefined])
  })

  test('with all three registered, each goes to the one that fits', () => {
    const events = batch.map((log) => decodeEvent(decoder({ Token: ERC721, Kitty: KITTY, Coin: ERC20 }), log)?.name)
    expect(events).toEqual(['Coin', 'Token', 'Kitty'])
  })

  test('two that differ only in which argument is indexed: the one that decodes', () => {
    const either = decoder({
      First: 'event A(address indexed who, uint8 kind)',
      Second: 'event A(address who, uint8 indexed kind)',
    })
    const signature = hashText('A(address,uint8)')
    expect(decodeEvent(either, logOf([signature, word(ALICE)], word(3)))?.name).toBe('First')
    expect(decodeEvent(either, logOf([signature, word(3)], word(ALICE)))?.name).toBe('Second')
  })
})

describe('C43: anonymous events and logs without topics', () => {
  const NOTE = 'event Note(bytes4 indexed sig, address indexed who) anonymous'
  const note = logOf([`0xa9059cbb${'0'.repeat(56)}`, word(ALICE)], '0x')

  test('a log without topics is passed over, and no one reads its topic 0', () => {
    expect(decodeEvent(decoder({ Transfer: ERC20, Empty: 'event Empty()' }), logOf([], '0x1234'))).toBeNull()
  })

  test('an anonymous event without indexed arguments takes it', () => {
    const raw = decoder({ Raw: 'event Raw(uint256 value) anonymous' })
    expect(decodeEvent(raw, logOf([], word(8)))?.args).toEqual({ value: 8n })
  })

  test('an anonymous event decodes, and leaves events with a signature to their own', () => {
    const both = decoder({ Note: NOTE, Owner: 'event Owner(address indexed who)' })
    const owner = logOf([hashText('Owner(address)'), word(BOB)], '0x')
    expect(decodeEvent(both, note)).toMatchObject({ name: 'Note', args: { sig: '0xa9059cbb', who: ALICE } })
    expect(decodeEvent(both, owner)?.name).toBe('Owner')
  })

  test('an event with a signature is asked first, also where the anonymous one would decode', () => {
    const both = decoder({
      Raw: 'event Raw(bytes32 indexed any, bytes32 indexed other) anonymous',
      Owner: 'event Owner(address indexed who)',
    })
    expect(decodeEvent(both, logOf([hashText('Owner(address)'), word(BOB)], '0x'))?.name).toBe('Owner')
  })

  test('a log that only has its number of topics is another event of the contract: passed over, no poison', () => {
    expect(decodeEvent(decoder({ Note: NOTE }), logOf([hashText('Owner(address)'), word(BOB)], '0x'))).toBeNull()
  })
})

describe('a log that has the shape and does not decode is poison, not a mismatch', () => {
  const wrong: [string, IdentifiedLog, string][] = [
    ['data too short', logOf([TOPIC, word(ALICE), word(BOB)], '0x1234'), 'the data is too short'],
    [
      'dirty bits in a topic',
      logOf([TOPIC, word(2n ** 255n), word(BOB)], word(5)),
      'a word has bits that are outside of address',
    ],
  ]
  for (const [what, log, reason] of wrong) {
    test(`${what}: public values only`, () => {
      const error = failure(() => decodeEvent(decoder({ Transfer: ERC20 }), log))
      expect(error.code).toBe('DECODE_FAILED')
      const { transactionHash: transaction } = log.log
      expect(error.values).toEqual({
        watcher: 'deposits/ethereum',
        event: 'Transfer',
        block: 20_000_000,
        transaction,
        logIndex: 9,
        reason,
      })
      expect(error.message).not.toContain(BOB.slice(2))
    })
  }
})

describe('C46: one address, two spellings', () => {
  test('a filter in either spelling is the same filter', () => {
    const lower = decoder({ Transfer: ERC20 }, '0xdac17f958d2ee523a2206206994597c13d831ec7')
    const mixed = decoder({ Transfer: ERC20 }, '0xdAC17F958D2ee523a2206206994597C13D831ec7')
    expect(mixed.filters).toEqual(lower.filters)
    expect(mixed.fingerprint).toBe(lower.fingerprint)
  })
})

describe('an applied event is found again for undo and the final stage', () => {
  test('by its key, whatever the filter says by now', () => {
    const elsewhere = decoder({ Transfer: ERC20 }, `0x${'99'.repeat(20)}`)
    expect(decodeEvent(elsewhere, erc20(5n))).toBeNull()
    expect(eventOf(elsewhere, 'Transfer', erc20(5n))).toMatchObject({ name: 'Transfer', args: { value: 5n } })
  })

  test('under a new key', () => {
    expect(eventOf(decoder({ Renamed: ERC20 }), 'Transfer', erc20(5n)).name).toBe('Renamed')
  })

  test('an event of another signature under the old key is not taken for it', () => {
    const changed = decoder({ Transfer: 'event Approval(address indexed a, address indexed b, uint256 value)' })
    expect(failure(() => eventOf(changed, 'Transfer', erc20(5n))).code).toBe('DECODE_FAILED')
  })
})
