import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { TidemarkError } from '../errors.ts'
import { BoundedDeduplicator, type BoundedDeduplicatorOptions } from './bounded-deduplicator.ts'

/** A clock that the test moves. */
class TestClock {
  time = 1_000
  readonly read = (): number => this.time
}

function make(options: Partial<BoundedDeduplicatorOptions> = {}) {
  const clock = new TestClock()
  return { clock, dedup: new BoundedDeduplicator({ windowSeconds: 60, clock: clock.read, ...options }) }
}

function codeOf(fn: () => unknown): string {
  try {
    fn()
  } catch (error) {
    return TidemarkError.is(error) ? error.code : String(error)
  }
  return 'no error'
}

describe('the edges of the window', () => {
  test('C64: a key is a duplicate up to one millisecond before the window ends', () => {
    const { clock, dedup } = make()
    expect(dedup.claim('k')).toBe(true)
    clock.time += 59_999
    expect(dedup.seen('k')).toBe(true)
    expect(dedup.claim('k')).toBe(false)
  })

  test('C64: a key is new again at exactly the end of the window', () => {
    const { clock, dedup } = make()
    dedup.claim('k')
    clock.time += 60_000
    expect(dedup.seen('k')).toBe(false)
    expect(dedup.claim('k')).toBe(true)
  })

  test('a repeat inside the window does not extend it, by claim or by mark', () => {
    const { clock, dedup } = make()
    dedup.mark('k')
    clock.time += 59_000
    expect(dedup.claim('k')).toBe(false)
    dedup.mark('k')
    clock.time += 1_000
    expect(dedup.claim('k')).toBe(true)
  })

  test('C64: 10:59:58 and 11:00:03 are in one window: there are no hour buckets', () => {
    const { clock, dedup } = make()
    clock.time = Date.UTC(2024, 0, 1, 10, 59, 58)
    expect(dedup.claim('k')).toBe(true)
    clock.time = Date.UTC(2024, 0, 1, 11, 0, 3)
    expect(dedup.claim('k')).toBe(false)
  })

  test('a window of a fraction of a second is honoured', () => {
    const { clock, dedup } = make({ windowSeconds: 0.25 })
    dedup.mark('k')
    clock.time += 249
    expect(dedup.seen('k')).toBe(true)
    clock.time += 1
    expect(dedup.seen('k')).toBe(false)
  })
})

describe('a clock that misbehaves', () => {
  test('C64: a step back of 30 s lets no key in again', () => {
    const { clock, dedup } = make()
    dedup.mark('k')
    clock.time -= 30_000
    expect(dedup.claim('k')).toBe(false)
  })

  test('C64: a step back of three hours blocks a key for one more window, not for hours', () => {
    const { clock, dedup } = make()
    dedup.mark('k')
    clock.time -= 3 * 3_600_000
    expect(dedup.claim('k')).toBe(false)
    clock.time += 60_000
    expect(dedup.claim('k')).toBe(true)
  })

  test('a step back of one whole window holds a key for two windows and no longer', () => {
    const { clock, dedup } = make()
    dedup.mark('k')
    clock.time -= 60_000
    expect(dedup.seen('k')).toBe(true)
    clock.time += 119_999
    expect(dedup.seen('k')).toBe(true)
    clock.time += 1
    expect(dedup.seen('k')).toBe(false)
  })

  test('a clock that flickers between two readings does not run twice as fast', () => {
    const { clock, dedup } = make()
    dedup.mark('k')
    for (let i = 0; i < 100; i++) {
      clock.time += 1_000
      dedup.seen('k')
      clock.time -= 1_000
      expect(dedup.seen('k')).toBe(true)
    }
  })

  test.each([Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])(
    'a reading of %s opens nothing',
    (bad) => {
      const { clock, dedup } = make()
      dedup.mark('k')
      const { time } = clock
      clock.time = bad
      expect(dedup.claim('k')).toBe(false)
      clock.time = time + 60_000
      expect(dedup.claim('k')).toBe(true)
    },
  )
})

