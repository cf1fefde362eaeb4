import type { World } from './world.ts'

interface Pending {
  readonly at: number
  readonly ring: () => void
}

/**
 * Bounds many short waits with one timer. A timer and its cancellation for each of them would cost more than most of what is
 * waited for: a handler's statement takes 50 µs. Only when a wait is still pending as the timer comes is anything done.
 */
export class Alarm {
  readonly #world: World
  readonly #signal: AbortSignal | undefined
  readonly #pending = new Set<Pending>()
  /** When the timer comes that is set; Infinity: none is. */
  #wakesAt = Number.POSITIVE_INFINITY

  /** @param signal ends the timer; waits that are pending then are bounded no longer */
  constructor(world: World, signal?: AbortSignal) {
    this.#world = world
    this.#signal = signal
  }

  /**
   * The answer, or a rejection once the deadline has passed.
   * @param at milliseconds on the monotonic clock
   * @param late makes the error
   */
  race<T>(answer: PromiseLike<T>, at: number, late: () => unknown): Promise<T> {
    return new Promise((resolve, reject) => {
      const pending: Pending = { at, ring: () => reject(late()) }
      this.#pending.add(pending)
      if (at < this.#wakesAt) this.#sleep(at)
      answer.then(
        (value) => {
          this.#pending.delete(pending)
          resolve(value)
        },
        (error: unknown) => {
          this.#pending.delete(pending)
          reject(error)
        },
      )
    })
  }

  #sleep(at: number): void {
    this.#wakesAt = at
    const ms = Math.max(0, at - this.#world.monotonic())
    void this.#world.sleep(Math.min(ms, LONGEST_MS), this.#signal).then(() => this.#wake(at))
  }

  #wake(at: number): void {
    // An earlier deadline has set a timer of its own meanwhile, which goes on from there.
    if (at !== this.#wakesAt || this.#signal?.aborted) return
    this.#wakesAt = Number.POSITIVE_INFINITY
    const now = this.#world.monotonic()
    for (const one of [...this.#pending]) if (one.at <= now && this.#pending.delete(one)) one.ring()
    const next = Math.min(...[...this.#pending].map((one) => one.at))
    if (Number.isFinite(next)) this.#sleep(next)
  }
}

/** Timers count in 31 bits; a later deadline is looked at again then. */
const LONGEST_MS = 2_000_000_000
