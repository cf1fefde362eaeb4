import type { TestWorld } from '../../test-world.ts'

/**
 * Work on a real server in simulated time: as long as an answer is under way the simulated clock stands still, however long
 * the server takes. Otherwise each answer would be overtaken by whoever sleeps.
 */
export class RealWork {
  readonly #clock: TestWorld
  #running = 0
  /** When all whose turn came before are done. */
  #tail: Promise<void> = Promise.resolve()

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

  /**
   * One after the other, in the order of the calls: answers to statements that are under way at once would come in an order
   * that chance decides.
   * @param work may let the next one begin before it is done itself
   */
  async inTurn<T>(work: (letGo: () => void) => Promise<T>): Promise<T> {
    const before = this.#tail
    let letGo = () => {}
    this.#tail = new Promise((resolve) => {
      letGo = resolve
    })
    this.begin()
    try {
      await before
      return await work(letGo)
    } finally {
      letGo()
      this.end()
    }
  }
}