describe('marking', () => {
  test('asking does not mark', () => {
    const { dedup } = make()
    expect(dedup.seen('k')).toBe(false)
    expect(dedup.seen('k')).toBe(false)
    expect(dedup.size).toBe(0)
  })

  test('C56: a failed key is not refused for ever: forget makes it new', () => {
    const { dedup } = make()
    expect(dedup.claim('k')).toBe(true)
    expect(dedup.forget('k')).toBe(true)
    expect(dedup.forget('k')).toBe(false)
    expect(dedup.claim('k')).toBe(true)
  })

  test('a key forgotten and marked again lives a whole window from the second mark', () => {
    const { clock, dedup } = make()
    dedup.mark('k')
    clock.time += 30_000
    dedup.forget('k')
    dedup.mark('k')
    clock.time += 30_000
    expect(dedup.seen('k')).toBe(true)
    clock.time += 30_000
    expect(dedup.seen('k')).toBe(false)
  })
})

describe('bounds (P6)', () => {
  test('a full window refuses a new key, and keeps every old one', () => {
    const { clock, dedup } = make({ maxKeys: 2 })
    dedup.mark('a')
    dedup.mark('b')
    expect(codeOf(() => dedup.claim('c'))).toBe('WINDOW_FULL')
    expect(codeOf(() => dedup.mark('c'))).toBe('WINDOW_FULL')
    expect(dedup.seen('c')).toBe(false)
    expect([dedup.claim('a'), dedup.claim('b'), dedup.size]).toEqual([false, false, 2])
    clock.time += 60_000
    expect(dedup.claim('c')).toBe(true)
  })

  test('C62: with a cap of 2,048, the first key is still a duplicate after 3,000 others were offered', () => {
    const { dedup } = make({ maxKeys: 2_048 })
    dedup.mark('first')
    let refused = 0
    for (let i = 0; i < 3_000; i++) if (codeOf(() => dedup.claim(`k${i}`)) === 'WINDOW_FULL') refused++
    expect(refused).toBe(3_000 - 2_047)
    expect(dedup.claim('first')).toBe(false)
  })

  test('the refusal says how long until a place is free', () => {
    const { clock, dedup } = make({ maxKeys: 1 })
    dedup.mark('a')
    clock.time += 45_000
    expect(() => dedup.mark('b')).toThrow(/freeInMs=15000/)
  })
})

