import { expect, test } from 'vitest'
import { encodeChanges } from '../src/managed/changes.ts'
import { decodeInt256, encodeInt256, totals, watch } from '../src/store/sqlite/index.ts'
import { type FakeChain, fakeChain, testAddress } from '../src/testkit/index.ts'
import { Harness, type HarnessOptions } from './support/harness.ts'
import { ALICE, BANK, BOB, pay, TOKEN, TRANSFER_EVENT } from './support/ledger.ts'

const balances = totals({
  table: 'balances',
  key: { account: 'text' },
  sum: { amount: 'int256', transfers: 'integer' },
})
const events = { Transfer: { event: TRANSFER_EVENT } } as const
const on = { test: { address: TOKEN, startBlock: 1, at: 'latest' } } as const

/** What a user writes: both accounts of each transfer, which may be one. */
const ledger = watch({
  on,
  events,
  tables: { balances },
  undo: 'managed',
  handle({ event, tables }) {
    tables.balances.add({ account: event.args.from }, { amount: -event.args.value, transfers: 1 })
    tables.balances.add({ account: event.args.to }, { amount: event.args.value, transfers: 1n })
  },
})

async function withHarness(options: HarnessOptions, work: (h: Harness) => Promise<void>): Promise<void> {
  const h = new Harness(options)
  try {
    await work(h)
  } finally {
    await h.close()
  }
}

function sumsOf(h: Harness, table = 'balances') {
  const rows = h.rows(`SELECT account, amount, tidemark_additions AS additions FROM ${table} ORDER BY account`)
  return Object.fromEntries(
    rows.map(({ account, amount, additions }) => [account, [decodeInt256(String(amount)), Number(additions)]]),
  )
}

const haltOf = (h: Harness) => h.events.find(({ type }) => type === 'halted')?.event.reason

const keptRows = (h: Harness) => h.rows('SELECT block_number FROM tidemark_total_changes').length

function chainOf(...blocks: Parameters<FakeChain['mine']>[0][]): FakeChain {
  const chain = fakeChain({ chainId: 1, finalized: { depth: 8 } })
  for (const block of blocks) chain.mine(block)
  return chain
}

test('a block that is orphaned takes its additions along, and the row of a key that it alone touched', async () => {
  const chain = chainOf([pay('T1', 5)], [pay('T2', 7, ALICE), pay('T3', 1)])
  await withHarness({ chain, watchers: { ledger } }, async (h) => {
    await h.settle()
    expect(sumsOf(h)).toEqual({ [BANK]: [-13n, 3], [BOB]: [6n, 2], [ALICE]: [7n, 1] })
    chain.reorg(1, { reinclude: 'none' })
    chain.mine([pay('T3', 1)])
    await h.settle()
    expect(sumsOf(h)).toEqual({ [BANK]: [-6n, 2], [BOB]: [6n, 2] })
    chain.mineEmpty(20)
    await h.settle()
    expect([sumsOf(h), keptRows(h)]).toEqual([{ [BANK]: [-6n, 2], [BOB]: [6n, 2] }, 0])
  })
})

test('a transfer to oneself, undone and done again, leaves the balance where it was (C71)', async () => {
  const chain = chainOf([pay('T1', 5, BANK)])
  await withHarness({ chain, watchers: { ledger } }, async (h) => {
    await h.settle()
    chain.reorg(1, { reinclude: 'none' })
    chain.mine([pay('T1', 5, BANK)])
    await h.settle()
    expect(sumsOf(h)).toEqual({ [BANK]: [0n, 2] })
  })
})

test('sums that are added inside a savepoint go with it, and are not taken back once more at a reorg', async () => {
  const seen: (bigint | undefined)[] = []
  const attempts = watch({
    on,
    events,
    tables: { balances },
    undo: 'managed',
    handle({ tables, savepoint }) {
      const add = (amount: bigint) => tables.balances.add({ account: 'a' }, { amount })
      const look = () => seen.push(tables.balances.get({ account: 'a' })?.amount)
      const givenUp = (fn: () => void) => {
        try {
          savepoint(() => {
            fn()
            throw new Error('no')
          })
        } catch (error) {
          if ((error as Error).message !== 'no') throw error
        }
      }
      look()
      add(1n)
      givenUp(() => {
        add(10n)
        // The inner one is written before the outer one is given up.
        savepoint(() => add(100n))
        look()
      })
      savepoint(() => add(1_000n))
      givenUp(() => add(10_000n))
      look()
    },
  })
  const chain = chainOf([pay('T1', 5)], [pay('T2', 5)])
  await withHarness({ chain, watchers: { attempts } }, async (h) => {
    await h.settle()
    expect(seen).toEqual([undefined, 111n, 1_001n, 1_001n, 1_112n, 2_002n])
    expect(sumsOf(h)).toEqual({ a: [2_002n, 4] })
    chain.reorg(1, { reinclude: 'none' })
    await h.settle()
    expect(sumsOf(h)).toEqual({ a: [1_001n, 2] })
  })
})

