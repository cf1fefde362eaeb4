import { type BlockRef, blockNumber, hash } from '../chain/block.ts'
import { TidemarkError } from '../errors.ts'
import type { HandledPort, ScopeState } from '../store/store.ts'
import type { Hex } from '../util/bytes.ts'
import { isThenable, type Op, wait } from '../util/op.ts'
import { refuseOption, refuseUnknownOptions, wholeOption } from '../util/options.ts'
import { realWorld, type World } from '../util/world.ts'
import { type ClaimOutcome, Claims, type ExpiredClaim, leaseOf, MAX_EXPIRED_CLAIMS } from './claim.ts'
import { type DeduplicationEvent, type EventKey, eventKey, isChainId, type Positioned } from './event-key.ts'
import { type CleanupReport, forget } from './forget.ts'
import { type Answer, answer, type MarkStore, type MarkTx } from './mark-store.ts'

export type { Answer } from './mark-store.ts'

const OWNER = 'DeduplicationManager'
const OPTIONS = ['store', 'chainId', 'name', 'identity', 'retentionBlocks', 'world'] as const
const DEFAULT_RETENTION_BLOCKS = 10_000
const DEFAULT_CLEANUP_LIMIT = 100_000
const DEFAULT_EXPIRED_LIMIT = 1_000
const LONGEST_NAME = 255
const SAVEPOINT = 'tidemark_once'

/**
 * - `done`: the event was new; its mark and its work stand or fall with the caller's transaction
 * - `duplicate`: it was done before; the work was not run
 * - `too-old`: it lies at or below the low-water mark and has no mark. Whether it was done cannot be told: the work was
 *   not run, and the event must be set aside for a person, never acknowledged as done (P7)
 * - `held`: someone has claimed it (`claim`) and works on it outside a transaction: never acknowledge it, come again later.
 *   It stays `held` when that one died, until it is claimed again: only who claims is told of half-done work outside
 */
export type OnceOutcome<T> =
  | { readonly outcome: 'done'; readonly value: T }
  | { readonly outcome: 'duplicate' }
  | { readonly outcome: 'too-old' }
  | { readonly outcome: 'held' }

/** The caller's own position on one chain. */
export interface DeduplicationState extends ScopeState {
  readonly chainId: number
}

/** A block by number and hash; `chainId` defaults to the manager's. */
export interface CursorBlock {
  readonly chainId?: number | undefined
  readonly number: number | bigint
  readonly hash: Hex
}

export interface DeduplicationManagerOptions<Db, Async extends boolean, E extends Positioned> {
  /** A migrated store. Its `capabilities.asyncHandlers` decides whether `once` answers at once or with a promise. */
  readonly store: MarkStore<Db, Async>
  /** EIP-155 id for events and cursors that do not bring their own. */
  readonly chainId: number
  /** Marks, cursors and low-water marks of different names are strangers to each other. Default 'default'. */
  readonly name?: string
  /** Names an event of a chain whose logs have no index. Must give the same text on each delivery, 1 to 255 characters. */
  readonly identity?: (event: E) => string
  /** How many blocks behind the cursor marks are kept. Must exceed the deepest replay. Default 10,000. */
  readonly retentionBlocks?: number
  readonly world?: World
}

type Found = 'new' | 'duplicate' | 'too-old' | 'held'

const ANSWER = { done: 'duplicate', claimed: 'held' } as const

/**
 * Deduplication for a loop of one's own: marks in the application's database, written in the transaction that the
 * application opened itself, so that an event's mark and its work commit together or not at all (P1, P2).
 *
 * What names an event is described at `eventKey`. Events are kept apart by `name` and by chain (C41).
 *
 * - Marks stay bounded (P6) only where the loop calls `setCursor` and, now and then, `cleanupOldEvents`.
 * - A loop that reads blocks which may still be orphaned undoes nothing here: a re-included log is a duplicate. It must
 *   hand over each block it reads, also those that it reads again, so that a mark moves to the event's later block.
 *
 * @example
 * const dedup = new DeduplicationManager({ store: sqlite({ file: 'app.db' }), chainId: 1 })
 * db.exec('BEGIN IMMEDIATE')                      // IMMEDIATE: a read that turns into a write fails at once (C57)
 * for (const log of logs) dedup.once(db, log, () => credit(db, log))
 * dedup.setCursor(db, block)
 * db.exec('COMMIT')
 */
