import type { At } from '../../collect/source.ts'
import { duration, thousands } from '../terminal.ts'
import type { Health, Status, WatcherStatus } from '../types.ts'

/** How far a watcher may go: from its definition. */
export interface Goal {
  readonly at: At
  readonly endBlock: number | null
}

/** Looks that the rates are taken over; at one a second that is the last half minute. */
const WINDOW = 30
const BAR_WIDTH = 20

interface Sample {
  readonly at: number
  readonly blocks: number
  readonly events: number
}

/** Everything shown about a run, from the last looks at its status. Pure numbers; the texts are made below. */
export interface Progress {
  /** `waiting`: no watcher moves; each waits for a person (halted, paused) or for a failure to pass. */
  readonly phase: 'starting' | 'backfill' | 'live' | 'waiting' | 'ended'
  readonly done: number
  /** Null while no head is known. */
  readonly total: number | null
  readonly blocksPerSecond: number
  readonly eventsPerSecond: number
  readonly etaMs: number | null
  readonly events: number
  readonly reorgs: number
  /** The watcher that is furthest from its goal, in blocks. */
  readonly slowest: WatcherStatus | null
  readonly count: number
  /** Watchers that need a look: `1 halted`. */
  readonly troubled: readonly string[]
}

/** The newest block that a watcher may apply now; null: not known. */
export function goalBlock(watcher: WatcherStatus, goal: Goal | undefined): number | null {
  const at = goal?.at ?? 'finalized'
  const line = at === 'finalized' ? (watcher.finalized ?? watcher.head) : watcher.head
  if (line === null) return goal?.endBlock ?? null
  const reachable = typeof at === 'object' ? line - at.confirmations + 1 : line
  return Math.min(reachable, goal?.endBlock ?? reachable)
}

interface Distance {
  readonly done: number
  readonly total: number | null
}

/** Blocks done and to do. The cursor may be past a goal that was seen earlier; then the goal has moved too. */
function distanceOf(watcher: WatcherStatus, goal: Goal | undefined): Distance {
  const done = watcher.cursor ? watcher.cursor.number - watcher.startBlock + 1 : 0
  const block = goalBlock(watcher, goal)
  return { done, total: block === null ? null : Math.max(done, block - watcher.startBlock + 1) }
}

function sum(values: readonly number[]): number {
  return values.reduce((a, b) => a + b, 0)
}

function totalOf(distances: readonly Distance[]): number | null {
  return distances.some(({ total }) => total === null) ? null : sum(distances.map(({ total }) => total ?? 0))
}

const STUCK: readonly Health[] = ['failing', 'halted', 'paused']

/** A watcher that does not move has no say, so the others decide. */
function phaseOf(watchers: readonly WatcherStatus[]): Progress['phase'] {
  const moving = watchers.filter(({ health }) => !STUCK.includes(health))
  const is = (health: Health) => (watcher: WatcherStatus) => watcher.health === health
  if (watchers.length > 0 && watchers.every(is('ended'))) return 'ended'
  if (moving.length === 0) return watchers.length > 0 ? 'waiting' : 'starting'
  if (moving.some(is('backfilling')))
    return moving.every(({ cursor, head }) => !cursor && head === null) ? 'starting' : 'backfill'
  return moving.every(is('stopped')) ? 'starting' : 'live'
}

function troubles(watchers: readonly WatcherStatus[]): string[] {
  return STUCK.flatMap((health) => {
    const count = watchers.filter((watcher) => watcher.health === health).length
    return count > 0 ? [`${count} ${health}`] : []
  })
}

/** Turns successive statuses into progress: rates over the last half minute, and the time that is left at that rate. */
export class ProgressMeter {
  readonly #goals: ReadonlyMap<string, Goal>
  #samples: readonly Sample[] = []

  constructor(goals: ReadonlyMap<string, Goal>) {
    this.#goals = goals
  }

