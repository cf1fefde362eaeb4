import { TidemarkError } from '../errors.ts'
import { invariant } from '../util/invariant.ts'
import type { World } from '../util/world.ts'
import { type RpcTransport, readChainId } from './rpc.ts'
import { isProviderFault, refusalOf } from './rpc-errors.ts'

/**
 * Several endpoints of one chain, in order of preference. One is current and stays so until it fails; then the next one
 * is asked, and remembered. Each is asked for its chain id before its first answer is used.
 */

/** The first rest after a failure, doubled by each further one. */
const REST_FLOOR_MS = 250
const REST_CEILING_MS = 15_000

export interface ProvidersOptions {
  readonly chainId: number
  readonly transports: readonly RpcTransport[]
  readonly world: World
  /** Called when an endpoint that serves another chain is set aside while others go on. */
  readonly onSetAside?: (label: string, error: TidemarkError) => void
}

export interface Answered<T> {
  readonly value: T
  /** Which endpoint gave it. */
  readonly provider: number
}

interface Health {
  checked: boolean
  setAside: TidemarkError | null
  failures: number
  /** On the monotonic clock. */
  restsUntil: number
}

type Work<T> = (node: RpcTransport) => Promise<T>

export class Providers {
  readonly count: number
  readonly #options: ProvidersOptions
  readonly #health: Health[]
  #current = 0

  constructor(options: ProvidersOptions) {
    invariant(options.transports.length > 0, 'a chain has at least one endpoint', { chainId: options.chainId })
    this.#options = options
    this.count = options.transports.length
    this.#health = options.transports.map(() => ({ checked: false, setAside: null, failures: 0, restsUntil: 0 }))
  }

  get current(): number {
    return this.#current
  }

  label(provider: number): string {
    return this.#transport(provider).label
  }

  /** Whether some endpoint serves the right chain, or was not checked yet. */
  get anyLeft(): boolean {
    return this.#health.some((health) => health.setAside === null)
  }

  /** Whether some endpoint may be asked at once. */
  get anyRested(): boolean {
    return this.#health.some((_, i) => this.#usable(i) && !this.#rests(i))
  }

  /** Endpoints other than `provider` that may be asked now, nearest first. */
  others(provider: number): number[] {
    return this.#from(provider).filter((i) => i !== provider && this.#usable(i) && !this.#rests(i))
  }

  /**
   * Asks the current endpoint, and after a fault of it the next ones, each at most once. When all rest, waits for the
   * first to be rested: failing endpoints are not hammered.
   * @throws the last endpoint's error; `CHAIN_MISMATCH` when every endpoint serves another chain
   */
  async ask<T>(work: Work<T>, signal?: AbortSignal): Promise<Answered<T>> {
    this.#forgiveWhenAllAside()
    let last: unknown
    for (const provider of await this.#candidates(signal)) {
      try {
        const value = await this.askOne(provider, work, signal)
        this.#current = provider
        return { value, provider }
      } catch (error) {
        if (!isProviderFault(error)) throw error
        if (last === undefined || !TidemarkError.has(error, 'CHAIN_MISMATCH')) last = error
      }
    }
    // Each round sets one more aside, so this ends: the others rest, and are waited for rather than given up.
    if (TidemarkError.has(last, 'CHAIN_MISMATCH') && this.anyLeft) return this.ask(work, signal)
    throw last
  }

  /** Asks this endpoint and no other, and remembers how it went. */
  async askOne<T>(provider: number, work: Work<T>, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted()
    const health = this.#state(provider)
    try {
      if (!health.checked) await this.#check(provider, signal)
      const value = await work(this.#transport(provider))
      health.failures = 0
      health.restsUntil = 0
      return value
    } catch (error) {
      if (isProviderFault(error)) this.#rest(provider, error)
      throw error
    }
  }

  /** Speaks against an endpoint for what it said, not for failing: the next `ask` prefers another. */
  distrust(provider: number): void {
    this.#rest(provider, undefined)
  }

  async #check(provider: number, signal?: AbortSignal): Promise<void> {
    const node = this.#transport(provider)
    const found = await readChainId(node, signal)
    const { chainId: expected } = this.#options
    const health = this.#state(provider)
    // A wrong answer may be a fault, and a halt needs a person: a chain says the same twice.
    if (found === expected || (await readChainId(node, signal)) === expected) {
      health.checked = true
      return
    }
    const values = { node: node.label, expected, found }
    const error = new TidemarkError('CHAIN_MISMATCH', `${node.label} serves another chain.`, { values })
    this.setAside(provider, error)
    throw error
  }

  /** Uses an endpoint no more: it serves another chain. Said aloud when others go on; with none left the chain halts. */
  setAside(provider: number, error: TidemarkError): void {
    const health = this.#state(provider)
    health.setAside = error
    health.checked = false
    if (this.anyLeft) this.#options.onSetAside?.(this.label(provider), error)
  }

  /** With nothing left, the set-aside are checked again: after `resume` the URL may serve the right chain. */
  #forgiveWhenAllAside(): void {
    if (this.anyLeft) return
    for (const health of this.#health) health.setAside = null
  }

  async #candidates(signal?: AbortSignal): Promise<number[]> {
    const usable = this.#from(this.#current).filter((i) => this.#usable(i))
    const rested = usable.filter((i) => !this.#rests(i))
    if (rested.length > 0) return rested
    const soonest = usable.reduce((a, b) => (this.#state(b).restsUntil < this.#state(a).restsUntil ? b : a))
    await this.#options.world.sleep(this.#state(soonest).restsUntil - this.#options.world.monotonic(), signal)
    signal?.throwIfAborted()
    return [soonest]
  }

  #rest(provider: number, error: unknown): void {
    const health = this.#state(provider)
    health.failures += 1
    const grown = Math.min(REST_CEILING_MS, REST_FLOOR_MS * 2 ** Math.min(health.failures - 1, 10))
    // Jitter only adds: the floor holds, and two processes do not ask in step.
    const wait = Math.max(grown, Math.min(refusalOf(error)?.hint.waitMs ?? 0, REST_CEILING_MS))
    const { world } = this.#options
    health.restsUntil = world.monotonic() + wait * (1 + world.random() / 4)
  }

  #from(start: number): number[] {
    return Array.from({ length: this.count }, (_, i) => (start + i) % this.count)
  }

  #usable(provider: number): boolean {
    return this.#state(provider).setAside === null
  }

  #rests(provider: number): boolean {
    return this.#state(provider).restsUntil > this.#options.world.monotonic()
  }

  #state(provider: number): Health {
    const health = this.#health[provider]
    invariant(health, 'an endpoint that is not configured was asked', { provider })
    return health
  }

  #transport(provider: number): RpcTransport {
    const transport = this.#options.transports[provider]
    invariant(transport, 'an endpoint that is not configured was asked', { provider })
    return transport
  }
}