export class DeduplicationManager<Db, Async extends boolean = boolean, E extends Positioned = DeduplicationEvent> {
  readonly #store: MarkStore<Db, Async>
  readonly #chainId: number
  readonly #scope: string
  readonly #identity: ((event: E) => string) | undefined
  readonly #retentionBlocks: number
  readonly #world: World
  readonly #claims: Claims<Db, Async>

  /** @throws {TidemarkError} `CONFIG_INVALID`, or `CONFIG_UNKNOWN_KEY` for a misspelt option */
  constructor(options: DeduplicationManagerOptions<Db, Async, E>) {
    refuseUnknownOptions(OWNER, options, OPTIONS)
    const { store, chainId, name = 'default', identity, retentionBlocks = DEFAULT_RETENTION_BLOCKS } = options
    if (typeof store?.join !== 'function') refuseOption(OWNER, 'store', store, 'a store, for example sqlite({ file })')
    if (!isChainId(chainId)) refuseOption(OWNER, 'chainId', chainId, 'a whole number above 0')
    if (typeof name !== 'string' || name.length === 0 || name.length > LONGEST_NAME) {
      refuseOption(OWNER, 'name', name, `a text of 1 to ${LONGEST_NAME} characters`)
    }
    if (identity !== undefined && typeof identity !== 'function') {
      refuseOption(OWNER, 'identity', identity, 'a function that returns a text')
    }
    this.#store = store
    this.#chainId = chainId
    this.#scope = name
    this.#identity = identity
    this.#retentionBlocks = wholeOption(OWNER, 'retentionBlocks', retentionBlocks, 0, Number.MAX_SAFE_INTEGER)
    this.#world = options.world ?? realWorld
    this.#claims = new Claims(store, name, this.#world)
  }

  /**
   * Runs `work` if the event was never done, inside the transaction that the caller opened on `tx`. The mark is
   * written first. When `work` throws, the mark and whatever `work` wrote are taken back (a savepoint), and the error
   * is thrown on: a failed event leaves no mark, even where the caller catches the error and commits the rest (C56).
   *
   * @param tx the caller's own connection, with a write transaction open
   * @returns at once on an embedded store; elsewhere a promise, and `work` may return one too
   * @throws {TidemarkError} `NOT_IN_TRANSACTION`; `EVENT_KEY_INVALID`; `HANDLER_RETURNED_PROMISE` on an embedded store;
   *   `TRANSACTION_LOST` and `HANDLER_ENDED_TRANSACTION` when `work` ended the caller's transaction
   */
  once<T>(tx: Db, event: E, work: () => T): Answer<Async, OnceOutcome<Awaited<T>>> {
    return this.#answer(this.#join(tx, event, work))
  }

  /**
   * Takes the right to work on the event for `leaseMs`, for work that cannot run inside the transaction that marks it: a
   * call to an outside API, minutes of computing. Then `done()`, or `done(tx)` so that what `tx` writes and the end of the
   * claim commit together; or `release()`.
   *
   * A worker that dies leaves its claim to expire, by the database's clock; the next one takes it over (`takenOver`), and
   * a late `done` of the first is refused with `CLAIM_LOST` (P9). What it did outside may then happen twice.
   *
   * @param options.leaseMs 1 to 86,400,000 milliseconds; longer than the work takes
   * @throws {TidemarkError} `EVENT_KEY_INVALID`; `CONFIG_INVALID`; `CLAIMS_FULL`: too many expired claims lie about (P6)
   */
  async claim(event: E, options: { readonly leaseMs: number }): Promise<ClaimOutcome<Db, Async>> {
    refuseUnknownOptions('claim', options, ['leaseMs'])
    return this.#claims.claim(this.#keyOf(event), leaseOf(options.leaseMs))
  }

  /**
   * Claims of this `name` whose lease is over and that nobody took over, oldest first, by the database's clock: for a cron
   * that queues their events again. Reading changes nothing.
   * @param options.limit 1 to 10,000, default 1,000
   */
  async expiredClaims(options: { readonly limit?: number } = {}): Promise<readonly ExpiredClaim[]> {
    refuseUnknownOptions('expiredClaims', options, ['limit'])
    const { limit = DEFAULT_EXPIRED_LIMIT } = options
    return this.#claims.expired(wholeOption('expiredClaims', 'limit', limit, 1, MAX_EXPIRED_CLAIMS))
  }

  /**
   * Whether the event is marked as done, by a read of its own. It sees committed marks only, and another process may mark
   * the event right after: where that matters, use `once`. A claimed event is not done yet: false.
   * @throws {TidemarkError} `EVENT_TOO_OLD`: `false` would apply it twice, `true` would call it done; `EVENT_KEY_INVALID`
   */
  async isEventProcessed(event: E): Promise<boolean> {
    const key = this.#keyOf(event)
    const found = await this.#store.read((ports) => this.#find(ports.handled, key))
    if (found === 'too-old') this.#refuseTooOld(key)
    return found === 'duplicate'
  }

