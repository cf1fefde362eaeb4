import type { World } from '../util/world.ts'
import { Random } from './random.ts'

export interface TestWorldOptions {
  /** Seed of `random` and `randomBytes`. Default 1. */
  readonly seed?: number | string
  /** Wall clock at the start, milliseconds since the Unix epoch. Default 2030-01-01T00:00:00Z. */
  readonly start?: number
  /** Let time pass by itself when everything waits for it. Default false: time moves only by `advance`. */
  readonly autoAdvance?: boolean
}

const DEFAULT_START = Date.UTC(2030, 0, 1)
/** More sleepers than this at once is a leak in the code under test. */
const MAX_SLEEPERS = 10_000

interface Sleeper {
  readonly due: number
  /** Sleepers due at one moment wake in the order in which they fell asleep. */
  readonly order: number
  wake(): void
}

/**
 * Resolves after all promise callbacks that can run have run. A message between two ports is delivered as a task, and
 * tasks wait for the microtask queue to empty; no clock is involved, so the result is the same on any machine.
 */
function everythingElse(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel()
    port1.on('message', () => {
      port1.close()
      resolve()
    })
    port2.postMessage(null)
  })
}

/**
 * A `World` whose time is moved by the test. The monotonic clock starts at 0 and never goes back; the wall clock can
 * jump. Nothing here reads a real clock, so a run is a function of its seed.
 *
 * ```ts
 * const world = testWorld({ seed: 7 })
 * const done = poll(world)          // sleeps 2,000 ms between tries
 * await world.advance(10_000)       // five tries, at 2,000, 4,000, … 10,000
 * ```
 */
export class TestWorld implements World {
  readonly #random: Random
  readonly #bytes: Random
  #monotonic = 0
  #wallOffset: number
  #sleepers: Sleeper[] = []
  #order = 0
  #auto: boolean
  #checking = false

  constructor(options: TestWorldOptions = {}) {
    const random = new Random(options.seed ?? 1)
    this.#random = random.fork('random')
    this.#bytes = random.fork('bytes')
    this.#wallOffset = options.start ?? DEFAULT_START
    this.#auto = options.autoAdvance ?? false
  }

  /** Whole milliseconds, as `Date.now()`: a sleep of a fraction moves the monotonic clock alone by that fraction. */
  now(): number {
    return Math.floor(this.#wallOffset + this.#monotonic)
  }

  monotonic(): number {
    return this.#monotonic
  }

  random(): number {
    return this.#random.next()
  }

  /** Seeded, not secret. Two worlds with one seed give the same bytes: give each simulated process its own seed. */
  randomBytes(length: number): Uint8Array {
    return this.#bytes.bytes(length)
  }

  /** How many calls to `sleep` have not resolved yet. */
  get sleeping(): number {
    return this.#sleepers.length
  }

  /** Milliseconds until the next sleeper is due; null when nobody sleeps. */
  get nextWakeIn(): number | null {
    const next = this.#earliest()
    return next ? Math.max(0, next.due - this.#monotonic) : null
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    if (Number.isNaN(ms)) return Promise.reject(new RangeError('sleep needs a number of milliseconds, got NaN'))
    if (signal?.aborted) return Promise.resolve()
    if (this.#sleepers.length >= MAX_SLEEPERS) {
      return Promise.reject(new RangeError(`more than ${MAX_SLEEPERS} sleepers at once`))
    }
    return new Promise((resolve) => this.#add(ms, resolve, signal))
  }

  #add(ms: number, resolve: () => void, signal: AbortSignal | undefined): void {
    const sleeper: Sleeper = {
      due: this.#monotonic + Math.max(0, ms),
      order: this.#order++,
      wake: () => {
        this.#sleepers = this.#sleepers.filter((other) => other !== sleeper)
        signal?.removeEventListener('abort', sleeper.wake)
        resolve()
      },
    }
    this.#sleepers.push(sleeper)
    signal?.addEventListener('abort', sleeper.wake, { once: true })
    this.#checkIdle()
  }

  #earliest(): Sleeper | undefined {
    let first: Sleeper | undefined
    for (const sleeper of this.#sleepers) {
      if (!first || sleeper.due < first.due || (sleeper.due === first.due && sleeper.order < first.order))
        first = sleeper
    }
    return first
  }

  /**
   * Moves both clocks by `ms`, waking each sleeper at its own moment and in order. Code that wakes runs until it waits
   * again before the clock moves on, so a loop that sleeps 100 ms turns ten times in `advance(1_000)`.
   */
  async advance(ms: number): Promise<void> {
    if (!(ms >= 0)) throw new RangeError(`time moves forward only, got ${ms}; use jumpWallClock`)
    const target = this.#monotonic + ms
    await everythingElse()
    for (let next = this.#earliest(); next && next.due <= target; next = this.#earliest()) {
      await this.#wake(next)
    }
    this.#monotonic = Math.max(this.#monotonic, target)
  }

  async #wake(sleeper: Sleeper): Promise<void> {
    this.#monotonic = Math.max(this.#monotonic, sleeper.due)
    sleeper.wake()
    await everythingElse()
  }

  /**
   * Both clocks are `ms` later at once, in the middle of running code: what a slow statement or answer costs. Sleepers
   * that are due wake in order, when that code waits.
   */
  tick(ms: number): void {
    if (!(ms >= 0)) throw new RangeError(`time moves forward only, got ${ms}; use jumpWallClock`)
    this.#monotonic += ms
    for (let next = this.#earliest(); next && next.due <= this.#monotonic; next = this.#earliest()) next.wake()
  }

  /**
   * The process was frozen for `ms` (a closed laptop, a blocked event loop): both clocks are suddenly later, and all
   * sleepers that are due wake at once, in order (C04).
   */
  async suspend(ms: number): Promise<void> {
    if (!(ms >= 0)) throw new RangeError(`a suspension lasts 0 ms or more, got ${ms}`)
    this.tick(ms)
    await everythingElse()
  }

  /** Moves the wall clock alone, in either direction: a correction by NTP or a person. Sleepers do not notice. */
  jumpWallClock(ms: number): void {
    if (!Number.isFinite(ms)) throw new RangeError(`a jump needs a number of milliseconds, got ${ms}`)
    this.#wallOffset += ms
  }

  /** Lets everything run that can run without time passing. */
  async runPending(): Promise<void> {
    await everythingElse()
  }

  /**
   * Switches auto-advance. While on, time passes by itself: as soon as every promise callback has run, the clock moves
   * to the next sleeper and wakes it. Meant for code that waits for time only; work on real sockets or files is not
   * seen and may be overtaken.
   */
  setAutoAdvance(on: boolean): void {
    this.#auto = on
    this.#checkIdle()
  }

  #checkIdle(): void {
    if (!this.#auto || this.#checking || this.#sleepers.length === 0) return
    this.#checking = true
    void everythingElse().then(() => {
      this.#checking = false
      const next = this.#auto ? this.#earliest() : undefined
      if (next) {
        this.#monotonic = Math.max(this.#monotonic, next.due)
        next.wake()
      }
      this.#checkIdle()
    })
  }
}

/** A `World` under the test's control: see {@link TestWorld}. */
export function testWorld(options: TestWorldOptions = {}): TestWorld {
  return new TestWorld(options)
}
