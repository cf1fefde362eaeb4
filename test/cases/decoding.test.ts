import { describe, expect, test } from 'vitest'
import { decodeInt256, decodeUint256, rows, type SqliteDb, watch } from '../../src/store/sqlite/index.ts'
import {
  addressWord,
  fakeChain,
  fakeRpc,
  nftTransfer,
  rawLog,
  TRANSFER_TOPIC,
  transfer,
  word,
} from '../../src/testkit/index.ts'
import { Harness } from '../support/harness.ts'
import { ALICE, BANK, BOB, ledger, pay, place, TOKEN, TRANSFER_EVENT, tx } from '../support/ledger.ts'

/** Kinds E and F of the cases: logs that are numbered oddly, look alike, have no topics, or hold very large numbers. */

function chainAt(head: number, options: Partial<Parameters<typeof fakeChain>[0]> = {}) {
  const chain = fakeChain({ chainId: 1, finalized: { depth: 10 }, ...options })
  chain.mineEmpty(head)
  return chain
}

async function using(h: Harness, work: (h: Harness) => Promise<void>): Promise<void> {
  try {
    await work(h)
  } finally {
    await h.close()
  }
}

const codes = (h: Harness) =>
  h.events.filter((one) => one.type === 'halted').map((one) => (one.event.reason as any).code)

describe('C32 logIndex counted per transaction', () => {
  for (const at of ['latest', 'finalized'] as const) {
    test(`four logs, two of each index, at ${at}`, async () => {
      const chain = chainAt(999, { logIndex: 'transaction' })
      const two = (name: string, amount: number) =>
        tx(name, transfer(TOKEN, BANK, BOB, amount), transfer(TOKEN, BANK, BOB, amount + 1))
      chain.mine([two('T1', 1), two('T2', 1)])
      chain.mineEmpty(12)
      await ledger({ chain, at, startBlock: 990 }, async (h) => {
        await h.settle()
        // P5: the transaction index leads, whatever the log index says.
        const four = ['T1,0@1000a', 'T1,1@1000a', 'T2,0@1000a', 'T2,1@1000a']
        expect(h.calls).toEqual(four)
        expect(h.marks()).toEqual(four)
        expect(h.balance(BOB)).toBe(6)
        expect(await h.differences()).toEqual([])
      })
    })
  }

  test('an answer in another order, and repeated, changes neither order nor number', async () => {
    const chain = chainAt(999, { logIndex: 'transaction' })
    chain.mine([pay('T1', 1), pay('T2', 1), pay('T3', 1)])
    const rpc = fakeRpc(chain, { faults: { unorderedLogs: 1, repeatedLogs: 1 } })
    await ledger({ chain, at: 'latest', startBlock: 990, rpc: [rpc] }, async (h) => {
      await h.settle()
      expect(h.calls).toEqual(['T1,0@1000a', 'T2,0@1000a', 'T3,0@1000a'])
      expect(await h.differences()).toEqual([])
    })
  })
})

