import type { TidemarkError } from '../../errors.ts'
import type { World } from '../../util/world.ts'

/** More than this is no deadline; timers count in 31 bits. */
const LONGEST_MS = 2_000_000_000

/** The moment after which nothing of the user may run. */
export class Deadline {
  readonly #world: World
  readonly #at: number
  readonly #onPassed: () => TidemarkError
  #stop: AbortController | undefined
  #waiting: Promise<never> | undefined

  constructor(world: World, at: number, onPassed: () => TidemarkError) {
    this.#world = world
    this.#at = at
    this.#onPassed = onPassed
  }

  get passed(): boolean {
    return this.#world.monotonic() >= this.#at
  }

  /**
   * The answer, or a rejection at the deadline. One timer serves all statements of a scope. A simulated clock says nothing
   * about a real server: there only `passed` counts.
   */
  orPassed<T>(answer: Promise<T>): Promise<T> {
    if (this.#world.simulated || this.#at - this.#world.monotonic() > LONGEST_MS) return answer
    this.#waiting ??= this.#wait()
    return Promise.race([answer, this.#waiting])
  }

  stop(): void {
    this.#stop?.abort()
  }

  #wait(): Promise<never> {
    const stop = new AbortController()
    this.#stop = stop
    const left = Math.max(0, this.#at - this.#world.monotonic())
    const passed = new Promise<never>((_, reject) => {
      this.#world.sleep(left, stop.signal).then(() => {
        if (!stop.signal.aborted) reject(this.#onPassed())
      })
    })
    // The handler may be doing something else meanwhile; its next statement meets the deadline.
    passed.catch(() => {})
    return passed
  }
}
