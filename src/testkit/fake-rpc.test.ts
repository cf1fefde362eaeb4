import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { RpcCall, RpcOutcome } from '../chain/rpc.ts'
import { blockLabel } from './fake-block.ts'
import { fakeChain } from './fake-chain.ts'
import { addressWord, nftTransfer, TRANSFER_TOPIC, testAddress, transfer } from './fake-log.ts'
import { type FakeRpcOptions, fakeRpc } from './fake-rpc.ts'
import { randomFaults } from './fault-plan.ts'
import { type FaultName, faultGroups, faultNames } from './faults.ts'
import { Random } from './random.ts'
import { testWorld } from './test-world.ts'

const TOKEN = testAddress('TOKEN')
const [ALICE, BOB] = [testAddress('ALICE'), testAddress('BOB')]

/** 20 blocks, two logs in each from block 1 on; the last three replaced by a reorg that shuffles. */
function someChain() {
  const chain = fakeChain({ chainId: 1, safe: { depth: 2 }, finalized: { depth: 4 } })
  for (let n = 1; n <= 20; n++) chain.mine([transfer(TOKEN, ALICE, BOB, n), nftTransfer(TOKEN, BOB, ALICE, n)])
  chain.reorg(3, { reinclude: 'shuffled' })
  return chain
}

const q = (n: number) => `0x${n.toString(16)}`
const getLogs = (from: number, to: number, more = {}): RpcCall => ({
  method: 'eth_getLogs',
  params: [{ fromBlock: q(from), toBlock: q(to), ...more }],
})
const getBlock = (at: number | string): RpcCall => ({
  method: 'eth_getBlockByNumber',
  params: [typeof at === 'number' ? q(at) : at, false],
})

interface NodeLog {
  blockNumber: string
  blockHash: string
  transactionHash: string
  logIndex: string
  removed: boolean
}

// Answers of a node are looked into freely here.
type Loose = any

async function one(rpc: { send: ReturnType<typeof fakeRpc>['send'] }, call: RpcCall): Promise<Loose> {
  const [outcome] = await rpc.send([call])
  return outcome?.ok ? outcome.result : outcome
}

