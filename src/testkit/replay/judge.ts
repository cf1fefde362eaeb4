import type { ScratchTable } from '../../store/sqlite/scratch.ts'
import { Random } from '../random.ts'
import { type CleanRun, cleanRun } from './clean-run.ts'
import { differences } from './differences.ts'
import { FaultyRun, play, type ReplayFigures } from './faulty-run.ts'
import type { Reached } from './observer.ts'
import { drawReplay, drawSwarm, type PlannedReplay, type ReplaySwarm } from './plan.ts'
import type { ReplaySetup } from './setup.ts'
import type { Trouble } from './stage.ts'
import { outsideWords, readWords } from './words.ts'

/** What one seed showed. */
export interface SeedVerdict {
  readonly seed: number
  readonly figures: ReplayFigures
  /** What is wrong, in sentences; an empty list: the tables are those of a clean run. */
  readonly findings: readonly string[]
}

/** Both runs of one plan, as they ended. */
interface Pair {
  readonly faulty: {
    readonly tables: readonly ScratchTable[]
    readonly reached: readonly Reached[]
    readonly happened: readonly string[]
    readonly trouble: Trouble | null
    readonly figures: ReplayFigures
  }
  readonly clean: CleanRun
  /** A second clean run, on request: what differs between two of them was not caused by any fault. */
  again(): Promise<CleanRun>
}

/** Runs that shrinking a plan takes at most. */
const MAX_TRIES = 30
/** Rows told where each of them differs for the same reason. */
const FEW = 3
const NO_FAULT = 'blocks came one by one, without a fault'
const FAULTY = { actual: 'the faulty run', expected: 'the clean one' } as const
const TWO_CLEAN = { actual: 'one clean run', expected: 'another' } as const

/** Plays a plan with and without faults, hands both over, and cleans up. */
async function withPair<T>(
  setup: ReplaySetup,
  seed: number,
  swarm: ReplaySwarm,
  plan: readonly PlannedReplay[],
  judge: (pair: Pair) => Promise<T>,
): Promise<T> {
  const run = await FaultyRun.open(setup, seed, swarm)
  try {
    const trouble = await play(run, plan)
    const { stage, happened, figures } = run
    const faulty = { tables: await stage.tables(), reached: stage.observer.reached, happened, trouble, figures }
    // A run that ended early has left blocks that are not final yet.
    if (trouble !== null) for (const chain of stage.chains) chain.mineEmpty(chain.finalDepth + 6)
    const clean = await cleanRun(setup, stage.chains, seed, 'clean')
    return await judge({ faulty, clean, again: () => cleanRun(setup, stage.chains, seed, 'again') })
  } finally {
    await run.stage.close()
  }
}

/** Calls to the outside that the faulty run made more, or fewer, times than the clean one. */
function repeated({ faulty, clean }: Pair): Reached[] {
  const times = (one: Reached) =>
    clean.reached.find(
      ({ watcher, stage, what }) => watcher === one.watcher && stage === one.stage && what === one.what,
    )?.times ?? 0
  return faulty.reached.filter((one) => one.reach === 'outside' && one.times !== times(one))
}

function rowsOf(setup: ReplaySetup, { faulty, clean }: Pair): string[] {
  return differences(faulty.tables, clean.tables, setup.ignore ?? [], FAULTY)
}

/** Why a run ended early. A clean run that ends early too needs no fault for it. */
function troubleWords(
  trouble: Trouble,
  clean: CleanRun,
  happened: readonly string[],
  tables: readonly ScratchTable[],
): string {
  const { message } = trouble
  if (clean.trouble === null) return `${message} First seen after: ${happened.at(-1) ?? NO_FAULT}.`
  const also = `${message} A clean run of the same chain stops as well: no fault is needed for it.`
  if (tables.length === 0) return `${also} The scratch database has no table of yours: give \`schema\`.`
  if (trouble.isPlain) return also
  return `${also} If your contracts never emit such events, make others with \`generate\`; rows that they refer to are made with \`seed\`.`
}

