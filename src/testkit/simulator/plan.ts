import type { Random } from '../random.ts'
import { REINCLUDES, type Reinclude } from '../reorg-plan.ts'
import type { SwarmOptions, WatcherKind } from './options.ts'

/** What a log of the plan is; accounts are numbers, values small. */
export type LogPlan =
  | { readonly kind: 'pay'; readonly from: number; readonly to: number; readonly value: number }
  /** Another contract with the same event, or an ERC-721 of the same one: seen by the bloom, not by the watchers. */
  | { readonly kind: 'stranger' | 'look-alike'; readonly from: number; readonly to: number; readonly value: number }

/** The logs of one transaction. */
export type TransactionPlan = readonly LogPlan[]
/** The transactions of one block. */
export type BlockPlan = readonly TransactionPlan[]

/** What happens to a statement of a process, or to the process at it. */
export type Mishap =
  /** The process dies before, or after, the n-th statement; the others live on. */
  | 'die-before'
  | 'die-after'
  /** As `die-…`, and every process dies: what the operating system kept is all there is. */
  | 'power-before'
  | 'power-after'
  /** At the n-th COMMIT: it never reached SQLite; it did and the process died; it did and the answer was lost. */
  | 'die-before-commit'
  | 'die-after-commit'
  | 'power-after-commit'
  | 'commit-answer-lost'
  /** COMMIT fails and SQLite has rolled back; COMMIT fails and the transaction is still open. */
  | 'commit-rolled-back'
  | 'commit-busy'
  /** The n-th statement fails: the disk is full, or broken, with and without SQLite's own rollback; another has the lock. */
  | 'full'
  | 'full-rolled-back'
  | 'io-error'
  | 'io-error-rolled-back'
  | 'busy'

export const MISHAPS: readonly Mishap[] = [
  'die-before',
  'die-after',
  'power-before',
  'power-after',
  'die-before-commit',
  'die-after-commit',
  'power-after-commit',
  'commit-answer-lost',
  'commit-rolled-back',
  'commit-busy',
  'full',
  'full-rolled-back',
  'io-error',
  'io-error-rolled-back',
  'busy',
]

/** What a watcher's function does wrong, the next `times` that it is called. */
export type Misbehaviour =
  | 'throw'
  | 'throw-after'
  | 'hang'
  | 'swallow'
  | 'promise'
  /** COMMIT on `raw`, which SQLite must refuse. */
  | 'commit'
  /** `INSERT OR ROLLBACK`, its error swallowed. */
  | 'rollback'
  /** Ends the transaction through `raw` and opens one that looks the same: only the nonce tells. */
  | 'reopen'
  /** Writes through the handle of an earlier call, which it has kept. */
  | 'stale'

export const MISBEHAVIOURS: readonly Misbehaviour[] = [
  'throw',
  'throw-after',
  'hang',
  'swallow',
  'promise',
  'commit',
  'rollback',
  'reopen',
  'stale',
]

export type Stage = 'prepare' | 'handle' | 'undo' | 'final'

export type Action =
  | { readonly kind: 'mine'; readonly blocks: readonly BlockPlan[] }
  | {
      readonly kind: 'reorg'
      readonly depth: number
      readonly reinclude: Reinclude
      readonly extraBlocks: number
      readonly fresh: BlockPlan
    }
  /** The branch that was abandoned last grows past the canonical one and wins back. */
  | { readonly kind: 'winBack'; readonly extraBlocks: number; readonly fresh: BlockPlan }
  | { readonly kind: 'finality'; readonly to: 'follow' | 'lag' | 'stepBack' | 'unresolved'; readonly by: number }
  | { readonly kind: 'faults'; readonly provider: number; readonly on: boolean }
  | { readonly kind: 'wait'; readonly ms: number }
  | { readonly kind: 'wallJump'; readonly ms: number }
  | { readonly kind: 'run'; readonly process: number; readonly budgetMs: number }
  /** The first is held up at its n-th request while the second runs; with `steals`, the first has lost its lock unseen. */
  | {
      readonly kind: 'overlap'
      readonly first: number
      readonly second: number
      readonly atRequest: number
      readonly steals: boolean
    }
  /** A process is held up at its n-th request while blocks are replaced: what it has read and what it reads next do not fit (C31). */
  | {
      readonly kind: 'reorgDuring'
      readonly process: number
      readonly atRequest: number
      readonly depth: number
      readonly reinclude: Reinclude
      readonly extraBlocks: number
      readonly fresh: BlockPlan
    }
  /** A process is held up at its n-th request while the operator pauses a watcher. */
  | { readonly kind: 'pauseDuring'; readonly process: number; readonly watcher: number; readonly atRequest: number }
  | { readonly kind: 'arm'; readonly process: number; readonly mishap: Mishap; readonly at: number }
  /** With `at`: deployed with another setting for the `undo` watcher, beside processes that still run the old one. */
  | { readonly kind: 'restart'; readonly process: number; readonly at: SwarmOptions['at'] | null }
  | {
      readonly kind: 'handlerFault'
      readonly watcher: number
      readonly stage: Stage
      readonly does: Misbehaviour
      /** Calls that go well before, so that other events of the same commit were handled already. */
      readonly after: number
      readonly times: number
    }
  | { readonly kind: 'resume' }
  | { readonly kind: 'pause'; readonly watcher: number }
  /** A person moves the cursor back by hand: above the low-water mark, or, by mistake, `below` it. */
  | { readonly kind: 'moveCursor'; readonly watcher: number; readonly back: number; readonly below: boolean }
  | { readonly kind: 'violate'; readonly below: number; readonly fresh: BlockPlan }

