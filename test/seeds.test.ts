import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { type SimulateInput, simulate } from '../src/testkit/index.ts'

/** Runs of the simulator that once failed, each with its cause, and a few fixed ones. `npm run simulate` plays many more. */

interface Kept extends SimulateInput {
  readonly cause: string
}

const folder = new URL('./seeds/', import.meta.url)
const kept = readdirSync(folder).map((name) => ({
  name,
  run: JSON.parse(readFileSync(new URL(name, folder), 'utf8')) as Kept,
}))
/** About 0.3 s each. */
const FIXED = 24

describe('seeds that failed once', () => {
  test.each(kept)('$name', { timeout: 60_000 }, async ({ run }) => {
    expect(run.cause.length).toBeGreaterThan(40)
    const { failure } = await simulate(run)
    expect(failure).toBeNull()
  })
})

describe('fixed seeds', () => {
  test(`seeds 1 to ${FIXED} keep every promise`, { timeout: 120_000 }, async () => {
    const failures: unknown[] = []
    for (let seed = 1; seed <= FIXED; seed++) {
      const { failure } = await simulate({ seed })
      if (failure) failures.push({ seed, ...failure })
    }
    expect(failures).toEqual([])
  })

  test('the same seed is the same run, and another one is not', { timeout: 60_000 }, async () => {
    const [once, again, other] = [await simulate({ seed: 5 }), await simulate({ seed: 5 }), await simulate({ seed: 6 })]
    expect(again.traceHash).toBe(once.traceHash)
    expect(other.traceHash).not.toBe(once.traceHash)
  })
})
