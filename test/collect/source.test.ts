import { describe, expect, test } from 'vitest'
import { httpTransport } from '../../src/chain/http.ts'
import { TidemarkError } from '../../src/errors.ts'
import {
  fakeChain,
  fakeNode,
  fakeRpc,
  nftTransfer,
  rawLog,
  TRANSFER_TOPIC,
  testWorld,
} from '../../src/testkit/index.ts'
import { realWorld } from '../../src/util/world.ts'
import { ALICE, BOB, Driver, pay, plan, sourceOf, TOKEN, transferFilter } from './driver.ts'

function setup(
  at: Parameters<typeof plan>[0],
  options: Parameters<typeof sourceOf>[2] = {},
  more: Parameters<typeof plan>[1] = {},
) {
  const chain = fakeChain({ chainId: 1, finalized: { depth: 10 } })
  const rpc = fakeRpc(chain)
  const driver = new Driver(1, sourceOf(1, [rpc], options), plan(at, more))
  const restart = () => {
    driver.source = sourceOf(1, [rpc], options)
  }
  return { chain, rpc, driver, restart }
}

async function codeOf(work: Promise<unknown>): Promise<string> {
  try {
    await work
    return 'no error'
  } catch (error) {
    return TidemarkError.is(error) ? error.code : String(error)
  }
}

describe('delivery', () => {
  test('C03, C09: neighbouring ranges meet without gap or overlap', async () => {
    const { chain, rpc, driver } = setup('finalized', { maxRange: 7 })
    for (let n = 1; n <= 40; n++) chain.mine([pay(n)])
    await driver.run()
    const ranges = rpc.log.ranges()
    expect(ranges.length).toBeGreaterThan(3)
    for (const [i, range] of ranges.entries()) expect(range.from).toBe(i === 0 ? 0 : (ranges[i - 1]?.to ?? -9) + 1)
    expect(driver.values).toEqual(Array.from({ length: 30 }, (_, i) => i + 1))
  })

  test('C01: callers at one time share one look at the head', async () => {
    const { chain, rpc, driver } = setup('latest')
    chain.mine([pay(1)])
    const position = { cursor: null, trail: [], settled: null, finalized: null, applied: async () => [] }
    const steps = await Promise.all([1, 2, 3].map(() => driver.source.next(driver.plan, position)))
    expect(steps.map((step) => step.kind)).toEqual(['blocks', 'blocks', 'blocks'])
    const heads = rpc.log.records.filter((record) => record.params[0] === 'latest')
    expect(heads.length).toBe(1)
  })

  test('C02: a head below the cursor asks for no inverted range and takes nothing back', async () => {
    const { chain, rpc, driver } = setup('latest')
    for (let n = 1; n <= 20; n++) chain.mine([pay(n)])
    await driver.run()
    const cursor = driver.cursor
    const behind = fakeRpc(chain, { backends: [{ behind: 4 }] })
    driver.source = sourceOf(1, [behind])
    await driver.run()
    expect(driver.kinds().at(-1)).toBe('idle node-behind')
    expect(driver.cursor).toEqual(cursor)
    for (const range of [...rpc.log.ranges(), ...behind.log.ranges()]) expect(range.from).toBeLessThanOrEqual(range.to)
  })

  test('C04, C08: after a long absence everything in between is read, in provider-sized steps', async () => {
    const { chain, driver, rpc } = setup('latest', { maxRange: 200 })
    await driver.run()
    for (let n = 1; n <= 1500; n++) chain.mine(n === 200 || n === 1400 || n === 1499 ? [pay(n)] : [])
    await driver.run()
    expect(driver.values).toEqual([200, 1400, 1499])
    expect(driver.cursor?.number).toBe(1500)
    expect(Math.max(...rpc.log.ranges().map((range) => range.to - range.from + 1))).toBeLessThanOrEqual(200)
  })

  test('C05: null, an object and an error are never "no events"', async () => {
    for (const answer of [
      { result: null },
      { result: {} },
      { error: { code: -32000, message: 'filter not found' } },
    ] as const) {
      const { chain, rpc, driver } = setup('finalized')
      for (let n = 1; n <= 20; n++) chain.mine([pay(n)])
      rpc.once('eth_getLogs', 'any', answer)
      expect(await codeOf(driver.run())).toMatch(/RPC_ANSWER_INVALID|RPC_REFUSED/)
      expect(driver.cursor).toBe(null)
      await driver.run()
      expect(driver.values).toHaveLength(10)
    }
  })

  test('C70: the seam between final ranges and unfinal blocks has neither gap nor overlap', async () => {
    const { chain, driver } = setup('latest')
    for (let n = 1; n <= 30; n++) chain.mine([pay(n)])
    await driver.run()
    for (let n = 31; n <= 33; n++) {
      chain.mine([pay(n)])
      await driver.run()
    }
    expect(driver.values).toEqual(Array.from({ length: 33 }, (_, i) => i + 1))
    expect(driver.kinds().filter((kind) => kind === 'rollback')).toEqual([])
  })

  test('C72: the cursor stays at the confirmed block, whatever the head and however often it restarts', async () => {
    const { chain, driver, restart } = setup({ confirmations: 6 })
    for (let n = 1; n <= 100; n++) chain.mine(n === 97 ? [pay(n)] : [])
    await driver.run()
    expect(driver.cursor?.number).toBe(95)
    for (let i = 0; i < 3; i++) {
      restart()
      await driver.run()
      expect(driver.cursor?.number).toBe(95)
    }
    chain.mineEmpty(10)
    await driver.run()
    expect(driver.values).toEqual([97])
  })
})

