import type { SealRules } from '../fake-block.ts'
import type { FaultSettings } from '../fault-plan.ts'
import { type FaultName, faultGroups } from '../faults.ts'
import type { RefusalStyle } from '../provider-errors.ts'
import { Random } from '../random.ts'
import type { NodeHabits } from '../rpc-methods.ts'
import type { ActionKind } from './plan.ts'

/** The watchers that a run may have, each with another way of living with reorgs. */
export type WatcherKind =
  /** At `latest` or `safe`: an undo function, a memo, a managed table and a `final` stage. */
  | 'undo'
  /** At `latest`: managed writes only, taken back by themselves. */
  | 'managed'
  /** At `{ confirmations: n }`, or ahead of it and declared irreversible: nothing can be taken back. */
  | 'confirmed'
  /** At `finalized`. */
  | 'finalized'

/** What a run is made of. Everything follows from the seed; whatever is given by hand replaces what was drawn. */
export interface SwarmOptions {
  readonly actions: number
  /** Instances of Tidemark on the one file. */
  readonly processes: number
  readonly watchers: readonly WatcherKind[]
  /** Where the `undo` watcher stands. */
  readonly at: 'latest' | 'safe' | 'finalized'
  /** Of the `confirmed` watcher. */
  readonly confirmations: number
  /** The `confirmed` watcher asks for no confirmations: it acts at the head, and says that its work is irreversible. */
  readonly irreversible: boolean
  /** Whether the watchers without undo have a `final` stage. */
  readonly staged: boolean
  /** How the chain's finality is configured: by its tag, or by counting `finalDepth`. */
  readonly finality: 'tag' | 'depth'
  /** Blocks from the head down to the finalized one. */
  readonly finalDepth: number
  readonly minDepth: number
  /** Blocks that a reorg replaces at most; never more than finality allows. */
  readonly reorgDepth: number
  /** Blocks that are there before the first process starts. Long ones let marks be forgotten. */
  readonly history: number
  /** Share of blocks with transactions. */
  readonly density: number
  readonly startBlock: number
  readonly bloom: SealRules['bloom']
  readonly logIndex: SealRules['logIndex']
  readonly maxEvents: number
  readonly maxRange: number
  readonly pollMs: number
  readonly retentionBlocks: number
  readonly undoLimitBlocks: number
  /** Milliseconds that an answer, and that a handler, takes. */
  readonly latencyMs: number
  readonly handlerMs: number
  /** One entry for each provider. */
  readonly faults: readonly FaultSettings[]
  /** What each provider refuses even when it is well. */
  readonly habits: readonly Partial<NodeHabits>[]
  /** How often the first reading of an unfinal block lies: a log left out, or made up. */
  readonly lies: number
  /** How often the first reading of a block by its hash holds logs of its sibling, too. */
  readonly mixes: number
  /** How often the first answer to a request for logs is no list. */
  readonly nulls: number
  /** How often the first range over a block leaves out all its logs. Without blooms nothing would show it. */
  readonly gaps: number
  /** How often each kind of action is drawn, compared with the others; 0: never in this run. */
  readonly rates: Readonly<Record<ActionKind, number>>
  /** Ends the chain's promise at the end of the plan: final blocks are replaced. */
  readonly violation: boolean
  /** Where the database is kept. Default: memory of the machine where that is a folder, else the folder for temporary files. */
  readonly folder?: string
}

/** Faults that the default evidence survives, for ever. */
const SURVIVED: readonly FaultName[] = [
  ...faultGroups.transport,
  ...faultGroups.refusals,
  ...faultGroups.disorder,
  ...faultGroups.views,
  'emptyFresh',
]

/** Blocks: a limit for undo up to this one is reached within a run. */
const TIGHT_UNDO = 20

/** Kinds that a run cannot do without, and how often they are drawn. */
const ALWAYS: Partial<Record<ActionKind, readonly [number, number]>> = { mine: [3, 12], run: [6, 20] }

const SOMETIMES: readonly ActionKind[] = [
  'reorg',
  'reorgDuring',
  'winBack',
  'finality',
  'faults',
  'wait',
  'wallJump',
  'overlap',
  'pauseDuring',
  'arm',
  'restart',
  'handlerFault',
  'resume',
  'pause',
  'moveCursor',
]

/** Between `low` and `high`, as often in each power of two: runs differ by orders of magnitude, not by a little. */
function spread(random: Random, low: number, high: number): number {
  return low * (high / low) ** random.next()
}

/** A limit for undo that a run can reach, it should: finality stands still, or falls behind. */
function drawRates(random: Random, undoLimitBlocks: number): Record<ActionKind, number> {
  // A violation comes once, at the end: it has no rate.
  const rates: Partial<Record<ActionKind, number>> = { violate: 0 }
  for (const [kind, range] of Object.entries(ALWAYS)) rates[kind as ActionKind] = spread(random.fork(kind), ...range)
  for (const kind of SOMETIMES) {
    const own = random.fork(kind)
    rates[kind] = own.chance(0.6) ? spread(own, 0.3, 6) : 0
  }
  if (undoLimitBlocks <= TIGHT_UNDO) rates.finality = Math.max(rates.finality ?? 0, 4)
  return rates as Record<ActionKind, number>
}

/** A few kinds of fault a provider, so that the watchers get somewhere between them; every fifth is honest. */
function drawFaults(random: Random): FaultSettings {
  if (random.chance(0.2)) return {}
  const some = random.shuffle(SURVIVED).slice(0, random.int(1, 5))
  return Object.fromEntries(some.map((fault) => [fault, Math.round(100 * spread(random, 0.02, 0.4)) / 100]))
}