describe('C42 ERC-20 and ERC-721 `Transfer` share topic0', () => {
  /** An ERC-721 with an id that is not indexed: one topic, 96 bytes of data. */
  const plain = rawLog(TOKEN, [TRANSFER_TOPIC], `${addressWord(ALICE)}${addressWord(BOB).slice(2)}${word(7).slice(2)}`)

  for (const at of ['latest', 'finalized'] as const) {
    test(`with the ABI of ERC-20 alone, the other two are passed over, at ${at}`, async () => {
      const chain = chainAt(20)
      chain.mine([pay('T1', 5), tx('T2', nftTransfer(TOKEN, ALICE, BOB, 7)), tx('T3', plain), pay('T4', 6)])
      chain.mineEmpty(11)
      await ledger({ chain, at, startBlock: 15 }, async (h) => {
        await h.settle()
        expect(h.calls).toEqual(['T1,0@21a', 'T4,3@21a'])
        expect(h.marks()).toEqual(['T1,0@21a', 'T4,3@21a'])
        expect((await h.watcher()).counters.applied).toBe(2)
        expect(h.codes('halted')).toEqual([])
        expect((await h.watcher()).cursor?.number).toBe(at === 'latest' ? 32 : 22)
        expect(await h.differences()).toEqual([])
      })
    })
  }

  test('with both ABIs each goes where its number of topics fits', async () => {
    const chain = chainAt(20)
    chain.mine([pay('T1', 5), tx('T2', nftTransfer(TOKEN, ALICE, BOB, 7)), tx('T3', plain)])
    const seen: string[] = []
    const watcher = watch({
      on: { test: { address: TOKEN, startBlock: 15, at: 'latest' } },
      events: {
        Coin: { event: TRANSFER_EVENT },
        Token: { event: 'event Transfer(address indexed from, address indexed to, uint256 indexed tokenId)' },
        Plain: { event: 'event Transfer(address from, address to, uint256 tokenId)' },
      },
      undo: 'irreversible',
      handle({ event }) {
        const value = event.name === 'Coin' ? event.args.value : event.args.tokenId
        seen.push(`${event.name} ${place(event)} ${value}`)
      },
    })
    await using(new Harness({ chain, watchers: { both: watcher } }), async (h) => {
      await h.settle()
      expect(seen).toEqual(['Coin T1,0@21a 5', 'Token T2,1@21a 7', 'Plain T3,2@21a 7'])
      expect(codes(h)).toEqual([])
    })
  })

  test('a log that fits by shape and does not decode halts there, and holds up nothing older', async () => {
    const chain = chainAt(20)
    chain.mine([pay('T1', 5)])
    chain.mine([
      tx('T2', rawLog(TOKEN, [TRANSFER_TOPIC, addressWord(ALICE), addressWord(BOB)], '0x1234')),
      pay('T3', 1),
    ])
    await ledger({ chain, at: 'latest', startBlock: 15 }, async (h) => {
      await h.settle(3)
      expect(h.codes('halted')).toEqual(['DECODE_FAILED'])
      expect((await h.watcher()).reason?.values).toMatchObject({ block: 22 })
      expect(h.marks()).toEqual(['T1,0@21a'])
      expect(await h.cursor()).toBe('21a')
    })
  })
})

describe('C43 anonymous events and empty topics', () => {
  const bare = rawLog(TOKEN, [], word(9))

  function watcherOf(seen: string[], withBare: boolean) {
    const indexed = { event: 'event Note(uint256 indexed id) anonymous' } as const
    const events = withBare
      ? { Note: indexed, Bare: { event: 'event Bare(uint256 value) anonymous' } as const }
      : { Note: indexed }
    return watch({
      on: { test: { address: TOKEN, startBlock: 15, at: 'latest' } },
      events: { ...events, Transfer: { event: TRANSFER_EVENT } },
      undo: 'irreversible',
      handle: ({ event }) => void seen.push(`${event.name} ${place(event)}`),
    })
  }

  for (const withBare of [false, true]) {
    test(`a log without topics, ${withBare ? 'with' : 'without'} an event that has none`, async () => {
      const chain = chainAt(20)
      // An anonymous event has no topic 0: the node is asked by address alone, and answers with everything.
      chain.mine([tx('T1', bare), pay('T2', 5), tx('T3', rawLog(TOKEN, [word(4)]))])
      const seen: string[] = []
      await using(new Harness({ chain, watchers: { notes: watcherOf(seen, withBare) } }), async (h) => {
        await h.settle()
        const normal = ['Transfer T2,1@21a', 'Note T3,2@21a']
        expect(seen).toEqual(withBare ? ['Bare T1,0@21a', ...normal] : normal)
        expect(codes(h)).toEqual([])
        expect((await h.tidemark.status()).watchers[0]?.cursor?.number).toBe(21)
        const asked = h.rpc[0]!.log.records.find((one) => one.method === 'eth_getLogs')
        expect(asked?.params[0]).not.toHaveProperty('topics')
        expect(asked?.params[0]).toHaveProperty('address')
      })
    })
  }
})

