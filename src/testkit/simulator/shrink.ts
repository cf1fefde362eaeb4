import type { SwarmOptions } from './options.ts'
import type { PlannedAction } from './plan.ts'
import { optionsOf, planOf, type SimulateInput, type SimulationReport, simulate } from './simulate.ts'

/** A run that fails as the first one did, with as little as possible in it. */
export interface Shrunk {
  readonly options: SwarmOptions
  readonly plan: readonly PlannedAction[]
  readonly report: SimulationReport
  /** Runs that it took. */
  readonly tries: number
}

interface Candidate {
  readonly options: SwarmOptions
  readonly plan: readonly PlannedAction[]
}

/** Runs at most: a story with a few actions too many is better than none. */
const MAX_TRIES = 400

/** What stays of a failure when numbers and hashes are taken off. */
function wayOf({ failure }: SimulationReport): string {
  return failure
    ? `${failure.kind} ${failure.words
        .split('\n')[0]
        ?.replace(/0x[0-9a-f]+|\d+/g, '#')
        .slice(0, 60)}`
    : 'none'
}

class Shrinker {
  tries = 0
  #best: Candidate
  #report: SimulationReport
  readonly #input: SimulateInput
  readonly #way: string

  constructor(input: SimulateInput, start: Candidate, report: SimulationReport) {
    const { seed, database } = input
    this.#input = database ? { seed, database } : { seed }
    this.#best = start
    this.#report = report
    this.#way = wayOf(report)
  }

  get result(): Shrunk {
    return { ...this.#best, report: this.#report, tries: this.tries }
  }

  /** Keeps a candidate that still fails in the same way. */
  async #try(candidate: Candidate): Promise<boolean> {
    if (this.tries >= MAX_TRIES) return false
    this.tries += 1
    const report = await simulate({ ...this.#input, ...candidate })
    if (wayOf(report) !== this.#way) return false
    this.#best = candidate
    this.#report = report
    return true
  }

  /** Leaves out runs of actions: halves, quarters, down to single ones, from the end. */
  async actions(): Promise<void> {
    for (let size = Math.ceil(this.#best.plan.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
      for (let end = this.#best.plan.length; end > 0; end -= size) {
        const { plan, options } = this.#best
        await this.#try({ options, plan: plan.filter((_, i) => i < end - size || i >= end) })
      }
    }
  }

  /** Switches off what the failure does not need. */
  async options(): Promise<void> {
    const { faults } = this.#best.options
    const well = faults.map(() => ({}))
    const simpler: Partial<SwarmOptions>[] = [
      { faults: well, habits: well },
      { habits: well },
      { history: 0 },
      { lies: 0 },
      { mixes: 0 },
      { nulls: 0 },
      { gaps: 0 },
      { latencyMs: 0 },
      { handlerMs: 0 },
      { minDepth: 0 },
      { maxEvents: 500 },
      { maxRange: 500 },
    ]
    for (const change of simpler) await this.#change(change)
    for (const [i, own] of this.#best.options.faults.entries()) {
      for (const name of Object.keys(own)) await this.#withoutFault(i, name)
    }
  }

  async #change(change: Partial<SwarmOptions>): Promise<void> {
    const { plan, options } = this.#best
    const same = Object.entries(change).every(
      ([key, value]) => JSON.stringify(options[key as keyof SwarmOptions]) === JSON.stringify(value),
    )
    if (!same) await this.#try({ plan, options: { ...options, ...change } })
  }

  async #withoutFault(provider: number, name: string): Promise<void> {
    const faults = this.#best.options.faults.map((own, i) => {
      return i === provider ? Object.fromEntries(Object.entries(own).filter(([key]) => key !== name)) : own
    })
    await this.#change({ faults })
  }
}

/** Takes actions and faults out of a failing run for as long as it fails in the same way. Null: the run does not fail. */
export async function shrink(input: SimulateInput): Promise<Shrunk | null> {
  const start = { options: optionsOf(input), plan: planOf(input) }
  const report = await simulate({ ...input, ...start })
  if (report.ok) return null
  const shrinker = new Shrinker(input, start, report)
  // Options first: a world without the faults that are not needed makes more of the actions superfluous.
  await shrinker.options()
  await shrinker.actions()
  await shrinker.options()
  await shrinker.actions()
  return shrinker.result
}
