import { describe, expect, test } from 'vitest'
import { TidemarkError } from '../errors.ts'
import { hashText } from './abi.ts'
import { compileWatcher, defineWatch, isWatcher, type Watcher } from './watch.ts'

const TRANSFER = 'event Transfer(address indexed from, address indexed to, uint256 value)'
const TOKEN = '0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48'
const watch = defineWatch<unknown, 'sync'>()

type Definition = Record<string, unknown>

const good: Definition = {
  on: { ethereum: { startBlock: 5 } },
  events: { Transfer: { event: TRANSFER } },
  handle: () => {},
}

/** As a user without types would call it. */
function make(changes: Definition): Watcher<unknown> {
  return watch({ ...good, ...changes } as never)
}

/** What is wrong with a watcher shows when its definition is read. */
const isRight = (made: unknown): boolean => isWatcher(made) && typeof made.definition === 'object'

function failure(fn: () => unknown): TidemarkError {
  try {
    isRight(fn())
  } catch (error) {
    if (TidemarkError.is(error)) return error
    throw error
  }
  throw new Error('no error')
}

const at = (value: unknown) => ({ on: { ethereum: { startBlock: 5, at: value } } })
const binding = (fields: Definition) => ({ on: { ethereum: { startBlock: 5, ...fields } } })
const rows = { kind: 'rows', table: 't', columns: {}, open: () => {} }

describe('a definition that cannot be right is refused at once, with what it got and what it takes', () => {
  const wrong: [string, Definition, string][] = [
    ['no handler', { handle: undefined }, 'handle'],
    ['no chain', { on: {} }, 'on'],
    ['a chain that is text', { on: { ethereum: 'mainnet' } }, 'on.ethereum'],
    ['no start block', { on: { ethereum: {} } }, 'on.ethereum.startBlock'],
    ['a start block with a fraction', binding({ startBlock: 1.5 }), 'on.ethereum.startBlock'],
    ['a start block below 0', binding({ startBlock: -1n }), 'on.ethereum.startBlock'],
    ['a start block as text', binding({ startBlock: '5' }), 'on.ethereum.startBlock'],
    ['an end before the start', binding({ endBlock: 4 }), 'on.ethereum.endBlock'],
    ['a short address', binding({ address: '0x1234' }), 'on.ethereum.address'],
    ['an unset address, which must not mean any contract', binding({ address: undefined }), 'on.ethereum.address'],
    ['an unset address in a list', binding({ address: [TOKEN, undefined] }), 'on.ethereum.address'],
    ['no address in a list', binding({ address: [] }), 'on.ethereum.address'],
    ['an unknown finality', at('finalised'), 'on.ethereum.at'],
    ['no confirmations', at({ confirmations: 0 }), 'on.ethereum.at.confirmations'],
    ['no events', { events: {} }, 'events'],
    ['an event without a key', { events: { '': { event: TRANSFER } } }, 'events.'],
    ['the same filter twice', { events: { A: { event: TRANSFER }, B: { event: TRANSFER } } }, 'events.B'],
    ['managed undo without tables', { undo: 'managed' }, 'undo'],
    ['an unknown undo', { undo: 'auto' }, 'undo'],
    ['a table that is none', { tables: { transfers: {} } }, 'tables.transfers'],
    ['a key that is text', { key: 'to' }, 'key'],
    ['a failure policy to come', { onFailure: 'park' }, 'onFailure'],
    ['no time', { handlerTimeout: 0 }, 'handlerTimeout'],
    ['too many events a batch', { batch: { maxEvents: 50_001 } }, 'batch.maxEvents'],
    ['a batch without time', { batch: { maxMs: 0.5 } }, 'batch.maxMs'],
  ]
  for (const [what, changes, key] of wrong) {
    test(what, () => {
      const error = failure(() => make(changes))
      expect([error.code, error.values.key]).toEqual(['WATCHER_INVALID', key])
      expect(Object.keys(error.values)).toEqual(['key', 'got', 'expected'])
    })
  }

  test('a URL in the wrong place is not printed (P12)', () => {
    expect(failure(() => make(binding({ address: 'https://node/v3/secret' }))).message).not.toContain('secret')
  })

  test('an address with a slip in it is refused; without a checksum, all in one case, it is taken', () => {
    const slip = TOKEN.replace('eB48', 'eb48')
    const list = failure(() => make(binding({ address: [TOKEN, slip] })))
    expect([list.code, list.values.got]).toEqual(['WATCHER_INVALID', JSON.stringify(slip)])
    expect(list.message).toContain('EIP-55')
    for (const address of [TOKEN, TOKEN.toLowerCase(), TOKEN.toUpperCase(), `0x${TOKEN.slice(2).toUpperCase()}`]) {
      expect(isRight(make(binding({ address })))).toBe(true)
    }
  })

  test('an argument that is an address with a slip in it is refused, without being printed (P12)', () => {
    const slip = TOKEN.replace('eB48', 'eb48')
    const filter = (to: unknown) => ({ events: { Transfer: { event: TRANSFER, args: { to } } } })
    for (const to of [slip, [TOKEN, slip]]) {
      const error = failure(() => make(filter(to)))
      expect([error.code, error.values.argument]).toEqual(['EVENT_ARGS_INVALID', 'to'])
      expect(error.message).toContain('EIP-55')
      expect(error.message).not.toContain(slip)
    }
    expect(isRight(make(filter([TOKEN, TOKEN.toLowerCase(), TOKEN.toUpperCase()])))).toBe(true)
    // Bytes of the same length have no checksum.
    const bytes = { B: { event: 'event B(bytes20 indexed b)', args: { b: slip } } }
    expect(isRight(make({ events: bytes }))).toBe(true)
  })

  test('no object', () => {
    expect(failure(() => watch(undefined as never)).code).toBe('WATCHER_INVALID')
  })

  test('an anonymous event of any contract would fit every log of the chain', () => {
    const events = { Note: { event: 'event Note(bytes4 indexed sig) anonymous' } }
    expect(failure(() => make({ events })).values.key).toBe('events.Note')
    expect(isRight(make({ events, ...binding({ address: TOKEN }) }))).toBe(true)
  })
})

