import { describe, expect, test } from 'vitest'
import { compileWatcher } from '../../src/handle/watch.ts'
import { watch } from '../../src/store/sqlite/index.ts'
import { fakeChain, fakeRpc, transfer } from '../../src/testkit/index.ts'
import { logToJson } from '../../src/testkit/rpc-format.ts'
import { ALICE, BANK, BOB, ledger, pay, TOKEN, TRANSFER_EVENT, tx } from '../support/ledger.ts'
import { BalancedRpc, isRange } from '../support/nodes.ts'

/** Kind A of the cases: what client libraries did wrong between the node and the handler. */

/** A chain with empty blocks up to `head`. Final from ten blocks below the head on. */
function chainAt(head: number) {
  const chain = fakeChain({ chainId: 1, finalized: { depth: 10 } })
  chain.mineEmpty(head)
  return chain
}

/** The ranges of one reader follow each other without gap and without overlap. */
function expectNeighbours(ranges: readonly { from: number; to: number }[]): void {
  for (const [i, range] of ranges.entries()) {
    expect(range.from).toBeLessThanOrEqual(range.to)
    if (i > 0) expect(range.from).toBe((ranges[i - 1]?.to ?? Number.NaN) + 1)
  }
}

describe('C01 one log handed over several times while polls overlap', () => {
  test('three notices in one tick, slow answers', async () => {
    const chain = chainAt(100)
    await ledger({ chain, at: 'latest', startBlock: 95, rpc: [new BalancedRpc(chain)] }, async (h) => {
      await h.settle()
      expect(await h.cursor()).toBe('100a')
      for (const name of ['L1', 'L2', 'L3']) chain.mine([pay(name, 1)])
      const three = await Promise.all([1, 2, 3].map(() => h.tidemark.runOnce({ budgetMs: 60_000 })))
      expect(three.map((one) => one.did).sort()).toEqual(['events', 'held', 'held'])
      await h.settle()
      expect(h.calls).toEqual(['L1,0@101a', 'L2,0@102a', 'L3,0@103a'])
      expect(h.marks()).toEqual(['L1,0@101a', 'L2,0@102a', 'L3,0@103a'])
      expect(await h.cursor()).toBe('103a')
      expect(await h.differences()).toEqual([])
    })
  })

  test('the daemon has at most one request for logs in flight, however slow the node', async () => {
    const chain = chainAt(100)
    const rpc = new BalancedRpc(chain)
    await ledger({ chain, at: 'finalized', startBlock: 1, rpc: [rpc], chainInput: { maxRange: 5 } }, async (h) => {
      // Each request for logs takes three times as long as the wait between two looks at the head.
      const send = rpc.send.bind(rpc)
      rpc.send = async (calls, signal) => {
        await h.world.sleep(300, signal)
        return send(calls, signal)
      }
      await h.tidemark.start()
      for (let n = 101; n <= 103; n++) chain.mine([pay(`T${n}`, n)])
      chain.mineEmpty(10)
      for (let i = 0; i < 100 && (await h.cursor()) !== '103a'; i++) await h.world.advance(100)
      expect(await h.cursor()).toBe('103a')
      expect(rpc.mostInFlight).toBe(1)
      expect(h.calls).toEqual(['T101,0@101a', 'T102,0@102a', 'T103,0@103a'])
      expect(await h.differences()).toEqual([])
    })
  })

  test('the same processor started three times on one database is one processor', async () => {
    const chain = chainAt(100)
    await ledger({ chain, at: 'latest', startBlock: 95 }, async (h) => {
      const others = [h.open(), h.open()]
      chain.mine([pay('L1', 1)])
      await h.tidemark.start()
      for (const other of others) {
        expect((await other.runOnce()).did).toBe('held')
        await expect(other.start()).rejects.toMatchObject({ code: 'STORE_LOCKED' })
      }
      for (let i = 0; i < 20 && (await h.cursor()) !== '101a'; i++) await h.world.advance(100)
      await h.restart()
      // Once the first is gone another takes over, and finds nothing left to do.
      await Promise.all(others.map((other) => other.runOnce()))
      expect(h.calls).toEqual(['L1,0@101a'])
      expect(await h.differences()).toEqual([])
      for (const other of others) await other.stop()
    })
  })

  test('the same event named twice in one watcher is refused', () => {
    const events = { First: { event: TRANSFER_EVENT }, Second: { event: TRANSFER_EVENT } }
    const make = () => watch({ on: { test: { address: TOKEN, startBlock: 1 } }, events, handle() {} })
    expect(() => make().definition).toThrow(expect.objectContaining({ code: 'WATCHER_INVALID' }))
    // Control: one of the two is a watcher.
    const one = watch({ on: { test: { startBlock: 1 } }, events: { First: events.First }, handle() {} })
    expect(compileWatcher('one', one, 'test', 1).filters).toHaveLength(1)
  })
})

