import { TidemarkError } from '../../errors.ts'
import type { World } from '../../util/world.ts'
import type { Lease } from '../store.ts'

/** What a lease asks of the database. */
export interface LeaseCalls {
  /** Moves the expiry. False: the row has another token, or is gone. @throws when the database did not answer in `withinMs` */
  renew(watcher: string, token: Uint8Array, withinMs: number): Promise<boolean>
  /** Deletes the row with the token. */
  remove(watcher: string, token: Uint8Array): Promise<void>
}

/** Renewals in one lease's time, and tries after one that failed. */
const RENEWALS = 3
const TRIES = 10

/**
 * A lease that is held and renewed. It is lost when another token stands in its row, or when no renewal has succeeded for
 * its length on this process's own monotonic clock, counted from the start of the last request that did: the database's
 * clock began later.
 */
export class HeldLease implements Lease {
  readonly token: Uint8Array
  readonly lost: AbortSignal
  readonly #watcher: string
  readonly #leaseMs: number
  readonly #world: World
  readonly #calls: LeaseCalls
  readonly #onEnd: (lease: HeldLease) => void
  readonly #losing = new AbortController()
  readonly #stop = new AbortController()
  readonly #keeping: Promise<void>
  #goodAt: number
  #released: Promise<void> | undefined

  constructor(
    held: { readonly watcher: string; readonly token: Uint8Array; readonly leaseMs: number; readonly since: number },
    world: World,
    calls: LeaseCalls,
    onEnd: (lease: HeldLease) => void,
  ) {
    this.#watcher = held.watcher
    this.token = held.token
    this.#leaseMs = held.leaseMs
    this.#goodAt = held.since
    this.#world = world
    this.#calls = calls
    this.#onEnd = onEnd
    this.lost = this.#losing.signal
    this.#keeping = this.#keep()
  }

  async confirm(): Promise<boolean> {
    const started = this.#world.monotonic()
    if (this.lost.aborted || this.#left <= 0) return false
    if (!(await this.#calls.renew(this.#watcher, this.token, this.#left))) return false
    this.#goodAt = Math.max(this.#goodAt, started)
    return true
  }

  release(): Promise<void> {
    this.#released ??= this.#release()
    return this.#released
  }

  async #release(): Promise<void> {
    this.#stop.abort()
    await this.#keeping
    try {
      // A lost lease has another owner's token, or none: then nothing is deleted.
      await this.#calls.remove(this.#watcher, this.token)
    } catch {
      // It expires by itself.
    }
    this.#onEnd(this)
  }

  get #left(): number {
    return this.#goodAt + this.#leaseMs - this.#world.monotonic()
  }

  async #keep(): Promise<void> {
    let pause = this.#leaseMs / RENEWALS
    while (!this.#stop.signal.aborted) {
      await this.#world.sleep(Math.max(0, Math.min(pause, this.#left)), this.#stop.signal)
      if (this.#stop.signal.aborted) return
      const outcome = this.#left > 0 ? await this.#renew() : 'lost'
      if (outcome === 'lost') return this.#lose()
      pause = this.#leaseMs / (outcome === 'renewed' ? RENEWALS : TRIES)
    }
  }

  async #renew(): Promise<'renewed' | 'lost' | 'failed'> {
    const started = this.#world.monotonic()
    try {
      if (!(await this.#calls.renew(this.#watcher, this.token, this.#left))) return 'lost'
      this.#goodAt = started
      return 'renewed'
    } catch {
      return 'failed'
    }
  }

  #lose(): void {
    if (this.#stop.signal.aborted) return
    // The reason is what a run meets that waits for something: it stands down.
    this.#losing.abort(new TidemarkError('FENCED', 'The lease was lost', { values: { watcher: this.#watcher } }))
    this.#onEnd(this)
  }
}
