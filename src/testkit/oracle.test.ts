import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { fakeChain } from './fake-chain.ts'
import { nftTransfer, rawLog, testAddress, transfer } from './fake-log.ts'
import { eventsOf, readTransfer, replay, transferBalances } from './oracle.ts'

const TOKEN = testAddress('TOKEN')
const [ALICE, BOB] = [testAddress('ALICE'), testAddress('BOB')]

describe('the oracle', () => {
  test('shares no code with what it judges', () => {
    for (const file of ['oracle.ts', 'compare-rows.ts']) {
      const source = readFileSync(new URL(file, import.meta.url), 'utf8')
      expect(source).not.toMatch(/\bimport\b|\brequire\(/)
    }
  })

  test('replays the final chain only', () => {
    const chain = fakeChain({ chainId: 1 })
    chain.mine([transfer(TOKEN, ALICE, BOB, 5)])
    chain.mine([transfer(TOKEN, ALICE, BOB, 7)])
    chain.reorg(1, { reinclude: 'none', also: (n) => (n === 2 ? [transfer(TOKEN, BOB, ALICE, 1)] : []) })
    expect(transferBalances(chain)).toEqual(
      new Map([
        [ALICE, -4n],
        [BOB, 4n],
      ]),
    )
    const sum = replay(chain, {}, 0n, (total, log) => total + (readTransfer(log)?.value ?? 0n))
    expect(sum).toBe(6n)
  })

  test('orders by block, transaction, log, whatever the order of its input', () => {
    const chain = fakeChain({ chainId: 1, logIndex: 'transaction' })
    const pair = (n: number) => [transfer(TOKEN, ALICE, BOB, n), transfer(TOKEN, ALICE, BOB, n + 1)]
    chain.mine([pair(1), pair(3)])
    chain.mine([pair(5)])
    const blocks = [...chain.canonical()].reverse().map((block) => ({ ...block, logs: [...block.logs].reverse() }))
    expect(eventsOf(blocks).map(({ log }) => readTransfer(log)?.value)).toEqual([1n, 2n, 3n, 4n, 5n, 6n])
    expect(eventsOf(blocks, { from: 2 })).toHaveLength(2)
    expect(eventsOf(blocks, { to: 1 })).toHaveLength(4)
  })

  test('does not take an NFT for money, nor a transfer to oneself for a gain', () => {
    const chain = fakeChain({ chainId: 1 })
    chain.mine([nftTransfer(TOKEN, ALICE, BOB, 9), transfer(TOKEN, BOB, BOB, 5), rawLog(TOKEN, [])])
    expect(transferBalances(chain)).toEqual(new Map())
    expect(readTransfer({ ...rawLog(TOKEN, []), transactionHash: '', transactionIndex: 0, logIndex: 0 })).toBeNull()
    expect(eventsOf(chain, { topicCount: 4 })).toHaveLength(1)
    expect(eventsOf(chain, { addresses: [ALICE] })).toHaveLength(0)
  })

  test('reads the largest value there is', () => {
    const chain = fakeChain({ chainId: 1 })
    const max = 2n ** 256n - 1n
    chain.mine([transfer(TOKEN, ALICE, BOB, max)])
    expect(transferBalances(chain).get(BOB)).toBe(max)
  })

  test('a fold may change its state in place', () => {
    const chain = fakeChain({ chainId: 1 })
    chain.mine([transfer(TOKEN, ALICE, BOB, 1)])
    const rows = replay(chain, { topic0: chain.logs()[0]?.topics[0] ?? '' }, [] as string[], (list, log, block) => {
      list.push(`${block.number} ${log.logIndex}`)
      return list
    })
    expect(rows).toEqual(['1 0'])
  })
})
