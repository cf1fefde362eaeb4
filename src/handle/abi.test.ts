import { describe, expect, test } from 'vitest'
import { type ErrorCode, TidemarkError } from '../errors.ts'
import { parseEvent } from './abi.ts'
import { eventTopics } from './arguments.ts'

function failure(fn: () => unknown): TidemarkError {
  try {
    fn()
  } catch (error) {
    if (TidemarkError.is(error)) return error
    throw error
  }
  throw new Error('no error')
}

const TRANSFER = 'event Transfer(address indexed from, address indexed to, uint256 value)'
const TRANSFER_TOPIC = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef'

describe('an event is read from a signature or an ABI', () => {
  test('C42: ERC-20 and ERC-721 have one topic 0 and differ in the number of topics', () => {
    const coin = parseEvent('Coin', TRANSFER)
    const token = parseEvent(
      'Token',
      'event Transfer(address indexed from, address indexed to, uint256 indexed tokenId)',
    )
    expect([coin.topic0, coin.topicCount]).toEqual([TRANSFER_TOPIC, 3])
    expect([token.topic0, token.topicCount]).toEqual([TRANSFER_TOPIC, 4])
    expect(coin.fullSignature).toBe('Transfer(address indexed,address indexed,uint256)')
    expect(token.fullSignature).not.toBe(coin.fullSignature)
  })

  test('spacing, a semicolon and the short names of types do not change the event', () => {
    const spaced = parseEvent('A', '  event  A(uint  indexed a,\n  (int x, bytes)[2][] b, address payable c ) ; ')
    expect(spaced.signature).toBe('A(uint256,(int256,bytes)[2][],address)')
    expect(parseEvent('A', 'event A(uint256 indexed, (int256, bytes)[2][], address)').topic0).toBe(spaced.topic0)
    const json = { type: 'event', name: 'A', inputs: [{ type: 'uint[2]' }] }
    expect(parseEvent('A', json).signature).toBe('A(uint256[2])')
  })

  test('an anonymous event has no topic 0 and may have four indexed inputs', () => {
    const note = parseEvent(
      'Note',
      'event LogNote(bytes4 indexed a, address indexed b, bytes32 indexed c, bytes32 indexed d) anonymous',
    )
    expect(note).toMatchObject({ anonymous: true, topic0: null, topicCount: 4, eventName: 'LogNote' })
    expect(note.fullSignature).toMatch(/ anonymous$/)
  })

  test('a whole ABI is asked for the event of the key', () => {
    const abi = [
      { type: 'function', name: 'Transfer' },
      { type: 'event', name: 'Transfer', inputs: [] },
      { type: 'event', name: 'File', inputs: [{ type: 'bool' }] },
      { type: 'event', name: 'File', inputs: [{ type: 'bytes' }] },
    ]
    expect(parseEvent('Transfer', abi).signature).toBe('Transfer()')
    expect(failure(() => parseEvent('File', abi)).code).toBe('ABI_EVENT_AMBIGUOUS')
    const missing = failure(() => parseEvent('Transfers', abi))
    expect([missing.code, missing.values.didYouMean]).toEqual(['ABI_EVENT_MISSING', 'Transfer'])
  })
})

describe('a malformed ABI is refused with the reason', () => {
  const wrong: [string, unknown][] = [
    ['no event', 'Transfer(address from)'],
    ['a function', 'function transfer(address to)'],
    ['an unknown type', 'event A(uint7 a)'],
    ['a contract name', 'event A(IERC20 token)'],
    ['an open bracket', 'event A(uint256 a'],
    ['an open tuple', 'event A((uint256 a b)'],
    ['a keyword as a name', 'event A(uint256 indexed indexed)'],
    ['a location', 'event A(string memory a)'],
    ['nothing', ''],
    ['four indexed inputs and a topic 0', 'event A(bool indexed, bool indexed, bool indexed, bool indexed)'],
    ['the same name twice', 'event A(bool a, bytes a)'],
    ['a number', 5],
    ['nothing at all', undefined],
    ['a function of an ABI', { type: 'function', name: 'a', inputs: [] }],
    ['no name', { type: 'event', inputs: [] }],
    ['no inputs', { type: 'event', name: 'A' }],
    ['an input without a type', { type: 'event', name: 'A', inputs: [{ name: 'a' }] }],
    ['an input that is null', { type: 'event', name: 'A', inputs: [null] }],
    ['a tuple without components', { type: 'event', name: 'A', inputs: [{ type: 'tuple[]' }] }],
    ['components that are none', { type: 'event', name: 'A', inputs: [{ type: 'tuple', components: [5] }] }],
    ['fixed-point numbers', { type: 'event', name: 'A', inputs: [{ type: 'ufixed128x18' }] }],
  ]
  for (const [what, spec] of wrong) {
    test(what, () => {
      const error = failure(() => parseEvent('A', spec))
      expect(error.code).toBe('ABI_INVALID')
      expect(error.values.reason ?? error.values.expected).toBeTruthy()
    })
  }
})

