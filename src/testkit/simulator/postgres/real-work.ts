import type { TestWorld } from '../../test-world.ts'

/**
 * Work on a real server in simulated time: as long as an answer is under way the simulated clock stands still, however long
 * the server takes. Otherwise each answer would be overtaken by whoever sleeps.
 */
export class RealWork {
  readonly #clock: TestWorld
  #running = 0

  constructor(clock: TestWorld) {
    this.#clock = clock
  }

  begin(): void {
    this.#running += 1
    if (this.#running === 1) this.#clock.setAutoAdvance(false)
  }

  end(): void {
    this.#running -= 1
    if (this.#running === 0) this.#clock.setAutoAdvance(true)
  }

  async of<T>(work: () => Promise<T>): Promise<T> {
    this.begin()
    try {
      return await work()
    } finally {
      this.end()
    }
  }
}