export type ActionKind = Action['kind']

/** What a run does besides on a database that several processes share, each watcher with a lease of its own. */
export type SharedAction =
  /**
   * A process begins to run, one watcher alone or all, and is frozen before its n-th statement, wherever that is; `ms` pass,
   * and another process runs. It stays frozen until it is thawed.
   */
  | {
      readonly kind: 'freeze'
      readonly process: number
      readonly other: number
      readonly watcher: number | null
      readonly atStatement: number
      readonly ms: number
      /** Its leases end at once, whatever its own clock says. */
      readonly expires?: boolean
      /** The other one is held up at its n-th request from then on, and the first wakes up meanwhile. */
      readonly stays?: number
    }
  | { readonly kind: 'thaw'; readonly process: number }
  /** A copy of the database is made at the n-th request of a process, and put back `more` requests later. */
  | { readonly kind: 'restore'; readonly process: number; readonly atRequest: number; readonly more: number }

/** An action with its place in the plan as drawn: what is left of a plan after shrinking keeps its numbers. */
export type PlannedAction = (Action | SharedAction) & { readonly id: number }

const ACCOUNTS = 5

function drawLog(random: Random): LogPlan {
  const from = random.int(0, ACCOUNTS - 1)
  // From one account to itself, too (C71).
  const to = random.chance(0.15) ? from : random.int(0, ACCOUNTS - 1)
  const kind = random.chance(0.75) ? 'pay' : random.pick(['stranger', 'look-alike'] as const)
  return { kind, from, to, value: random.int(0, 5) }
}

function drawTransaction(random: Random): TransactionPlan {
  const logs = Array.from({ length: random.pick([1, 1, 1, 2, 3]) }, () => drawLog(random))
  // Identical logs of one transaction are two events (C07).
  return random.chance(0.2) ? [...logs, ...logs] : logs
}

function drawBlock(random: Random, density: number): BlockPlan {
  if (!random.chance(density)) return []
  return Array.from({ length: random.pick([1, 1, 2, 2, 3]) }, () => drawTransaction(random))
}

export function drawBlocks(random: Random, count: number, density: number): BlockPlan[] {
  return Array.from({ length: count }, () => drawBlock(random, density))
}

/** Most faults come soon, some late: a run of a process is a few hundred statements. */
function drawArm(random: Random, process: number): Action {
  const mishap = random.pick(MISHAPS)
  const at = mishap.includes('commit') ? random.int(1, 4) : Math.floor(400 ** random.next())
  return { kind: 'arm', process, mishap, at }
}

/** The functions that a watcher has, the handler twice as often. */
function stagesOf(kind: WatcherKind | undefined, staged: boolean): readonly Stage[] {
  const stages: readonly Stage[] =
    kind === 'undo' ? ['prepare', 'handle', 'handle', 'undo'] : ['prepare', 'handle', 'handle']
  return staged || kind === 'undo' || kind === 'managed' ? [...stages, 'final'] : stages
}

function drawHandlerFault(random: Random, { watchers, staged }: SwarmOptions): Action {
  const watcher = random.int(0, watchers.length - 1)
  const stage = random.pick(stagesOf(watchers[watcher], staged))
  const does = random.pick(stage === 'prepare' ? (['throw', 'hang'] as const) : MISBEHAVIOURS)
  return {
    kind: 'handlerFault',
    watcher,
    stage,
    does,
    after: random.pick([0, 0, 1, 2, 5]),
    times: random.pick([1, 1, 2]),
  }
}

