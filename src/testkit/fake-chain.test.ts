import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { bloomMayHold, EMPTY_BLOOM } from './bloom.ts'
import { blockLabel } from './fake-block.ts'
import { type FakeChain, fakeChain } from './fake-chain.ts'
import { nftTransfer, rawLog, testAddress, transfer } from './fake-log.ts'
import { REINCLUDES } from './reorg-plan.ts'

const TOKEN = testAddress('TOKEN')
const [ALICE, BOB, CAROL] = [testAddress('ALICE'), testAddress('BOB'), testAddress('CAROL')]
const labels = (blocks: readonly { hash: string }[]) => blocks.map((block) => blockLabel(block.hash))
const position = (chain: FakeChain, hash: string) =>
  chain
    .logs()
    .filter((log) => log.transactionHash === hash)
    .map((log) => [log.blockNumber, log.transactionIndex, log.logIndex])

describe('blocks to be read', () => {
  test('a hash shows number and branch, and differs with content', () => {
    const chain = fakeChain({ chainId: 1 })
    chain.mineEmpty(99)
    const block = chain.mine([transfer(TOKEN, ALICE, BOB, 5)])
    expect(block.hash.slice(0, 34)).toBe(`0x00000064${'61'}${'00'.repeat(11)}`)
    expect(block.hash).toHaveLength(66)
    expect(blockLabel(block.hash)).toBe('100a')
    const other = fakeChain({ chainId: 1 })
    other.mineEmpty(99)
    expect(other.mine([transfer(TOKEN, ALICE, BOB, 6)]).hash).not.toBe(block.hash)
  })

  test('the same seed and the same calls give the same hashes, another seed or chain none of them', () => {
    const build = (seed: number, chainId = 1) => {
      const chain = fakeChain({ chainId, seed })
      chain.mine([transfer(TOKEN, ALICE, BOB, 1), [transfer(TOKEN, BOB, ALICE, 2)]])
      chain.reorg(1, { reinclude: 'shuffled' })
      return chain.canonical().flatMap((block) => [block.hash, ...block.transactions.map(({ hash }) => hash)])
    }
    expect(build(1)).toEqual(build(1))
    for (const other of [build(2), build(1, 10)]) expect(build(1).some((hash) => other.includes(hash))).toBe(false)
  })

  test('logs are numbered through the block, or per transaction on odd chains (C32)', () => {
    const two = [transfer(TOKEN, ALICE, BOB, 1), transfer(TOKEN, ALICE, BOB, 1)]
    const indexes = (logIndex: 'block' | 'transaction') =>
      fakeChain({ chainId: 1, logIndex })
        .mine([two, two])
        .logs.map((log) => [log.transactionIndex, log.logIndex])
    expect(indexes('block')).toEqual([
      [0, 0],
      [0, 1],
      [1, 2],
      [1, 3],
    ])
    expect(indexes('transaction')).toEqual([
      [0, 0],
      [0, 1],
      [1, 0],
      [1, 1],
    ])
  })

  test('the bloom holds every log, and nothing on chains that do not fill it in (C17)', () => {
    const log = transfer(TOKEN, ALICE, BOB, 1)
    const block = fakeChain({ chainId: 1 }).mine([log])
    for (const value of [log.address, ...log.topics]) expect(bloomMayHold(block.logsBloom, value)).toBe(true)
    expect(bloomMayHold(block.logsBloom, CAROL)).toBe(false)
    expect(fakeChain({ chainId: 1, bloom: 'zero' }).mine([log]).logsBloom).toBe(EMPTY_BLOOM)
    expect(fakeChain({ chainId: 1 }).mine().logsBloom).toBe(EMPTY_BLOOM)
  })

  test('a reverted transaction emits nothing (C73)', () => {
    const block = fakeChain({ chainId: 1 }).mine([{ logs: [transfer(TOKEN, ALICE, BOB, 1)], status: 'reverted' }])
    expect([block.transactions.length, block.logs.length]).toEqual([1, 0])
  })

  test('broken logs are refused', () => {
    expect(() => rawLog('0x12', [])).toThrow(TypeError)
    expect(() => rawLog(TOKEN, ['0x1'])).toThrow(TypeError)
    expect(() => rawLog(TOKEN, [], '0x123')).toThrow(TypeError)
    expect(() => transfer(TOKEN, ALICE, BOB, -1)).toThrow(RangeError)
    expect(rawLog(TOKEN.toUpperCase().replace('0X', '0x'), []).address).toBe(TOKEN)
  })
})