describe('an honest node', () => {
  const chain = someChain()
  const rpc = fakeRpc(chain)
  const ask = (method: string, ...params: unknown[]) => one(rpc, { method, params })

  test('answers what geth answers', async () => {
    expect(await ask('eth_chainId')).toBe('0x1')
    expect(await ask('net_version')).toBe('1')
    expect(await ask('eth_blockNumber')).toBe('0x15')
    expect(await ask('eth_call', { to: TOKEN, data: '0x' }, { blockHash: chain.head().hash })).toBe('0x')
    expect(await ask('eth_getBalance', TOKEN, 'latest')).toBe('0x0')
    const latest = await ask('eth_getBlockByNumber', 'latest', false)
    expect([latest.hash, latest.parentHash]).toEqual([chain.head().hash, chain.blockByNumber(20)?.hash])
    expect(latest.logsBloom).toHaveLength(514)
    expect((await ask('eth_getBlockByNumber', 'finalized', false)).number).toBe('0x11')
    expect((await ask('eth_getBlockByNumber', 'safe', true)).transactions[0]).toMatchObject({ blockNumber: '0x13' })
    expect(await ask('eth_getBlockByNumber', '0x99', false)).toBeNull()
    expect(await ask('eth_getBlockByHash', `0x${'12'.repeat(32)}`, false)).toBeNull()
  })

  test('filters by range, hash, address, topics by position and by list', async () => {
    const count = async (from: number, to: number, more = {}) => (await one(rpc, getLogs(from, to, more))).length
    expect(await count(1, 5)).toBe(10)
    expect(await count(15, 99)).toBe(12)
    expect(await count(1, 5, { address: TOKEN.toUpperCase().replace('0X', '0x') })).toBe(10)
    expect(await count(1, 5, { address: [ALICE, BOB] })).toBe(0)
    expect(await count(1, 5, { topics: [TRANSFER_TOPIC, addressWord(ALICE)] })).toBe(5)
    expect(await count(1, 5, { topics: [null, [addressWord(ALICE), addressWord(BOB)]] })).toBe(10)
    expect(await count(1, 5, { topics: [TRANSFER_TOPIC, null, null, null] })).toBe(5)
    expect(await ask('eth_getLogs', { blockHash: chain.head().parentHash })).toHaveLength(2)
    const [log] = await ask('eth_getLogs', { fromBlock: '0x1', toBlock: '0x1' })
    expect(log).toMatchObject({ removed: false, logIndex: '0x0', transactionIndex: '0x0', blockNumber: '0x1' })
  })

  test('receipts agree with logs; a transaction that moved is found at its new place', async () => {
    const receipts = await ask('eth_getBlockReceipts', '0x13')
    const logs = await one(rpc, getLogs(19, 19))
    expect(receipts.flatMap((receipt: Loose) => receipt.logs)).toEqual(logs)
    const receipt = await ask('eth_getTransactionReceipt', logs[0].transactionHash)
    expect(receipt).toMatchObject({ blockHash: chain.blockByNumber(19)?.hash, status: '0x1', transactionIndex: '0x0' })
    expect(await ask('eth_getTransactionReceipt', `0x${'12'.repeat(32)}`)).toBeNull()
    expect(await ask('eth_getBlockReceipts', '0x99')).toBeNull()
  })

  test.each([
    ['an inverted range', getLogs(5, 4), 'invalid block range params'],
    ['leading zeros (C39)', { method: 'eth_getBlockByNumber', params: ['0x0a', false] }, 'leading zero'],
    ['no prefix', { method: 'eth_getBlockByNumber', params: ['10', false] }, 'without 0x prefix'],
    [
      'an unknown block hash',
      { method: 'eth_getLogs', params: [{ blockHash: `0x${'12'.repeat(32)}` }] },
      'unknown block',
    ],
    ['hash and range at once', getLogs(1, 2, { blockHash: `0x${'12'.repeat(32)}` }), 'cannot specify both'],
    ['a short address', getLogs(1, 2, { address: '0x12' }), 'invalid address'],
    ['a method that is not there', { method: 'eth_nothing', params: [] }, 'does not exist'],
    ['a name from Object', { method: 'toString', params: [] }, 'does not exist'],
  ])('refuses %s', async (_, call, message) => {
    const [outcome] = await rpc.send([call])
    expect(outcome?.ok === false && outcome.error.message).toContain(message)
  })

  test('keeps blocks of abandoned branches, or not, as the node is', async () => {
    const orphan = chain.view({ branch: 'abandoned' }).head
    expect((await ask('eth_getBlockByHash', orphan.hash, false)).hash).toBe(orphan.hash)
    const forgetful = fakeRpc(chain, { keepsOrphans: false })
    expect(await one(forgetful, { method: 'eth_getBlockByHash', params: [orphan.hash, false] })).toBeNull()
    expect(await one(forgetful, { method: 'eth_getLogs', params: [{ blockHash: orphan.hash }] })).toMatchObject({
      ok: false,
    })
    const pinned = [TOKEN, { blockHash: orphan.hash, requireCanonical: true }]
    expect(await ask('eth_getBalance', ...pinned)).toMatchObject({ ok: false })
  })

  test('caps refuse with advice that works', async () => {
    const capped = fakeRpc(chain, { maxRange: 5, refuses: 'blast', maxBatch: 2, maxAddresses: 1 })
    expect(await one(capped, getLogs(1, 6))).toMatchObject({
      error: { code: -32600, message: expect.stringContaining('[0x1, 0x5]') },
    })
    expect(await one(capped, getLogs(1, 5))).toHaveLength(10)
    expect(await one(capped, getLogs(1, 2, { address: [TOKEN, ALICE] }))).toMatchObject({ ok: false })
    expect(await capped.send([getLogs(1, 1), getLogs(2, 2), getLogs(3, 3)])).toEqual(
      Array.from({ length: 3 }, () => ({
        ok: false,
        error: { code: -32000, message: 'batch limit 2 exceeded: 3 requests given' },
      })),
    )
    const few = fakeRpc(chain, { maxResults: 4 })
    expect(await one(few, getLogs(3, 9))).toMatchObject({ error: { data: { from: '0x3', to: '0x4', limit: 4 } } })
    expect(await one(few, getLogs(3, 4))).toHaveLength(4)
  })
})