describe('an unknown key is answered with the nearest one', () => {
  const wrong: [Definition, string, string][] = [
    [{ handler: () => {} }, 'handler', 'handle'],
    [{ onFailures: 'halt' }, 'onFailures', 'onFailure'],
    [binding({ adress: TOKEN }), 'adress', 'address'],
    [at({ confirmation: 3 }), 'confirmation', 'confirmations'],
    [{ events: { Transfer: { event: TRANSFER, arg: {} } } }, 'arg', 'args'],
    [{ batch: { maxEvent: 5 } }, 'maxEvent', 'maxEvents'],
  ]
  for (const [changes, name, suggestion] of wrong) {
    test(name, () => {
      const error = failure(() => make(changes))
      expect([error.code, error.values.got, error.values.didYouMean]).toEqual(['WATCHER_INVALID', name, suggestion])
    })
  }
})

describe('a watcher that runs ahead of finality says how it is undone', () => {
  test('latest and safe without undo are refused', () => {
    for (const tag of ['latest', 'safe']) {
      const error = failure(() => make(at(tag)))
      expect([error.code, error.values]).toEqual(['WATCHER_UNDO_MISSING', { chain: 'ethereum', at: tag }])
    }
  })

  test('with undo, at finality, or with confirmations, it is taken', () => {
    expect(isRight(make({ ...at('latest'), undo: () => {} }))).toBe(true)
    expect(isRight(make({ ...at('latest'), undo: 'irreversible' }))).toBe(true)
    expect(isRight(make({ ...at('safe'), undo: 'managed', tables: { rows } }))).toBe(true)
    expect(isRight(make(at({ confirmations: 1 })))).toBe(true)
  })
})

describe('the ABI is read when the watcher is defined', () => {
  const code = (event: unknown, args?: unknown) => failure(() => make({ events: { Transfer: { event, args } } })).code
  test('each with its own code', () => {
    expect(code('event Transfer(address from')).toBe('ABI_INVALID')
    expect(code([])).toBe('ABI_EVENT_MISSING')
    expect(
      code([
        { type: 'event', name: 'Transfer', inputs: [] },
        { type: 'event', name: 'Transfer', inputs: [] },
      ]),
    ).toBe('ABI_EVENT_AMBIGUOUS')
    expect(code(TRANSFER, { value: 1n })).toBe('EVENT_ARGS_INVALID')
  })
})