describe('nodes that disagree', () => {
  test('C16: a range is passed only with the proof that the node had its end', async () => {
    const { chain, rpc, driver } = setup({ confirmations: 1 }, { finality: { depth: 0 } })
    for (let n = 1; n <= 20; n++) chain.mine([pay(n)])
    // Head from an up-to-date node, logs and headers by number from one that is ten blocks behind.
    const lagging = fakeRpc(chain, { backends: [{ behind: 10 }] })
    let lag = true
    driver.source = sourceOf(
      1,
      [
        {
          label: 'balanced',
          send: (calls) =>
            lag && calls.some((call) => call.method === 'eth_getLogs') ? lagging.send(calls) : rpc.send(calls),
        },
      ],
      {
        finality: { depth: 0 },
      },
    )
    expect((await driver.step()).kind).toBe('idle')
    expect(driver.cursor).toBe(null)
    lag = false
    await driver.run()
    expect(driver.values).toHaveLength(20)
    // Waited for, not halved.
    expect(new Set(lagging.log.ranges().map((range) => range.to))).toEqual(new Set([20]))
  })

  test('C16, C19: "beyond current head" and "unfinalized data" are waited for at the same size', async () => {
    for (const error of [
      { code: -32602, message: 'block range extends beyond current head block' },
      { code: -32000, message: 'cannot query unfinalized data' },
    ]) {
      const { chain, rpc, driver } = setup('finalized', { maxRange: 50 })
      for (let n = 1; n <= 40; n++) chain.mine([pay(n)])
      rpc.times(2, 'eth_getLogs', 'any', { error })
      await driver.run(50, true)
      expect(driver.values).toHaveLength(30)
      expect(
        rpc.log
          .ranges()
          .slice(0, 3)
          .map((range) => range.to),
      ).toEqual([30, 30, 30])
    }
  })

  test('C17: a fresh block that looks empty against its bloom is asked for again', async () => {
    const { chain, rpc, driver } = setup('latest')
    chain.mineEmpty(5)
    await driver.run()
    chain.mine([pay(1), pay(2)])
    rpc.times(2, 'eth_getLogs', 'any', { result: [] })
    await driver.run()
    expect(driver.values).toEqual([1, 2])
  })

  test('C17: the second provider has the logs that the first withholds', async () => {
    const chain = fakeChain({ chainId: 1 })
    const first = fakeRpc(chain, { label: 'first' })
    const second = fakeRpc(chain, { label: 'second' })
    first.times(Number.POSITIVE_INFINITY, 'eth_getLogs', (params) => 'blockHash' in (params[0] as object), {
      result: [],
    })
    const driver = new Driver(1, sourceOf(1, [first, second]), plan('latest'))
    chain.mine([pay(1)])
    await driver.run()
    expect(driver.values).toEqual([1])
  })

  test('C17: a bloom that is wrong does not stall, and is counted', async () => {
    const { chain, driver } = setup('latest')
    // The bloom holds the address and the topic, in two different logs: neither matches.
    chain.mine([rawLog(TOKEN, [`0x${'11'.repeat(32)}`]), rawLog(ALICE, [TRANSFER_TOPIC])])
    await driver.run()
    expect(driver.cursor?.number).toBe(1)
    expect(driver.source.doubts).toBe(1)
  })

  test('C17, all-zero bloom: the sweep finds what was withheld, before it settles', async () => {
    const chain = fakeChain({ chainId: 1, bloom: 'zero' })
    const rpc = fakeRpc(chain)
    const driver = new Driver(1, sourceOf(1, [rpc]), plan('latest'))
    chain.mineEmpty(3)
    await driver.run()
    chain.mine([pay(7)])
    rpc.once('eth_getLogs', 'any', { result: [] })
    await driver.run()
    expect(driver.values).toEqual([])
    chain.mineEmpty(12)
    await driver.run()
    expect(driver.kinds()).toContain('rollback')
    expect(driver.values).toEqual([7])
    expect(driver.settled).toBeGreaterThanOrEqual(4)
  })

  test('a phantom is found out by the sweep, and a first reading that lies is not believed alone', async () => {
    const { chain, rpc, driver } = setup('latest')
    chain.mineEmpty(3)
    await driver.run()
    chain.mine([pay(1)])
    rpc.setFaults({ phantomLog: { chance: 1, attempts: 1 } })
    await driver.run()
    expect(driver.values.length).toBe(2)
    rpc.stopFaults()
    chain.mineEmpty(12)
    // The first reading of the sweep is empty: the second differs from it, so nothing is taken back on its word.
    rpc.once('eth_getLogs', (params) => 'fromBlock' in (params[0] as object), { result: [] })
    await driver.run(50, true)
    expect(driver.held()).toEqual(driver.expected(chain))
    expect(driver.kinds().filter((kind) => kind === 'rollback')).toHaveLength(1)
  })

  test('C18: logs of another block are not stored under the header that was read', async () => {
    const { chain, rpc, driver } = setup('latest')
    chain.mineEmpty(5)
    await driver.run()
    chain.mine([pay(1)])
    rpc.setFaults({ foreignHash: { chance: 1, attempts: 1 } })
    expect(await codeOf(driver.run())).toBe('RPC_ANSWER_INVALID')
    await driver.run()
    expect(driver.held()).toEqual(driver.expected(chain))
  })

  test('C20: a head of 0 for a moment takes nothing back', async () => {
    const { chain, rpc, driver } = setup('latest')
    for (let n = 1; n <= 30; n++) chain.mine([pay(n)])
    await driver.run()
    rpc.setFaults({ headZero: { chance: 1, attempts: 1000 } })
    expect((await driver.step()).kind).toBe('idle')
    rpc.stopFaults()
    chain.mine([pay(31)])
    await driver.run()
    expect(driver.values).toHaveLength(31)
    expect(driver.kinds()).not.toContain('rollback')
  })

  test('C20, another genesis: the chain is refused and nothing is touched', async () => {
    const { chain, driver } = setup('latest')
    for (let n = 1; n <= 30; n++) chain.mine([pay(n)])
    await driver.run()
    const known = await driver.source.genesis()
    const other = fakeChain({ chainId: 1, seed: 'other' })
    other.mineEmpty(3)
    driver.source = sourceOf(1, [fakeRpc(other)], { knownGenesis: () => known })
    expect(await codeOf(driver.run())).toBe('CHAIN_MISMATCH')
    expect(driver.values).toHaveLength(30)
  })

  test('another chain id: set aside aloud when another URL is right, halted when none is', async () => {
    const chain = fakeChain({ chainId: 1 })
    chain.mine([pay(1)])
    const wrong = fakeRpc(fakeChain({ chainId: 5 }), { label: 'wrong' })
    const told: string[] = []
    const source = sourceOf(1, [wrong, fakeRpc(chain)], { onSetAside: (label) => told.push(label) })
    const driver = await new Driver(1, source, plan('latest')).run()
    expect(driver.values).toEqual([1])
    expect(told).toEqual(['wrong'])
    expect(await codeOf(new Driver(1, sourceOf(1, [wrong]), plan('latest')).run())).toBe('CHAIN_MISMATCH')
  })

  test('a dead first URL: the second takes over, and is remembered', async () => {
    const chain = fakeChain({ chainId: 1 })
    for (let n = 1; n <= 15; n++) chain.mine([pay(n)])
    const dead = fakeRpc(chain, { faults: { cut: true } })
    const driver = await new Driver(1, sourceOf(1, [dead, fakeRpc(chain)]), plan('latest')).run()
    expect(driver.values).toHaveLength(15)
    expect(dead.log.records.length).toBeLessThan(5)
  })

  test('two providers on sibling forks do not make a watcher flip', async () => {
    const chain = fakeChain({ chainId: 1 })
    chain.mineEmpty(5)
    chain.fork(5, 'b')
    chain.mine([pay(1)])
    chain.mine([pay(2)], { branch: 'b' })
    const a = fakeRpc(chain, { label: 'a' })
    const b = fakeRpc(chain, { label: 'b', backends: [{ branch: 'b' }] })
    const driver = await new Driver(1, sourceOf(1, [a, b]), plan('latest')).run()
    expect(driver.values).toEqual([1])
    a.setFaults({ cut: true })
    await driver.run()
    expect(driver.kinds().at(-1)).toBe('idle node-behind')
    expect(driver.values).toEqual([1])
    // A higher linked branch is followed.
    chain.mine([pay(3)], { branch: 'b' })
    await driver.run()
    expect(driver.values).toEqual([2, 3])
  })
})