describe('cost and memory', () => {
  afterEach(() => vi.restoreAllMocks())

  /** Counts what the window asks of its Map, with the real Map answering. */
  function countMapCalls() {
    const prototype = Map.prototype
    return {
      has: vi.spyOn(prototype, 'has'),
      get: vi.spyOn(prototype, 'get'),
      set: vi.spyOn(prototype, 'set'),
      delete: vi.spyOn(prototype, 'delete'),
      keys: vi.spyOn(prototype, 'keys'),
      entries: vi.spyOn(prototype, 'entries'),
      values: vi.spyOn(prototype, 'values'),
      forEach: vi.spyOn(prototype, 'forEach'),
    }
  }

  function callsPerClaim(live: number, claims: number): Record<string, number> {
    const { clock, dedup } = make({ windowSeconds: live / 1000 })
    for (let i = 0; i < live; i++, clock.time++) dedup.mark(`k${i}`)
    const spies = countMapCalls()
    for (let i = live; i < live + claims; i++, clock.time++) dedup.claim(`k${i}`)
    const counted = Object.entries(spies).map(([name, spy]) => [name, spy.mock.calls.length / claims])
    vi.restoreAllMocks()
    return Object.fromEntries(counted)
  }

  test('a claim costs what expires, whatever the number of live keys', () => {
    const small = callsPerClaim(10, 5_000)
    expect(small).toEqual({ has: 1, get: 0, set: 1, delete: 1, keys: 0, entries: 0, values: 0, forEach: 0 })
    expect(callsPerClaim(20_000, 5_000)).toEqual(small)
  })

  test('what expires together is dropped once, at the next call, and never again', () => {
    const { clock, dedup } = make()
    for (let i = 0; i < 1_000; i++) dedup.mark(`k${i}`)
    clock.time += 60_000
    const { delete: deleted } = countMapCalls()
    dedup.seen('other')
    expect(deleted).toHaveBeenCalledTimes(1_000)
    dedup.seen('other')
    expect(deleted).toHaveBeenCalledTimes(1_000)
  })

  const collect = (() => {
    setFlagsFromString('--expose-gc')
    return runInNewContext('gc') as () => void
  })()

  function heapMegabytes(): number {
    collect()
    return process.memoryUsage().heapUsed / 2 ** 20
  }

  test('C62: 1,000,000 claims through a window of 1,000 keys leave 1,000 keys and no memory behind', () => {
    const { clock, dedup } = make({ windowSeconds: 1 })
    for (let i = 0; i < 1_000; i++, clock.time++) dedup.claim(`warm-${i}`)
    const before = heapMegabytes()
    for (let i = 0; i < 1_000_000; i++, clock.time++) dedup.claim(`key-${i}`)
    const grown = heapMegabytes() - before
    expect(dedup.size).toBe(999)
    expect(grown).toBeLessThan(2)
    // The control: the same keys without a window are seen by this measurement.
    const control = new Set(Array.from({ length: 100_000 }, (_, i) => `key-${i}`))
    expect(heapMegabytes() - before).toBeGreaterThan(4)
    expect(control.size).toBe(100_000)
  })

  test('claim and forget, repeated inside one window, leave nothing behind', () => {
    const { dedup } = make()
    const before = heapMegabytes()
    for (let i = 0; i < 300_000; i++) {
      dedup.claim(`key-${i}`)
      dedup.forget(`key-${i}`)
    }
    expect(dedup.size).toBe(0)
    expect(heapMegabytes() - before).toBeLessThan(2)
  })
})

describe('bad input', () => {
  test.each([0, -1, Number.NaN, Number.POSITIVE_INFINITY, 1e308, '60', undefined])(
    'windowSeconds %s is refused',
    (bad) => {
      expect(codeOf(() => new BoundedDeduplicator({ windowSeconds: bad as number }))).toBe('CONFIG_INVALID')
    },
  )

  test.each([0, 1.5, -3, 2 ** 24, Number.NaN])('maxKeys %s is refused', (bad) => {
    expect(codeOf(() => new BoundedDeduplicator({ windowSeconds: 1, maxKeys: bad }))).toBe('CONFIG_INVALID')
  })

  test('a misspelt option is refused with the right spelling', () => {
    const make = () => new BoundedDeduplicator({ windowSeconds: 1, maxkey: 5 } as BoundedDeduplicatorOptions)
    expect(codeOf(make)).toBe('CONFIG_UNKNOWN_KEY')
    expect(make).toThrow("did you mean 'maxKeys'?")
  })

  test('a clock that tells no time is refused', () => {
    expect(codeOf(() => new BoundedDeduplicator({ windowSeconds: 1, clock: () => Number.NaN }))).toBe('CONFIG_INVALID')
  })

  test.each([undefined, null, 7, '', 'x'.repeat(256)])(
    'the key %s is refused: events without a key are not duplicates',
    (bad) => {
      const { dedup } = make()
      for (const call of ['seen', 'mark', 'claim', 'forget'] as const) {
        expect(codeOf(() => dedup[call](bad as string))).toBe('EVENT_KEY_INVALID')
      }
      expect(dedup.size).toBe(0)
    },
  )

  test('the default clock moves and is not the wall clock', () => {
    const dedup = new BoundedDeduplicator({ windowSeconds: 3_600 })
    const wall = vi.spyOn(Date, 'now')
    expect([dedup.claim('k'), dedup.claim('k')]).toEqual([true, false])
    expect(wall).not.toHaveBeenCalled()
    wall.mockRestore()
  })
})
