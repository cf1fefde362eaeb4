import { expect, test } from 'vitest'
import type { RpcCall } from '../../chain/rpc.ts'
import { fakeRpc } from '../fake-rpc.ts'
import { Random } from '../random.ts'
import { swarmOptions } from './options.ts'
import { SimChain } from './sim-chain.ts'
import { type SlipOptions, Slips } from './slips.ts'

// Each slip is made once, and the next answer is honest; without a share there is none.

const PAY = [[{ kind: 'pay', from: 0, to: 1, value: 5 }]] as const

/** Block 1a with five logs, replaced by 1b with one. */
function forked(): SimChain {
  const chain = new SimChain(1, { ...swarmOptions(1), finality: 'depth', finalDepth: 8, minDepth: 0 })
  // Some of its logs are mixed in, never all: of one there may be none.
  chain.mine(0, [Array.from({ length: 5 }, () => PAY[0])])
  chain.reorg({ kind: 'reorg', id: 1, depth: 1, reinclude: 'none', extraBlocks: 0, fresh: PAY })
  return chain
}

async function asked(chain: SimChain, shares: Partial<SlipOptions>, filter: Record<string, unknown>) {
  const slips = new Slips({ random: new Random(1), chain, mixes: 0, nulls: 0, gaps: 0, ...shares })
  const call: RpcCall = { method: 'eth_getLogs', params: [filter] }
  const [honest] = await fakeRpc(chain.chain).send([call])
  const answers = [1, 2].map(() => slips.bend(call, honest!))
  return {
    answers: answers.map((one) => (one.ok ? one.result : one)),
    made: slips.made,
    honest: honest!.ok && honest!.result,
  }
}

test('mixes: the logs of the sibling stand among those of the block', async () => {
  const chain = forked()
  const { hash } = chain.chain.head()
  const { answers, made } = await asked(chain, { mixes: 1 }, { blockHash: hash })
  const hashes = answers.map(
    (logs) => new Set((logs as { blockHash: string }[]).map(({ blockHash }) => blockHash)).size,
  )
  expect([hashes, made.mixes]).toEqual([[2, 1], 1])
})

test('gaps: the first range leaves the block out', async () => {
  const { answers, made } = await asked(forked(), { gaps: 1 }, { fromBlock: '0x1', toBlock: '0x1' })
  expect([answers.map((logs) => (logs as unknown[]).length), made.gaps]).toEqual([[0, 1], 1])
})

test('nulls: the first answer is no list', async () => {
  const { answers, made } = await asked(forked(), { nulls: 1 }, { fromBlock: '0x1', toBlock: '0x1' })
  expect([answers.map((logs) => Array.isArray(logs)), made.nulls]).toEqual([[false, true], 1])
})

test('control: without a share every answer is the honest one', async () => {
  for (const filter of [{ fromBlock: '0x0', toBlock: '0x1' }, { blockHash: forked().chain.head().hash }]) {
    const { answers, made, honest } = await asked(forked(), {}, filter)
    expect(answers).toEqual([honest, honest])
    expect(made).toEqual({ mixes: 0, nulls: 0, gaps: 0 })
  }
})