describe('reorgs', () => {
  /*
   *   20a ── 21a ── 22a
   *     └─── 21b ── 22b ── 23b
   */
  test('C21, C22: a reorg while the process was down is found at start', async () => {
    const { chain, driver, restart } = setup('latest')
    for (let n = 1; n <= 22; n++) chain.mine([pay(n)])
    await driver.run()
    chain.reorg(2, { reinclude: 'shuffled' })
    restart()
    await driver.run()
    expect(driver.held()).toEqual(driver.expected(chain))
    expect(driver.cursor?.number).toBe(23)
  })

  test('C24: the cursor is checked at start whatever the distance', async () => {
    const { chain, driver, restart } = setup('latest', { finality: { depth: 500 } })
    for (let n = 1; n <= 40; n++) chain.mine([pay(n)])
    await driver.run()
    chain.setFinalized({ depth: 500 })
    chain.reorg(2, { violateFinality: true })
    chain.mineEmpty(140)
    restart()
    await driver.run()
    expect(driver.held()).toEqual(driver.expected(chain))
  })

  test('C25: A wins, B wins, A wins back', async () => {
    const { chain, driver } = setup('latest')
    chain.mineEmpty(3)
    chain.fork(3, 'b')
    for (const value of [1, 2]) chain.mine([pay(value)])
    for (const value of [1, 0]) chain.mine(value ? [pay(value)] : [], { branch: 'b' })
    await driver.run()
    chain.adopt('b')
    await driver.run()
    expect(driver.held()).toEqual(driver.expected(chain))
    chain.adopt('a')
    chain.mineEmpty(1)
    await driver.run()
    expect(driver.held()).toEqual(driver.expected(chain))
    expect(driver.kinds().filter((kind) => kind === 'rollback')).toHaveLength(2)
  })

  test('the replacement is on hand before the rollback', async () => {
    const { chain, rpc, driver } = setup('latest', { finality: { depth: 100 } })
    for (let n = 1; n <= 22; n++) chain.mine([pay(n)])
    await driver.run()
    chain.reorg(3)
    expect((await driver.step()).kind).toBe('rollback')
    rpc.log.clear()
    // Only the block above the old cursor is still to be fetched.
    expect((await driver.step()).kind).toBe('blocks')
    const asked = rpc.log.records.filter((record) => record.method === 'eth_getLogs')
    expect(asked).toHaveLength(1)
  })

  test('C31: a reorg between reading the block and reading its logs', async () => {
    const { chain, rpc, driver } = setup('latest')
    chain.mineEmpty(4)
    await driver.run()
    chain.mine([pay(1)])
    for (const answer of [
      { error: { code: -32000, message: 'unknown block' } },
      { result: null },
      { result: [] },
    ] as const) {
      rpc.once('eth_getLogs', 'any', answer)
      rpc.once('eth_getBlockByHash', 'any', { result: null })
    }
    await driver.run(50, true)
    expect(driver.held()).toEqual(driver.expected(chain))
    chain.reorg(1, { reinclude: 'none' })
    await driver.run()
    chain.adopt('a')
    chain.mineEmpty(2)
    await driver.run()
    expect(driver.held()).toEqual(driver.expected(chain))
  })

  test('C30: the minimum depth is kept whatever the tag says', async () => {
    const { chain, driver } = setup('latest', { finality: 'tag', minDepth: 5 })
    chain.setFinalized({ depth: 0 })
    for (let n = 1; n <= 20; n++) chain.mine([pay(n)])
    await driver.run()
    expect(driver.settled).toBe(15)
    chain.reorg(1, { violateFinality: true })
    await driver.run()
    expect(driver.held()).toEqual(driver.expected(chain))
  })

  test('C30: when what was settled is replaced, it halts and names block and hashes', async () => {
    const { chain, driver } = setup('finalized')
    for (let n = 1; n <= 30; n++) chain.mine([pay(n)])
    await driver.run()
    const before = driver.held()
    chain.reorg(12, { violateFinality: true })
    const error = await driver.run().catch((thrown) => thrown)
    expect(error.code).toBe('REORG_BELOW_FINALITY')
    expect(error.values).toMatchObject({ block: 20, finalized: 20 })
    expect(error.values.applied).not.toBe(error.values.found)
    expect(driver.held()).toEqual(before)
  })

  test('a reorg of unfinal blocks below a tag that jumped ahead is judged by the finality stored with the commit', async () => {
    const { chain, driver } = setup('latest', { finality: 'tag' })
    chain.setFinalized(5)
    for (let n = 1; n <= 20; n++) chain.mine([pay(n)])
    await driver.run()
    chain.reorg(4)
    chain.setFinalized({ depth: 2 })
    await driver.run()
    expect(driver.held()).toEqual(driver.expected(chain))
  })

  test('confirmations: a deeper reorg halts where events were applied, and only there', async () => {
    const { chain, driver } = setup({ confirmations: 3 }, { finality: { depth: 50 } })
    chain.setFinalized({ depth: 50 })
    for (let n = 1; n <= 10; n++) chain.mine(n < 8 ? [pay(n)] : [])
    await driver.run()
    chain.reorg(3)
    await driver.run()
    expect(driver.held()).toEqual(driver.expected(chain))
    chain.reorg(6)
    expect(await codeOf(driver.run())).toBe('REORG_BELOW_CONFIRMATIONS')
  })

  test('undo stays bounded when finality stalls', async () => {
    const { chain, driver } = setup('latest', { finality: 'tag', undoLimitBlocks: 20 })
    chain.setFinalized(2)
    chain.mineEmpty(60)
    await driver.run()
    expect(driver.kinds().at(-1)).toBe('idle finality-stalled')
    expect(driver.cursor?.number).toBe(22)
    chain.setFinalized(30)
    await driver.run()
    expect(driver.cursor?.number).toBe(50)
  })
})

