import { describe, expect, test } from 'vitest'
import { blockLabel, fakeChain, transfer } from '../../src/testkit/index.ts'
import { logToJson } from '../../src/testkit/rpc-format.ts'
import { FailingStore } from '../support/failing-store.ts'
import { ALICE, BOB, type Ledger, ledger, pay, TOKEN, tx } from '../support/ledger.ts'
import { isByHash, isRange } from '../support/nodes.ts'

/** Kind D of the cases: blocks that are replaced, and what must be left of them. Undo is kept for ten blocks. */

type Chain = ReturnType<typeof chainAt>

function chainAt(head: number, depth = 10) {
  const chain = fakeChain({ chainId: 1, finalized: { depth }, safe: { depth: 1 } })
  chain.mineEmpty(head)
  return chain
}

const atLatest = (chain: Chain, head: number) => ({ chain, at: 'latest' as const, startBlock: head - 8 })

/** The state at the end: what the final chain says, and nothing of another branch. */
async function expectRight(h: Ledger, right: { cursor: string; marks: string[] }): Promise<void> {
  expect(await h.cursor()).toBe(right.cursor)
  expect(h.marks()).toEqual(right.marks)
  expect(await h.differences()).toEqual([])
  expect(h.codes('halted')).toEqual([])
}

test('C21 the same transaction in the replacement block, after a restart', async () => {
  /*
   *   199a ── 200a { T1 }         applied, then the process is killed
   *     └──── 200b { T1 }
   */
  const chain = chainAt(199)
  const store = new FailingStore()
  await ledger({ ...atLatest(chain, 199), open: store.open }, async (h) => {
    chain.mine([pay('T1', 5)])
    await h.settle()
    expect(h.marks()).toEqual(['T1,0@200a'])
    store.killAt(() => true)
    await h.tidemark.runOnce().catch(() => {})
    expect(store.killed).toBe(true)
    await h.tidemark.stop()
    store.revive()
    chain.reorg(1, { extraBlocks: 0 })
    h.tidemark = h.open()
    await h.settle()
    await expectRight(h, { cursor: '200b', marks: ['T1,0@200b'] })
    expect(h.entries()).toEqual(['T1,0@200b 5'])
    for (let restart = 0; restart < 2; restart++) {
      await h.restart()
      await h.settle()
    }
    await expectRight(h, { cursor: '200b', marks: ['T1,0@200b'] })
    expect(h.calls).toEqual(['T1,0@200a', 'T1,0@200b'])
  })
})

test('C22 the same transaction at another logIndex, and another one at its old place', async () => {
  /*
   *   209a ── 210a { T9,0  T1,1 = BOB +7 }
   *     └──── 210b { T1,0 = BOB +7  T8,1 = BOB +3 }
   */
  const chain = chainAt(209)
  await ledger(atLatest(chain, 209), async (h) => {
    chain.fork(209, 'b')
    chain.mine([pay('T9', 4, ALICE), pay('T1', 7)])
    await h.settle()
    expect([h.balance(ALICE), h.balance(BOB)]).toEqual([4, 7])
    chain.mine([pay('T1', 7), pay('T8', 3)], { branch: 'b' })
    chain.adopt('b')
    await h.settle()
    expect([h.balance(ALICE), h.balance(BOB)]).toEqual([null, 10])
    await expectRight(h, { cursor: '210b', marks: ['T1,0@210b', 'T8,1@210b'] })
  })
})

