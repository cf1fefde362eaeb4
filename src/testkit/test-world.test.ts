import { describe, expect, test } from 'vitest'
import { testWorld } from './test-world.ts'

describe('a world whose time the test moves', () => {
  test('sleepers wake in order of their moment, then in the order they fell asleep', async () => {
    const world = testWorld()
    const woken: string[] = []
    const nap = (name: string, ms: number) => world.sleep(ms).then(() => woken.push(`${name}@${world.monotonic()}`))
    void nap('late', 300)
    void nap('first', 100)
    void nap('second', 100)
    await world.advance(99)
    expect(woken).toEqual([])
    await world.advance(201)
    expect(woken).toEqual(['first@100', 'second@100', 'late@300'])
    expect(world.sleeping).toBe(0)
  })

  test('a loop that sleeps turns as often as time allows, each turn at its own moment', async () => {
    const world = testWorld({ start: 1_000 })
    const at: number[] = []
    const stop = new AbortController()
    const loop = (async () => {
      while (!stop.signal.aborted) {
        await world.sleep(100, stop.signal)
        at.push(world.now())
      }
    })()
    await world.advance(350)
    expect(at).toEqual([1_100, 1_200, 1_300])
    expect(world.nextWakeIn).toBe(50)
    stop.abort()
    await loop
    expect(at).toHaveLength(4)
    expect(world.sleeping).toBe(0)
  })

  test('a jump of the wall clock moves nothing else', async () => {
    const world = testWorld({ start: 0 })
    let woke = false
    void world.sleep(10).then(() => {
      woke = true
    })
    world.jumpWallClock(3_600_000)
    expect(world.now()).toBe(3_600_000)
    world.jumpWallClock(-7_200_000)
    await world.runPending()
    expect([world.now(), world.monotonic(), woke]).toEqual([-3_600_000, 0, false])
    await world.advance(10)
    expect([world.monotonic(), woke]).toEqual([10, true])
  })

  test('after a suspension everything due wakes at the new time', async () => {
    const world = testWorld()
    const at: number[] = []
    for (const ms of [20, 10, 5_000]) void world.sleep(ms).then(() => at.push(world.monotonic()))
    await world.suspend(1_000)
    expect(at).toEqual([1_000, 1_000])
  })

  test('auto-advance moves time only when nothing else can run', async () => {
    const world = testWorld({ autoAdvance: true })
    const story: string[] = []
    const busy = async () => {
      for (let i = 0; i < 200; i++) await null
      story.push(`busy done @${world.monotonic()}`)
    }
    const sleeper = async (ms: number) => {
      await world.sleep(ms)
      story.push(`slept to ${world.monotonic()}`)
      await world.sleep(ms)
      story.push(`slept to ${world.monotonic()}`)
    }
    await Promise.all([sleeper(60_000), sleeper(40_000), busy()])
    expect(story).toEqual(['busy done @0', 'slept to 40000', 'slept to 60000', 'slept to 80000', 'slept to 120000'])
  })

  test('control: without auto-advance the same sleep never ends by itself', async () => {
    const world = testWorld()
    let woke = false
    void world.sleep(1).then(() => {
      woke = true
    })
    for (let i = 0; i < 5; i++) await world.runPending()
    expect(woke).toBe(false)
  })

  test('an aborted sleep resolves at once and leaves no sleeper', async () => {
    const world = testWorld()
    const stop = new AbortController()
    const nap = world.sleep(1_000, stop.signal)
    stop.abort()
    await nap
    await world.sleep(1_000, stop.signal)
    expect([world.sleeping, world.monotonic(), world.nextWakeIn]).toEqual([0, 0, null])
  })

  test('the same seed gives the same randomness, and bytes do not disturb numbers', () => {
    const a = testWorld({ seed: 5 })
    const b = testWorld({ seed: 5 })
    a.randomBytes(32)
    expect(a.random()).toBe(b.random())
    expect(testWorld({ seed: 5 }).randomBytes(8)).toEqual(testWorld({ seed: 5 }).randomBytes(8))
    expect(testWorld({ seed: 5 }).randomBytes(8)).not.toEqual(testWorld({ seed: 6 }).randomBytes(8))
  })

  test('time that would go back, or is no number, is refused', async () => {
    const world = testWorld()
    await expect(world.advance(-1)).rejects.toThrow(RangeError)
    await expect(world.suspend(Number.NaN)).rejects.toThrow(RangeError)
    await expect(world.sleep(Number.NaN)).rejects.toThrow(RangeError)
    expect(() => world.jumpWallClock(Number.POSITIVE_INFINITY)).toThrow(RangeError)
  })
})