test('what the final stage adds stays, and what is final in the commit that applies it keeps nothing for undo', async () => {
  const paid = totals({ table: 'paid', key: { account: 'text' }, sum: { amount: 'int256' } })
  const staged = watch({
    on,
    events,
    tables: { balances, paid },
    undo: 'managed',
    handle: ({ event, tables }) => tables.balances.add({ account: event.args.to }, { amount: event.args.value }),
    final: ({ event, tables }) => tables.paid.add({ account: event.args.to }, { amount: event.args.value }),
  })
  const chain = chainOf([pay('T1', 5)], [pay('T2', 7)])
  chain.mineEmpty(9)
  await withHarness({ chain, watchers: { staged } }, async (h) => {
    await h.settle()
    expect([sumsOf(h), sumsOf(h, 'paid'), keptRows(h)]).toEqual([{ [BOB]: [12n, 2] }, { [BOB]: [12n, 2] }, 0])
    chain.mine([pay('T3', 1)])
    await h.settle()
    expect([sumsOf(h), sumsOf(h, 'paid'), keptRows(h)]).toEqual([{ [BOB]: [13n, 3] }, { [BOB]: [12n, 2] }, 1])
  })
})

test('a block that shows another event below a cursor that was moved back is taken back with both', async () => {
  const chain = chainOf([pay('T1', 5), pay('T2', 7)])
  await withHarness({ chain, watchers: { ledger } }, async (h) => {
    await h.settle()
    // The second transfer as if it had not been there: neither mark nor effect nor kept change of it.
    h.sql((db) => {
      db.exec(
        'DELETE FROM tidemark_processed_events WHERE log_index = 1; UPDATE tidemark_watchers SET cursor_block = NULL, cursor_hash = NULL, applied = 1',
      )
      const one = (amount: string, additions: number) =>
        `amount = '${amount}', transfers = ${additions}, tidemark_additions = ${additions}`
      db.exec(`UPDATE balances SET ${one(encodeInt256(-5n), 1)} WHERE account = '${BANK}'`)
      db.exec(`UPDATE balances SET ${one(encodeInt256(5n), 1)} WHERE account = '${BOB}'`)
      const change = (account: string, amount: bigint) => ({
        key: { account },
        add: { amount, transfers: 1n },
        additions: 1,
      })
      const text = encodeChanges([change(BANK, -5n), change(BOB, 5n)])
      db.prepare('UPDATE tidemark_total_changes SET changes = ?').run(text)
    })
    await h.restart()
    await h.settle()
    expect(sumsOf(h)).toEqual({ [BANK]: [-12n, 2], [BOB]: [12n, 2] })
    chain.reorg(1, { reinclude: 'none' })
    await h.settle()
    expect([sumsOf(h), keptRows(h)]).toEqual([{}, 0])
  })
})

test('an application that adds to the same row meanwhile keeps its part when blocks are taken back', async () => {
  const chain = chainOf([pay('T1', 5)])
  await withHarness({ chain, watchers: { ledger } }, async (h) => {
    await h.settle()
    // 10^77 and the amount, as text of 78 digits: BOB has 5, and gets 2 from elsewhere.
    h.sql((db) => db.exec(`UPDATE balances SET amount = '1${'7'.padStart(77, '0')}' WHERE account = '${BOB}'`))
    chain.reorg(1, { reinclude: 'none' })
    await h.settle()
    expect(sumsOf(h)).toEqual({ [BOB]: [2n, 0] })
  })
})

test('a row that somebody removed cannot be taken back: the watcher halts, and nothing is half undone', async () => {
  const chain = chainOf([pay('T1', 5), pay('T2', 5, ALICE)])
  await withHarness({ chain, watchers: { ledger } }, async (h) => {
    await h.settle()
    h.sql((db) => db.exec(`DELETE FROM balances WHERE account = '${BOB}'`))
    const before = sumsOf(h)
    chain.reorg(1, { reinclude: 'none' })
    await h.settle()
    expect(haltOf(h)).toMatchObject({ code: 'MANAGED_CONFLICT' })
    expect(sumsOf(h)).toEqual(before)
  })
})

test('columns that change while blocks can be taken back stop the watcher, by name', async () => {
  const chain = chainOf([pay('T1', 5)])
  await withHarness({ chain, watchers: { ledger } }, async (h) => {
    await h.settle()
    const fewer = totals({ table: 'balances', key: { account: 'text' }, sum: { amount: 'int256' } })
    const changed = watch({ on, events, tables: { fewer }, undo: 'managed', handle: () => {} })
    h.sql((db) => db.exec('ALTER TABLE balances DROP COLUMN transfers'))
    await h.restart({ watchers: { ledger: changed } })
    chain.reorg(1, { reinclude: 'none' })
    await h.settle()
    expect(haltOf(h)).toMatchObject({ code: 'STORE_TABLE_MISMATCH', values: { table: 'balances' } })
  })
})

test.each([
  ['a column that is not there', (t: any) => t.add({ account: 'a', more: 'b' }, {})],
  ['no key', (t: any) => t.add({}, { amount: 1n })],
  ['a sum that is not there', (t: any) => t.add({ account: 'a' }, { much: 1n })],
  ['a fraction', (t: any) => t.add({ account: 'a' }, { amount: 0.5 })],
  ['more than 64 bits', (t: any) => t.add({ account: 'a' }, { transfers: 2n ** 63n })],
  ['null as a key', (t: any) => t.add({ account: null }, { amount: 1n })],
  ['an odd key to look at', (t: any) => t.get({ account: 5 })],
])('%s is refused by name, and nothing is written', async (_, call) => {
  const chain = chainOf([pay('T1', 5, testAddress('X'))])
  const bad = watch({
    on,
    events,
    tables: { balances },
    undo: 'managed',
    handle: ({ tables }) => call(tables.balances),
  })
  await withHarness({ chain, watchers: { bad } }, async (h) => {
    await h.settle()
    expect(haltOf(h)).toMatchObject({ code: 'MANAGED_VALUE_INVALID' })
    expect(h.rows('SELECT 1 FROM tidemark_processed_events')).toEqual([])
  })
})
