import type { BlockRef } from '../chain/block.ts'
import type { Holder, WatcherRow } from '../store/store.ts'
import type { WatcherRunner } from './runner.ts'
import type { Health, WatcherStatus } from './types.ts'

/** What this process knows of a watcher that it runs itself. */
export interface Live {
  readonly runner: WatcherRunner
  readonly head: BlockRef | null
}

function healthOf(row: WatcherRow, live: Live | undefined, holder: Holder | null): Health {
  if (row.state !== 'running') return row.state
  if (!live) return holder ? 'held' : 'stopped'
  if (live.runner.failing) return 'failing'
  if (live.runner.ended) return 'ended'
  return live.runner.phase === 'live' ? 'live' : 'backfilling'
}

function failingOf(live: Live | undefined): WatcherStatus['failing'] {
  const failing = live?.runner.failing
  if (!failing) return null
  const { code, sentence, next } = failing.error
  return { code, sentence, next, tries: failing.tries }
}

function lagOf(row: WatcherRow, head: number | null): number | null {
  return head === null ? null : Math.max(0, head - (row.cursor?.number ?? row.startBlock - 1))
}

/** The status of one watcher, from its row, from who holds it, and from the runner of this process, if it has one. */
export function watcherStatus(
  row: WatcherRow,
  chain: string,
  live: Live | undefined,
  holder: Holder | null,
): WatcherStatus {
  const head = live?.head?.number ?? null
  return {
    name: row.name,
    chain,
    chainId: row.chainId,
    health: healthOf(row, live, holder),
    holder,
    cursor: row.cursor ? { number: row.cursor.number, hash: row.cursor.hash } : null,
    startBlock: row.startBlock,
    head,
    lagBlocks: lagOf(row, head),
    finalized: row.finalized,
    settled: row.settled,
    lowWater: row.lowWater,
    epoch: row.epoch,
    counters: row.counters,
    reason: row.reason,
    failing: failingOf(live),
    updatedAt: row.cursor ? isoTime(row.updatedAt) : null,
  }
}

/** ISO 8601 from milliseconds since the epoch. */
export function isoTime(ms: number): string {
  return new Date(ms).toISOString()
}
