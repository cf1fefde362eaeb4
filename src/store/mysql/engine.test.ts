import { afterAll, afterEach, beforeAll, expect } from 'vitest'
import { describeMysql, makeDatabase, rowsOf, type TestDatabase } from '../../../test/support/mysql.ts'
import { createTidemark } from '../../app/tidemark.ts'
import type { Tidemark } from '../../app/types.ts'
import { defineConfig } from '../../config.ts'
import { type FakeChain, fakeChain, fakeRpc, testAddress, transfer } from '../../testkit/index.ts'
import { realWorld } from '../../util/world.ts'
import { decodeUint256, type MysqlDb, mysql, rows, watch } from './index.ts'

/** The whole engine on this store: what the simulator plays on SQLite, in a few strokes. */

const TOKEN = testAddress('token')
const [ALICE, BOB] = [testAddress('alice'), testAddress('bob')]
const Transfer = { event: 'event Transfer(address indexed from, address indexed to, uint256 value)' } as const
const POLL_MS = 100
const MAX = 2n ** 256n - 1n

const CREDIT =
  'INSERT INTO balances (account, amount) VALUES (?, ?) ON DUPLICATE KEY UPDATE amount = amount + VALUES(amount)'

const credit = (db: MysqlDb, account: string, amount: bigint) => db.execute(CREDIT, [account, `${amount % 1000n}`])

const balances = watch({
  on: { test: { address: TOKEN, startBlock: 1, at: 'latest' } },
  events: { Transfer },
  tables: { transfers: rows({ table: 'transfers', columns: { receiver: 'text', amount: 'uint256' } }) },
  handle: async ({ event, db, tables, savepoint }) => {
    await credit(db, event.args.to, event.args.value)
    tables.transfers.insert({ receiver: event.args.to, amount: event.args.value })
    await savepoint(async () => {
      await credit(db, 'inside', 1n)
      throw new Error('taken back')
    }).catch(() => {})
    return { amount: event.args.value }
  },
  undo: async ({ event, memo, db }) => {
    await credit(db, event.args.to, -(memo.amount % 1000n))
  },
})

let database: TestDatabase
const running: Tidemark[] = []

function start(chain: FakeChain): { tidemark: Tidemark; settle(): Promise<string> } {
  const tidemark = createTidemark(
    defineConfig({
      store: mysql({ url: database.url }),
      chains: { test: { id: chain.chainId, rpc: [fakeRpc(chain)], pollMs: POLL_MS } },
      watchers: { balances },
    }),
  )
  running.push(tidemark)
  /** Steps until the chain has been asked again and nothing was left to do. Time is real here: a server is waited for. */
  const settle = async () => {
    let did = ''
    for (let idle = 0; idle < 3 && did !== 'held'; idle = did === 'idle' ? idle + 1 : 0) {
      await realWorld.sleep(POLL_MS)
      did = (await tidemark.runOnce({ budgetMs: 60_000 })).did
    }
    return did
  }
  return { tidemark, settle }
}

const found = async () => {
  const amounts = await rowsOf(
    database.outside,
    'SELECT account, amount FROM balances WHERE amount <> 0 ORDER BY account',
  )
  const transfers = await rowsOf(
    database.outside,
    'SELECT amount FROM transfers ORDER BY tidemark_block, tidemark_event',
  )
  return {
    amounts: Object.fromEntries(amounts.map(({ account, amount }) => [account, Number(amount)])),
    transfers: transfers.map(({ amount }) => decodeUint256(amount)).sort((a, b) => (a < b ? -1 : 1)),
  }
}

describeMysql('the engine on mysql', (test) => {
  beforeAll(async () => {
    database = await makeDatabase()
    await database.outside.query(
      'CREATE TABLE balances (account VARCHAR(50) PRIMARY KEY, amount BIGINT NOT NULL) ENGINE = InnoDB',
    )
  })
  afterEach(async () => {
    for (const one of running.splice(0)) await one.stop()
    await database.empty(['balances'])
  })
  afterAll(() => database.drop())

  test('events are applied once, orphaned ones are undone, and a restart goes on', async () => {
    const chain = fakeChain({ chainId: 7, finalized: { depth: 4 } })
    for (let i = 1; i <= 6; i++) chain.mine([transfer(TOKEN, ALICE, BOB, i), transfer(TOKEN, BOB, ALICE, 100)])
    chain.mine([transfer(TOKEN, ALICE, BOB, MAX)])
    const first = start(chain)
    expect(await first.settle()).toBe('idle')
    const last = Number(MAX % 1000n)
    expect((await found()).amounts).toEqual({ [ALICE]: 600, [BOB]: 21 + last })
    expect((await found()).transfers.at(-1)).toBe(MAX)
    chain.reorg(2, { reinclude: 'none', extraBlocks: 1 })
    await first.settle()
    expect((await found()).amounts).toEqual({ [ALICE]: 500, [BOB]: 15 })
    await first.tidemark.stop()
    chain.mine([transfer(TOKEN, ALICE, BOB, 5)])
    const second = start(chain)
    await second.settle()
    expect((await found()).amounts).toEqual({ [ALICE]: 500, [BOB]: 20 })
    expect((await found()).transfers).toHaveLength(11)
  })

  test('while one process runs a watcher, another one stands by', async () => {
    const chain = fakeChain({ chainId: 7, finalized: { depth: 4 } })
    chain.mine([transfer(TOKEN, ALICE, BOB, 1)])
    const first = start(chain)
    await first.tidemark.start()
    const second = start(chain)
    const held = await second.tidemark.runOnce({ budgetMs: 1_000 })
    expect(held.did).toBe('held')
    await first.tidemark.stop()
    expect(await second.settle()).toBe('idle')
    expect((await found()).amounts).toEqual({ [BOB]: 1 })
  })
})