describe('branches', () => {
  test('A wins, B wins, A wins back (C25)', () => {
    const chain = fakeChain({ chainId: 1 })
    chain.mineEmpty(2)
    chain.fork(1, 'b')
    chain.mineEmpty(2, { branch: 'b' })
    expect(labels(chain.canonical())).toEqual(['0a', '1a', '2a'])
    chain.adopt('b')
    expect(labels(chain.canonical())).toEqual(['0a', '1a', '2b', '3b'])
    chain.mine([], { branch: 'a' })
    chain.adopt('a')
    expect(labels(chain.canonical())).toEqual(['0a', '1a', '2a', '3a'])
    expect(chain.branch).toBe('a')
    expect(chain.mine().branch).toBe('a')
  })

  test('blocks of an abandoned branch answer by hash until they are forgotten', () => {
    const chain = fakeChain({ chainId: 1 })
    const orphan = chain.mine([transfer(TOKEN, ALICE, BOB, 1)])
    chain.reorg(1, { reinclude: 'none' })
    expect(chain.blockByHash(orphan.hash)).toBe(orphan)
    expect(chain.logs({ blockHash: orphan.hash })).toHaveLength(1)
    expect(chain.logs()).toHaveLength(0)
    expect(labels([chain.view({ branch: 'abandoned' }).head])).toEqual(['1a'])
    chain.forget('a')
    expect(chain.blockByHash(orphan.hash)).toBeNull()
    expect(chain.branches).toEqual(['b'])
    expect(() => chain.adopt('a')).toThrow('no branch a')
    expect(chain.view({ branch: 'abandoned' }).head).toBe(chain.head())
  })

  test('a branch on which another stands is not forgotten', () => {
    const chain = fakeChain({ chainId: 1 })
    chain.mineEmpty(3)
    chain.fork(2, 'x')
    chain.mine([], { branch: 'x' })
    chain.reorg(3)
    expect(() => chain.forget('a')).toThrow('x stands on a')
    chain.forget('x')
    chain.forget('a')
    expect(chain.branches).toEqual(['b'])
  })

  test('a lagging node sees a shorter chain and an older tag', () => {
    const chain = fakeChain({ chainId: 1, safe: { depth: 1 }, finalized: { depth: 2 } })
    chain.mineEmpty(10)
    const view = chain.view({ behind: 4 })
    expect([view.head.number, view.safe?.number, view.finalized?.number]).toEqual([6, 6, 6])
    expect(view.blockByNumber(7)).toBeNull()
    expect(view.blockByHash(chain.head().hash)).toBeNull()
    expect(view.logs({ toBlock: 10 })).toEqual([])
  })

  test('misuse is refused', () => {
    const chain = fakeChain({ chainId: 1 })
    chain.mineEmpty(2)
    for (const misuse of [
      () => chain.reorg(3),
      () => chain.reorg(0),
      () => chain.reorg(1, { extraBlocks: -2 }),
      () => chain.fork(9, 'b'),
      () => chain.fork(1, 'a'),
      () => chain.fork(1, 'Not A Name'),
      () => chain.mine([], { branch: 'nowhere' }),
      () => chain.forget('a'),
      () => chain.setFinalized(-1),
    ]) {
      expect(misuse).toThrow(RangeError)
    }
  })
})