describe('faults', () => {
  const chain = someChain()
  const asked: RpcCall[] = [
    getLogs(1, 10),
    getLogs(1, 10),
    getLogs(11, 30),
    getBlock('latest'),
    getBlock('finalized'),
    getBlock(0),
    getBlock('latest'),
    { method: 'eth_chainId', params: [] },
    { method: 'eth_blockNumber', params: [] },
    { method: 'eth_getBlockReceipts', params: [q(20)] },
  ]
  const always = async (fault: FaultName, call: RpcCall, options: FakeRpcOptions = {}) =>
    one(fakeRpc(chain, { ...options, faults: { [fault]: true } }), call)
  const truth = async (from: number, to: number): Promise<NodeLog[]> => one(fakeRpc(chain), getLogs(from, to))

  test('the same seed gives the same story, in whatever order the requests come', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer(),
        fc.shuffledSubarray(
          asked.map((_, i) => i),
          { minLength: asked.length },
        ),
        async (seed, order) => {
          const faults = randomFaults(new Random(seed))
          const [a, b] = [fakeRpc(chain, { seed, faults }), fakeRpc(chain, { seed, faults })]
          const keyed = (index: number, outcome: RpcOutcome | undefined) => JSON.stringify([asked[index], outcome])
          const first: string[] = []
          const second: string[] = []
          for (const i of asked.keys()) first.push(keyed(i, (await a.send([asked[i] as RpcCall]))[0]))
          for (const i of order) second.push(keyed(i, (await b.send([asked[i] as RpcCall]))[0]))
          // Repeats of one request are told apart by their attempt, so the two stories hold the same answers.
          expect(second.sort()).toEqual(first.sort())
        },
      ),
      { numRuns: 40 },
    )
  })

  test('control: another seed tells another story', async () => {
    const story = async (seed: number) => {
      const rpc = fakeRpc(chain, { seed, faults: { providerError: 0.5, unorderedLogs: 0.5 } })
      return JSON.stringify(await Promise.all(asked.map((call) => rpc.send([call]))))
    }
    expect(await story(1)).toBe(await story(1))
    expect(await story(1)).not.toBe(await story(2))
  })

  test('a fault of the first attempts lets a client through that asks again', async () => {
    const rpc = fakeRpc(chain, { faults: { providerError: { chance: 1, attempts: 2 } } })
    const tries = [await one(rpc, getLogs(1, 2)), await one(rpc, getLogs(1, 2)), await one(rpc, getLogs(1, 2))]
    expect(tries.map((answer) => Array.isArray(answer))).toEqual([false, false, true])
    expect(rpc.log.records.map(({ attempt, faults }) => [attempt, ...faults])).toEqual([
      [1, 'providerError'],
      [2, 'providerError'],
      [3],
    ])
  })

  test('one batch is answered by one node, whatever that node sees', async () => {
    const rpc = fakeRpc(chain, { seed: 3, backends: [{}, { behind: 4 }, { branch: 'abandoned' }] })
    const seen = new Set<string>()
    for (let i = 0; i < 40; i++) {
      const [head, block, logs] = (await rpc.send([
        { method: 'eth_blockNumber', params: [] },
        getBlock('latest'),
        getLogs(19, 25),
      ])) as Loose
      expect(block.result.number).toBe(head.result)
      expect(logs.result.at(-1)?.blockNumber ?? head.result).toSatisfy((n: string) => Number(n) <= Number(head.result))
      seen.add(blockLabel(block.result.hash))
    }
    expect([...seen].sort()).toEqual(['17a', '20a', '21b'])
  })

  test('lag, sibling and a head of zero bend the view of the whole batch', async () => {
    const heads = async (fault: FaultName) =>
      (await one(fakeRpc(chain, { faults: { [fault]: true } }), getBlock('latest'))).hash
    expect(Number.parseInt(await heads('lag'), 16)).toBeGreaterThan(0)
    expect(blockLabel(await heads('sibling'))).toBe('20a')
    expect(blockLabel(await heads('headZero'))).toBe('0a')
    expect(await always('lag', getLogs(21, 21))).toEqual([])
  })

  test('a fresh block looks empty, an old one does not (C17)', async () => {
    const logs: NodeLog[] = await always('emptyFresh', getLogs(1, 21))
    expect(logs.map((log) => Number(log.blockNumber)).at(-1)).toBe(18)
    expect((await always('emptyFresh', getBlock(20))).transactions).toEqual([])
    expect((await always('emptyFresh', getBlock(20))).logsBloom).toBe(chain.blockByNumber(20)?.logsBloom)
    expect((await always('emptyFresh', getBlock(18))).transactions).toHaveLength(2)
    const receipts = await always('emptyFresh', { method: 'eth_getBlockReceipts', params: [q(20)] })
    expect(receipts.map((receipt: Loose) => receipt.logs)).toEqual([[], []])
  })

  test('disorder keeps every true log, and adds only what a reader can tell', async () => {
    const honest = await truth(10, 20)
    const ids = (logs: NodeLog[]) =>
      [...new Set(logs.filter((log) => !log.removed).map((log) => `${log.blockHash}${log.logIndex}`))].sort()
    for (const fault of faultGroups.disorder) {
      const logs: NodeLog[] = await always(fault, getLogs(10, 20))
      expect(logs).not.toEqual(honest)
      expect(ids(logs)).toEqual(ids(honest))
    }
    const removed: NodeLog[] = (await always('removedLogs', getLogs(10, 20))).filter((log: NodeLog) => log.removed)
    expect(removed.map((log) => blockLabel(log.blockHash)).every((label) => label.endsWith('a'))).toBe(true)
    expect(removed).toHaveLength(6)
  })

  test('lies leave no trace in the answer', async () => {
    const honest = await truth(1, 10)
    expect((await always('truncatedLogs', getLogs(1, 10))).length).toBeLessThan(honest.length)
    const phantom: NodeLog[] = await always('phantomLog', getLogs(1, 10))
    expect(phantom).toHaveLength(honest.length + 1)
    const foreign: NodeLog[] = await always('foreignHash', getLogs(18, 20))
    expect(foreign.some((log) => chain.blockByNumber(Number(log.blockNumber))?.hash !== log.blockHash)).toBe(true)
  })

  test('answers that are none, tags that are missing, other chains', async () => {
    expect(await always('nullResult', getLogs(1, 10))).toBeNull()
    for (let seed = 0; seed < 20; seed++) {
      expect(await always('malformedResult', getLogs(1, 10), { seed })).not.toEqual(await truth(1, 10))
    }
    const tags = await Promise.all(
      Array.from({ length: 30 }, (_, seed) => always('missingTag', getBlock('safe'), { seed })),
    )
    expect(new Set(tags.map((answer) => JSON.stringify(answer))).size).toBe(4)
    expect(await always('otherChainId', { method: 'eth_chainId', params: [] })).toBe('0x2')
    expect((await always('otherGenesis', getBlock(0))).hash).not.toBe(chain.genesis.hash)
    expect((await always('otherGenesis', getBlock(1))).hash).toBe(chain.blockByNumber(1)?.hash)
  })

  test("failures of the wire are outcomes, as Tidemark's transport gives them", async () => {
    const failure = async (fault: FaultName, calls = [getBlock(1), getBlock(2)]) =>
      (await fakeRpc(chain, { faults: { [fault]: true } }).send(calls)).map((outcome) => !outcome.ok && outcome.error)
    expect(await failure('cut')).toMatchObject([{ meaning: 'unreachable' }, { meaning: 'unreachable' }])
    expect(await failure('hang')).toMatchObject([{ meaning: 'unanswered' }, { meaning: 'unanswered' }])
    expect(await failure('rateLimited')).toMatchObject([{ status: 429, retryAfterMs: 1_000 }, {}])
    expect(await failure('htmlPage')).toMatchObject([{ status: 502 }, {}])
    expect(await failure('batchRefused')).toMatchObject([{ code: -32000 }, { code: -32000 }])
    expect(await failure('batchRefused', [getBlock(1)])).toEqual([false])
    expect((await failure('missingAnswers')).filter((error) => error)[0]).toMatchObject({ meaning: 'unanswered' })
    expect(await failure('shuffledAnswers')).toEqual([false, false])
  })

  test("a request that hangs takes the world's time, and ends with the signal", async () => {
    const world = testWorld()
    const rpc = fakeRpc(chain, { world, faults: { hang: true }, hangMs: 5_000 })
    let done: unknown
    void rpc.send([getBlock(1)]).then((outcomes) => {
      done = outcomes
    })
    await world.advance(4_999)
    expect(done).toBeUndefined()
    await world.advance(1)
    expect(done).toMatchObject([{ ok: false }])
    const stop = new AbortController()
    const waiting = rpc.send([getBlock(1)], stop.signal)
    stop.abort(new Error('enough'))
    await expect(waiting).rejects.toThrow('enough')
  })

  test('when faults stop, the node is honest', async () => {
    const rpc = fakeRpc(chain, { faults: Object.fromEntries(faultNames.map((name) => [name, true])) })
    expect(await one(rpc, getLogs(1, 10))).not.toEqual(await truth(1, 10))
    rpc.once('eth_getLogs', 'any', 'cut')
    rpc.stopFaults()
    expect(await one(rpc, getLogs(1, 10))).toEqual(await truth(1, 10))
    rpc.setFaults({ nullResult: true })
    expect(await one(rpc, getLogs(1, 10))).toBeNull()
    rpc.setFaults({ nullResult: false })
    expect(await one(rpc, getLogs(1, 10))).toHaveLength(20)
  })

  test('every fault belongs to one group, and unknown ones are refused', () => {
    expect(Object.values(faultGroups).flat().sort()).toEqual([...faultNames].sort())
    expect(() => fakeRpc(chain, { faults: { lags: true } as never })).toThrow('no fault is called lags')
    expect(() => fakeRpc(chain, { faults: { lag: 2 } })).toThrow(RangeError)
    expect(() => fakeRpc(chain, { backends: [] })).toThrow(RangeError)
  })
})

