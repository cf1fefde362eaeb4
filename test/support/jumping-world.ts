import { realWorld, type World } from '../../src/util/world.ts'

interface Sleeper {
  readonly due: number
  wake(): void
}

/**
 * The real world, whose clocks a test can move forward. Stores behind a connection need real time: a clock that goes by
 * itself as soon as nothing else runs would overtake the answers of a server. Longer waits are jumped over.
 */
export class JumpingWorld implements World {
  readonly random = realWorld.random
  readonly randomBytes = realWorld.randomBytes
  readonly #sleepers = new Set<Sleeper>()
  #ahead = 0

  now(): number {
    return realWorld.now() + Math.floor(this.#ahead)
  }

  monotonic(): number {
    return realWorld.monotonic() + this.#ahead
  }

  async sleep(ms: number, signal?: AbortSignal): Promise<void> {
    const woken = new AbortController()
    const sleeper = { due: this.monotonic() + ms, wake: () => woken.abort() }
    this.#sleepers.add(sleeper)
    await realWorld.sleep(ms, signal ? AbortSignal.any([signal, woken.signal]) : woken.signal)
    this.#sleepers.delete(sleeper)
  }

  /** Both clocks are later at once, and whoever is due wakes. */
  jump(ms: number): void {
    this.#ahead += ms
    for (const sleeper of this.#sleepers) if (sleeper.due <= this.monotonic()) sleeper.wake()
  }
}
