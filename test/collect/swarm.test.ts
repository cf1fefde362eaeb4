import { expect, test } from 'vitest'
import type { At } from '../../src/collect/source.ts'
import { TidemarkError } from '../../src/errors.ts'
import {
  type FakeChain,
  type FaultSettings,
  fakeChain,
  fakeRpc,
  faultGroups,
  Random,
  REINCLUDES,
  testWorld,
} from '../../src/testkit/index.ts'
import { Driver, pay, plan, sourceOf } from './driver.ts'

/**
 * Hostile chains: whole faults are switched off or on by seed, reorgs stay above finality, the process restarts. At the end
 * the node is honest, and what is applied must equal a naive reading of the final chain, above and below the settled line.
 */

const FAULTS = [
  ...faultGroups.transport,
  ...faultGroups.refusals,
  ...faultGroups.disorder,
  ...faultGroups.views,
  'emptyFresh',
] as const
const FINAL_DEPTH = 12
const SEEDS = 16
const CHOICES: readonly At[] = ['latest', 'safe', 'finalized', { confirmations: 9 }, { confirmations: 1 }]

/** A few kinds of fault a node, so that the watcher gets somewhere between them. */
function faultsOf(random: Random): FaultSettings {
  const some = random.shuffle(FAULTS).slice(0, random.int(0, 4))
  return Object.fromEntries(some.map((fault) => [fault, random.int(3, 25) / 100]))
}

function change(chain: FakeChain, random: Random, deepest: number): void {
  const depth = random.int(1, deepest)
  const free = chain.head().number - Math.max(chain.finalizedNumber ?? 0, 0)
  if (random.chance(0.3) && depth < free)
    chain.reorg(depth, { reinclude: random.pick(REINCLUDES), extraBlocks: random.int(0, 2) })
  else
    for (let i = random.int(1, 6); i > 0; i--) chain.mine(random.chance(0.5) ? [pay(random.int(1, 1000)), pay(7)] : [])
}

async function run(seed: number): Promise<{ driver: Driver; chain: FakeChain; faults: number }> {
  const random = new Random(seed).fork('swarm')
  const at = random.pick(CHOICES)
  const chain = fakeChain({ chainId: 1, seed, safe: { depth: 6 }, finalized: { depth: FINAL_DEPTH } })
  // A reorg deeper than the confirmations is a halt by design: here they hold.
  const deepest = typeof at === 'object' ? Math.max(1, at.confirmations - 3) : 8
  const keepsUndo = typeof at === 'object' ? at.confirmations === 1 : at !== 'finalized'
  const faults = Array.from({ length: random.int(1, 2) }, (_, i) => faultsOf(random.fork(`faults ${i}`)))
  const nodes = faults.map((some, i) => fakeRpc(chain, { seed: `${seed}/${i}`, label: `rpc[${i}]`, faults: some }))
  // The fake node on an abandoned branch calls that branch finalized at the same height, which no real node does.
  const mayTag = !faults.some((some) => 'sibling' in some)
  const open = () => {
    const finality = mayTag && random.chance(0.5) ? 'tag' : ({ depth: FINAL_DEPTH } as const)
    return sourceOf(1, nodes, { world: testWorld({ seed, autoAdvance: true }), finality, maxRange: 20 })
  }
  const driver = new Driver(1, open(), plan(at, { keepsUndo, maxEvents: 30 }))
  for (let i = 0; i < 40; i++) {
    change(chain, random, deepest)
    if (random.chance(0.1)) driver.source = open()
    for (let steps = random.int(1, 10); steps > 0; steps--) {
      await driver.step().catch((error) => {
        if (!TidemarkError.is(error) || error.kind !== 'retries') throw error
      })
    }
  }
  const hits = nodes.reduce((sum, node) => sum + Object.values(node.log.faults).reduce((a, b) => a + b, 0), 0)
  for (const node of nodes) node.stopFaults()
  chain.mineEmpty(FINAL_DEPTH + 3)
  await driver.run(500, true)
  return { driver, chain, faults: hits }
}

test('a seeded swarm of hostile nodes ends in what the chain holds', async () => {
  let faults = 0
  let rollbacks = 0
  for (let seed = 1; seed <= SEEDS; seed++) {
    try {
      const end = await run(seed)
      expect(end.driver.held(), `seed ${seed}`).toEqual(end.driver.expected(end.chain))
      faults += end.faults
      rollbacks += end.driver.kinds().filter((kind) => kind === 'rollback').length
    } catch (error) {
      throw new Error(`seed ${seed} (run(${seed}) repeats it): ${String(error)}`, { cause: error })
    }
  }
  // Control: the swarm did something.
  expect(faults).toBeGreaterThan(20 * SEEDS)
  expect(rollbacks).toBeGreaterThan(SEEDS)
}, 120_000)
