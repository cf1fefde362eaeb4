import { asTidemarkError, retryWait } from '../handle/failure.ts'
import type { CompiledWatcher } from '../handle/watch.ts'
import type { Lease, Store } from '../store/store.ts'
import type { World } from '../util/world.ts'
import { follow } from './loops.ts'
import type { Emit, WatcherRunner } from './runner.ts'

/** How often a process asks for a watcher that another one holds: one that died on the same host is replaced within 1 s. */
const STANDBY_MS = 250

export interface KeeperParts {
  readonly watcher: CompiledWatcher
  readonly store: Store
  readonly world: World
  readonly emit: Emit
  /** Writes the lease's token into the watcher's row and wires its runner. */
  readonly takeOver: (lease: Lease, signal: AbortSignal) => Promise<WatcherRunner>
}

/** Keeps one watcher: stands by while another process holds it, takes it over, runs it, gives it back. */
export class Keeper {
  readonly name: string
  /** Set as long as this process holds the watcher. */
  runner: WatcherRunner | null = null
  private readonly parts: KeeperParts
  private lease: Lease | null = null
  private tries = 0

  constructor(parts: KeeperParts) {
    this.parts = parts
    this.name = parts.watcher.name
  }

  /** Takes the lease only: whether a store that one process has to itself is free, is known before anything runs. */
  async reserve(): Promise<boolean> {
    this.lease ??= await this.parts.store.acquire(this.name)
    return this.lease !== null
  }

  /** Takes the watcher. Answers null when another process has it. The lease is given back when it cannot be run. */
  async take(signal: AbortSignal): Promise<WatcherRunner | null> {
    if (!(await this.reserve()) || !this.lease) return null
    try {
      this.runner = await this.parts.takeOver(this.lease, AbortSignal.any([signal, this.lease.lost]))
      return this.runner
    } catch (error) {
      await this.release()
      throw error
    }
  }

  /** Until the watcher has ended, or on abort. Failures to take it are waited out (P11). */
  async keep(signal: AbortSignal): Promise<void> {
    const { world } = this.parts
    while (!signal.aborted) {
      const waitMs = await this.turn(signal)
      if (waitMs === null) return
      if (waitMs > 0) await world.sleep(waitMs, signal)
    }
  }

  async release(): Promise<void> {
    const { lease } = this
    this.lease = null
    this.runner = null
    await lease?.release()
  }

  /** One time on duty. Answers how long to stand by; null: the watcher has ended. */
  private async turn(signal: AbortSignal): Promise<number | null> {
    try {
      const runner = await this.take(signal)
      this.tries = 0
      if (!runner || !this.lease) return STANDBY_MS
      const end = await follow(runner, this.parts.world, AbortSignal.any([signal, this.lease.lost]))
      if (end === 'ended') return null
    } catch (error) {
      return this.failed(error)
    }
    // Lost, or stopped: the place is free for whoever comes first.
    await this.release()
    return signal.aborted ? 0 : STANDBY_MS
  }

  /** Says that the watcher cannot be taken now. Answers how long to wait before the next try. */
  failed(thrown: unknown): number {
    const { code, sentence } = asTidemarkError(thrown)
    this.tries += 1
    const waitMs = retryWait(this.tries, this.parts.world.random())
    this.parts.emit('failing', { watcher: this.name, code, sentence, tries: this.tries, waitMs })
    return waitMs
  }
}