  /** Marks the event in a transaction of its own; a marked one stays as it is. @throws as the form with `tx` */
  markEventProcessed(event: E): Promise<void>
  /**
   * Marks the event in the transaction that the caller opened on `tx`; a marked one stays as it is.
   * @throws {TidemarkError} `EVENT_TOO_OLD`: its mark would already be forgotten; `EVENT_HELD`: someone has claimed it;
   *   `EVENT_KEY_INVALID`; `NOT_IN_TRANSACTION`
   */
  markEventProcessed(event: E, tx: Db): Answer<Async, void>
  markEventProcessed(event: E, tx?: Db): Promise<void> | Answer<Async, void> {
    if (tx !== undefined) return this.#answer(this.#mark(() => this.#store.join(tx), event))
    return this.#store.transact((ports) => this.#mark(() => ports, event))
  }

  /**
   * Says that every event up to and including this block is done; what is older than `retentionBlocks` behind it may be
   * forgotten. The cursor may go back, to read blocks again, as long as their marks are there.
   *
   * @throws {TidemarkError} `CURSOR_BELOW_LOW_WATER`: the events between are forgotten, and would be too old (C65);
   *   `CONFIG_INVALID` for a block without number or hash; `NOT_IN_TRANSACTION`
   */
  setCursor(tx: Db, block: CursorBlock): Answer<Async, void> {
    return this.#answer(this.#moveCursor(tx, block))
  }

  /** The cursor and the low-water mark of one chain; all null for a chain never heard of. */
  async getWatcherState(chainId?: number): Promise<DeduplicationState> {
    const chain = this.#chainOf(chainId)
    const state = await this.#store.read((tx) => wait(tx.handled.state(this.#scope, chain)))
    return { chainId: chain, ...state }
  }

  /**
   * Forgets the marks that lie more than `retentionBlocks` behind their chain's cursor, on every chain of this `name`.
   * For a cron: it may run at any time, any number of times, in several processes. See `forget` for the two steps.
   * A claimed event is not done, so its row stays until it is done or given back, however old it is (P7).
   *
   * @param options.limit most rows to delete in this call, default 100,000; the report says whether `more` are left
   */
  async cleanupOldEvents(options: { readonly limit?: number } = {}): Promise<CleanupReport> {
    refuseUnknownOptions('cleanupOldEvents', options, ['limit'])
    const given = options.limit ?? DEFAULT_CLEANUP_LIMIT
    const limit = wholeOption('cleanupOldEvents', 'limit', given, 1, Number.MAX_SAFE_INTEGER)
    return forget(this.#store, { scope: this.#scope, retentionBlocks: this.#retentionBlocks, limit }, this.#world)
  }

  // ------------------------------------------------------------------------------------------------- operations

  *#join<T>(db: Db, event: E, work: () => T): Op<OnceOutcome<Awaited<T>>> {
    const key = this.#keyOf(event)
    return yield* this.#once(this.#store.join(db), key, work)
  }