/** The URL serves another chain, on every second look or always: the watchers must stop, or use another one. */
function drawWrongChain(random: Random): FaultSettings {
  if (!random.chance(0.06)) return {}
  return { [random.pick(faultGroups.wrongChain)]: random.pick([0.5, 1]) }
}

const STYLES: readonly RefusalStyle[] = ['infura', 'quicknode', 'blast', 'ronin', 'erigon', 'cronos', 'besu']

/** Without a limit of calls in a batch: to keep to it is the work of the HTTP transport, which has no part here. */
function drawHabits(random: Random): Partial<NodeHabits> {
  const maxRange = random.pick([3, 10, null, null])
  return {
    aboveHead: random.pick(['silent', 'error']),
    keepsOrphans: random.chance(0.7),
    ...(maxRange === null ? {} : { maxRange }),
    // No block of a plan holds more logs than this, re-included ones among them.
    ...(random.chance(0.5) ? { maxResults: 400 } : {}),
    refuses: random.pick(STYLES),
  }
}

function drawProviders(random: Random): { faults: FaultSettings[]; habits: Partial<NodeHabits>[] } {
  const each = Array.from({ length: random.pick([1, 1, 2]) }, (_, i) => random.fork(i))
  return {
    faults: each.map((own) => ({ ...drawFaults(own), ...drawWrongChain(own.fork('chain')) })),
    habits: each.map((own) => drawHabits(own.fork('habits'))),
  }
}

function drawWatchers(random: Random): WatcherKind[] {
  const kinds: readonly WatcherKind[] = ['undo', 'managed', 'confirmed', 'finalized']
  const some = random.shuffle(kinds).slice(0, random.pick([1, 2, 2, 3, 3]))
  // Most of what can go wrong needs a watcher that follows the head.
  if (!some.includes('undo') && random.chance(0.7)) some[0] = 'undo'
  return kinds.filter((kind) => some.includes(kind))
}

/** On some chains `finalized` is the head, or nearly, and only the minimum depth keeps undo (C30). */
function drawDepths(random: Random) {
  const finality = random.pick(['tag', 'tag', 'depth'] as const)
  if (finality === 'tag' && random.chance(0.12))
    return { finality, finalDepth: random.int(0, 2), minDepth: random.int(4, 10) }
  return {
    finality,
    finalDepth: random.pick([4, 5, 6, 8, 8, 12, 16]),
    minDepth: random.chance(0.2) ? random.int(1, 10) : 0,
  }
}

function drawChain(random: Random) {
  const long = random.chance(0.12)
  const depths = drawDepths(random)
  return {
    ...depths,
    // The deepest one replaces everything above the final block.
    reorgDepth: random.int(1, Math.max(depths.finalDepth, depths.minDepth)),
    history: long ? random.int(270, 420) : random.pick([0, 0, 1, 3, 8, 20]),
    startBlock: random.pick([0, 1, 1, 1, 2, 5]),
    density: random.pick([0.2, 0.5, 0.8]),
    bloom: random.pick(['true', 'true', 'true', 'zero'] as const),
    logIndex: random.pick(['block', 'block', 'block', 'transaction'] as const),
    retentionBlocks: long ? random.int(1, 40) : 10_000,
  }
}

function drawLimits(random: Random) {
  return {
    maxEvents: random.pick([1, 3, 10, 50, 500]),
    maxRange: random.pick([1, 4, 20, 500]),
    pollMs: random.pick([50, 200, 1000]),
    undoLimitBlocks: random.chance(0.15) ? random.int(16, TIGHT_UNDO) : 20_000,
    latencyMs: random.pick([0, 1, 5, 40]),
    handlerMs: random.pick([0, 0, 1, 30, 120]),
  }
}

/**
 * Slips of the first provider, each told once a block. Whoever leaves out the logs of a block in a range and shows it empty by
 * its hash, too, as `emptyFresh` does, is beyond what a bloom can find.
 */
function drawSlips(random: Random, bloom: SwarmOptions['bloom'], faults: FaultSettings | undefined) {
  const share = (chance: number) => (random.chance(chance) ? Math.round(100 * spread(random, 0.05, 0.8)) / 100 : 0)
  const mixes = share(0.4)
  const gaps = share(0.3)
  const nulls = share(0.3)
  return { mixes, nulls, gaps: bloom === 'true' && faults?.emptyFresh === undefined ? gaps : 0 }
}

/** Whether an unfinal block may be applied otherwise than it is: something was left out of it, or made up. */
export function mayBeWrong({ lies, faults }: Pick<SwarmOptions, 'lies' | 'faults'>): boolean {
  return lies > 0 || faults.some((own) => own.emptyFresh !== undefined)
}

/** The options of a run: whole faults are on or off, and rates differ widely. The same seed draws the same options. */
export function swarmOptions(seed: number | string): SwarmOptions {
  const random = new Random(seed).fork('swarm')
  const watchers = drawWatchers(random.fork('watchers'))
  const chain = drawChain(random.fork('chain'))
  const limits = drawLimits(random.fork('limits'))
  const providers = drawProviders(random.fork('providers'))
  const more = random.fork('more')
  return {
    actions: more.int(20, 60),
    processes: more.pick([1, 2, 2, 3]),
    watchers,
    at: more.chance(0.8) ? 'latest' : 'safe',
    confirmations: more.pick([1, chain.reorgDepth + 1, chain.reorgDepth + 2]),
    staged: more.chance(0.6),
    irreversible: more.chance(0.2),
    ...chain,
    ...limits,
    ...providers,
    lies: more.chance(0.3) ? Math.round(100 * spread(more, 0.02, 0.3)) / 100 : 0,
    ...drawSlips(random.fork('slips'), chain.bloom, providers.faults[0]),
    rates: drawRates(random.fork('rates'), limits.undoLimitBlocks),
    violation: more.chance(0.05),
  }
}
