import { describe, expect, test } from 'vitest'
import { Written } from '../../../test/support/cli-io.ts'
import type { Health, Status, WatcherStatus } from '../types.ts'
import { LiveLine } from './live-line.ts'
import { type Goal, goalBlock, ProgressMeter, progressLine, progressValues } from './progress.ts'

interface Sketch {
  name?: string
  health?: Health
  cursor?: number | null
  head?: number | null
  finalized?: number | null
  events?: number
}

/** A watcher that starts at block 1,000. */
function watcher({
  name = 'deposits/ethereum',
  health = 'backfilling',
  cursor = null,
  head = null,
  finalized = null,
  events = 0,
}: Sketch): WatcherStatus {
  return {
    ...{ name, health, head, finalized, chain: 'ethereum', chainId: 1, startBlock: 1_000 },
    cursor: cursor === null ? null : { number: cursor, hash: '0x00' },
    lagBlocks: head === null || cursor === null ? null : head - cursor,
    ...{ holder: null, settled: null, lowWater: null, epoch: 0, reason: null, failing: null, updatedAt: null },
    counters: { applied: events, undone: 0, duplicates: 0, reorgs: 0 },
  }
}

const at = (...watchers: Sketch[]): Status => ({ running: true, store: 'sqlite', watchers: watchers.map(watcher) })
const goal: Goal = { at: 'finalized', endBlock: null }
const meter = (names = ['deposits/ethereum'], goals: Goal = goal) =>
  new ProgressMeter(new Map(names.map((name) => [name, goals])))

describe('the goal is the newest block that the watcher may apply', () => {
  const seen = watcher({ head: 2_000, finalized: 1_900 })
  test.each<[string, Goal, number]>([
    ['finality', { at: 'finalized', endBlock: null }, 1_900],
    ['the head', { at: 'latest', endBlock: null }, 2_000],
    ['1 confirmation is the head itself', { at: { confirmations: 1 }, endBlock: null }, 2_000],
    ['12 confirmations', { at: { confirmations: 12 }, endBlock: null }, 1_989],
    ['the end block when it comes first', { at: 'latest', endBlock: 1_500 }, 1_500],
    ['not an end block that is still to come', { at: 'finalized', endBlock: 5_000 }, 1_900],
  ])('%s', (_, wanted, block) => {
    expect(goalBlock(seen, wanted)).toBe(block)
  })
})

describe('rates and time left', () => {
  test('are those of the last half minute', () => {
    const one = meter()
    one.look(at({ cursor: 1_099, head: 3_000, finalized: 2_999 }), 0)
    const progress = one.look(at({ cursor: 1_299, head: 3_000, finalized: 2_999, events: 5_000 }), 2_000)
    expect(progress).toMatchObject({
      done: 300,
      total: 2_000,
      blocksPerSecond: 100,
      eventsPerSecond: 2_500,
      etaMs: 17_000,
    })
    for (let i = 3; i < 40; i++)
      one.look(at({ cursor: 1_299, head: 3_000, finalized: 2_999, events: 5_000 }), i * 1_000)
    expect(one.look(at({ cursor: 1_299, head: 3_000, finalized: 2_999 }), 40_000)).toMatchObject({
      blocksPerSecond: 0,
      etaMs: null,
    })
  })

  test('a rollback gives no negative rate, and a first look no rate at all', () => {
    const one = meter()
    expect(one.look(at({ cursor: 1_500, head: 2_000 }), 0)).toMatchObject({ blocksPerSecond: 0, etaMs: null })
    expect(one.look(at({ cursor: 1_400, head: 2_000 }), 1_000)).toMatchObject({ blocksPerSecond: 0, etaMs: null })
  })

  test('without a head the total is unknown, not wrong', () => {
    const progress = meter().look(at({ cursor: 1_099 }), 0)
    expect(progress.total).toBeNull()
    expect(progressLine(progress)).toContain('100/? blocks  0 events/s  ETA unknown')
  })

  test('watchers of the store that this process does not run do not count', () => {
    expect(meter().look(at({ cursor: 1_099 }, { name: 'old/ethereum', cursor: 9_000, events: 7 }), 0)).toMatchObject({
      done: 100,
      events: 0,
      count: 1,
    })
  })
})

describe('phases', () => {
  const phase = (...healths: Health[]) => {
    const names = healths.map((_, i) => `w${i}/ethereum`)
    return meter(names).look(
      at(...healths.map((health, i) => ({ name: `w${i}/ethereum`, health, cursor: 1_000, head: 1_010 }))),
      0,
    ).phase
  }
  test('one that backfills is enough for backfill; ended only when all have', () => {
    expect(phase('live', 'backfilling')).toBe('backfill')
    expect(phase('live', 'ended')).toBe('live')
    expect(phase('ended', 'ended')).toBe('ended')
    expect(phase('stopped')).toBe('starting')
  })

  test('a watcher that does not move neither ends the run nor holds the others in a phase', () => {
    expect(phase('halted', 'ended')).toBe('live')
    expect(phase('halted', 'backfilling')).toBe('backfill')
    expect(phase('halted', 'paused')).toBe('waiting')
    expect(phase('failing')).toBe('waiting')
  })
})

describe('texts', () => {
  test('backfill: bar, blocks, events, time left, and who is furthest behind', () => {
    const two = meter(['a/x', 'b/x'])
    const look = (cursor: number, events: number) =>
      at(
        { name: 'a/x', cursor, head: 101_000, finalized: 100_999, events },
        { name: 'b/x', cursor: 100_999, head: 101_000, finalized: 100_999, health: 'live' },
      )
    two.look(look(20_999, 0), 0)
    expect(progressLine(two.look(look(50_999, 12_345), 1_000))).toBe(
      'backfill [###############-----] 75%  150,000/200,000 blocks  12,345 events/s  ETA 2s  2 watchers, furthest behind a/x',
    )
  })

  test('live: one quiet line, with the watchers that need a look', () => {
    const names = ['a/x', 'b/x']
    const status = at(
      { name: 'a/x', health: 'live', cursor: 1_234, head: 1_236, events: 9 },
      { name: 'b/x', health: 'halted', cursor: 1_236, head: 1_236 },
    )
    const progress = meter(names).look(status, 0)
    expect(progressLine(progress)).toContain('1 halted: see tidemark status')
    expect(progressValues(progress)).toMatchObject({ events: 9, troubled: '1 halted' })
  })
})

describe('the live line', () => {
  const plain = (_: string, text: string) => text

  test('is rewritten in place, log lines pass above it, and nothing is left for the shell', () => {
    const output = new Written(true, 12)
    const live = new LiveLine(output, plain)
    live.show('one')
    live.print('log')
    live.show('a text wider than the terminal')
    live.end()
    expect(output.text.split('\r\u001b[2K')).toEqual(['', 'one', 'log\none', 'a text wide', ''])
  })

  test('does not exist where nobody looks', () => {
    const output = new Written(false)
    const live = new LiveLine(output, plain)
    live.show('one')
    live.print('log')
    live.end()
    expect(output.text).toBe('log\n')
  })
})