const ADDRESS = '0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48'
const TOPIC = `0x000000000000000000000000${ADDRESS.slice(2).toLowerCase()}`

function topics(event: string, args: unknown): unknown {
  return eventTopics('E', parseEvent('E', event), args)
}

describe('a filter by arguments becomes topics', () => {
  test('C46: an address in any spelling is one topic', () => {
    const spellings = [ADDRESS, ADDRESS.toLowerCase(), ADDRESS.toUpperCase(), `0x${ADDRESS.slice(2).toUpperCase()}`]
    for (const to of spellings) expect(topics(TRANSFER, { to })).toEqual([TRANSFER_TOPIC, null, TOPIC])
    expect(topics(TRANSFER, { to: spellings })).toEqual([TRANSFER_TOPIC, null, TOPIC])
  })

  test('several values are any of them, sorted; without arguments the topic 0 alone', () => {
    const other = `0x${'11'.repeat(20)}`
    expect(topics(TRANSFER, { to: [ADDRESS, other] })).toEqual([
      TRANSFER_TOPIC,
      null,
      [`0x${'00'.repeat(12)}${'11'.repeat(20)}`, TOPIC],
    ])
    expect(topics(TRANSFER, undefined)).toEqual([TRANSFER_TOPIC])
    expect(topics('event A(bool indexed a) anonymous', {})).toEqual([])
    expect(topics('event A(bool indexed a) anonymous', { a: true })).toEqual([`0x${'0'.repeat(63)}1`])
  })

  test('each type as the chain writes it: numbers signed, bytes to the left, text hashed', () => {
    const one = (type: string, value: unknown) =>
      (topics(`event A(${type} indexed a) anonymous`, { a: value }) as unknown[])[0]
    expect(one('uint8', 255)).toBe(`0x${'0'.repeat(62)}ff`)
    expect(one('int24', -2)).toBe(`0x${'f'.repeat(63)}e`)
    expect(one('uint256', 2n ** 256n - 1n)).toBe(`0x${'f'.repeat(64)}`)
    expect(one('bytes4', '0xA9059cbb')).toBe(`0xa9059cbb${'0'.repeat(56)}`)
    expect(one('bool', false)).toBe(`0x${'0'.repeat(64)}`)
    // keccak256('avatar'), as in the TextChanged logs of ENS
    expect(one('string', 'avatar')).toBe('0xd1f86c93d831119ad98fe983e643a7431e4ac992e3ead6e3007f4dd1adf66343')
    expect(one('bytes', '0x617661746172')).toBe('0xd1f86c93d831119ad98fe983e643a7431e4ac992e3ead6e3007f4dd1adf66343')
    expect(one('uint256[]', `0x${'AB'.repeat(32)}`)).toBe(`0x${'ab'.repeat(32)}`)
  })

  test('an argument without a name is given by its position', () => {
    expect(topics('event A(uint256, bool indexed) anonymous', { 1: true })).toEqual([`0x${'0'.repeat(63)}1`])
  })
})

describe('a filter that cannot be right is refused, and its values are not printed (P12)', () => {
  const secret = '0xdeadbeefdeadbeefdeadbeefdeadbeef'
  const wrong: [string, unknown, string?][] = [
    ['an unknown name', { too: ADDRESS }],
    ['an argument that is not indexed', { value: 1n }],
    ['a short address', { to: secret }],
    ['a number for an address', { to: 5 }],
    ['an unset variable, which must not mean any value', { to: undefined }],
    ['null', { to: null }],
    ['an empty list, which a node reads as any value', { to: [] }],
    ['an unset variable in a list', { to: [ADDRESS, undefined] }],
    ['too many values', { to: Array.from({ length: 10_001 }, () => ADDRESS) }],
    ['no object', 'to'],
    ['a number above its type', { a: 256 }, 'event A(uint8 indexed a)'],
    ['a number below its type', { a: -1n }, 'event A(uint256 indexed a)'],
    ['a number that a double has changed', { a: 2 ** 53 }, 'event A(uint256 indexed a)'],
    ['text for a number', { a: '5' }, 'event A(uint256 indexed a)'],
    ['bytes of another length', { a: '0x12' }, 'event A(bytes4 indexed a)'],
    ['the value of an array', { a: [1n] }, 'event A(uint256[] indexed a)'],
  ]
  for (const [what, args, event] of wrong) {
    test(what, () => {
      const error = failure(() => topics(event ?? TRANSFER, args))
      expect<ErrorCode>(error.code).toBe('EVENT_ARGS_INVALID')
      expect(error.message).not.toContain(secret)
    })
  }

  test('a misspelt name is answered with the right one', () => {
    expect(failure(() => topics(TRANSFER, { form: ADDRESS })).values).toEqual({
      event: 'E',
      argument: 'form',
      didYouMean: 'from',
    })
  })
})