describe('odd answers', () => {
  test('C27: an entry marked removed is never new', async () => {
    const { chain, rpc, driver } = setup('finalized')
    for (let n = 1; n <= 30; n++) chain.mine([pay(n)])
    rpc.setFaults({ removedLogs: 1, repeatedLogs: 1, unorderedLogs: 1 })
    await driver.run()
    expect(driver.held()).toEqual(driver.expected(chain))
  })

  test('C32: log indexes counted per transaction', async () => {
    const chain = fakeChain({ chainId: 1, logIndex: 'transaction' })
    chain.mine([{ logs: [pay(1), pay(2)] }, { logs: [pay(3), pay(3)] }])
    const driver = await new Driver(1, sourceOf(1, [fakeRpc(chain)]), plan('latest')).run()
    expect(driver.values).toEqual([1, 2, 3, 3])
  })

  test('C40: a tag that does not resolve is not fatal, and is picked up once it works', async () => {
    const { chain, rpc, driver } = setup('finalized', { finality: { fallbackDepth: 20 } })
    for (let n = 1; n <= 50; n++) chain.mine([pay(n)])
    const isTag = (params: readonly unknown[]) => params[0] === 'finalized'
    rpc.once('eth_getBlockByNumber', isTag, { error: { code: -32000, message: 'finalized block not found' } })
    rpc.once('eth_getBlockByNumber', isTag, { result: null })
    rpc.once('eth_getBlockByNumber', isTag, { error: { code: -39001, message: 'Unknown block' } })
    await driver.step()
    expect(driver.cursor?.number).toBe(30)
    await driver.step()
    await driver.step()
    expect(driver.cursor?.number).toBe(30)
    await driver.run()
    expect(driver.cursor?.number).toBe(40)
  })

  test('C42, C43: look-alikes are passed over by their number of topics', async () => {
    const { chain, driver } = setup('latest')
    chain.mine([
      pay(1),
      nftTransfer(TOKEN, ALICE, BOB, 9),
      rawLog(TOKEN, [TRANSFER_TOPIC], `0x${'00'.repeat(96)}`),
      rawLog(TOKEN, []),
      pay(2),
    ])
    await driver.run()
    expect(driver.values).toEqual([1, 2])
  })

  test('C10: one block over the cap halts by name; the blocks below are applied', async () => {
    const chain = fakeChain({ chainId: 1, finalized: { depth: 10 } })
    for (let n = 1; n <= 40; n++) chain.mine(n === 25 ? Array.from({ length: 30 }, (_, i) => pay(i)) : [pay(n)])
    const driver = new Driver(1, sourceOf(1, [fakeRpc(chain, { maxResults: 20 })]), plan('finalized'))
    const error = await driver.run().catch((thrown) => thrown)
    expect(error.code).toBe('RPC_BLOCK_TOO_LARGE')
    expect(error.values).toMatchObject({ block: 25 })
    expect(driver.cursor?.number).toBe(24)
    // Another provider with a higher cap gets it through.
    driver.source = sourceOf(1, [fakeRpc(chain, { maxResults: 20 }), fakeRpc(chain, { maxResults: 100 })])
    await driver.run()
    expect(driver.held()).toEqual(driver.expected(chain))
  })

  test('a dense answer is not taken whole: a step holds little more than the watcher wants', async () => {
    const { chain, driver } = setup('finalized', {}, { maxEvents: 20 })
    for (let n = 1; n <= 100; n++) chain.mine(n > 50 ? Array.from({ length: 10 }, (_, i) => pay(i)) : [])
    await driver.run()
    const sizes = driver.steps.map((step) => (step.kind === 'blocks' ? step.logs.length : 0))
    expect(Math.max(...sizes)).toBeLessThanOrEqual(80)
    expect(driver.held()).toEqual(driver.expected(chain))
  })

  test('the end block is the last one', async () => {
    const { chain, driver } = setup('latest', {}, { endBlock: 15 as never })
    for (let n = 1; n <= 20; n++) chain.mine([pay(n)])
    await driver.run()
    expect(driver.kinds().at(-1)).toBe('idle not-final')
    chain.mineEmpty(10)
    await driver.run()
    expect(driver.steps.at(-1)).toMatchObject({ kind: 'idle', why: 'ended', waitMs: null })
    expect(driver.values).toHaveLength(15)
  })

  test('an abort ends a call that waits', async () => {
    const world = testWorld()
    const chain = fakeChain({ chainId: 1 })
    const source = sourceOf(1, [fakeRpc(chain, { world, latencyMs: 60_000 })], { world })
    const stop = new AbortController()
    const position = { cursor: null, trail: [], settled: null, finalized: null, applied: async () => [] }
    const waiting = source.next(plan('latest'), position, stop.signal).catch((error) => error)
    await world.runPending()
    stop.abort(new Error('stopped'))
    expect((await waiting).message).toBe('stopped')
    await world.runPending()
    expect(world.sleeping).toBe(0)
  })
})

