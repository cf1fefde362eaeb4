import { TidemarkError } from '../../errors.ts'
import { Alarm } from '../../util/alarm.ts'
import type { World } from '../../util/world.ts'
import {
  listenForStatus,
  type PgPoolClientLike,
  type PgPoolLike,
  type PgQueryConfig,
  type PgResult,
  type TransactionStatus,
  transactionStatus,
} from './driver.ts'
import { LostConnection, sqlState, storeError } from './pg-errors.ts'
import { within } from './within.ts'

/** A timer may fire a moment early by another clock: what fails without a code that close to its limit was the limit. */
const SLACK_MS = 50
/** Time for the answer to a statement that does nothing, in ms. */
const SETTLE_MS = 5_000

/**
 * One connection, checked out for one piece of work. Statements are sent one after the other: the driver's own queue is
 * going away (pg 9), and what was said of a statement must be read before the next one is sent.
 */
export class Session {
  readonly client: PgPoolClientLike
  /** Of all scopes of this piece of work; its timer ends with it. */
  readonly alarm: Alarm
  readonly #stop = new AbortController()
  readonly #world: World
  #tail: Promise<unknown> = Promise.resolve()
  #waiting = 0
  #ended: Error | undefined
  #broken = false
  #tainted = false
  readonly #onError = (error: Error) => {
    this.#ended ??= error
  }

  constructor(client: PgPoolClientLike, world: World) {
    this.client = client
    this.#world = world
    this.alarm = new Alarm(world, this.#stop.signal)
    // Without a listener a connection that dies between two statements would end the process.
    client.on('error', this.#onError)
    listenForStatus(client)
  }

  get status(): TransactionStatus {
    return transactionStatus(this.client)
  }

  /** Statements sent or waiting to be sent. */
  get waiting(): number {
    return this.#waiting
  }

  /** Why the connection died while nobody used it, if it did. */
  get ended(): Error | undefined {
    return this.#ended
  }

  /** @throws {LostConnection}, or the driver's error */
  run(config: PgQueryConfig): Promise<PgResult> {
    return this.inTurn(() => this.send(config))
  }

  /** Runs `work` when every statement before it has been answered; what comes later waits for it. */
  inTurn<T>(work: () => Promise<T>): Promise<T> {
    const answer = this.#waiting === 0 ? work() : this.#tail.then(work)
    this.#waiting++
    const done = () => {
      this.#waiting--
    }
    this.#tail = answer.then(done, done)
    return answer
  }

  /** Sends at once, before statements that wait for their turn; later ones wait for it too. */
  now(config: PgQueryConfig): Promise<PgResult> {
    const answer = this.send(config)
    this.#waiting++
    const done = () => {
      this.#waiting--
    }
    const before = this.#tail
    this.#tail = answer.then(done, done).then(() => before)
    return answer
  }

  /** Sends without waiting for its turn: only inside `inTurn`. */
  async send(config: PgQueryConfig): Promise<PgResult> {
    if (this.#broken || this.#ended) throw new LostConnection(this.#ended)
    const started = this.#world.monotonic()
    try {
      return await this.client.query(config)
    } catch (error) {
      if (sqlState(error) !== undefined) await this.#settled()
      throw this.#read(error, config, started)
    }
  }

  /**
   * The driver rejects at the server's error, before the server has said how it left the transaction: until then
   * `status` would be that of the statement before. An empty statement is answered after it.
   */
  async #settled(): Promise<void> {
    await this.client.query({ text: '', query_timeout: SETTLE_MS }).catch(() => {})
  }

  /** When every statement has been answered. Never rejects. */
  async quiet(): Promise<void> {
    while (this.#waiting > 0) await this.#tail
  }

  /** A statement may still be running, or nothing is known of the connection: it must not be used again. */
  breakOff(): void {
    this.#broken = true
  }

  /** User code has the client to itself: what it leaves in the session must not meet anybody else. */
  taint(): void {
    this.#tainted = true
  }

  release(): void {
    this.#stop.abort()
    const destroy = this.#tainted || !this.#isClean()
    // A destroyed client still reports its end: the listener stays, and goes with it.
    if (!destroy) this.client.removeListener('error', this.#onError)
    this.client.release(destroy)
  }

  /** Whether the connection may serve somebody else. */
  #isClean(): boolean {
    if (this.#broken || this.#ended || this.#waiting > 0) return false
    try {
      return this.status === 'I'
    } catch {
      return false
    }
  }

  /** The driver's errors of a dead connection have no code; that it is dead is known from its events, and from time. */
  #read(error: unknown, config: PgQueryConfig, started: number): unknown {
    if (sqlState(error) !== undefined) return error
    const limit = config.query_timeout
    const late = limit !== undefined && this.#world.monotonic() - started >= limit - SLACK_MS
    if (late) this.#broken = true
    return late || this.#ended ? new LostConnection(this.#ended ?? error) : error
  }
}

/**
 * Takes a connection of the pool.
 * @throws {TidemarkError} `STORE_BUSY` when none is free in time, `STORE_FAILED` when the server cannot be reached
 */
export async function openSession(pool: PgPoolLike, waitMs: number, world: World): Promise<Session> {
  const connecting = pool.connect()
  try {
    const client = await within(world, waitMs, connecting)
    if (client) return new Session(client, world)
  } catch (error) {
    throw storeError(sqlState(error) === undefined ? new LostConnection(error) : error)
  }
  // It may still come: then it goes straight back.
  connecting.then(
    (client) => client.release(),
    () => {},
  )
  throw new TidemarkError('STORE_BUSY', 'No connection of the pool was free in time', { values: { waitMs } })
}
