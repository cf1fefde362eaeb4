import type { FaultSettings } from '../fault-plan.ts'
import { type FaultName, faultGroups } from '../faults.ts'
import type { Random } from '../random.ts'
import { REINCLUDES, type Reinclude } from '../reorg-plan.ts'
import type { Mishap } from '../simulator/plan.ts'
import type { Stage } from './observer.ts'

/** One thing that happens in a run. Watchers and chains are numbered as the configuration names them. */
export type ReplayAction =
  /** Blocks are mined, and with `runs` the watchers take them in. */
  | { readonly kind: 'mine'; readonly chain: number; readonly blocks: number; readonly runs: boolean }
  | {
      readonly kind: 'reorg'
      readonly chain: number
      readonly depth: number
      readonly reinclude: Reinclude
      readonly extraBlocks: number
      readonly fresh: boolean
      readonly runs: boolean
    }
  | { readonly kind: 'run'; readonly budgetMs: number }
  /** Something happens to the process, or to the disk, at the n-th statement that counts. */
  | { readonly kind: 'mishap'; readonly mishap: Mishap; readonly at: number }
  /** The function works, and throws at its end. */
  | { readonly kind: 'throw'; readonly watcher: number; readonly stage: Stage; readonly times: number }
  /** Blocks that are done are delivered once more. */
  | { readonly kind: 'redeliver'; readonly watcher: number; readonly back: number }
  | { readonly kind: 'nodes'; readonly on: boolean }
  | { readonly kind: 'wait'; readonly ms: number }

export type PlannedReplay = ReplayAction & { readonly id: number }

/** What a run is made of beside its actions. */
export interface ReplaySwarm {
  readonly finalDepth: number
  readonly maxEvents: number
  readonly finality: 'tag' | 'depth'
  readonly faults: FaultSettings
  /** How often the first reading of an unfinal block leaves logs out or makes one up. */
  readonly lies: number
}

/** Faults that the default evidence survives wherever a watcher stands. */
const SURVIVED: readonly FaultName[] = [
  ...faultGroups.transport,
  ...faultGroups.refusals,
  ...faultGroups.disorder,
  ...faultGroups.views,
]

/** Kinds of the crash driver that a user meets. A loss of power is left to the simulator of the engine. */
const MISHAPS: readonly Mishap[] = [
  'die-before',
  'die-after',
  'die-before-commit',
  'die-before-commit',
  'die-after-commit',
  'die-after-commit',
  'commit-answer-lost',
  'commit-answer-lost',
  'commit-rolled-back',
  'commit-rolled-back',
  'commit-busy',
  'full',
  'io-error',
  'busy',
]

/** Whole faults are on or off in a run. */
export function drawSwarm(random: Random): ReplaySwarm {
  const faults = random.shuffle(SURVIVED).slice(0, random.int(1, 5))
  return {
    finalDepth: random.int(4, 8),
    maxEvents: random.pick([1, 3, 50, 500]),
    finality: random.pick(['tag', 'depth'] as const),
    faults: Object.fromEntries(faults.map((fault) => [fault, random.int(2, 30) / 100])),
    lies: random.chance(0.4) ? 0.3 : 0,
  }
}

type Draw = (random: Random, watchers: number, chains: number) => ReplayAction

const DRAW: Readonly<Record<ReplayAction['kind'], Draw>> = {
  mine: (random, _, chains) => ({
    kind: 'mine',
    chain: random.int(0, chains - 1),
    blocks: random.int(1, 4),
    runs: random.chance(0.7),
  }),
  reorg: (random, _, chains) => ({
    kind: 'reorg',
    chain: random.int(0, chains - 1),
    depth: random.int(1, 5),
    reinclude: random.pick(REINCLUDES),
    extraBlocks: random.pick([0, 1, 1, 2]),
    fresh: random.chance(0.5),
    runs: random.chance(0.7),
  }),
  run: (random) => ({ kind: 'run', budgetMs: random.pick([5, 100, 2_000]) }),
  mishap: (random) => {
    const mishap = random.pick(MISHAPS)
    return {
      kind: 'mishap',
      mishap,
      at: mishap.includes('commit') ? random.int(1, 3) : Math.floor(200 ** random.next()),
    }
  },
  throw: (random, watchers) => {
    const stage = random.pick(['handle', 'handle', 'undo', 'final'] as const)
    return { kind: 'throw', watcher: random.int(0, watchers - 1), stage, times: random.pick([1, 1, 2]) }
  },
  redeliver: (random, watchers) => ({
    kind: 'redeliver',
    watcher: random.int(0, watchers - 1),
    back: random.int(1, 5),
  }),
  nodes: (random) => ({ kind: 'nodes', on: random.chance(0.6) }),
  wait: (random) => ({ kind: 'wait', ms: random.pick([500, 15_000, 120_000]) }),
}

/** How often each kind is drawn; those below 3 are missing in some runs. */
const RATES: Readonly<Record<ReplayAction['kind'], number>> = {
  mine: 6,
  reorg: 2.5,
  run: 3,
  mishap: 6,
  throw: 1.5,
  redeliver: 1,
  nodes: 1,
  wait: 1,
}

function pick(random: Random, rates: readonly (readonly [ReplayAction['kind'], number])[]): ReplayAction['kind'] {
  let at = random.next() * rates.reduce((sum, [, rate]) => sum + rate, 0)
  for (const [kind, rate] of rates) {
    at -= rate
    if (at < 0) return kind
  }
  return 'run'
}

/** Blocks to begin with: a watcher at `finalized` has nothing to do before there are some more than finality is deep. */
function history(random: Random, chain: number): ReplayAction {
  return { kind: 'mine', chain, blocks: random.int(2, 14), runs: false }
}

/** The actions of a run, each from a stream of its own: leaving one out changes no other. Each chain begins with a few blocks. */
export function drawReplay(random: Random, watchers: number, chains: number): PlannedReplay[] {
  const all = Object.entries(RATES) as [ReplayAction['kind'], number][]
  const rates = all.filter(([kind, rate]) => rate >= 3 || random.fork(kind).chance(0.75))
  const count = chains + random.int(14, 28)
  return Array.from({ length: count }, (_, id) => {
    const own = random.fork(`action ${id}`)
    return { id, ...(id < chains ? history(own, id) : DRAW[pick(own, rates)](own, watchers, chains)) }
  })
}
