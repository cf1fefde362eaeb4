import type { World } from '../util/world.ts'
import type { StepResult, WatcherRunner } from './runner.ts'
import type { RunOnceResult } from './types.ts'

/** How a time on duty ended: by itself, by abort, or since another process has taken the watcher over. */
export type FollowEnd = 'ended' | 'aborted' | 'fenced'

/** The daemon's loop around one watcher's step. */
export async function follow(runner: WatcherRunner, world: World, signal: AbortSignal): Promise<FollowEnd> {
  while (!signal.aborted) {
    const { waitMs } = await runner.step(signal)
    if (runner.failing?.error.code === 'FENCED') return 'fenced'
    if (waitMs === null) return signal.aborted ? 'aborted' : 'ended'
    if (waitMs > 0) await world.sleep(waitMs, signal)
  }
  return 'aborted'
}

const RANK = ['idle', 'settle', 'undo', 'events'] as const

function telling(did: RunOnceResult['did'], result: StepResult): RunOnceResult['did'] {
  const rank = (kind: string) => RANK.indexOf(kind as (typeof RANK)[number])
  return rank(result.did) > rank(did) ? (result.did as RunOnceResult['did']) : did
}

interface Turn {
  readonly runner: WatcherRunner
  /** null: it has more to do at once; Infinity: nothing by itself. */
  waitMs: number | null
}

/** Gives each watcher a step in turn until none has anything to do, or the budget is spent. */
export async function runFor(
  runners: readonly WatcherRunner[],
  world: World,
  budgetMs: number,
  signal?: AbortSignal,
): Promise<RunOnceResult> {
  const until = world.monotonic() + budgetMs
  const turns: Turn[] = runners.map((runner) => ({ runner, waitMs: null }))
  let did: RunOnceResult['did'] = 'idle'
  let events = 0
  const over = () => world.monotonic() >= until || signal?.aborted === true
  for (let busy = true; busy && !over(); ) {
    busy = false
    for (const turn of turns) {
      if (turn.waitMs !== null || over()) continue
      const result = await turn.runner.step(signal)
      did = telling(did, result)
      events += result.events
      turn.waitMs = result.waitMs === 0 ? null : (result.waitMs ?? Number.POSITIVE_INFINITY)
      busy ||= turn.waitMs === null
    }
  }
  return { did, events, nextAt: nextAt(turns, world) }
}

function nextAt(turns: readonly Turn[], world: World): Date | null {
  const soonest = Math.min(...turns.map((turn) => turn.waitMs ?? 0))
  return Number.isFinite(soonest) ? new Date(world.now() + soonest) : null
}