describe('C02 a request with fromBlock greater than toBlock', () => {
  for (const at of ['latest', 'finalized'] as const) {
    test(`a head that another backend reports too low, at ${at}`, async () => {
      const chain = chainAt(200)
      // At `finalized` one block more, which is the head; the others are final.
      if (at === 'finalized') chain.mineEmpty(1)
      const rpc = new BalancedRpc(chain)
      const behind = fakeRpc(chain, { label: 'behind', backends: [{ behind: 2 }] })
      await ledger({ chain, at, startBlock: 190, rpc: [rpc], chainInput: { finality: { depth: 1 } } }, async (h) => {
        await h.settle()
        expect(await h.cursor()).toBe('200a')
        chain.mineEmpty(5)
        await h.settle()
        expect(await h.cursor()).toBe('205a')
        rpc.route = () => behind
        await h.settle(3)
        expect(await h.cursor()).toBe('205a')
        rpc.route = undefined
        const found = chain.mine([pay('L1', 1)]).number
        if (at === 'finalized') chain.mineEmpty(1)
        await h.settle()
        expect(await h.cursor()).toBe(`${found}a`)
        expect(h.marks()).toEqual([`L1,0@${found}a`])
        for (const { from, to } of [...rpc.log.ranges(), ...behind.log.ranges()]) expect(from).toBeLessThanOrEqual(to)
        expect(h.events.filter((one) => one.type === 'undone')).toEqual([])
        expect(await h.differences()).toEqual([])
      })
    })
  }

  test('the error, if it comes anyway, is neither shrunk nor asked again in a loop', async () => {
    const chain = chainAt(215)
    await ledger({ chain, at: 'finalized', startBlock: 200 }, async (h) => {
      const error = { code: -32000, message: 'invalid block range params' }
      const rpc = h.rpc[0]!
      rpc.times(3, 'eth_getLogs', isRange, { error })
      for (let i = 0; i < 3; i++) await h.tidemark.runOnce()
      expect(rpc.log.ranges()).toEqual([1, 2, 3].map(() => ({ from: 200, to: 205 })))
      expect(h.codes('failing')).toEqual([1, 2, 3].map(() => 'RPC_REFUSED'))
      await h.settle()
      expect(await h.cursor()).toBe('205a')
    })
  })
})

describe('C03 events in back-to-back blocks lost by an off-by-one', () => {
  for (const at of ['latest', 'finalized'] as const) {
    test(`blocks one by one, then a jump, at ${at}`, async () => {
      const chain = chainAt(299)
      const options = { chain, at, startBlock: 295, chainInput: { finality: { depth: 1 }, maxRange: 2 } }
      await ledger(options, async (h) => {
        await h.settle()
        for (let n = 300; n <= 302; n++) {
          chain.mine([pay(`T${n}`, n)])
          await h.settle()
        }
        for (let n = 303; n <= 305; n++) chain.mine([pay(`T${n}`, n)])
        if (at === 'finalized') chain.mineEmpty(1)
        await h.settle()
        const places = [300, 301, 302, 303, 304, 305].map((n) => `T${n},0@${n}a`)
        expect(h.calls).toEqual(places)
        expect(h.marks()).toEqual(places)
        expect(await h.cursor()).toBe('305a')
        if (at === 'finalized') expectNeighbours(h.rpc[0]!.log.ranges())
        expect(await h.differences()).toEqual([])
      })
    })
  }
})

test('C04 long silence, then only the newest block', async () => {
  const chain = chainAt(1000)
  const options = { chain, at: 'latest' as const, startBlock: 990, chainInput: { maxRange: 200 } }
  await ledger(options, async (h) => {
    await h.settle()
    expect(await h.cursor()).toBe('1000a')
    for (let n = 1001; n <= 2500; n++) chain.mine(n === 1200 ? [pay('L1', 1)] : n === 2400 ? [pay('L2', 2)] : [])
    await h.world.suspend(1_500 * 12_000)
    h.rpc[0]!.log.clear()
    await h.settle()
    expect(h.calls).toEqual(['L1,0@1200a', 'L2,0@2400a'])
    expect(await h.cursor()).toBe('2500a')
    for (const { from, to } of h.rpc[0]!.log.ranges()) expect(to - from + 1).toBeLessThanOrEqual(200)
    expect(await h.differences()).toEqual([])
  })
})

describe('C07 look-alike logs in one transaction dropped as duplicates', () => {
  const five = transfer(TOKEN, ALICE, BOB, 5)
  const filler = Array.from({ length: 7 }, () => transfer(ALICE, BOB, ALICE, 1))

  test('two logs of the same content and one more, then the same batch again', async () => {
    const chain = chainAt(20)
    chain.mine([tx('T1', ...filler, five, five, transfer(TOKEN, ALICE, BOB, 1))])
    await ledger({ chain, at: 'latest', startBlock: 15 }, async (h) => {
      await h.settle()
      const three = ['T1,7@21a', 'T1,8@21a', 'T1,9@21a']
      expect(h.calls).toEqual(three)
      h.moveCursor(20)
      await h.settle()
      expect(await h.cursor()).toBe('21a')
      expect(h.calls).toEqual(three)
      expect(h.marks()).toEqual(three)
      expect(h.balance(BOB)).toBe(11)
      expect((await h.watcher()).counters).toMatchObject({ applied: 3, duplicates: 3 })
      expect(h.codes('failing')).toEqual([])
      expect(await h.differences()).toEqual([])
    })
  })
})

