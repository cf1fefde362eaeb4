import { TidemarkError } from '../errors.ts'
import type { HandledKey, HandledPort } from '../store/store.ts'
import { bytesToHex, type Hex } from '../util/bytes.ts'
import { invariant } from '../util/invariant.ts'
import { type Op, wait } from '../util/op.ts'
import { wholeOption } from '../util/options.ts'
import type { World } from '../util/world.ts'
import { type EventKey, type NamedEvent, readKey } from './event-key.ts'
import { type Answer, answer, type MarkStore, type MarkTx } from './mark-store.ts'

/** A day: who is at one event for longer is better told apart from a dead process by hand. */
const LONGEST_LEASE_MS = 86_400_000
const TOKEN_BYTES = 16
/** Expired claims that one name may have before new events are refused (P6), and the most that one list holds. */
export const MAX_EXPIRED_CLAIMS = 10_000
/** How many new claims of one process pass between two looks at that limit: a look reads all that have expired. */
const CLAIMS_PER_LOOK = 100

/**
 * - `claimed`: the event is this caller's until the lease is over
 * - `duplicate`: it was done before
 * - `held`: someone else has claimed it and may still be at it: never acknowledge it, come again later
 * - `too-old`: it lies at or below the low-water mark and has no mark. Whether it was done cannot be told: it must be set
 *   aside for a person, never acknowledged as done (P7)
 */
export type ClaimOutcome<Db, Async extends boolean = boolean> =
  | EventClaim<Db, Async>
  | { readonly outcome: 'duplicate' }
  | { readonly outcome: 'held' }
  | { readonly outcome: 'too-old' }

/** The right to work on one event until a lease is over, by the database's clock. */
export interface EventClaim<Db, Async extends boolean = boolean> {
  readonly outcome: 'claimed'
  /** Names this claim among all claims of the event: 16 random bytes as hex. */
  readonly token: Hex
  /**
   * Whether a former claim on the event had expired. Who held it may have done its work outside, and died before it could
   * say so: look before you do it again, or send an idempotency key along.
   */
  readonly takenOver: boolean
  /** Marks the event as done, in a transaction of its own. @throws as the form with `tx` */
  done(): Promise<void>
  /**
   * Marks the event as done in the transaction that the caller opened on `tx`: what it writes there and the end of the
   * claim commit together. An expired claim that nobody has taken over still counts.
   * @throws {TidemarkError} `CLAIM_LOST`: roll the transaction back, the event is another's; `NOT_IN_TRANSACTION`
   */
  done(tx: Db): Answer<Async, void>
  /**
   * Gives the event back, so that the next one need not wait for the end of the lease. False: the claim is no more, since
   * it was done, given back or taken over.
   */
  release(): Promise<boolean>
}

/** A claim whose lease is over: its worker died, or is late. Claiming the event again takes it over. */
export interface ExpiredClaim extends NamedEvent {
  readonly chainId: number
}

type Taken = 'new' | 'taken-over' | 'duplicate' | 'held' | 'too-old'

const ANSWER = { done: 'duplicate', claimed: 'held' } as const

/** @throws {TidemarkError} `CONFIG_INVALID` */
export function leaseOf(leaseMs: unknown): number {
  return wholeOption('claim', 'leaseMs', leaseMs as number, 1, LONGEST_LEASE_MS)
}

/** The claims of one `DeduplicationManager`. */
export class Claims<Db, Async extends boolean> {
  readonly #store: MarkStore<Db, Async>
  readonly #scope: string
  readonly #world: World
  #newClaims = 0

  constructor(store: MarkStore<Db, Async>, scope: string, world: World) {
    this.#store = store
    this.#scope = scope
    this.#world = world
  }

  async claim(event: EventKey, leaseMs: number): Promise<ClaimOutcome<Db, Async>> {
    const token = this.#world.randomBytes(TOKEN_BYTES)
    const taken = await this.#store.transact(({ handled }) => this.#take(handled, event, token, leaseMs))
    if (taken !== 'new' && taken !== 'taken-over') return { outcome: taken }
    return this.#handOut(event, token, taken === 'taken-over')
  }

