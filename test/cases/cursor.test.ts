import { describe, expect, test } from 'vitest'
import { watch } from '../../src/store/sqlite/index.ts'
import { fakeChain, nftTransfer, transferBalances } from '../../src/testkit/index.ts'
import { FailingStore, sqliteError } from '../support/failing-store.ts'
import { Harness } from '../support/harness.ts'
import { ALICE, BOB, Ledger, ledger, pay, place, TOKEN, TRANSFER_EVENT, tx } from '../support/ledger.ts'

/** Kind K of the cases, and those about waiting: where the cursor stands after a failure, a restart, a replay. */

function chainAt(head: number, depth = 10) {
  const chain = fakeChain({ chainId: 1, finalized: { depth } })
  chain.mineEmpty(head)
  return chain
}

const by = { actor: 'ada', reason: 'repaired' }

describe('C28 dropped from the waiting list before it was handled', () => {
  // Block 600 has its twelve confirmations when the head is 612: the block itself counts as the first of thirteen.
  const at = { confirmations: 13 }

  function waiting() {
    const chain = chainAt(599, 64)
    chain.mine([pay('L1', 5)])
    chain.mineEmpty(6)
    return chain
  }

  test('the handler throws at head 612, and there is no new log afterwards', async () => {
    const chain = waiting()
    let down = true
    const before = () => {
      if (down) throw new Error('the other database is down')
    }
    await ledger({ chain, at, startBlock: 590, before }, async (h) => {
      await h.settle()
      expect(await h.cursor()).toBe('594a')
      chain.mineEmpty(6)
      await h.settle(3)
      expect(h.codes('halted')).toEqual(['HANDLER_FAILED'])
      expect((await h.watcher()).reason?.values).toMatchObject({ block: 600, logIndex: 0 })
      expect((await h.watcher()).cursor?.number).toBeLessThan(600)
      expect(h.marks()).toEqual([])
      down = false
      await h.restart()
      await h.settle(3)
      // Halted is halted: a person says when it goes on.
      expect(h.marks()).toEqual([])
      await h.tidemark.admin.resume('ledger/test', by)
      await h.settle()
      expect(h.calls).toEqual(['L1,0@600a', 'L1,0@600a'])
      expect(h.entries()).toEqual(['L1,0@600a 5'])
      expect(await h.cursor()).toBe('600a')
      expect(await h.differences()).toEqual([])
    })
  })

  test('the disk of the database is full at head 612: it heals by itself', async () => {
    const chain = waiting()
    const store = new FailingStore()
    await ledger({ chain, at, startBlock: 590, open: store.open }, async (h) => {
      await h.settle()
      chain.mineEmpty(6)
      store.at = (when, sql) => {
        if (when === 'before' && sql.startsWith('INSERT INTO entries')) throw sqliteError(13)
      }
      await h.settle(3)
      expect(new Set(h.codes('failing'))).toEqual(new Set(['STORE_FULL']))
      expect(h.codes('halted')).toEqual([])
      expect((await h.watcher()).cursor?.number).toBeLessThan(600)
      expect([h.marks(), h.entries(), h.balance(BOB)]).toEqual([[], [], null])
      store.at = undefined
      await h.settle()
      expect(h.entries()).toEqual(['L1,0@600a 5'])
      expect(await h.cursor()).toBe('600a')
      expect(await h.differences()).toEqual([])
    })
  })

  test('the process is killed at head 606', async () => {
    const chain = waiting()
    const store = new FailingStore()
    await ledger({ chain, at, startBlock: 590, open: store.open }, async (h) => {
      await h.settle()
      store.killAt(() => true)
      await h.tidemark.runOnce().catch(() => {})
      expect(store.killed).toBe(true)
      await h.tidemark.stop()
      store.revive()
      h.tidemark = h.open()
      expect((await h.watcher()).cursor?.number).toBe(594)
      chain.mineEmpty(6)
      await h.settle()
      expect(h.calls).toEqual(['L1,0@600a'])
      expect(await h.cursor()).toBe('600a')
      expect(await h.differences()).toEqual([])
    })
  })
})

