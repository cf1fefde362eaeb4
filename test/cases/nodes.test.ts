import { describe, expect, test } from 'vitest'
import { type FakeRpc, fakeChain, fakeRpc, rawLog, TRANSFER_TOPIC, transfer } from '../../src/testkit/index.ts'
import { logToJson } from '../../src/testkit/rpc-format.ts'
import { ALICE, BANK, BOB, hashOf, ledger, pay, TOKEN, tx } from '../support/ledger.ts'
import { asksLogs, BalancedRpc, isByHash, isRange } from '../support/nodes.ts'

/** Kind C of the cases: nodes that lag, lie for a moment, or were replaced by others. */

function chainAt(head: number, options: Partial<Parameters<typeof fakeChain>[0]> = {}) {
  const chain = fakeChain({ chainId: 1, finalized: { depth: 10 }, ...options })
  chain.mineEmpty(head)
  return chain
}

describe('C16 head from one node, logs from a node behind it', () => {
  const names = new Map([
    [105, 'L1'],
    [112, 'L2'],
    [119, 'L3'],
  ])

  /** L1 in 105, L2 in 112, L3 in 119, and a head of 121, so that 120 is final at depth 1. */
  function grow(chain: ReturnType<typeof chainAt>): void {
    for (let n = chain.head().number + 1; n <= 121; n++) {
      const name = names.get(n)
      chain.mine(name ? [pay(name, 1)] : [])
    }
  }
  const right = ['L1,0@105a', 'L2,0@112a', 'L3,0@119a']

  for (const aboveHead of ['silent', 'error'] as const) {
    test(`a range above the node's head, answered in the manner "${aboveHead}"`, async () => {
      const chain = chainAt(101)
      const rpc = new BalancedRpc(chain)
      const behind = fakeRpc(chain, { label: 'behind', aboveHead, backends: [{ behind: 11 }] })
      const options = {
        chain,
        at: 'finalized' as const,
        startBlock: 95,
        rpc: [rpc],
        chainInput: { finality: { depth: 1 } },
      }
      await ledger(options, async (h) => {
        await h.settle()
        expect(await h.cursor()).toBe('100a')
        grow(chain)
        rpc.route = (calls) => (asksLogs(calls) ? behind : undefined)
        await h.settle(2)
        // The node's part of the answer was not believed, not even up to its own head.
        expect(behind.log.ranges().length).toBeGreaterThan(0)
        expect(await h.cursor()).toBe('100a')
        expect(h.marks()).toEqual([])
        rpc.route = undefined
        await h.settle()
        expect(h.calls).toEqual(right)
        expect(h.marks()).toEqual(right)
        // Waited for: neither halved nor skipped.
        for (const range of [...behind.log.ranges(), ...rpc.log.ranges().slice(1)]) expect(range.from).toBe(101)
        expect(new Set(behind.log.ranges().map((range) => range.to))).toEqual(new Set([120]))
        expect(await h.differences()).toEqual([])
      })
    })
  }

  test('blocks near the head, by hash, from a node that does not know them', async () => {
    const chain = chainAt(100)
    const rpc = new BalancedRpc(chain)
    const behind = fakeRpc(chain, { label: 'behind', backends: [{ behind: 10 }] })
    await ledger({ chain, at: 'latest', startBlock: 95, rpc: [rpc] }, async (h) => {
      await h.settle()
      grow(chain)
      rpc.route = (calls) => (asksLogs(calls) ? behind : undefined)
      await h.settle(2)
      expect(behind.counters.eth_getLogs).toBeGreaterThan(0)
      const reached = (await h.watcher()).cursor?.number ?? 0
      expect(reached).toBeLessThanOrEqual(111)
      expect(await h.differences()).toEqual([])
      rpc.route = undefined
      await h.settle()
      expect(h.calls).toEqual(right)
      expect(await h.cursor()).toBe('121a')
      expect(await h.differences()).toEqual([])
    })
  })
})

