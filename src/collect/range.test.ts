import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { blockNumber } from '../chain/block.ts'
import type { Refusal } from '../chain/rpc-errors.ts'
import { firstSpan, grow, nextRange, type Span, shrink, thin, widthOf } from './range.ts'

const n = (value: number) => blockNumber(value)
const tooMany = (hint: Refusal['hint'] = {}): Refusal => ({ meaning: 'too-many-results', hint })
const tooLong = (hint: Refusal['hint'] = {}): Refusal => ({ meaning: 'range-too-large', hint })
const span = (blocks: number, ceiling = 100_000): Span => ({ blocks, ceiling, caution: ceiling, run: 0 })

/** Reads a whole stretch from a node with limits, as the reader does. Answers the ranges that were answered. */
function readAll(
  from: number,
  last: number,
  ceiling: number,
  node: { maxSpan: number; density: (b: number) => number; cap: number },
) {
  let state = firstSpan(ceiling)
  let at = from
  let requests = 0
  const read: { from: number; to: number }[] = []
  while (at <= last) {
    if (++requests > 20_000) throw new Error('no end')
    const range = nextRange(state, n(at), n(last))
    let logs = 0
    for (let b = range.from as number; b <= range.to; b++) logs += node.density(b)
    const refused = widthOf(range) > node.maxSpan ? tooLong() : logs > node.cap ? tooMany() : null
    if (refused) {
      const smaller = shrink(state, range, refused)
      if (!smaller) return { read, stuckAt: at, requests }
      state = smaller
      continue
    }
    state = grow(state, range, logs, 500)
    read.push(range)
    at = range.to + 1
  }
  return { read, stuckAt: null, requests }
}

test('property: ranges cover everything once, in order, within the ceiling, and stop only at a block over the cap', () => {
  const seed = 77
  fc.assert(
    fc.property(
      fc.nat(1000),
      fc.nat(800),
      fc.integer({ min: 1, max: 5000 }),
      fc.integer({ min: 1, max: 3000 }),
      fc.array(fc.nat(60), { minLength: 1, maxLength: 20 }),
      (from, length, ceiling, maxSpan, densities) => {
        const last = from + length
        const density = (b: number) => densities[b % densities.length] ?? 0
        const { read, stuckAt } = readAll(from, last, ceiling, { maxSpan, density, cap: 50 })
        let at = from
        for (const range of read) {
          expect(range.from).toBe(at)
          expect(range.to - range.from + 1).toBeLessThanOrEqual(Math.min(ceiling, maxSpan))
          at = range.to + 1
        }
        if (stuckAt === null) expect(at).toBe(last + 1)
        else expect(density(stuckAt)).toBeGreaterThan(50)
      },
    ),
    { seed, numRuns: 100 },
  )
})

describe('shrinking', () => {
  test('C11: a hinted range is used only if it starts where the request starts and is shorter', () => {
    const asked = { from: n(0x1000000), to: n(0x1200000) }
    expect(shrink(span(1e7, 1e7), asked, tooMany({ from: 0x1000000, to: 0x1080000 }))?.blocks).toBe(0x80001)
    const half = Math.floor(widthOf(asked) / 2)
    for (const hint of [
      { from: 0, to: 5 },
      { from: 0x1000000, to: 0x1200000 },
      { from: 0x1000000, to: 0x1300000 },
    ]) {
      expect(shrink(span(1e7, 1e7), asked, tooMany(hint))?.blocks).toBe(half)
    }
  })

  test('a stated limit stays; on a repeat one block less is asked for', () => {
    const first = shrink(span(5000), { from: n(0), to: n(4999) }, tooLong({ limit: 800 }))
    expect(first).toMatchObject({ blocks: 800, ceiling: 800 })
    expect(shrink(first as Span, { from: n(0), to: n(799) }, tooLong({ limit: 800 }))).toMatchObject({
      blocks: 799,
      ceiling: 799,
    })
  })

  test('C10: one block cannot be made smaller', () => {
    expect(shrink(span(1), { from: n(5), to: n(5) }, tooMany())).toBe(null)
  })

  test('a number of results is not taken for a number of blocks', () => {
    expect(shrink(span(1000), { from: n(0), to: n(999) }, tooMany({ limit: 20 }))?.blocks).toBe(500)
  })
})

test('C14: after a time-out the span grows again, to no more than the ceiling', () => {
  let state = shrink(span(2000, 2000), { from: n(0), to: n(1999) }, { meaning: 'timeout', hint: {} }) as Span
  expect(state.blocks).toBe(1000)
  let at = 0
  for (let i = 0; i < 100; i++) {
    const range = nextRange(state, n(at), n(10_000_000))
    state = grow(state, range, 0, 500)
    expect(state.blocks).toBeLessThanOrEqual(2000)
    at = range.to + 1
  }
  expect(state.blocks).toBe(2000)
})

test('an answer far above the wish is not used; one a little above is, and the next is smaller', () => {
  const asked = { from: n(0), to: n(99) }
  expect(thin(span(100), asked, 5000, 500)?.blocks).toBe(10)
  expect(thin(span(100), asked, 1500, 500)).toBe(null)
  expect(thin(span(1), { from: n(0), to: n(0) }, 50_000, 500)).toBe(null)
  expect(grow(span(100), asked, 1000, 500).blocks).toBe(50)
})

test('control: without growth the property would still hold, so growth is checked by its cost', () => {
  const { requests } = readAll(0, 100_000, 5000, { maxSpan: 1e9, density: () => 0, cap: 10 })
  expect(requests).toBeLessThan(40)
})
