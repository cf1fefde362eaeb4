import type { TidemarkError } from '../../errors.ts'
import type { Alarm } from '../../util/alarm.ts'
import type { World } from '../../util/world.ts'

/** More than this is no deadline; timers count in 31 bits. */
const LONGEST_MS = 2_000_000_000

/** The moment after which nothing of the user may run. */
export class Deadline {
  readonly #world: World
  readonly #alarm: Alarm
  readonly #at: number
  readonly #onPassed: () => TidemarkError
  #over = false

  constructor(world: World, alarm: Alarm, at: number, onPassed: () => TidemarkError) {
    this.#world = world
    this.#alarm = alarm
    this.#at = at
    this.#onPassed = onPassed
  }

  get passed(): boolean {
    return this.#world.monotonic() >= this.#at
  }

  /**
   * The answer, or a rejection at the deadline. A simulated clock says nothing about a real server: there only `passed`
   * counts.
   */
  orPassed<T>(answer: Promise<T>): Promise<T> {
    if (this.#over || this.#world.simulated || this.#at - this.#world.monotonic() > LONGEST_MS) return answer
    return this.#alarm.race(answer, this.#at, this.#onPassed)
  }

  /** From here on nothing of the user runs. */
  stop(): void {
    this.#over = true
  }
}