  async expired(limit: number): Promise<ExpiredClaim[]> {
    const rows = await this.#store.read(({ handled }) => wait(handled.expired(this.#scope, limit)))
    return rows.map(({ chainId, key }) => ({ chainId, ...readKey(key) }))
  }

  /**
   * Claim first, then look at the low-water mark: in this order no forgetting can slip in between. A claim that has
   * expired below the mark is known not to be done, so it is no `too-old` event.
   */
  *#take(handled: HandledPort, event: EventKey, token: Uint8Array, leaseMs: number): Op<Taken> {
    const key = this.#keyOf(event)
    const found = yield* wait(handled.claim(key, event.block, token, leaseMs, this.#world.now()))
    if (found === 'done' || found === 'claimed') return ANSWER[found]
    if (found === 'taken-over') return found
    if (yield* this.#isForgotten(handled, event)) {
      const removed = yield* wait(handled.unclaim(key, token))
      invariant(removed, 'a claim must be there in the transaction that made it')
      return 'too-old'
    }
    yield* this.#refuseBeyondLimit(handled)
    return 'new'
  }

  *#isForgotten(handled: HandledPort, { chainId, block }: EventKey): Op<boolean> {
    const { lowWater } = yield* wait(handled.state(this.#scope, chainId))
    return lowWater !== null && block <= lowWater
  }

  /** Only new events are refused: taking over what has expired is the way down from the limit. */
  *#refuseBeyondLimit(handled: HandledPort): Op<void> {
    if (this.#newClaims++ % CLAIMS_PER_LOOK !== 0) return
    const expired = yield* wait(handled.expired(this.#scope, MAX_EXPIRED_CLAIMS))
    if (expired.length < MAX_EXPIRED_CLAIMS) return
    this.#newClaims = 0 // the next one looks again
    throw new TidemarkError('CLAIMS_FULL', 'Too many claims have expired and were never taken over.', {
      values: { name: this.#scope, limit: MAX_EXPIRED_CLAIMS },
    })
  }

  #handOut(event: EventKey, token: Uint8Array, takenOver: boolean): EventClaim<Db, Async> {
    const store = this.#store
    const finish = (ports: () => MarkTx) => this.#finish(ports, event, token)
    function done(): Promise<void>
    function done(tx: Db): Answer<Async, void>
    function done(tx?: Db): Promise<void> | Answer<Async, void> {
      if (tx === undefined) return store.transact((ports) => finish(() => ports))
      return answer(
        store,
        finish(() => store.join(tx)),
      )
    }
    const release = () => store.transact(({ handled }) => this.#release(handled, event, token))
    return { outcome: 'claimed', token: bytesToHex(token), takenOver, done, release }
  }

  *#finish(ports: () => MarkTx, event: EventKey, token: Uint8Array): Op<void> {
    const { handled } = ports()
    const key = this.#keyOf(event)
    if (yield* wait(handled.finish(key, token))) return
    const found = yield* wait(handled.find(key))
    throw new TidemarkError('CLAIM_LOST', 'The event is no longer claimed by this worker.', {
      values: { name: this.#scope, chainId: event.chainId, block: event.block, now: found ?? 'free' },
    })
  }

  *#release(handled: HandledPort, event: EventKey, token: Uint8Array): Op<boolean> {
    const key = this.#keyOf(event)
    if (!(yield* wait(handled.unclaim(key, token)))) return false
    // Forgotten in the meantime: without a row the event would be too old, though it is known that it was not done.
    // So a claim of nobody's takes its place, under a token that no one knows, with a lease that is over.
    if (yield* this.#isForgotten(handled, event)) {
      const nobody = this.#world.randomBytes(TOKEN_BYTES)
      yield* wait(handled.claim(key, event.block, nobody, 0, this.#world.now()))
    }
    return true
  }

  #keyOf({ chainId, key }: EventKey): HandledKey {
    return { scope: this.#scope, chainId, key }
  }
}
