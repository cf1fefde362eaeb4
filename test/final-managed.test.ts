import { expect, test } from 'vitest'
import { rows, watch } from '../src/store/sqlite/index.ts'
import { fakeChain, testAddress, transfer } from '../src/testkit/index.ts'
import { Harness } from './support/harness.ts'

/** Show at latest with managed rows, pay with plain SQL when final: the two stages of one watcher. */

const TOKEN = testAddress('token')
const [ALICE, BOB] = [testAddress('alice'), testAddress('bob')]
const SCHEMA = 'CREATE TABLE payouts (receiver TEXT NOT NULL, amount TEXT NOT NULL)'
const Transfer = { event: 'event Transfer(address indexed from, address indexed to, uint256 value)' } as const
const on = { test: { address: TOKEN, startBlock: 1, at: 'latest' } } as const
const shown = () => rows({ table: 'shown', columns: { receiver: 'text', amount: 'uint256' } })
const PAY = 'INSERT INTO payouts (receiver, amount) VALUES (?, ?)'

test('with undo: managed the final stage may write through db, in blocks final at once and in blocks that become final', async () => {
  const chain = fakeChain({ chainId: 7, finalized: { depth: 4 } })
  const watcher = watch({
    on,
    events: { Transfer },
    tables: { shown: shown() },
    handle: ({ event, tables }) => tables.shown.insert({ receiver: event.args.to, amount: event.args.value }),
    undo: 'managed',
    final: ({ event, db }) => void db.prepare(PAY).run(event.args.to, String(event.args.value)),
  })
  const h = new Harness({ chain, watchers: { watcher }, schema: SCHEMA })
  for (let i = 1; i <= 10; i++) chain.mine([transfer(TOKEN, ALICE, BOB, i)])
  await h.settle()
  expect(h.rows('SELECT amount FROM payouts').map((row) => row.amount)).toEqual(['1', '2', '3', '4', '5', '6'])
  chain.reorg(3, { reinclude: 'none', extraBlocks: 1 })
  chain.mineEmpty(6)
  await h.settle()
  expect(h.rows('SELECT amount FROM payouts').map((row) => row.amount)).toEqual(['1', '2', '3', '4', '5', '6', '7'])
  expect(h.rows('SELECT count(*) AS n FROM shown')).toEqual([{ n: 7 }])
  await h.close()
})

test('control: the handler itself may not, and what it halts with can be written as JSON', async () => {
  const chain = fakeChain({ chainId: 7, finalized: { depth: 4 } })
  const watcher = watch({
    on,
    events: { Transfer },
    tables: { shown: shown() },
    handle: ({ event, db }) => void db.prepare(PAY).run(event.args.to, String(event.args.value)),
    undo: 'managed',
  })
  const h = new Harness({ chain, watchers: { watcher }, schema: SCHEMA })
  chain.mine([transfer(TOKEN, ALICE, BOB, 1)])
  await h.settle()
  const { reason } = (await h.tidemark.status()).watchers[0] ?? {}
  expect(JSON.parse(JSON.stringify(reason))).toMatchObject({ code: 'UNTRACKED_WRITE', values: { block: 1 } })
  expect(h.rows('SELECT count(*) AS n FROM payouts')).toEqual([{ n: 0 }])
  await h.close()
})
