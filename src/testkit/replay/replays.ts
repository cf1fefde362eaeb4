import type { ReplayFigures } from './faulty-run.ts'
import { judgeSeed, type SeedVerdict } from './judge.ts'
import { checkSetup, type ReplaySetup } from './setup.ts'
import { withTraps } from './traps.ts'

/** Seeds, and what becomes of those that fail. */
export interface ReplayRange {
  /** How many. */
  readonly seeds: number
  /** The first. */
  readonly from: number
  /** So many failing seeds are traced to their fault; the others are told as they are. */
  readonly explain: number
  /** Stops at the first seed that fails. */
  readonly stopAtFirst?: boolean
  /** Called after each seed. */
  readonly onSeed?: (verdict: SeedVerdict) => void
}

/** The totals over some seeds. */
export interface ReplayReport extends ReplayFigures {
  readonly seeds: number
  readonly failed: number
  /** `equal`: every seed left the tables of its clean run. */
  readonly verdict: 'equal' | 'different'
  readonly failures: readonly SeedVerdict[]
}

const NOTHING: ReplayFigures = { steps: 0, events: 0, reorgs: 0, crashes: 0, faults: 0 }

function add(a: ReplayFigures, b: ReplayFigures): ReplayFigures {
  const sum = (key: keyof ReplayFigures) => a[key] + b[key]
  return {
    steps: sum('steps'),
    events: sum('events'),
    reorgs: sum('reorgs'),
    crashes: sum('crashes'),
    faults: sum('faults'),
  }
}

/**
 * Runs the handlers of an application through faults, seed by seed, each on a scratch database, and compares its tables with
 * those of a clean run. Everything follows from the seed, as far as the handlers do.
 * @throws {TidemarkError} when watchers or chains are refused; whatever `schema`, `seed` or `generate` throw
 */
export async function runReplays(setup: ReplaySetup, range: ReplayRange): Promise<ReplayReport> {
  checkSetup(setup)
  return withTraps(async () => {
    let figures = NOTHING
    let seeds = 0
    const failures: SeedVerdict[] = []
    for (; seeds < range.seeds && !(range.stopAtFirst && failures.length > 0); seeds++) {
      const verdict = await judgeSeed(setup, range.from + seeds, failures.length < range.explain)
      figures = add(figures, verdict.figures)
      if (verdict.findings.length > 0) failures.push(verdict)
      range.onSeed?.(verdict)
    }
    return {
      seeds,
      failed: failures.length,
      ...figures,
      verdict: failures.length > 0 ? 'different' : 'equal',
      failures,
    }
  })
}