describe('C65 pruned rows and a cursor that is moved back', () => {
  const RETENTION = 300

  function longChain() {
    const chain = chainAt(0)
    for (let n = 1; n <= 1200; n++) chain.mine(n % 50 === 0 ? [pay(`T${n}`, 1)] : [])
    return chain
  }

  for (const at of ['latest', 'finalized'] as const) {
    test(`a cursor below what was pruned is refused, one above it finds its marks, at ${at}`, async () => {
      const chain = longChain()
      await ledger({ chain, at, startBlock: 1, config: { retentionBlocks: RETENTION } }, async (h) => {
        await h.settle()
        const { lowWater, cursor } = await h.watcher()
        const done = { entries: h.entries(), bob: h.balance(BOB) }
        const end = cursor?.number ?? 0
        expect(lowWater).toBeGreaterThan(500)
        // Above the low-water mark: every event is delivered again, and passed over.
        h.moveCursor(end - 120)
        await h.settle()
        expect((await h.watcher()).cursor?.number).toBe(end)
        expect((await h.watcher()).counters.duplicates).toBeGreaterThanOrEqual(2)
        expect({ entries: h.entries(), bob: h.balance(BOB) }).toEqual(done)
        // Below it, nothing is left that could tell: refused, however often it is resumed or restarted.
        h.moveCursor(500)
        await h.settle(2)
        await h.tidemark.admin.resume('ledger/test', by)
        await h.restart()
        await h.settle(2)
        expect(h.codes('halted')).toEqual(['CURSOR_BELOW_LOW_WATER', 'CURSOR_BELOW_LOW_WATER'])
        expect((await h.watcher()).reason?.values).toMatchObject({ cursor: 500, lowWater })
        expect({ entries: h.entries(), bob: h.balance(BOB) }).toEqual(done)
        // Put back where it was, it goes on.
        h.moveCursor(end)
        await h.tidemark.admin.resume('ledger/test', by)
        chain.mine([pay('NEW', 7)])
        chain.mineEmpty(10)
        await h.settle()
        const to = (await h.watcher()).cursor?.number ?? 0
        expect(to).toBeGreaterThan(1200)
        expect(h.balance(BOB)).toBe(Number(transferBalances(chain, { addresses: [TOKEN], to }).get(BOB)))
      })
    })
  }

  test('a contract with an earlier start is refused, and nothing is applied', async () => {
    const chain = longChain()
    await ledger({ chain, at: 'finalized', startBlock: 600, config: { retentionBlocks: RETENTION } }, async (h) => {
      await h.settle()
      const done = { entries: h.entries(), marks: h.marks() }
      const earlier = new Ledger({ chain, at: 'finalized', startBlock: 100, address: [TOKEN, ALICE] })
      await h.tidemark.stop()
      h.tidemark = h.open({ watchers: earlier.options.watchers })
      await expect(h.tidemark.runOnce()).rejects.toMatchObject({ code: 'WATCHER_FILTER_CHANGED' })
      expect({ entries: h.entries(), marks: h.marks() }).toEqual(done)
      await earlier.close()
    })
  })

  test('a second handler added later has a cursor and marks of its own', async () => {
    const chain = longChain()
    await ledger({ chain, at: 'finalized', startBlock: 1, config: { retentionBlocks: RETENTION } }, async (h) => {
      await h.settle()
      const done = { entries: h.entries(), bob: h.balance(BOB) }
      const late: string[] = []
      const second = watch({
        on: { test: { address: TOKEN, startBlock: 1 } },
        events: { Transfer: { event: TRANSFER_EVENT } },
        handle: ({ event }) => void late.push(place(event)),
      })
      await h.restart({ watchers: { ...h.options.watchers, late: second } })
      await h.settle()
      expect(late).toEqual(h.calls)
      expect({ entries: h.entries(), bob: h.balance(BOB) }).toEqual(done)
      const { watchers } = await h.tidemark.status()
      expect(watchers.map((one) => [one.name, one.cursor?.number, one.counters.applied])).toEqual([
        ['late/test', 1190, late.length],
        ['ledger/test', 1190, late.length],
      ])
    })
  })
})

