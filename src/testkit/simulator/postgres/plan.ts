import type { Random } from '../../random.ts'
import { LEASE_MS } from '../freezes.ts'
import type { SwarmOptions } from '../options.ts'
import type { PlannedAction, SharedAction } from '../plan.ts'

/** Actions that are put into a plan have numbers of their own: those of the plan stay as they are. */
const FIRST_ID = 1_000
const RESTORE_ID = 1_100
const WORK_ID = 1_101
const LEFT_ID = 1_200
const PROCESSES_AT_LEAST = 2

type Of<K extends SharedAction['kind']> = Extract<SharedAction, { kind: K }>

/** One process cannot be taken over by anybody. */
export function processesOf({ processes }: Pick<SwarmOptions, 'processes'>): number {
  return Math.max(PROCESSES_AT_LEAST, processes)
}

function drawFreeze(random: Random, options: SwarmOptions): Of<'freeze'> {
  const processes = processesOf(options)
  const process = random.int(0, processes - 1)
  return {
    kind: 'freeze',
    process,
    other: (process + random.int(1, processes - 1)) % processes,
    watcher: random.chance(0.3) ? random.int(0, options.watchers.length - 1) : null,
    // A run without work is some thirty statements, and each event some ten more: early ones and late ones alike.
    atStatement: Math.ceil(120 ** random.next()),
    // Within the lease, or longer than it.
    ms: random.pick([0, 1_000, LEASE_MS + 1_000, LEASE_MS + 1_000, 3 * LEASE_MS]),
  }
}

/**
 * The leases of a frozen process end early, as by a clock of the server that is set forward: when it wakes up, its own clock
 * says that it still has them. In some runs, and there often.
 */
function withExpiries(random: Random, freeze: Of<'freeze'>): Of<'freeze'> {
  if (!random.chance(0.7)) return freeze
  const expired = { ...freeze, expires: true, ms: random.pick([0, 1_000]) }
  return random.chance(0.5) ? { ...expired, stays: random.int(1, 4) } : expired
}

/** Blocks that any watcher may act on: what is put back is older only when something was committed meanwhile. */
function drawWork(random: Random, id: number): PlannedAction {
  const pay = () => ({ kind: 'pay', from: random.int(0, 4), to: random.int(0, 4), value: random.int(1, 9) }) as const
  return { id, kind: 'mine', blocks: Array.from({ length: random.int(2, 6) }, () => [[pay()]]) }
}

function drawRestore(random: Random, options: SwarmOptions): PlannedAction {
  return {
    id: RESTORE_ID,
    kind: 'restore',
    process: random.int(0, processesOf(options) - 1),
    atRequest: random.int(1, 3),
    more: random.int(1, 8),
  }
}

/** The plan of the seed as it is on any database, with processes that are frozen and wake up, at once or some actions later. */
export function withFreezes(
  random: Random,
  options: SwarmOptions,
  plan: readonly PlannedAction[],
): readonly PlannedAction[] {
  const count = random.int(2, 6)
  const places = Array.from({ length: count }, () => random.int(0, plan.length)).sort((a, b) => a - b)
  const expiries = random.fork('expiries').chance(0.3)
  const added = places.flatMap((at, i): { at: number; action: PlannedAction }[] => {
    const own = random.fork(`freeze ${i}`)
    const drawn = drawFreeze(own, options)
    const freeze = expiries ? withExpiries(random.fork(`expiry ${i}`), drawn) : drawn
    const thawAt = at + own.pick([0, 0, 1, 2, 5])
    const id = FIRST_ID + 2 * i
    const thaw = { id: id + 1, kind: 'thaw' as const, process: freeze.process }
    // Whoever took over has done what there was to do: something is left for the one that wakes up.
    const left = freeze.expires ? [{ at: thawAt, action: drawWork(random.fork(`left ${i}`), LEFT_ID + i) }] : []
    return [{ at, action: { id, ...freeze } }, ...left, { at: thawAt, action: thaw }]
  })
  const restore = random.fork('restore')
  if (restore.chance(0.6)) {
    const at = restore.int(0, plan.length)
    added.push({ at, action: drawWork(restore, WORK_ID) }, { at, action: drawRestore(restore, options) })
  }
  const before = (at: number) => added.filter((one) => one.at === at).map(({ action }) => action)
  const after = added.filter(({ at }) => at >= plan.length).map(({ action }) => action)
  return [...plan.flatMap((action, i) => [...before(i), action]), ...after]
}
