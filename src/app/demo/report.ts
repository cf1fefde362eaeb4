import type { FakeChain } from '../../testkit/fake-chain.ts'
import type { Performance } from './performance.ts'
import type { Screen } from './screen.ts'
import { differences, eventCount, type Tables } from './verdict.ts'

/** The last line of `tidemark demo --json`. */
export interface DemoSummary {
  readonly seed: string
  /** Events on the final chain. */
  readonly events: number
  /** Logs in the node's answers, and those taken up again after a kill or a reorg. */
  readonly deliveries: number
  /** Deliveries that led to no effect, since the effect was there or never came to be. */
  readonly duplicatesDropped: number
  readonly reorgs: number
  readonly eventsUndone: number
  readonly kills: number
  readonly verdict: 'equal' | 'different'
}

export interface Report {
  readonly summary: DemoSummary
  readonly deepest: number
  readonly requests: number
  readonly faults: number
  readonly differences: readonly string[]
}

export interface Facts {
  readonly seed: string
  readonly chain: FakeChain
  readonly performance: Performance
  readonly tables: Tables & { readonly counters: Readonly<Record<string, unknown>> }
  readonly deliveries: number
  readonly requests: number
  readonly faults: number
  readonly failure: string | null
}

export function total(counts: Readonly<Record<string, number | undefined>>): number {
  return Object.values(counts).reduce((sum: number, count) => sum + (count ?? 0), 0)
}

export function reportOf(facts: Facts): Report {
  const found = facts.failure ? [facts.failure] : differences(facts.chain, facts.tables)
  const applied = Number(facts.tables.counters.applied ?? 0)
  return {
    summary: {
      seed: facts.seed,
      events: eventCount(facts.chain),
      deliveries: facts.deliveries,
      duplicatesDropped: Math.max(0, facts.deliveries - applied),
      reorgs: facts.performance.counts.reorgs,
      eventsUndone: Number(facts.tables.counters.undone ?? 0),
      kills: facts.performance.counts.kills,
      verdict: found.length === 0 ? 'equal' : 'different',
    },
    deepest: facts.performance.deepest,
    requests: facts.requests,
    faults: facts.faults,
    differences: found,
  }
}

export function printReport(screen: Screen, report: Report, tookMs: number): void {
  const { summary } = report
  screen.tell('')
  screen.table([
    ['events on the final chain', summary.events],
    ['deliveries of them by the node', summary.deliveries],
    ['duplicates dropped', summary.duplicatesDropped],
    ['reorgs', `${summary.reorgs} (deepest ${report.deepest})`],
    ['events undone', summary.eventsUndone],
    ['kills survived', summary.kills],
    ['requests, with faults in them', `${report.requests}, ${report.faults}`],
  ])
  screen.tell('')
  for (const difference of report.differences.slice(0, 20)) screen.tell(screen.paint('red', `  ${difference}`))
  const equal = summary.verdict === 'equal'
  const words = equal
    ? 'equal to a naive replay of the final chain'
    : 'DIFFERENT from a naive replay of the final chain'
  screen.tell(
    `verdict: ${screen.paint(equal ? 'green' : 'red', words)}  (seed ${summary.seed}, ${screen.took(tookMs)})`,
  )
}