describe('C17 a fresh block that looks empty', () => {
  for (const tries of [1, 2]) {
    test(`the right content comes at try ${tries + 1}`, async () => {
      const chain = chainAt(129)
      await ledger({ chain, at: 'latest', startBlock: 120 }, async (h) => {
        await h.settle()
        chain.mine([pay('L1', 1), pay('L2', 2)])
        h.rpc[0]!.times(tries, 'eth_getLogs', isByHash, { result: [] })
        await h.settle()
        expect(h.calls).toEqual(['L1,0@130a', 'L2,1@130a'])
        expect(await h.cursor()).toBe('130a')
        expect(await h.differences()).toEqual([])
      })
    })
  }

  test('provider P shows it empty for ever, provider Q has 496 logs', async () => {
    const chain = chainAt(129)
    const [p, q] = [fakeRpc(chain, { label: 'p' }), fakeRpc(chain, { label: 'q' })]
    await ledger({ chain, at: 'latest', startBlock: 120, rpc: [p, q] }, async (h) => {
      await h.settle()
      chain.mine([tx('T1', ...Array.from({ length: 496 }, () => transfer(TOKEN, BANK, BOB, 1)))])
      p.times(Number.POSITIVE_INFINITY, 'eth_getLogs', isByHash, { result: [] })
      await h.settle()
      expect(h.balance(BOB)).toBe(496)
      expect(h.marks()).toHaveLength(496)
      expect(await h.differences()).toEqual([])
    })
  })

  test('a chain whose blooms are all zero: the second reading before settling finds it', async () => {
    const chain = chainAt(129, { bloom: 'zero' })
    await ledger({ chain, at: 'latest', startBlock: 120 }, async (h) => {
      await h.settle()
      chain.mine([pay('L1', 1), pay('L2', 2)])
      h.rpc[0]!.once('eth_getLogs', isByHash, { result: [] })
      await h.settle()
      // Nothing in the header speaks against the empty answer: it is taken, for now.
      expect(await h.cursor()).toBe('130a')
      expect(h.marks()).toEqual([])
      chain.mine([pay('L3', 3)])
      chain.mineEmpty(11)
      await h.settle()
      expect(h.marks()).toEqual(['L1,0@130a', 'L2,1@130a', 'L3,0@131a'])
      expect(h.entries()).toEqual(['L1,0@130a 1', 'L2,1@130a 2', 'L3,0@131a 3'])
      expect(h.events.find((one) => one.type === 'undone')?.event.why).toBe('sweep')
      expect((await h.watcher()).settled).toBeGreaterThanOrEqual(131)
      expect(await h.differences()).toEqual([])
    })
  })

  test('a bloom that says "perhaps" of a block that is really empty does not stall', async () => {
    const chain = chainAt(129)
    await ledger({ chain, at: 'latest', startBlock: 120 }, async (h) => {
      await h.settle()
      // Address and topic are both in the bloom, but in two logs: neither is an event.
      chain.mine([rawLog(TOKEN, [hashOf('other')]), rawLog(ALICE, [TRANSFER_TOPIC])])
      chain.mine([pay('L1', 1)])
      await h.settle()
      expect(await h.cursor()).toBe('131a')
      expect(h.calls).toEqual(['L1,0@131a'])
      expect(await h.differences()).toEqual([])
    })
  })
})

describe('C18 logs that belong to another block than the header just read', () => {
  /*
   *   139a ── 140a            its header is read first
   *     └──── 140b            L(T1,0): canonical from the moment at which the logs are read
   */
  for (const at of ['latest', 'finalized'] as const) {
    test(`at ${at}`, async () => {
      const chain = chainAt(139)
      const final = at === 'finalized'
      await ledger({ chain, at, startBlock: 130, chainInput: { finality: { depth: 1 }, minDepth: 0 } }, async (h) => {
        await h.settle()
        chain.fork(139, 'b')
        chain.mineEmpty(final ? 2 : 1)
        chain.mine([pay('T1', 7)], { branch: 'b' })
        if (final) chain.mineEmpty(1, { branch: 'b' })
        const found: unknown[] = []
        h.rpc[0]!.once('eth_getLogs', 'any', () => {
          chain.adopt('b', { violateFinality: true })
          found.push(...chain.blockByNumber(140)!.logs.map((log) => logToJson(log)))
          return { ok: true, result: found }
        })
        await h.tidemark.runOnce()
        expect(found).toHaveLength(1)
        expect(h.entries().filter((entry) => entry.includes('@140a'))).toEqual([])
        await h.settle()
        await h.settle()
        expect(h.calls).toEqual(['T1,0@140b'])
        expect(h.marks()).toEqual(['T1,0@140b'])
        expect(await h.cursor()).toBe('140b')
        expect(await h.differences()).toEqual([])
      })
    })
  }
})