function drawOverlap(random: Random, processes: number): Action {
  const first = random.int(0, processes - 1)
  const second = (first + random.int(1, Math.max(1, processes - 1))) % processes
  return { kind: 'overlap', first, second, atRequest: random.int(1, 6), steals: random.chance(0.6) }
}

type Draw = (random: Random, options: SwarmOptions) => Action

function drawReorg(random: Random, { reorgDepth, density }: SwarmOptions) {
  return {
    depth: random.int(1, reorgDepth),
    reinclude: random.pick(REINCLUDES),
    extraBlocks: random.pick([-1, 0, 1, 1, 1, 2]),
    fresh: drawBlock(random, density / 2),
  }
}

const DRAW: Readonly<Record<ActionKind, Draw>> = {
  mine: (random, { density }) => ({
    kind: 'mine',
    blocks: drawBlocks(random, random.pick([1, 1, 1, 2, 3, 6]), density),
  }),
  reorg: (random, options) => ({ kind: 'reorg', ...drawReorg(random, options) }),
  reorgDuring: (random, options) => ({
    kind: 'reorgDuring',
    process: random.int(0, options.processes - 1),
    atRequest: random.int(1, 8),
    ...drawReorg(random, options),
  }),
  winBack: (random, { density }) => ({
    kind: 'winBack',
    extraBlocks: random.int(0, 2),
    fresh: drawBlock(random, density),
  }),
  finality: (random) => ({
    kind: 'finality',
    to: random.pick(['follow', 'follow', 'lag', 'stepBack', 'unresolved'] as const),
    by: random.int(1, 12),
  }),
  faults: (random, { faults }) => ({
    kind: 'faults',
    provider: random.int(0, faults.length - 1),
    on: random.chance(0.5),
  }),
  wait: (random) => ({ kind: 'wait', ms: random.pick([100, 1_000, 15_000, 120_000]) }),
  wallJump: (random) => ({ kind: 'wallJump', ms: random.pick([-86_400_000, -5_000, 5_000, 86_400_000]) }),
  run: (random, { processes }) => ({
    kind: 'run',
    process: random.int(0, processes - 1),
    budgetMs: random.pick([1, 20, 200, 5_000]),
  }),
  overlap: (random, { processes }) => drawOverlap(random, processes),
  pauseDuring: (random, { processes, watchers }) => ({
    kind: 'pauseDuring',
    process: random.int(0, processes - 1),
    watcher: random.int(0, watchers.length - 1),
    atRequest: random.int(1, 6),
  }),
  arm: (random, { processes }) => drawArm(random, random.int(0, processes - 1)),
  restart: (random, { processes }) => ({
    kind: 'restart',
    process: random.int(0, processes - 1),
    at: random.chance(0.2) ? random.pick(['latest', 'safe', 'finalized'] as const) : null,
  }),
  handlerFault: drawHandlerFault,
  resume: () => ({ kind: 'resume' }),
  pause: (random, { watchers }) => ({ kind: 'pause', watcher: random.int(0, watchers.length - 1) }),
  moveCursor: (random, { watchers }) => ({
    kind: 'moveCursor',
    watcher: random.int(0, watchers.length - 1),
    back: random.int(1, 6),
    below: random.chance(0.3),
  }),
  violate: (random, { density }) => ({ kind: 'violate', below: random.int(1, 3), fresh: drawBlock(random, density) }),
}

/** With a single process there is nobody to overlap with. */
function weights({ rates, processes }: SwarmOptions): [ActionKind, number][] {
  const entries = Object.entries(rates) as [ActionKind, number][]
  return entries.filter(([kind, rate]) => rate > 0 && kind !== 'violate' && (kind !== 'overlap' || processes > 1))
}

function pickKind(random: Random, choices: readonly (readonly [ActionKind, number])[]): ActionKind {
  let at = random.next() * choices.reduce((sum, [, rate]) => sum + rate, 0)
  for (const [kind, rate] of choices) {
    at -= rate
    if (at < 0) return kind
  }
  return 'run'
}

/** The actions of a run. Each is drawn from a stream of its own, so that one more or less changes no other. */
export function drawPlan(random: Random, options: SwarmOptions): PlannedAction[] {
  const choices = weights(options)
  const plan = Array.from({ length: options.actions }, (_, id): PlannedAction => {
    const own = random.fork(`action ${id}`)
    return { id, ...DRAW[pickKind(own, choices)](own, options) }
  })
  // Once the chain has broken its promise, nothing more is asked of it.
  if (options.violation) plan.push({ id: plan.length, ...DRAW.violate(random.fork('violation'), options) })
  return plan
}
