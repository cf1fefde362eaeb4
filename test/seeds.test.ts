import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { type PlannedAction, planOf, type SwarmOptions, shrink, simulate } from '../src/testkit/index.ts'
import { root } from './house/tree.ts'

/**
 * The simulator as the judge of every change: the runs that ever failed, each with its cause, and that a seed is a run. A block
 * of fixed seeds runs as a check of its own (`npm run simulate -- --seeds 300`), beside these tests.
 */

interface Failed {
  readonly seed: number | string
  readonly cause: string
  readonly failure: string
  readonly options: Partial<SwarmOptions>
  readonly plan: readonly PlannedAction[]
}

const FOLDER = join(root, 'test/seeds')
const files = readdirSync(FOLDER).filter((name) => name.endsWith('.json'))
const read = (name: string) => JSON.parse(readFileSync(join(FOLDER, name), 'utf8')) as Failed

describe('what failed once stays mended', () => {
  for (const name of files) {
    test(name, async () => {
      const { seed, cause, options, plan } = read(name)
      expect(cause.length).toBeGreaterThan(40)
      const { failure } = await simulate({ seed, options, plan })
      expect(failure).toBeNull()
    })
  }
})

describe('a seed is a run', () => {
  const seeds = [11, 12, 13]

  test('the same seed leaves the same trace twice, and in another process', { timeout: 120_000 }, async () => {
    const hashes: string[] = []
    for (const seed of seeds) hashes.push((await simulate({ seed })).traceHash)
    expect((await simulate({ seed: seeds[0]! })).traceHash).toBe(hashes[0])
    const jiti = join(root, 'node_modules/jiti/lib/jiti-cli.mjs')
    const args = [jiti, 'scripts/simulate.ts', '--worker', '0', '--workers', '1', '--from', '11', '--seeds', '3']
    const other = spawnSync(process.execPath, args, { cwd: root, encoding: 'utf8' })
    const lines = other.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { traceHash: string })
    expect(lines.map(({ traceHash }) => traceHash)).toEqual(hashes)
    expect(new Set(hashes).size).toBe(seeds.length)
  })

  test('a run does what its plan says', async () => {
    const { steps, events, story } = await simulate({ seed: 11 })
    const plan = planOf({ seed: 11 })
    expect(story.filter((line) => /^\d+\. /.test(line)).length).toBe(plan.length)
    expect(steps).toBeGreaterThan(plan.length)
    expect(events).toBeGreaterThan(0)
  })
})

// Control: a node that leaves out logs of final blocks on every reading is beyond what the default evidence finds.
const beyond = {
  watchers: ['finalized'],
  faults: [{ truncatedLogs: 1 }],
  habits: [{}],
  finality: 'depth',
  finalDepth: 4,
  density: 0.8,
  history: 20,
} as const

describe('a broken promise is found', () => {
  test('told by its kind, in words, and shrunk to the actions that it needs', { timeout: 120_000 }, async () => {
    const seed = 8
    const { ok, failure, story } = await simulate({ seed, options: beyond })
    expect(ok).toBe(false)
    expect(failure?.kind).toMatch(/^(content|oracle)$/)
    expect(failure?.words).toMatch(
      /^finalized: up to block \d+ there are \d+ effects, expected \d+; first difference: /,
    )
    expect(story.at(-1)).toMatch(/^FAILED, /)
    const shrunk = await shrink({ seed, options: beyond })
    expect(shrunk?.report.failure?.kind).toBe(failure?.kind)
    expect(shrunk!.plan.length).toBeLessThan(planOf({ seed, options: beyond }).length / 3)
    expect((await simulate({ seed, options: shrunk!.options, plan: shrunk!.plan })).failure).toEqual(
      shrunk!.report.failure,
    )
  })

  test('a run that keeps its promises has nothing to shrink', async () => {
    expect(await shrink({ seed: 11 })).toBeNull()
  })
})