test('C23 a running total applied once for each branch', async () => {
  /*
   *   299a ─┬─ 300a { T1 }
   *         ├─ 300b { T1 }
   *         ├─ 300c { T1 }
   *         └─ 300d { T1 } ── 301d
   */
  const chain = chainAt(299)
  await ledger(atLatest(chain, 299), async (h) => {
    chain.mine([pay('T1', 10)])
    await h.settle()
    for (const branch of ['b', 'c', 'd']) {
      chain.fork(299, branch)
      chain.mine([pay('T1', 10)], { branch })
      chain.adopt(branch)
      await h.settle()
      expect(h.marks()).toEqual([`T1,0@300${branch}`])
    }
    chain.mineEmpty(1)
    await h.settle()
    await expectRight(h, { cursor: '301d', marks: ['T1,0@300d'] })
    expect(h.balance(BOB)).toBe(10)
    // Undo is kept for the block that is applied, and for no other of its height.
    expect(h.rows('SELECT block_number, count(*) AS n FROM tidemark_kept_events GROUP BY 1')).toEqual([
      { block_number: 300, n: 1 },
    ])
    expect(h.rows('SELECT count(*) AS n FROM tidemark_unfinalized_blocks WHERE block_number = 300')).toEqual([{ n: 1 }])
    chain.mineEmpty(12)
    await h.settle()
    expect(h.rows('SELECT count(*) AS n FROM tidemark_kept_events')).toEqual([{ n: 0 }])
    await expectRight(h, { cursor: '313d', marks: ['T1,0@300d'] })
  })
})

test('C24 a crash in the middle of a rollback, and a restart much later', async () => {
  /*
   *   399a ── 400a { T1 } ── 401a { T2 }      killed between the undo of T2 and that of T1
   *     └──── 400b { T3 } ── 401b ── … ── 540b { T4 }
   */
  const chain = chainAt(399)
  const store = new FailingStore()
  await ledger({ ...atLatest(chain, 399), open: store.open }, async (h) => {
    chain.fork(399, 'b')
    chain.mine([pay('T1', 1)])
    chain.mine([pay('T2', 2)])
    await h.settle()
    const before = { marks: h.marks(), entries: h.entries(), cursor: await h.cursor() }
    chain.mine([pay('T3', 3)], { branch: 'b' })
    chain.mineEmpty(2, { branch: 'b' })
    chain.adopt('b')
    let undone = 0
    store.killAt((when, sql) => when === 'before' && sql.startsWith('DELETE FROM entries') && ++undone === 2)
    await h.tidemark.runOnce().catch(() => {})
    expect(store.killed).toBe(true)
    await h.tidemark.stop()
    store.revive()
    // Undo and cursor move together or not at all.
    h.tidemark = h.open()
    expect({ marks: h.marks(), entries: h.entries(), cursor: await h.cursor() }).toEqual(before)
    chain.mineEmpty(540 - chain.head().number - 1)
    chain.mine([pay('T4', 4)])
    await h.settle()
    await expectRight(h, { cursor: '540b', marks: ['T3,0@400b', 'T4,0@540b'] })
    const left = h.rows('SELECT block_hash FROM tidemark_unfinalized_blocks WHERE block_number >= 400')
    expect(
      left.map((row) => blockLabel(`0x${Buffer.from(row.block_hash as Uint8Array).toString('hex')}`)),
    ).not.toContain('400a')
    expect(left.length).toBeGreaterThan(0)
  })
})

for (const restarts of [false, true]) {
  test(`C25 A wins, B wins, A wins back${restarts ? ', each time after a restart' : ''}`, async () => {
    /*
     *   399a ── 400a { T1 } ── 401a { T2 } ── 402a
     *     └──── 400b { T1 } ── 401b
     */
    const chain = chainAt(399)
    await ledger(atLatest(chain, 399), async (h) => {
      const settle = async () => {
        if (restarts) await h.restart()
        await h.settle()
      }
      chain.fork(399, 'b')
      chain.mine([pay('T1', 1)])
      chain.mine([pay('T2', 2)])
      await settle()
      chain.mine([pay('T1', 1)], { branch: 'b' })
      chain.mineEmpty(1, { branch: 'b' })
      chain.adopt('b')
      await settle()
      await expectRight(h, { cursor: '401b', marks: ['T1,0@400b'] })
      chain.adopt('a')
      chain.mineEmpty(1)
      await settle()
      await expectRight(h, { cursor: '402a', marks: ['T1,0@400a', 'T2,0@401a'] })
      expect(h.entries()).toEqual(['T1,0@400a 1', 'T2,0@401a 2'])
      expect(h.balance(BOB)).toBe(3)
    })
  })
}