test('over real HTTP, with broken connections, pages of HTML and lost answers', async () => {
  const chain = fakeChain({ chainId: 1, finalized: { depth: 10 } })
  for (let n = 1; n <= 60; n++) chain.mine([pay(n)])
  const rpc = fakeRpc(chain, {
    faults: {
      cut: 0.1,
      cutMidAnswer: 0.1,
      rateLimited: 0.1,
      htmlPage: 0.1,
      batchRefused: 0.1,
      missingAnswers: 0.1,
      shuffledAnswers: 0.5,
    },
  })
  const node = fakeNode(rpc)
  const world = testWorld({ autoAdvance: true })
  try {
    const transport = httpTransport(await node.listen(), { label: 'rpc[0]', timeoutMs: 5000, world: realWorld })
    const driver = new Driver(1, sourceOf(1, [transport], { world, maxRange: 10 }), plan('latest'))
    await driver.run(400, true)
    chain.reorg(4, { reinclude: 'shuffled' })
    await driver.run(400, true)
    expect(driver.held()).toEqual(driver.expected(chain))
    expect(Object.values(rpc.log.faults).reduce((a, b) => a + b, 0)).toBeGreaterThan(10)
  } finally {
    await node.close()
  }
})

test('control: the filter of these tests matches what they mine', () => {
  expect(transferFilter.topics[0]).toBe(pay(1).topics[0])
})
