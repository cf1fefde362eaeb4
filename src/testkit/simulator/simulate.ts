import { Random } from '../random.ts'
import type { Backend, SimulatedDatabase } from './backend.ts'
import { type FailureKind, SimulationFailure } from './failure.ts'
import { type SwarmOptions, swarmOptions } from './options.ts'
import { drawPlan, type PlannedAction } from './plan.ts'
import { Simulation } from './simulation.ts'
import { SqliteBackend } from './sqlite-backend.ts'
import { Trace } from './trace.ts'

export interface SimulateInput {
  readonly seed: number | string
  /** Replace what the seed drew. */
  readonly options?: Partial<SwarmOptions>
  /** The actions to perform; default: those that seed and options draw. */
  readonly plan?: readonly PlannedAction[]
  /** Where the run keeps its data. Default: a SQLite file of its own. */
  readonly database?: SimulatedDatabase
  /** Called with each line of the story as it happens. */
  readonly onStep?: (line: string) => void
}

export interface SimulationReport {
  readonly seed: number | string
  readonly ok: boolean
  readonly failure: { readonly kind: FailureKind; readonly words: string } | null
  /** Actions performed, and runs in which everything had to settle. */
  readonly steps: number
  /** Events applied, those that were undone later among them. */
  readonly events: number
  readonly reorgs: number
  readonly crashes: number
  /** Faults of providers, disk and handlers that struck, and lies that were told. */
  readonly faults: number
  /** How often each fault, mishap, misbehaviour, lie and slip acted, by name; those that did not are left out. */
  readonly acted: Readonly<Record<string, number>>
  /** SHA-256 of everything that happened, in hex: the same for the same seed, in any process. */
  readonly traceHash: string
  /** What happened, line by line. */
  readonly story: readonly string[]
}

/** The options of a run: those of the seed, and what was given by hand. */
export function optionsOf({ seed, options = {} }: SimulateInput): SwarmOptions {
  return { ...swarmOptions(seed), ...options }
}

/** The plan of a run, drawn before anything happens. */
export function planOf(input: SimulateInput): readonly PlannedAction[] {
  if (input.plan) return input.plan
  const options = optionsOf(input)
  const plan = drawPlan(new Random(input.seed).fork('plan'), options)
  return input.database?.planOf(input.seed, options, plan) ?? plan
}

function failureOf(error: unknown): { kind: FailureKind; words: string } {
  if (error instanceof SimulationFailure) return { kind: error.kind, words: error.message }
  return { kind: 'simulator', words: error instanceof Error ? (error.stack ?? error.message) : String(error) }
}

/** Plays the plan, then lets everything settle. Null: every promise was kept. */
async function play(simulation: Simulation, plan: readonly PlannedAction[]): Promise<SimulationReport['failure']> {
  try {
    for (const action of plan) await simulation.perform(action)
    await simulation.settle()
    return null
  } catch (error) {
    return failureOf(error)
  }
}

/**
 * One run of Tidemark in a hostile world that is made from a seed: a chain with reorgs, lying providers, a disk and processes
 * that fail at any statement, handlers that misbehave. Promises are checked after each action, and at the end the
 * database is compared with a naive replay of the final chain. No real time passes, and the same seed gives the same run.
 */
export async function simulate(input: SimulateInput): Promise<SimulationReport> {
  const trace = new Trace(input.onStep)
  const backend = (await input.database?.begin()) ?? ((options: SwarmOptions): Backend => new SqliteBackend(options))
  const simulation = new Simulation(input.seed, optionsOf(input), trace, backend)
  try {
    const failure = await play(simulation, planOf(input))
    if (failure) trace.add(`FAILED, ${failure.kind}: ${failure.words}`)
    const { steps, tally, reorgs, faults, acted } = simulation
    const { events, crashes } = tally
    return {
      seed: input.seed,
      ok: failure === null,
      failure,
      steps,
      events,
      reorgs,
      crashes,
      faults,
      acted,
      traceHash: trace.end(),
      story: trace.story,
    }
  } finally {
    await simulation.close()
  }
}