describe('C26 `removed` comes after the new logs, twice, or never: parent hashes decide', () => {
  /*
   *   509a ── 510a { T1 }
   *     └──── 510b { T1 }
   */
  const orders = {
    'after the new ones': (fresh: unknown[], gone: unknown[]) => [...fresh, ...gone],
    twice: (fresh: unknown[], gone: unknown[]) => [...gone, ...fresh, ...gone],
    never: (fresh: unknown[]) => fresh,
  }
  for (const [order, mix] of Object.entries(orders)) {
    test(`removals ${order}`, async () => {
      const chain = chainAt(509)
      await ledger(atLatest(chain, 509), async (h) => {
        chain.mine([pay('T1', 5)])
        await h.settle()
        const gone = chain.head().logs.map((log) => logToJson(log, true))
        chain.reorg(1, { extraBlocks: 0 })
        h.rpc[0]!.once('eth_getLogs', isByHash, (_, honest) => ({
          ok: true,
          result: mix((honest as any).result, gone),
        }))
        await h.settle()
        await expectRight(h, { cursor: '510b', marks: ['T1,0@510b'] })
        expect(h.entries()).toEqual(['T1,0@510b 5'])
        expect(h.codes('failing')).toEqual([])
      })
    })
  }

  test('a removal of a block that is still canonical takes nothing away', async () => {
    const chain = chainAt(509)
    await ledger(atLatest(chain, 509), async (h) => {
      chain.mine([pay('T1', 5)])
      await h.settle()
      const gone = chain.head().logs.map((log) => logToJson(log, true))
      chain.mine([pay('T2', 2)])
      h.rpc[0]!.once('eth_getLogs', isByHash, (_, honest) => ({
        ok: true,
        result: [...gone, ...(honest as any).result],
      }))
      await h.settle()
      await expectRight(h, { cursor: '511a', marks: ['T1,0@510a', 'T2,0@511a'] })
      expect(h.calls).toEqual(['T1,0@510a', 'T2,0@511a'])
    })
  })
})

test('C27 getLogs returns reverted logs', async () => {
  /*
   *   54a ── 55a { T1 }
   *    └──── 55b { T1 } ── … ── 60b ── … ── 75b
   */
  const chain = chainAt(54)
  chain.fork(54, 'b')
  chain.mine([pay('T1', 5)])
  const gone = chain.head().logs.map((log) => logToJson(log, true))
  chain.mine([pay('T1', 5)], { branch: 'b' })
  chain.mineEmpty(20, { branch: 'b' })
  chain.adopt('b')
  for (const at of ['latest', 'finalized'] as const) {
    await ledger({ chain, at, startBlock: 50 }, async (h) => {
      const answer = (honest: any) => ({ ok: true as const, result: [...gone, ...honest.result] })
      h.rpc[0]!.times(Number.POSITIVE_INFINITY, 'eth_getLogs', isRange, (_, honest) => answer(honest))
      await h.settle()
      await expectRight(h, { cursor: at === 'latest' ? '75b' : '65b', marks: ['T1,0@55b'] })
      expect(h.calls).toEqual(['T1,0@55b'])
      expect(h.rpc[0]!.log.ranges()[0]?.from).toBe(50)
    })
  }
})