/** Rows that differ without any fault: the handler's result depends on something else than the event and the database. */
async function undetermined(setup: ReplaySetup, pair: Pair): Promise<string[]> {
  const again = await pair.again()
  const rows = differences(pair.clean.tables, again.tables, setup.ignore ?? [], TWO_CLEAN)
  if (rows.length === 0) return []
  const reads = readWords(pair.clean.reached)
  const unknown =
    'no fault is needed for it: a handler depends on something that is neither its event nor the database, such as the clock, chance, or a variable that outlives its call'
  return [...rows.slice(0, FEW), ...(reads.length > 0 ? reads : [unknown])]
}

/** The plan with fewest actions that was found in which rows still differ, and what happened in it. */
class Shrinker {
  readonly #setup: ReplaySetup
  readonly #seed: number
  readonly #swarm: ReplaySwarm
  #best: { plan: readonly PlannedReplay[]; rows: readonly string[]; happened: readonly string[] }
  #tries = 0

  constructor(
    setup: ReplaySetup,
    seed: number,
    swarm: ReplaySwarm,
    plan: readonly PlannedReplay[],
    rows: readonly string[],
    happened: readonly string[],
  ) {
    this.#setup = setup
    this.#seed = seed
    this.#swarm = swarm
    this.#best = { plan, rows, happened }
  }

  async #try(plan: readonly PlannedReplay[]): Promise<void> {
    if (this.#tries >= MAX_TRIES || plan.length === this.#best.plan.length) return
    this.#tries += 1
    const found = await withPair(this.#setup, this.#seed, this.#swarm, plan, async (pair) => {
      return pair.faulty.trouble === null && pair.clean.trouble === null
        ? { rows: rowsOf(this.#setup, pair), happened: pair.faulty.happened }
        : null
    })
    if (found && found.rows.length > 0) this.#best = { plan, ...found }
  }

  /** Leaves out runs of actions: halves, quarters, down to single ones, from the end. */
  async shrink(): Promise<string[]> {
    for (let size = Math.ceil(this.#best.plan.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
      for (let end = this.#best.plan.length; end > 0; end -= size) {
        await this.#try(this.#best.plan.filter((_, i) => i < end - size || i >= end))
      }
    }
    const fault = this.#best.happened.at(-1) ?? NO_FAULT
    return this.#best.rows.map((row, i) =>
      i === 0 && !row.startsWith('…') ? `${row}; first seen after: ${fault}` : row,
    )
  }
}

/**
 * One seed: the watchers live through a plan of faults, and once through a clean run of the chains that it ended with.
 * @param explain whether a difference is traced to its fault, which takes up to 30 pairs of runs more
 */
export async function judgeSeed(setup: ReplaySetup, seed: number, explain: boolean): Promise<SeedVerdict> {
  const random = new Random(seed)
  const swarm = drawSwarm(random.fork('swarm'))
  const plan = drawReplay(random.fork('plan'), Object.keys(setup.watchers).length, Object.keys(setup.chains).length)
  return withPair(setup, seed, swarm, plan, async (pair) => {
    const { faulty, clean } = pair
    const verdict = (findings: readonly string[]) => ({ seed, figures: faulty.figures, findings })
    if (faulty.trouble !== null) return verdict([troubleWords(faulty.trouble, clean, faulty.happened, faulty.tables)])
    if (clean.trouble !== null) return verdict([troubleWords(clean.trouble, clean, [], clean.tables)])
    const outside = outsideWords(repeated(pair), clean.events)
    const rows = rowsOf(setup, pair)
    if (rows.length === 0 || !explain) return verdict([...outside, ...rows])
    const without = await undetermined(setup, pair)
    const traced =
      without.length > 0 ? without : await new Shrinker(setup, seed, swarm, plan, rows, faulty.happened).shrink()
    return verdict([...outside, ...traced])
  })
}