describe('C44 a sum that outgrows its column, and numbers that passed through JSON', () => {
  const MAX = 2n ** 256n - 1n
  const sums = `CREATE TABLE sums (name TEXT PRIMARY KEY, amount TEXT NOT NULL)`
  const sumOf = (db: SqliteDb) =>
    BigInt((db.prepare("SELECT amount FROM sums WHERE name = 'all'").get()?.amount as string) ?? 0)

  /** Keeps the sum as text, and perhaps each sum on the way in a managed column of 256 bits. */
  function summing(keep: 'text' | 'text and column') {
    const totals = rows({ table: 'totals', columns: { sum: 'uint256' } })
    return watch({
      on: { test: { address: TOKEN, startBlock: 15, at: { confirmations: 1 } } },
      events: { Transfer: { event: TRANSFER_EVENT } },
      tables: { totals },
      handle({ event, db, tables }) {
        const sum = sumOf(db) + event.args.value
        db.prepare("INSERT INTO sums VALUES ('all', ?) ON CONFLICT (name) DO UPDATE SET amount = excluded.amount").run(
          String(sum),
        )
        if (keep === 'text and column') tables.totals.insert({ sum })
      },
    })
  }

  function twoLargest() {
    const chain = chainAt(20)
    chain.mine([tx('T1', transfer(TOKEN, ALICE, BOB, MAX))])
    chain.mine([tx('T2', transfer(TOKEN, ALICE, BOB, MAX))])
    return chain
  }

  test('as text the sum is exact', async () => {
    await using(new Harness({ chain: twoLargest(), watchers: { sums: summing('text') }, schema: sums }), async (h) => {
      await h.settle()
      expect(h.rows('SELECT amount FROM sums')).toEqual([{ amount: String(2n ** 257n - 2n) }])
    })
  })

  test('in a column of 256 bits the second event halts, and its transaction is rolled back', async () => {
    const chain = twoLargest()
    await using(new Harness({ chain, watchers: { sums: summing('text and column') }, schema: sums }), async (h) => {
      await h.settle(3)
      expect(codes(h)).toEqual(['MANAGED_VALUE_INVALID'])
      expect(h.rows('SELECT amount FROM sums')).toEqual([{ amount: String(MAX) }])
      expect(h.rows('SELECT sum FROM totals').map((row) => decodeUint256(String(row.sum)))).toEqual([MAX])
      const [watcher] = (await h.tidemark.status()).watchers
      expect(watcher?.cursor?.number).toBe(21)
      expect(watcher?.reason?.values).toMatchObject({ block: 22 })
    })
  })

  test('values are the same to the digit in the handler, the memo, the undo and a managed column', async () => {
    const chain = chainAt(20)
    const values = [106531830891460120n, MAX, 2n ** 255n - 1n, -1n, -(2n ** 255n)]
    const signed = (value: bigint) => rawLog(TOKEN, [], word(BigInt.asUintN(256, value)))
    const undone: unknown[] = []
    const table = rows({ table: 'values_seen', columns: { value: 'int256' } })
    const watcher = watch({
      on: { test: { address: TOKEN, startBlock: 15, at: 'latest' } },
      events: { Signed: { event: 'event Signed(int256 value) anonymous' } },
      tables: { table },
      handle({ event, tables }) {
        tables.table.insert({ value: event.args.value })
        return { value: event.args.value }
      },
      undo: ({ event, memo }) => void undone.push([event.args.value, memo.value]),
    })
    chain.mine(values.map((value) => signed(value)))
    await using(new Harness({ chain, watchers: { values: watcher } }), async (h) => {
      await h.settle()
      // 2^256−1 read as signed is −1.
      const right = values.map((value) => BigInt.asIntN(256, value))
      const kept = () => h.rows('SELECT value FROM values_seen').map((row) => decodeInt256(String(row.value)))
      expect(kept().sort()).toEqual([...right].sort())
      chain.reorg(1, { reinclude: 'none' })
      await h.settle()
      expect(undone).toEqual([...right].reverse().map((value) => [value, value]))
      expect(kept()).toEqual([])
    })
  })
})
