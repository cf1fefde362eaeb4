import { describe, expectTypeOf, test } from 'vitest'
import type { Address, Hash } from '../chain/block.ts'
import type { Hex } from '../util/bytes.ts'
import type { TidemarkEvent } from './event.ts'
import { defineWatch, type ManagedDefinition, type Watcher } from './watch.ts'

interface Database {
  exec(sql: string): void
  get(sql: string): { changes: number }
}

const watch = defineWatch<Database, 'sync'>()
const watchAsync = defineWatch<Database, 'async'>()
const on = { ethereum: { startBlock: 1 } }
const Transfer = 'event Transfer(address indexed from, address indexed to, uint256 value)'

const abi = [
  { type: 'function', name: 'owner', inputs: [], outputs: [{ type: 'address' }], stateMutability: 'view' },
  {
    type: 'event',
    name: 'Named',
    inputs: [
      { name: 'label', type: 'string', indexed: true },
      { name: 'small', type: 'uint48', indexed: false },
      {
        name: 'items',
        type: 'tuple[]',
        indexed: false,
        components: [
          { name: 'a', type: 'bool' },
          { name: 'b', type: 'bytes' },
        ],
      },
    ],
  },
  { type: 'event', name: 'Empty', inputs: [] },
] as const

describe('a watcher is typed from the ABI', () => {
  test('arguments of a signature', () => {
    watch({
      on,
      events: { Transfer: { event: Transfer } },
      handle({ event, db, prepared, tables, phase, key }) {
        expectTypeOf(event.name).toEqualTypeOf<'Transfer'>()
        expectTypeOf(event.eventName).toEqualTypeOf<'Transfer'>()
        expectTypeOf(event.args).toEqualTypeOf<{ readonly from: Hex; readonly to: Hex; readonly value: bigint }>()
        expectTypeOf(event.blockNumber).toEqualTypeOf<bigint>()
        expectTypeOf(event.logIndex).toEqualTypeOf<number>()
        expectTypeOf(event.address).toEqualTypeOf<Address>()
        expectTypeOf(event.blockHash).toEqualTypeOf<Hash>()
        expectTypeOf(db).toEqualTypeOf<Database>()
        expectTypeOf(prepared).toEqualTypeOf<undefined>()
        expectTypeOf(tables).toEqualTypeOf<Readonly<Record<never, never>>>()
        expectTypeOf(phase).toEqualTypeOf<'backfill' | 'live'>()
        expectTypeOf(key).toEqualTypeOf<string | null>()
        // @ts-expect-error the event has no argument of this name
        event.args.amount
      },
    })
  })

  test('the key tells events apart, and the ABI name stays', () => {
    watch({
      on,
      events: {
        Coin: { event: Transfer },
        Token: { event: 'event Transfer(address indexed from, address indexed to, uint256 indexed tokenId)' },
      },
      handle({ event }) {
        expectTypeOf(event.name).toEqualTypeOf<'Coin' | 'Token'>()
        if (event.name === 'Token') {
          expectTypeOf(event.args).toEqualTypeOf<{ readonly from: Hex; readonly to: Hex; readonly tokenId: bigint }>()
        } else {
          expectTypeOf(event.args.value).toEqualTypeOf<bigint>()
          // @ts-expect-error that argument belongs to the other event
          event.args.tokenId
        }
        // @ts-expect-error no such event
        if (event.name === 'Other') return
      },
    })
  })

  test('events of a whole ABI: hashed text, small numbers, tuples, no arguments', () => {
    watch({
      on,
      events: { Named: { event: abi, args: { label: ['one', 'two'] } }, Empty: { event: abi } },
      handle({ event }) {
        if (event.name === 'Empty') {
          expectTypeOf(event.args).toEqualTypeOf<Readonly<Record<string, never>>>()
          return
        }
        expectTypeOf(event.args).toEqualTypeOf<{
          readonly label: Hex
          readonly small: number
          readonly items: readonly { a: boolean; b: Hex }[]
        }>()
      },
    })
  })

  test('one event of an ABI, an anonymous one, and one without names', () => {
    watch({
      on: { ethereum: { startBlock: 1, address: '0x' } },
      events: {
        One: { event: abi[1] },
        Note: { event: 'event LogNote(bytes4 indexed sig, bytes fax) anonymous', args: { sig: '0x12345678' } },
        Bare: { event: 'event Bare(address indexed, uint256 amount)', args: { 0: '0x' } },
      },
      handle({ event }) {
        if (event.name === 'One') expectTypeOf(event.args.small).toEqualTypeOf<number>()
        if (event.name === 'Note') expectTypeOf(event.args).toEqualTypeOf<{ readonly sig: Hex; readonly fax: Hex }>()
        if (event.name === 'Bare') expectTypeOf(event.args).toEqualTypeOf<readonly [Hex, bigint]>()
      },
    })
  })
})