describe('scripts and the log of requests', () => {
  test('a script answers the calls it is for, in order, then the chain answers again', async () => {
    const rpc = fakeRpc(someChain())
    rpc
      .once('eth_getLogs', ([filter]) => (filter as Loose).fromBlock === '0x5', {
        error: { code: -32005, message: 'limit exceeded' },
      })
      .once('eth_getLogs', 'any', { result: {} })
      .times(2, 'eth_blockNumber', 'any', (_, honest) => (honest.ok ? { ok: true, result: '0x1' } : honest))
    expect(await one(rpc, getLogs(4, 4))).toEqual({})
    expect(await one(rpc, getLogs(4, 4))).toHaveLength(2)
    expect(await one(rpc, getLogs(5, 5))).toMatchObject({ error: { code: -32005 } })
    expect(await one(rpc, getLogs(5, 5))).toHaveLength(2)
    const heads = [await rpc.request({ method: 'eth_blockNumber' }), await rpc.request({ method: 'eth_blockNumber' })]
    expect([...heads, await rpc.request({ method: 'eth_blockNumber' })]).toEqual(['0x1', '0x1', '0x15'])
    rpc.once('eth_chainId', 'any', 'rateLimited')
    expect(await one(rpc, { method: 'eth_chainId', params: [] })).toMatchObject({ error: { status: 429 } })
    await expect(rpc.request({ method: 'eth_nothing' })).rejects.toMatchObject({ code: -32601 })
  })

  test('ranges and counters show what was asked', async () => {
    const rpc = fakeRpc(someChain(), { faults: { repeatedLogs: true } })
    await rpc.send([getLogs(1, 5), getBlock(5)])
    await rpc.send([
      getLogs(6, 9),
      getBlock(9),
      { method: 'eth_getLogs', params: [{ blockHash: `0x${'12'.repeat(32)}` }] },
    ])
    const ranges = rpc.log.ranges()
    expect(ranges).toEqual([
      { from: 1, to: 5 },
      { from: 6, to: 9 },
    ])
    expect(rpc.counters).toEqual({ eth_getLogs: 3, eth_getBlockByNumber: 2 })
    expect(rpc.log.faults).toEqual({ repeatedLogs: 2 })
    expect(rpc.log.records.map(({ answered }) => answered)).toEqual([true, true, true, true, false])
    rpc.log.clear()
    expect([rpc.log.records.length, rpc.counters]).toEqual([0, {}])
  })
})