  /** @param now milliseconds on the monotonic clock */
  look(status: Status, now: number): Progress {
    const watchers = status.watchers.filter((watcher) => this.#goals.has(watcher.name))
    const distances = watchers.map((watcher) => distanceOf(watcher, this.#goals.get(watcher.name)))
    const done = sum(distances.map((distance) => distance.done))
    const total = totalOf(distances)
    const events = sum(watchers.map(({ counters }) => counters.applied))
    const rates = this.#rates({ at: now, blocks: done, events })
    const etaMs = total === null || rates.blocksPerSecond <= 0 ? null : ((total - done) / rates.blocksPerSecond) * 1_000
    const left = distances.map((distance) => (distance.total ?? distance.done) - distance.done)
    const slowest = watchers[left.indexOf(Math.max(...left))] ?? null
    const reorgs = sum(watchers.map(({ counters }) => counters.reorgs))
    return {
      phase: phaseOf(watchers),
      done,
      total,
      ...rates,
      etaMs,
      events,
      reorgs,
      slowest,
      count: watchers.length,
      troubled: troubles(watchers),
    }
  }

  /** A rollback takes blocks back: a rate is never below 0. */
  #rates(sample: Sample): { blocksPerSecond: number; eventsPerSecond: number } {
    this.#samples = [...this.#samples, sample].slice(-WINDOW)
    const first = this.#samples[0] ?? sample
    const seconds = (sample.at - first.at) / 1_000
    const rate = (from: number, to: number) => (seconds > 0 ? Math.max(0, to - from) / seconds : 0)
    return { blocksPerSecond: rate(first.blocks, sample.blocks), eventsPerSecond: rate(first.events, sample.events) }
  }
}

function bar(share: number): string {
  const full = Math.floor(share * BAR_WIDTH)
  return `[${'#'.repeat(full)}${'-'.repeat(BAR_WIDTH - full)}]`
}

function who({ slowest, count }: Progress): string {
  if (!slowest) return ''
  return count === 1 ? slowest.name : `${count} watchers, furthest behind ${slowest.name}`
}

function backfillText(progress: Progress): string {
  const { done, total, eventsPerSecond, etaMs } = progress
  const share = total ? done / total : 0
  const blocks = `${thousands(done)}/${total === null ? '?' : thousands(total)} blocks`
  const eta = etaMs === null ? 'ETA unknown' : `ETA ${duration(etaMs)}`
  const percent = `${Math.floor(share * 100)}%`.padStart(4)
  return [
    `backfill ${bar(share)}${percent}`,
    blocks,
    `${thousands(eventsPerSecond)} events/s`,
    eta,
    who(progress),
  ].join('  ')
}

function liveText(progress: Progress): string {
  const { slowest, events, reorgs } = progress
  const block = slowest?.cursor ? ` at block ${thousands(slowest.cursor.number)}` : ''
  const behind = slowest?.lagBlocks === null || !slowest ? '' : `, ${thousands(slowest.lagBlocks)} behind the head`
  return [`live  ${who(progress)}${block}${behind}`, `${thousands(events)} events`, `${thousands(reorgs)} reorgs`].join(
    '  ',
  )
}

/** One line for a terminal. */
export function progressLine(progress: Progress): string {
  const trouble = progress.troubled.length > 0 ? `  ${progress.troubled.join(', ')}: see tidemark status` : ''
  if (progress.phase === 'starting') return `starting  ${who(progress)}${trouble}`
  if (progress.phase === 'waiting') return `waiting${trouble}`
  return (progress.phase === 'backfill' ? backfillText(progress) : liveText(progress)) + trouble
}

/** The same as values of a log line, where nobody watches. */
export function progressValues(progress: Progress): Record<string, unknown> {
  const { done, total, events, eventsPerSecond, etaMs, troubled } = progress
  return {
    done,
    total,
    events,
    eventsPerSecond: Math.round(eventsPerSecond),
    etaSeconds: etaMs === null ? null : Math.round(etaMs / 1_000),
    ...(troubled.length > 0 ? { troubled: troubled.join(', ') } : {}),
  }
}
