import fc from 'fast-check'
import { expect, test } from 'vitest'
import { TidemarkError } from '../errors.ts'
import { BoundedDeduplicator } from './bounded-deduplicator.ts'

/** A failing property prints its seed; FC_SEED repeats it. */
const { FC_SEED } = process.env
const runs = { numRuns: 500, ...(FC_SEED && { seed: Number(FC_SEED) }) }

/** A window of 100 ms over a clock that the test moves. */
function make(maxKeys = 100) {
  const clock = { time: 1_000 }
  return { clock, dedup: new BoundedDeduplicator({ windowSeconds: 0.1, maxKeys, clock: () => clock.time }) }
}

/** The rule written down naively: every mark ever made, and a clock that never goes back. */
class NaiveWindow {
  readonly #marks: { key: string; at: number }[] = []
  readonly #window: number
  readonly #limit: number
  #time: number
  #behind = 0

  constructor(window: number, limit: number, time: number) {
    this.#window = window
    this.#limit = limit
    this.#time = time
  }

  /** `moved`: how far the clock moved since the last call. */
  tick(moved: number): void {
    const behind = this.#behind - moved
    if (behind < 0) this.#time -= behind
    this.#behind = behind < 0 || behind > this.#window ? 0 : behind
  }

  live(): string[] {
    return this.#marks.filter((mark) => this.#time - mark.at < this.#window).map((mark) => mark.key)
  }

  claim(key: string): boolean | 'WINDOW_FULL' {
    const live = this.live()
    if (live.includes(key)) return false
    if (live.length >= this.#limit) return 'WINDOW_FULL'
    this.#marks.push({ key, at: this.#time })
    return true
  }

  forget(key: string): boolean {
    const at = this.#marks.findIndex((mark) => mark.key === key && this.#time - mark.at < this.#window)
    if (at >= 0) this.#marks.splice(at, 1)
    return at >= 0
  }
}

type Step = { call: 'claim' | 'mark' | 'seen' | 'forget' | 'size'; key: string; moved: number }

const steps = fc.array(
  fc.record<Step>({
    call: fc.constantFrom('claim', 'claim', 'mark', 'seen', 'forget', 'size'),
    key: fc.constantFrom('a', 'b', 'c', 'd', 'e'),
    moved: fc.oneof(
      { weight: 6, arbitrary: fc.integer({ min: 0, max: 60 }) },
      { weight: 2, arbitrary: fc.integer({ min: -250, max: -1 }) },
      { weight: 1, arbitrary: fc.constantFrom(99, 100, 101, -99, -100, -101, 5_000, -5_000) },
    ),
  }),
  { maxLength: 60 },
)

function actual(dedup: BoundedDeduplicator, step: Step): unknown {
  if (step.call === 'size') return dedup.size
  try {
    return dedup[step.call](step.key)
  } catch (error) {
    if (TidemarkError.has(error, 'WINDOW_FULL')) return 'WINDOW_FULL'
    throw error
  }
}

function expected(model: NaiveWindow, step: Step): unknown {
  if (step.call === 'size') return model.live().length
  if (step.call === 'seen') return model.live().includes(step.key)
  const answer = model[step.call === 'mark' ? 'claim' : step.call](step.key)
  return step.call === 'mark' && typeof answer === 'boolean' ? undefined : answer
}

test('any calls under any clock answer as the naive list of marks does', () => {
  fc.assert(
    fc.property(steps, fc.integer({ min: 1, max: 5 }), (all, limit) => {
      const { clock, dedup } = make(limit)
      const model = new NaiveWindow(100, limit, clock.time)
      for (const step of all) {
        clock.time += step.moved
        model.tick(step.moved)
        expect(actual(dedup, step)).toEqual(expected(model, step))
      }
    }),
    runs,
  )
})

test('however often the clock steps back, no key is let in twice within one true window', () => {
  fc.assert(
    fc.property(steps, (all) => {
      const { clock, dedup } = make()
      const lastLetIn = new Map<string, number>()
      let trueTime = 0
      for (const { key, moved } of all) {
        clock.time += moved
        trueTime += Math.max(0, moved)
        if (!dedup.claim(key)) continue
        expect(trueTime - (lastLetIn.get(key) ?? Number.NEGATIVE_INFINITY)).toBeGreaterThanOrEqual(100)
        lastLetIn.set(key, trueTime)
      }
    }),
    runs,
  )
})