describe('C30 `finalized` is not what it says', () => {
  /*
   *   999a ── 1000a { T1 }               latest and finalized at once
   *     └──── 1000b { T2 } ── 1001b { T3 }
   */
  function mineBoth(chain: Chain): void {
    chain.fork(999, 'b')
    chain.mine([pay('T1', 1)])
    chain.mine([pay('T2', 2)], { branch: 'b' })
    chain.mine([pay('T3', 3)], { branch: 'b' })
  }

  test('undo is kept for the minimum depth, whatever the tag says', async () => {
    const chain = chainAt(999, 0)
    mineBoth(chain)
    await ledger({ ...atLatest(chain, 999), chainInput: { minDepth: 5 } }, async (h) => {
      await h.settle()
      expect(h.marks()).toEqual(['T1,0@1000a'])
      expect((await h.watcher()).settled).toBe(995)
      chain.adopt('b', { violateFinality: true })
      await h.settle()
      await expectRight(h, { cursor: '1001b', marks: ['T2,0@1000b', 'T3,0@1001b'] })
      expect(h.events.find((one) => one.type === 'undone')?.event).toMatchObject({ why: 'reorg', events: 1 })
    })
  })

  test('where the undo is really gone it stops, names the block, and appends nothing', async () => {
    const chain = chainAt(999, 0)
    mineBoth(chain)
    await ledger(atLatest(chain, 999), async (h) => {
      await h.settle()
      expect((await h.watcher()).settled).toBe(1000)
      const before = { marks: h.marks(), entries: h.entries() }
      chain.adopt('b', { violateFinality: true })
      await h.settle(3)
      expect(h.codes('halted')).toEqual(['REORG_BELOW_FINALITY'])
      const { reason } = await h.watcher()
      expect(reason?.values).toMatchObject({ block: 1000 })
      expect(await h.cursor()).toBe('1000a')
      expect({ marks: h.marks(), entries: h.entries() }).toEqual(before)
    })
  })
})

describe('C31 a reorg exactly between reading the block and reading its logs', () => {
  /*
   *   899a ── 900a { L1 } ── 901a
   *     └──── 900b
   */
  const answers = {
    'the logs of 900b, which are none': { ok: true, result: [] },
    'an error for a block it does not know': { ok: false, error: { code: -32000, message: 'unknown block' } },
    null: { ok: true, result: null },
  } as const
  for (const [what, answer] of Object.entries(answers)) {
    for (const at of ['latest', 'safe'] as const) {
      test(`at ${at}, the node answers with ${what}`, async () => {
        const chain = chainAt(899)
        await ledger({ ...atLatest(chain, 899), at, undo: true }, async (h) => {
          await h.settle()
          chain.fork(899, 'b')
          chain.mine([pay('L1', 1)])
          chain.mineEmpty(1, { branch: 'b' })
          h.rpc[0]!.once('eth_getLogs', 'any', () => {
            chain.adopt('b')
            return answer
          })
          await h.tidemark.runOnce()
          chain.adopt('a')
          await h.settle()
          chain.mineEmpty(at === 'safe' ? 2 : 1)
          await h.settle()
          await h.settle()
          await expectRight(h, { cursor: '901a', marks: ['L1,0@900a'] })
        })
      })
    }
  }

  test('a range by number, final on one branch when its end is read', async () => {
    const chain = chainAt(899)
    await ledger({ chain, at: 'finalized', startBlock: 890, chainInput: { finality: { depth: 1 } } }, async (h) => {
      chain.mine([pay('L1', 1)])
      chain.mineEmpty(1)
      // `[]` for a range is believed only if the headers of the range agree with it.
      h.rpc[0]!.once('eth_getLogs', isRange, { result: [] })
      await h.settle()
      await expectRight(h, { cursor: '900a', marks: ['L1,0@900a'] })
    })
  })
})

describe('C73 an event of a transaction that later fails', () => {
  /*
   *   79a ── 80a { T1 }
   *    └──── 80b { T1 reverted } ── … ── 85b
   */
  for (const at of [{ confirmations: 6 }, 'latest'] as const) {
    test(`at ${JSON.stringify(at)}`, async () => {
      const chain = chainAt(79)
      await ledger({ chain, at, startBlock: 70 }, async (h) => {
        chain.fork(79, 'b')
        chain.mine([pay('T1', 5)])
        await h.settle()
        expect(h.marks()).toEqual(at === 'latest' ? ['T1,0@80a'] : [])
        chain.mine([{ ...tx('T1', transfer(TOKEN, ALICE, BOB, 5)), status: 'reverted' }], { branch: 'b' })
        chain.mineEmpty(5, { branch: 'b' })
        chain.adopt('b')
        await h.settle()
        await expectRight(h, { cursor: at === 'latest' ? '85b' : '80b', marks: [] })
        expect(h.balance(BOB)).toBe(null)
      })
    })
  }
})