describe('reorgs that bring transactions back', () => {
  const prepared = () => {
    const chain = fakeChain({ chainId: 1, seed: 3 })
    chain.mineEmpty(5)
    const one = chain.transaction(transfer(TOKEN, ALICE, BOB, 1))
    const two = chain.transaction([transfer(TOKEN, BOB, CAROL, 2), transfer(TOKEN, BOB, CAROL, 2)])
    chain.mine([one, two])
    chain.mine([chain.transaction(transfer(TOKEN, CAROL, ALICE, 3))])
    return { chain, one, two }
  }

  test('same: other blocks, same places', () => {
    const { chain, two } = prepared()
    const before = position(chain, two.hash)
    const reorg = chain.reorg(2)
    expect(labels(reorg.replacement)).toEqual(['6b', '7b', '8b'])
    expect(labels(reorg.orphaned)).toEqual(['6a', '7a'])
    expect(blockLabel(reorg.commonAncestor.hash)).toBe('5a')
    expect(position(chain, two.hash)).toEqual(before)
    expect(reorg.dropped).toEqual([])
  })

  test('shuffled: the same transaction at another index (C22)', () => {
    const { chain, one, two } = prepared()
    chain.reorg(2, { reinclude: 'shuffled' })
    expect(position(chain, one.hash)).toEqual([[6, 1, 2]])
    expect(position(chain, two.hash)).toEqual([
      [6, 0, 0],
      [6, 0, 1],
    ])
  })

  test('lower-block and higher-block move events across blocks', () => {
    const { chain } = prepared()
    const last = chain.head().transactions[0]?.hash ?? ''
    chain.reorg(2, { reinclude: 'lower-block' })
    expect(position(chain, last)).toEqual([[6, 2, 3]])
    chain.reorg(3, { reinclude: 'higher-block' })
    expect(position(chain, last)).toEqual([[7, 2, 3]])
  })

  test('some-dropped and none leave transactions out, and say which', () => {
    const { chain } = prepared()
    const reorg = chain.reorg(2, { reinclude: 'some-dropped' })
    expect(reorg.dropped.length).toBeGreaterThan(0)
    const kept = reorg.replacement.flatMap((block) => block.transactions).length
    expect(kept + reorg.dropped.length).toBe(3)
    expect(chain.reorg(3, { reinclude: 'none' }).dropped).toHaveLength(kept)
    expect(chain.logs()).toEqual([])
  })

  test('changed-content: the same hash with other values, or reverted', () => {
    const { chain } = prepared()
    const before = chain.logs().map((log) => log.data)
    const hashes = chain.canonical().flatMap((block) => block.transactions.map(({ hash }) => hash))
    const reorg = chain.reorg(2, { reinclude: 'changed-content' })
    expect(reorg.replacement.flatMap((block) => block.transactions.map(({ hash }) => hash))).toEqual(hashes)
    expect(chain.logs().map((log) => log.data)).not.toEqual(before)
  })

  test('the new branch may be shorter, and may bring transactions of its own', () => {
    const { chain } = prepared()
    const reorg = chain.reorg(2, { extraBlocks: -1, also: () => [nftTransfer(TOKEN, ALICE, BOB, 7)] })
    expect([chain.head().number, reorg.replacement.length]).toEqual([6, 1])
    expect(chain.head().transactions).toHaveLength(4)
    chain.reorg(1, { extraBlocks: -1 })
    expect(chain.head().number).toBe(5)
    expect(chain.head().branch).toBe('a')
  })
})

describe('finality', () => {
  test('follows by depth, never back, and guards against deep reorgs', () => {
    const chain = fakeChain({ chainId: 1, safe: { depth: 2 }, finalized: { depth: 4 } })
    chain.mineEmpty(10)
    expect([chain.safeNumber, chain.finalizedNumber]).toEqual([8, 6])
    expect(() => chain.reorg(5)).toThrow('block 6 is finalized')
    chain.reorg(4, { extraBlocks: -3 })
    expect([chain.head().number, chain.finalizedNumber]).toEqual([7, 6])
    chain.reorg(5, { violateFinality: true, extraBlocks: -1 })
    expect([chain.head().number, chain.finalizedNumber]).toEqual([6, 6])
  })

  test('can lag, step back, and not resolve at all (C40)', () => {
    const chain = fakeChain({ chainId: 1, finalized: 3 })
    chain.mineEmpty(10)
    expect(chain.view().finalized?.number).toBe(3)
    chain.setFinalized(1)
    expect(chain.view().finalized?.number).toBe(1)
    chain.setFinalized(null)
    expect(chain.view().finalized).toBeNull()
    chain.setFinalized({ depth: 4 })
    expect(chain.view().finalized?.number).toBe(6)
  })

  test('adopting a branch below finality is a violation', () => {
    const chain = fakeChain({ chainId: 1, finalized: { depth: 2 } })
    chain.fork(0, 'b')
    chain.mine([], { branch: 'b' })
    chain.mineEmpty(5)
    expect(() => chain.adopt('b')).toThrow('violateFinality')
    chain.adopt('b', { violateFinality: true })
    expect(chain.head().number).toBe(1)
  })
})