test('C08 a fixed re-read window is shorter than the outage', async () => {
  const chain = chainAt(500)
  await ledger({ chain, at: 'latest', startBlock: 490 }, async (h) => {
    await h.settle()
    expect(await h.cursor()).toBe('500a')
    await h.tidemark.stop()
    for (let n = 501; n <= 520; n++) chain.mine(n === 503 ? [pay('L1', 1)] : n === 519 ? [pay('L2', 2)] : [])
    h.tidemark = h.open()
    await h.settle()
    expect(h.calls).toEqual(['L1,0@503a', 'L2,0@519a'])
    expect(await h.cursor()).toBe('520a')
    expect(await h.differences()).toEqual([])
  })
})

describe('C09 an inclusive boundary read twice', () => {
  function boundaryChain() {
    const chain = chainAt(19)
    chain.mine([pay('L1', 1)])
    chain.mineEmpty(4)
    chain.mine([pay('L2', 2)])
    chain.mineEmpty(15)
    return chain
  }

  test('the end of one range is not the start of the next', async () => {
    await ledger(
      { chain: boundaryChain(), at: 'finalized', startBlock: 10, chainInput: { maxRange: 11 } },
      async (h) => {
        await h.settle()
        expectNeighbours(h.rpc[0]!.log.ranges())
        expect(h.rpc[0]!.log.ranges()[0]).toEqual({ from: 10, to: 20 })
        expect(h.entries()).toEqual(['L1,0@20a 1', 'L2,0@25a 2'])
        expect(await h.differences()).toEqual([])
      },
    )
  })

  test('a node that repeats block 20 in the answer to 21 and later', async () => {
    const chain = boundaryChain()
    await ledger({ chain, at: 'finalized', startBlock: 10, chainInput: { maxRange: 11 } }, async (h) => {
      const again = chain.blockByNumber(20)!.logs.map((log) => logToJson(log))
      const isSecond = (params: readonly unknown[]) => isRange(params) && (params[0] as any).fromBlock === '0x15'
      h.rpc[0]!.once('eth_getLogs', isSecond, (_, honest) => ({
        ok: true,
        result: [...again, ...(honest as any).result],
      }))
      await h.settle()
      await h.settle()
      // The whole answer is refused: a node that mixes up one block may have left out another.
      expect(h.codes('failing')).toEqual(['RPC_ANSWER_INVALID'])
      expect(h.calls).toEqual(['L1,0@20a', 'L2,0@25a'])
      expect(await h.differences()).toEqual([])
    })
  })

  test('block 20 delivered again from a cursor that stands one block back', async () => {
    await ledger({ chain: boundaryChain(), at: 'latest', startBlock: 10 }, async (h) => {
      await h.settle()
      h.moveCursor(19)
      await h.settle()
      expect(h.calls).toEqual(['L1,0@20a', 'L2,0@25a'])
      expect((await h.watcher()).counters).toMatchObject({ applied: 2, duplicates: 2 })
      expect(h.balance(BANK)).toBe(-3)
      expect(await h.differences()).toEqual([])
    })
  })
})

describe('C70 the seam between history and live', () => {
  test('blocks that appear while history is read, and a live block that comes again', async () => {
    const chain = chainAt(499)
    chain.mine([pay('L1', 1)])
    chain.setFinalized(500)
    await ledger({ chain, at: 'latest', startBlock: 480 }, async (h) => {
      const rpc = h.rpc[0]!
      // 501 and 502 appear while the answer about 500 and below is on its way.
      rpc.once('eth_getLogs', isRange, (_, honest) => {
        chain.mine([pay('L2', 2)])
        chain.mineEmpty(1)
        return honest
      })
      // The answer about 501 says 500 again.
      const again = chain.blockByNumber(500)!.logs.map((log) => logToJson(log))
      const answer = (honest: any) => ({ ok: true as const, result: [...again, ...honest.result] })
      rpc.once(
        'eth_getLogs',
        (params) => !isRange(params),
        (_, honest) => answer(honest),
      )
      await h.settle()
      chain.mine([pay('L3', 3)])
      await h.settle()
      await h.settle()
      expect(h.calls).toEqual(['L1,0@500a', 'L2,0@501a', 'L3,0@503a'])
      expect(h.marks()).toEqual(['L1,0@500a', 'L2,0@501a', 'L3,0@503a'])
      expect(await h.cursor()).toBe('503a')
      expect(h.codes('failing')).toEqual(['RPC_ANSWER_INVALID'])
      expect(await h.differences()).toEqual([])
    })
  })
})