describe('a filter is typed from the ABI', () => {
  const handle = () => {}
  test('wrong names, wrong types and arguments that are not indexed are refused', () => {
    watch({ on, events: { Transfer: { event: Transfer, args: { to: ['0x1', '0x2'], from: '0x3' } } }, handle })
    // @ts-expect-error no such argument
    watch({ on, events: { Transfer: { event: Transfer, args: { too: '0x1' } } }, handle })
    // @ts-expect-error only indexed arguments can be filtered by
    watch({ on, events: { Transfer: { event: Transfer, args: { value: 1n } } }, handle })
    // @ts-expect-error an address is text
    watch({ on, events: { Transfer: { event: Transfer, args: { to: 5 } } }, handle })
    // @ts-expect-error an unset variable must not mean "any value"
    watch({ on, events: { Transfer: { event: Transfer, args: { to: undefined } } }, handle })
  })

  test('unknown keys and wrong values of a definition are refused', () => {
    // @ts-expect-error no such key
    watch({ on, events: { Transfer: { event: Transfer } }, handle, handlers: 1 })
    // @ts-expect-error no such finality
    watch({ on: { ethereum: { startBlock: 1, at: 'finalised' } }, events: { Transfer: { event: Transfer } }, handle })
  })
})

describe('functions on an embedded store are synchronous', () => {
  const events = { Transfer: { event: Transfer } } as const

  test('a promise is refused, also one that comes only sometimes', () => {
    watch({
      on,
      events,
      // @ts-expect-error a handler returns no promise
      async handle() {},
    })
    watch({
      on,
      events,
      // @ts-expect-error not even sometimes
      handle: ({ event }) => (event.args.value > 1n ? Promise.resolve(1) : 2),
    })
    watch({
      on,
      events,
      handle: () => {},
      // @ts-expect-error neither does undo
      undo: async () => {},
    })
    watch({
      on,
      events,
      handle: () => {},
      // @ts-expect-error nor the final stage
      final: async ({ db }) => db.exec(''),
    })
  })

  test('a store behind a connection takes promises', () => {
    watchAsync({
      on,
      events,
      async handle() {
        return { balance: 5n }
      },
      async final({ memo }) {
        expectTypeOf(memo).toEqualTypeOf<{ balance: bigint }>()
      },
    })
  })

  test('the value of a statement may be returned', () => {
    watch({ on, events, handle: ({ db }) => db.get(''), undo: ({ db, memo }) => db.get(String(memo.changes)) })
  })
})

describe('types travel from function to function', () => {
  test('prepared, memo and tables', () => {
    const transfers = {} as ManagedDefinition<{ insert(row: { amount: bigint }): void }>
    watch({
      on: { ethereum: { startBlock: 'now', at: 'latest' } },
      events: { Transfer: { event: Transfer } },
      tables: { transfers },
      key: (event) => event.args.to,
      async prepare({ event, chain }) {
        return { before: await chain.getBalance(event.args.to) }
      },
      handle({ prepared, tables, savepoint }) {
        expectTypeOf(prepared).toEqualTypeOf<{ before: bigint }>()
        tables.transfers.insert({ amount: prepared.before })
        // @ts-expect-error no such column
        tables.transfers.insert({ other: 1 })
        expectTypeOf(savepoint(() => 5)).toEqualTypeOf<number>()
        return prepared.before
      },
      final({ memo, tables }) {
        expectTypeOf(memo).toEqualTypeOf<bigint>()
        tables.transfers.insert({ amount: memo })
      },
      undo({ memo, event }) {
        expectTypeOf(memo).toEqualTypeOf<bigint>()
        expectTypeOf(event.name).toEqualTypeOf<'Transfer'>()
      },
    })
  })

  test('a watcher keeps the store that it was written for', () => {
    const watcher = watch({ on, events: { Transfer: { event: Transfer } }, handle: () => {} })
    expectTypeOf(watcher).toEqualTypeOf<Watcher<Database>>()
    expectTypeOf(watcher).toExtend<Watcher>()
    expectTypeOf(watcher).not.toExtend<Watcher<{ query(text: string): Promise<void> }>>()
  })

  test('any event is a TidemarkEvent', () => {
    watch({
      on,
      events: { Transfer: { event: Transfer }, Named: { event: abi } },
      handle({ event }) {
        const any: TidemarkEvent = event
        expectTypeOf(any.name).toEqualTypeOf<string>()
      },
    })
  })
})