  *#once<T>(ports: MarkTx, key: EventKey, work: () => T): Op<OnceOutcome<Awaited<T>>> {
    let value: Awaited<T> | undefined
    let found: Found
    yield* wait(ports.savepoint(SAVEPOINT))
    try {
      found = yield* this.#insert(ports.handled, key)
      if (found === 'new') value = yield* this.#work(key, work)
    } catch (error) {
      yield* this.#takeBackAfter(error, ports, key)
      throw error
    }
    if (found === 'too-old') yield* takeBack(ports)
    else yield* this.#keep(ports, key)
    return found === 'new' ? { outcome: 'done', value: value as Awaited<T> } : { outcome: found }
  }

  *#mark(ports: () => MarkTx, event: E): Op<void> {
    const key = this.#keyOf(event)
    const { outcome } = yield* this.#once(ports(), key, () => undefined)
    if (outcome === 'too-old') this.#refuseTooOld(key)
    // In silence the event would stay unmarked, and be done a second time.
    if (outcome === 'held') {
      throw new TidemarkError('EVENT_HELD', 'Someone has claimed this event and works on it.', {
        values: this.#valuesOf(key),
      })
    }
  }

  /** Mark first, then look at the low-water mark: in this order no forgetting can slip in between. */
  *#insert(handled: HandledPort, { chainId, key, block }: EventKey): Op<Found> {
    const found = yield* wait(handled.insert({ scope: this.#scope, chainId, key }, block, this.#world.now()))
    if (found !== 'new') return ANSWER[found]
    const { lowWater } = yield* wait(handled.state(this.#scope, chainId))
    return lowWater !== null && block <= lowWater ? 'too-old' : 'new'
  }

  *#find(handled: HandledPort, { chainId, key, block }: EventKey): Op<Found> {
    const found = yield* wait(handled.find({ scope: this.#scope, chainId, key }))
    if (found) return ANSWER[found]
    const { lowWater } = yield* wait(handled.state(this.#scope, chainId))
    return lowWater !== null && block <= lowWater ? 'too-old' : 'new'
  }

  *#work<T>(key: EventKey, work: () => T): Op<Awaited<T>> {
    const result = work()
    if (!isThenable(result)) return result as Awaited<T>
    if (this.#store.capabilities.asyncHandlers) return (yield* wait(result)) as Awaited<T>
    // Nobody will look at it again: its failure must not end the process as an unhandled rejection.
    result.then(undefined, () => {})
    throw new TidemarkError('HANDLER_RETURNED_PROMISE', 'The work returned a promise inside an embedded transaction.', {
      values: this.#valuesOf(key),
    })
  }

  *#moveCursor(db: Db, given: CursorBlock): Op<void> {
    const chainId = this.#chainOf(given?.chainId)
    const block = checkBlock(given)
    const { handled } = this.#store.join(db)
    const { lowWater } = yield* wait(handled.state(this.#scope, chainId))
    if (lowWater !== null && block.number < lowWater) {
      throw new TidemarkError('CURSOR_BELOW_LOW_WATER', 'The cursor would go back to where marks are forgotten.', {
        values: { name: this.#scope, chainId, block: block.number, lowWater },
      })
    }
    yield* wait(handled.setCursor(this.#scope, chainId, block, this.#world.now()))
  }

  /** The savepoint is gone when the work committed or rolled back inside: then the mark does not stand with the work. */
  *#keep(ports: MarkTx, key: EventKey): Op<void> {
    try {
      yield* wait(ports.release(SAVEPOINT))
    } catch (cause) {
      this.#refuseEnded(ports, key, cause)
    }
  }

  /** After a throw. Where the transaction is gone, a failure of our own statements says why; the work's own does not. */
  *#takeBackAfter(error: unknown, ports: MarkTx, key: EventKey): Op<void> {
    try {
      yield* takeBack(ports)
    } catch {
      if (!TidemarkError.is(error)) this.#refuseEnded(ports, key, error)
    }
  }

  #refuseEnded(ports: MarkTx, key: EventKey, cause: unknown): never {
    const lost = !ports.inTransaction()
    const sentence = lost
      ? 'The transaction was gone after the work.'
      : 'The work ended the transaction that it ran in.'
    throw new TidemarkError(lost ? 'TRANSACTION_LOST' : 'HANDLER_ENDED_TRANSACTION', sentence, {
      values: this.#valuesOf(key),
      cause,
    })
  }

  // ---------------------------------------------------------------------------------------------------- helpers

  #answer<T>(op: Op<T>): Answer<Async, T> {
    return answer(this.#store, op)
  }

  #keyOf(event: E): EventKey {
    return eventKey(this.#chainId, event, this.#identity)
  }

  #chainOf(chainId: number | undefined): number {
    const chain = chainId ?? this.#chainId
    return isChainId(chain) ? chain : refuseOption(OWNER, 'chainId', chain, 'a whole number above 0')
  }

  #valuesOf({ chainId, block }: EventKey): Record<string, unknown> {
    return { name: this.#scope, chainId, block }
  }

  #refuseTooOld(key: EventKey): never {
    throw new TidemarkError('EVENT_TOO_OLD', 'Whether this event was done cannot be told: its block is forgotten.', {
      values: this.#valuesOf(key),
    })
  }
}

function* takeBack(ports: MarkTx): Op<void> {
  yield* wait(ports.rollbackTo(SAVEPOINT))
  yield* wait(ports.release(SAVEPOINT))
}

function checkBlock(block: CursorBlock): BlockRef {
  try {
    if (typeof block.number !== 'number' && typeof block.number !== 'bigint') throw new RangeError('no number')
    return { number: blockNumber(block.number), hash: hash(block.hash) }
  } catch {
    return refuseOption(OWNER, 'setCursor(block)', block, 'a block with number and hash')
  }
}