// ---- Properties, over random histories

const step = fc.oneof(
  fc.record({ do: fc.constant('mine' as const), logs: fc.array(fc.integer({ min: 0, max: 9 }), { maxLength: 4 }) }),
  fc.record({
    do: fc.constant('reorg' as const),
    depth: fc.integer({ min: 1, max: 6 }),
    extraBlocks: fc.integer({ min: -2, max: 2 }),
    reinclude: fc.constantFrom(...REINCLUDES),
  }),
  fc.record({ do: fc.constant('adopt' as const), nth: fc.nat(9) }),
)
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never

function take(chain: FakeChain, one: Step): void {
  if (one.do === 'mine') {
    chain.mine(one.logs.map((n) => [transfer(TOKEN, ALICE, BOB, n), transfer(TOKEN, BOB, CAROL, n)]))
  } else if (one.do === 'reorg') {
    const depth = Math.min(one.depth, chain.head().number - (chain.finalizedNumber ?? 0))
    if (depth >= 1) chain.reorg(depth, { reinclude: one.reinclude, extraBlocks: Math.max(one.extraBlocks, -depth) })
  } else {
    const branch = chain.branches[one.nth % chain.branches.length] ?? 'a'
    try {
      chain.adopt(branch)
    } catch (error) {
      expect(String(error)).toContain('is finalized')
    }
  }
}

function checkChain(chain: FakeChain): void {
  for (const [n, block] of chain.canonical().entries()) {
    expect(block.number).toBe(n)
    if (n > 0) expect(block.parentHash).toBe(chain.blockByNumber(n - 1)?.hash)
    expect(chain.blockByHash(block.hash)).toBe(block)
    for (const log of block.logs) {
      expect([log.blockHash, log.blockNumber]).toEqual([block.hash, n])
      for (const value of [log.address, ...log.topics]) expect(bloomMayHold(block.logsBloom, value)).toBe(true)
    }
    expect(block.logs.map((log) => log.logIndex)).toEqual(block.logs.map((_, i) => i))
  }
  const hashes = chain.canonical().flatMap((block) => block.transactions.map(({ hash }) => hash))
  expect(new Set(hashes).size).toBe(hashes.length)
  expect(chain.finalizedNumber ?? 0).toBeLessThanOrEqual(chain.head().number)
}

describe('whatever is mined, forked and adopted', () => {
  test('parents link, blooms hold, places fit, finality stays below the head', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 25 }), (steps) => {
        const chain = fakeChain({ chainId: 1, finalized: { depth: 8 } })
        for (const one of steps) {
          take(chain, one)
          checkChain(chain)
        }
      }),
      { numRuns: 60 },
    )
  })

  test('a reorg keeps every transaction hash but those it says it dropped', () => {
    fc.assert(
      fc.property(
        fc.array(step, { minLength: 3, maxLength: 15 }),
        fc.constantFrom(...REINCLUDES),
        fc.nat(),
        (steps, reinclude, pick) => {
          const chain = fakeChain({ chainId: 1, seed: pick, finalized: 0 })
          for (const one of steps) take(chain, one)
          const depth = 1 + (pick % Math.max(1, chain.head().number))
          fc.pre(depth <= chain.head().number)
          const { orphaned, replacement, dropped } = chain.reorg(depth, { reinclude })
          const hashes = (blocks: typeof orphaned) =>
            blocks.flatMap((block) => block.transactions.map(({ hash }) => hash)).sort()
          expect([...hashes(replacement), ...dropped.map(({ hash }) => hash)].sort()).toEqual(hashes(orphaned))
          if (!['some-dropped', 'none'].includes(reinclude)) expect(dropped).toEqual([])
          expect(replacement.some((block) => orphaned.some((orphan) => orphan.hash === block.hash))).toBe(false)
        },
      ),
      { numRuns: 80 },
    )
  })
})