describe('a watcher is compiled for one chain', () => {
  test('with its defaults', () => {
    const compiled = compileWatcher('deposits', make({}), 'ethereum', 1)
    const topic = hashText('Transfer(address,address,uint256)')
    expect(compiled).toMatchObject({
      name: 'deposits/ethereum',
      chainName: 'ethereum',
      chainId: 1,
      filters: [{ name: 'Transfer', addresses: null, topics: [topic], topicCount: 3 }],
      fingerprint: `{"addresses":null,"events":[{"event":"Transfer(address indexed,address indexed,uint256)","topics":["${topic}"]}],"startBlock":"5"}`,
      startBlock: 5,
      endBlock: null,
      at: 'finalized',
      onFailure: 'halt',
      handlerTimeout: 10_000,
      batch: { maxEvents: 5_000, maxMs: 250 },
      tables: {},
    })
    expect([compiled.prepare, compiled.final, compiled.undo, compiled.key]).toEqual([
      undefined,
      undefined,
      undefined,
      undefined,
    ])
  })

  test('with everything given', () => {
    const undo = () => {}
    const changes = {
      undo,
      tables: { rows },
      handlerTimeout: 5,
      batch: { maxMs: 9 },
      ...binding({ startBlock: 'now', endBlock: 9n, at: 'latest' }),
    }
    const compiled = compileWatcher('deposits', make(changes), 'ethereum', 1)
    expect(compiled).toMatchObject({
      startBlock: 'now',
      endBlock: 9,
      at: 'latest',
      undo,
      handlerTimeout: 5,
      batch: { maxEvents: 5_000, maxMs: 9 },
    })
  })

  test('a chain it does not run on, and names that cannot be names', () => {
    expect(failure(() => compileWatcher('deposits', make({}), 'base', 1)).code).toBe('WATCHER_UNKNOWN_CHAIN')
    expect(failure(() => compileWatcher('deposits', make({}), 'toString', 1)).code).toBe('WATCHER_UNKNOWN_CHAIN')
    expect(failure(() => compileWatcher('a/b', make({}), 'ethereum', 1)).code).toBe('WATCHER_INVALID')
  })

  test('a watcher of another copy of the package is known by its mark', () => {
    expect(isWatcher(JSON.parse(JSON.stringify({ isTidemarkWatcher: true })))).toBe(true)
    expect([null, undefined, {}, 'watcher'].some(isWatcher)).toBe(false)
  })
})

describe('an error in a definition names its watcher', () => {
  const wrong: [string, Definition, string][] = [
    ['a bad event text', { events: { Transfer: { event: 'event Transfer(adress to' } } }, 'ABI_INVALID'],
    ['a bad address', binding({ address: '0x12' }), 'WATCHER_INVALID'],
    ['an argument that is none', { events: { T: { event: TRANSFER, args: { too: TOKEN } } } }, 'EVENT_ARGS_INVALID'],
    ['no undo', at('latest'), 'WATCHER_UNDO_MISSING'],
    ['a misspelt key', { handler: () => {} }, 'WATCHER_INVALID'],
  ]
  for (const [what, changes, code] of wrong) {
    test(what, () => {
      const error = failure(() => compileWatcher('deposits', make(changes), 'ethereum', 1))
      expect([error.code, error.values.watcher]).toEqual([code, 'deposits'])
      expect(error.message).toContain('watcher="deposits"')
      // The rest is as without a name, and the stack leads to the call of `watch`.
      const bare = failure(() => make(changes))
      expect({ watcher: 'deposits', ...bare.values }).toEqual(error.values)
      expect([error.sentence, error.next]).toEqual([bare.sentence, bare.next])
      expect(error.stack).toMatch(/^TidemarkError: .*watch\.test\.ts/s)
      expect(error.stack).toContain('watcher="deposits"')
    })
  }
})

describe('the fingerprint is the same for the same logs, and only for them', () => {
  const print = (changes: Definition) => compileWatcher('deposits', make(changes), 'ethereum', 1).fingerprint
  const A = 'event A(address indexed who, uint256 amount)'

  test('keys, order, spelling and the names of arguments do not matter', () => {
    const other = `0x${'11'.repeat(20)}`
    const one = print({
      events: { T: { event: TRANSFER, args: { to: [other, TOKEN] } }, A: { event: A } },
      ...binding({ address: [TOKEN, other] }),
    })
    const two = print({
      events: {
        B: { event: 'event A(address indexed by, uint value)' },
        U: { event: TRANSFER, args: { to: [TOKEN.toLowerCase(), other, TOKEN] } },
      },
      ...binding({ startBlock: 5n, address: [other, TOKEN.toUpperCase()] }),
    })
    expect(two).toBe(one)
  })

  test('a change of contract, argument, signature, indexing or start block shows', () => {
    const prints = [
      print({}),
      print(binding({ address: TOKEN })),
      print(binding({ startBlock: 6 })),
      print(binding({ startBlock: 'now' })),
      print({ events: { Transfer: { event: TRANSFER, args: { to: TOKEN } } } }),
      print({ events: { Transfer: { event: TRANSFER, args: { from: TOKEN } } } }),
      print({
        events: { Transfer: { event: 'event Transfer(address indexed from, address to, uint256 indexed value)' } },
      }),
      print({ events: { Transfer: { event: A } } }),
    ]
    expect(new Set(prints).size).toBe(prints.length)
  })

  test('finality, end block and handler do not belong to it', () => {
    expect(print({ ...binding({ at: { confirmations: 3 }, endBlock: 9 }), handle: () => 5 })).toBe(print({}))
  })
})