describe('C20 the head falls to zero', () => {
  function longChain() {
    const chain = chainAt(4998)
    chain.mine([pay('L1', 1)])
    chain.mineEmpty(1)
    return chain
  }

  /** Only read by the tests that use it. */
  const shared = longChain()

  /** Another chain under the same id: a node that was reset. */
  function otherChain(head: number): FakeRpc {
    const other = fakeChain({ chainId: 1, seed: 'reset', finalized: { depth: 10 } })
    for (let n = 1; n <= head; n++) other.mine(n === 3 ? [pay('X', 9)] : [])
    return fakeRpc(other, { label: 'reset' })
  }

  for (const restarts of [false, true]) {
    test(`once, then the next block${restarts ? ', with a restart of the watcher in between' : ''}`, async () => {
      const chain = longChain()
      await ledger({ chain, at: 'latest', startBlock: 4980 }, async (h) => {
        await h.settle()
        expect(await h.cursor()).toBe('5000a')
        const before = { marks: h.marks(), entries: h.entries() }
        if (restarts) await h.restart()
        h.rpc[0]!.setFaults({ headZero: true })
        await h.settle(2)
        expect(await h.cursor()).toBe('5000a')
        expect({ marks: h.marks(), entries: h.entries() }).toEqual(before)
        h.rpc[0]!.stopFaults()
        chain.mine([pay('L2', 2)])
        await h.settle()
        expect(await h.cursor()).toBe('5001a')
        expect(h.calls).toEqual(['L1,0@4999a', 'L2,0@5001a'])
        expect(h.events.filter((one) => ['undone', 'halted'].includes(one.type))).toEqual([])
        expect(await h.differences()).toEqual([])
      })
    })
  }

  for (const [how, head] of [
    ['0, 1, 2, 3', 3],
    ['the height of the old one', 5003],
  ] as const) {
    for (const restarts of [false, true]) {
      test(`another chain with a head of ${how}${restarts ? ', after a restart' : ''}: halted, data untouched`, async () => {
        const chain = shared
        const rpc = new BalancedRpc(chain)
        await ledger({ chain, at: 'latest', startBlock: 4980, rpc: [rpc] }, async (h) => {
          await h.settle()
          const before = { marks: h.marks(), entries: h.entries() }
          const reset = otherChain(head)
          rpc.route = () => reset
          if (restarts) await h.restart()
          await h.settle(3)
          expect(h.codes('halted')).toEqual(['CHAIN_MISMATCH'])
          const { reason, cursor } = await h.watcher()
          expect(reason?.code).toBe('CHAIN_MISMATCH')
          expect(reason?.sentence).toMatch(/another chain/)
          expect(cursor?.number).toBe(5000)
          expect({ marks: h.marks(), entries: h.entries() }).toEqual(before)
          // No underflow into a giant range: nothing was asked for by range at all.
          expect(reset.log.ranges()).toEqual([])
        })
      })
    }
  }
})

test('control: a range that is scripted empty is seen by these tests', async () => {
  const chain = chainAt(30)
  chain.mine([pay('L1', 1)])
  chain.mineEmpty(1200)
  await ledger({ chain, at: 'finalized', startBlock: 25 }, async (h) => {
    // Far below the head nothing but the node's word stands behind an empty answer: this test could fail.
    h.rpc[0]!.times(Number.POSITIVE_INFINITY, 'eth_getLogs', isRange, { result: [] })
    await h.settle()
    expect(await h.differences()).not.toEqual([])
  })
})