describe('C68 a replay of a trailing range onto `balance += x`', () => {
  const NFT = 'event Transfer(address indexed from, address indexed to, uint256 indexed tokenId)'
  const schema =
    'CREATE TABLE nfts (owner TEXT PRIMARY KEY, held INTEGER NOT NULL); CREATE TABLE paid (account TEXT PRIMARY KEY, amount INTEGER NOT NULL)'

  /** ALICE → BOB, one NFT, in 12; BOB +5 in 18. */
  function chainOfTwo() {
    const chain = chainAt(11)
    chain.mine([tx('N1', nftTransfer(TOKEN, ALICE, BOB, 1))])
    chain.mineEmpty(5)
    chain.mine([pay('T1', 5)])
    chain.mineEmpty(2)
    return chain
  }

  const watcher = watch({
    on: { test: { address: TOKEN, startBlock: 10, at: { confirmations: 1 } } },
    events: { Nft: { event: NFT }, Coin: { event: TRANSFER_EVENT } },
    handle({ event, db }) {
      // Read, add, write: doubles with every replay that reaches it.
      const [table, column, key, by] =
        event.name === 'Nft' ? ['nfts', 'held', 'owner', 1] : ['paid', 'amount', 'account', Number(event.args.value)]
      const row = db.prepare(`SELECT ${column} AS n FROM ${table} WHERE ${key} = ?`).get(event.args.to)
      db.prepare(`INSERT OR REPLACE INTO ${table} VALUES (?, ?)`).run(event.args.to, Number(row?.n ?? 0) + Number(by))
    },
  })

  const state = (h: Harness) => ({
    nfts: h.rows('SELECT held FROM nfts').map((row) => row.held),
    paid: h.rows('SELECT amount FROM paid').map((row) => row.amount),
    marks: h.rows('SELECT block_number FROM tidemark_processed_events ORDER BY 1').map((row) => row.block_number),
    cursor: h.rows('SELECT cursor_block FROM tidemark_watchers').map((row) => row.cursor_block),
  })
  const right = { nfts: [1], paid: [5], marks: [12, 18], cursor: [20] }

  for (const stored of [17, 10, null]) {
    test(`the stored cursor says ${stored ?? 'nothing'}, the work of all blocks is done`, async () => {
      const chain = chainOfTwo()
      const h = new Harness({ chain, watchers: { both: watcher }, schema })
      try {
        await h.settle()
        expect(state(h)).toEqual(right)
        const hash = stored === null ? 'NULL' : `X'${chain.blockByNumber(stored)?.hash.slice(2)}'`
        h.sql((db) => db.exec(`UPDATE tidemark_watchers SET cursor_block = ${stored ?? 'NULL'}, cursor_hash = ${hash}`))
        await h.restart()
        await h.settle()
        expect(state(h)).toEqual(right)
        expect((await h.tidemark.status()).watchers[0]?.counters.duplicates).toBe(stored === 17 ? 1 : 2)
      } finally {
        await h.close()
      }
    })
  }

  for (const deep of [false, true]) {
    test(`the stored cursor says 14, and the blocks above ${deep ? 'it' : '17'} were replaced meanwhile`, async () => {
      /*
       *   … 13a { T1 } ── 14a ── 15a ── 16a ── 17a { T2 } ── 18a { T3 }      applied; the cursor is put back to 14a
       *                    │                     └───────── 18b { T4 }
       *                    └──── 15c ── 16c ── 17c ── 18c { T4 }
       */
      const chain = chainAt(12)
      await ledger({ chain, at: 'latest', startBlock: 10 }, async (h) => {
        for (const content of [[pay('T1', 1)], [], [], [], [pay('T2', 2)]]) chain.mine(content)
        chain.fork(17, 'b')
        chain.fork(14, 'c')
        chain.mine([pay('T3', 4)])
        await h.settle()
        h.moveCursor(14)
        const branch = deep ? 'c' : 'b'
        chain.mineEmpty(deep ? 3 : 0, { branch })
        chain.mine([pay('T4', 8)], { branch })
        chain.adopt(branch)
        await h.restart()
        await h.settle()
        expect(await h.cursor()).toBe(`18${branch}`)
        expect(h.balance(BOB)).toBe(deep ? 9 : 11)
        expect(await h.differences()).toEqual([])
      })
    })
  }

  // Every statement of the commit path, one by one: test/crash-points.test.ts. Here the five points of the case.
  const points: Record<string, (when: 'before' | 'after', sql: string) => boolean> = {
    'before the work': (when, sql) => when === 'before' && sql.startsWith('SELECT held'),
    'between two statements': (when, sql) => when === 'before' && sql.startsWith('INSERT OR REPLACE INTO paid'),
    'between work and cursor': (when, sql) => when === 'after' && sql.startsWith('INSERT OR REPLACE INTO paid'),
    'before commit': (when, sql) => when === 'before' && sql === 'COMMIT',
    'after commit, before the process knows of it': (when, sql) => when === 'after' && sql === 'COMMIT',
  }
  for (const [point, where] of Object.entries(points)) {
    test(`killed ${point}`, async () => {
      const store = new FailingStore()
      const h = new Harness({ chain: chainOfTwo(), watchers: { both: watcher }, schema, open: store.open })
      try {
        // Tables, row and genesis are there: what is killed is the commit of the events.
        let handled = false
        store.killAt((when, sql) => {
          handled ||= sql.includes('INSERT INTO tidemark_processed_events')
          return handled && where(when, sql)
        })
        await h.tidemark.runOnce({ budgetMs: 60_000 }).catch(() => {})
        expect(store.killed).toBe(true)
        await h.tidemark.stop()
        store.revive()
        h.tidemark = h.open()
        if (!point.startsWith('after'))
          expect({ ...state(h), cursor: [] }).toEqual({ nfts: [], paid: [], marks: [], cursor: [] })
        else expect(state(h)).toEqual(right)
        await h.settle()
        expect(state(h)).toEqual(right)
      } finally {
        await h.close()
      }
    })
  }
})

test('C72 a restart from the head although only older blocks were done', async () => {
  const chain = chainAt(96, 64)
  chain.mine([pay('L1', 1)])
  chain.mineEmpty(3)
  // Confirmations 5: a block is taken when five others stand on it.
  await ledger({ chain, at: { confirmations: 6 }, startBlock: 80 }, async (h) => {
    await h.settle()
    expect(await h.cursor()).toBe('95a')
    for (let restart = 0; restart < 3; restart++) {
      await h.restart()
      await h.settle()
      expect(await h.cursor()).toBe('95a')
    }
    await h.tidemark.stop()
    chain.mineEmpty(10)
    h.tidemark = h.open()
    for (let restart = 0; restart < 3; restart++) {
      await h.settle()
      expect(await h.cursor()).toBe('105a')
      await h.restart()
    }
    expect(h.calls).toEqual(['L1,0@97a'])
    expect(h.marks()).toEqual(['L1,0@97a'])
    expect(await h.differences()).toEqual([])
  })
})
