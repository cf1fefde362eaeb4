import type {
  PgClientLike,
  PgPoolClientLike,
  PgPoolLike,
  PgQueryConfig,
  PgResult,
} from '../../../store/postgres/driver.ts'
import type { DriverEvents, FreezableDriver } from '../backend.ts'
import { Crashed } from '../crash-driver.ts'
import { Fuses } from '../fuses.ts'
import type { Mishap } from '../plan.ts'
import { LeaseWatch, type LeaseWatchOptions } from './lease-watch.ts'
import type { RealWork } from './real-work.ts'

const isCommit = (sql: string) => /^\s*COMMIT/i.test(sql)
const isBegin = (sql: string) => /^\s*BEGIN\b(?![^;]*READ ONLY)/i.test(sql)
const isControl = (sql: string) => /^\s*(SAVEPOINT|RELEASE|ROLLBACK|COMMIT|BEGIN)/i.test(sql)
const writes = (sql: string) => /^\s*(INSERT|UPDATE|DELETE)/i.test(sql)
const locks = (sql: string) => /FOR UPDATE\s*$|SET nonce = /i.test(sql)
/** A successor that waits for the row of a holder which stands in its way: the server ends that one meanwhile. */
const waitsForHolder = (sql: string) => /^\s*SELECT id FROM tidemark\.watchers .*FOR UPDATE\s*$/is.test(sql)
const endsHolder = (sql: string) => /^\s*SELECT pg_terminate_backend\(pid\)/i.test(sql)
const any = () => true

/** Which statements count for a mishap. */
function countsFor(mishap: Mishap): (sql: string) => boolean {
  if (mishap.includes('commit')) return isCommit
  if (mishap === 'busy') return locks
  if (mishap.startsWith('full')) return writes
  return mishap.startsWith('io-error') ? (sql) => !isControl(sql) : any
}

/** What the server says to a statement that fails by its own fault, as SQLSTATE. */
const STATES: Partial<Record<Mishap, string>> = { full: '53100', 'io-error': '58030', busy: '55P03' }
/** COMMIT is refused, and the transaction with it. */
const SERIALIZATION = '40001'

/** An error from the server itself, which leaves the transaction as a real one does. */
const failing = (state: string): PgQueryConfig => ({
  text: `DO $$ BEGIN RAISE EXCEPTION 'a simulated failure' USING ERRCODE = '${state}'; END $$`,
})
const END_SESSION: PgQueryConfig = { text: 'SELECT pg_terminate_backend(pg_backend_pid())' }

/** What is used of the driver's own client beyond what the store uses. */
type Native = PgPoolClientLike & {
  readonly processID?: number
  readonly connection?: { readonly stream: { destroy(): void } }
  once(event: 'end', listener: () => void): unknown
}

const endings = new WeakMap<Native, Promise<void>>()

/** Listens once to a connection, which serves many. */
function endOf(native: Native): Promise<void> {
  const known = endings.get(native) ?? new Promise<void>((resolve) => native.once('end', resolve))
  // One that was dropped still reports its end, when nobody of the process listens any more.
  if (!endings.has(native)) native.on('error', () => {})
  endings.set(native, known)
  return known
}

export interface PgDriverOptions extends DriverEvents {
  /** Connections are shared by all processes of a run: a process leaves nothing in them. */
  readonly pool: PgPoolLike
  readonly work: RealWork
  /** The time of the run as the server is to see it, in ms since the epoch. */
  readonly now: () => number
  readonly leases: LeaseWatchOptions
  /** Which of these sessions the server still has. */
  readonly alive: (pids: readonly number[]) => Promise<ReadonlySet<number>>
  /** Resolves when the session waits for a lock, or `over` says that it need not be known any more. */
  readonly untilBlocked: (pid: number, over: () => boolean) => Promise<void>
  /** Statements that wait for a lock now, over all processes. */
  readonly blocked: Set<Promise<void>>
  /** Whether some process is frozen with a transaction open. */
  readonly isInTheWay: () => boolean
  /** Lets the leases of these tokens expire, without a word to their holder. */
  readonly expire: (tokens: readonly string[]) => Promise<void>
}

/**
 * The way of one simulated process to a PostgreSQL server: a pool for the store that counts its statements, and at a planned
 * one the server fails, the connection is lost, or the process dies or is frozen. A process that is dead reaches nothing.
 */
export class PgCrashDriver implements FreezableDriver {
  dead = false
  powerLost = false
  statements = 0
  readonly pool: PgPoolLike
  readonly #options: PgDriverOptions
  readonly #leases: LeaseWatch
  readonly #clients = new Set<CountedClient>()
  readonly #fuses = new Fuses(countsFor)
  /** Statements until the process is frozen; null: it will not be. */
  #left: number | null = null
  #arrived: () => void = () => {}
  #frozen: Promise<void> | null = null
  #wake: () => void = () => {}

  constructor(options: PgDriverOptions) {
    this.#options = options
    this.#leases = new LeaseWatch(options.leases)
    this.pool = {
      connect: () => this.#connect(),
      on: () => undefined,
      removeListener: () => undefined,
      end: async () => {},
    }
  }

  get tokens(): ReadonlySet<string> {
    return this.#leases.tokens
  }

  get frozen(): boolean {
    return this.#frozen !== null
  }

  get frozenInside(): boolean {
    return this.frozen && [...this.#clients].some((client) => client.writes)
  }

  arm(mishap: Mishap, at: number): void {
    this.#fuses.arm(mishap, at)
  }

  disarm(): void {
    this.#fuses.disarm()
  }

  loseLock(): Promise<void> {
    return this.#options.expire([...this.tokens])
  }

  freeze(atStatement: number): Promise<void> {
    this.#left = atStatement
    return new Promise((resolve) => {
      this.#arrived = resolve
    })
  }

  /** A session that the server has ended meanwhile is known to be dead by then, as it is to a process that wakes up. */
  async thaw(): Promise<void> {
    this.#left = null
    if (!this.#frozen) return
    const clients = [...this.#clients]
    const alive = await this.#options.alive(clients.map((client) => client.pid))
    await Promise.all(clients.filter(({ pid }) => !alive.has(pid)).map((client) => client.ended))
    this.#goOn()
  }

  #goOn(): void {
    this.#frozen = null
    this.#wake()
  }

  kill(): void {
    this.dead = true
    for (const client of this.#clients) client.drop()
    this.#clients.clear()
    this.#goOn()
  }

  async #connect(): Promise<PgPoolClientLike> {
    this.#checkAlive()
    const native = (await this.#options.work.inTurn(() => this.#options.pool.connect())) as Native
    const client = new CountedClient(native, this, () => this.#clients.delete(client))
    if (this.dead) client.drop()
    this.#checkAlive()
    this.#clients.add(client)
    return client
  }

  #checkAlive(): void {
    if (this.dead) throw new Crashed('the process is dead')
  }

  /** Runs one statement between the mishaps. */
  async around(client: CountedClient, config: PgQueryConfig): Promise<PgResult> {
    this.#checkAlive()
    this.statements += 1
    await this.#pass()
    this.#checkAlive()
    const mishap = this.#fuses.due(config.text)
    if (!mishap) return this.#told(client, config)
    this.#options.struck(mishap, config.text)
    return this.#play(mishap, client, config)
  }

  /** Where a frozen process stands. */
  async #pass(): Promise<void> {
    if (this.#left !== null) {
      this.#left -= 1
      if (this.#left <= 0) this.#stop()
    }
    while (this.#frozen) await this.#frozen
  }

  #stop(): void {
    this.#left = null
    this.#frozen = new Promise((resolve) => {
      this.#wake = resolve
    })
    this.#arrived()
  }

  /** Sends it, with a word to whoever watches the transactions; the process hears the answer after them. */
  async #told(client: CountedClient, config: PgQueryConfig): Promise<PgResult> {
    const { work, began, committed } = this.#options
    const result = await work.inTurn(async (letGo) => {
      this.#checkAlive()
      const answer = await this.#leases.around(config, () => this.#send(client, config, letGo))
      if (isCommit(config.text) && answer.command === 'COMMIT') await committed?.()
      return answer
    })
    if (isBegin(config.text)) began?.()
    this.#checkAlive()
    return result
  }

  async #send(client: CountedClient, config: PgQueryConfig, letGo: () => void): Promise<PgResult> {
    const answer = client.send(this.#inItsTime(config))
    if (endsHolder(config.text)) return this.#withTheLock(answer)
    if (!this.#options.isInTheWay() || !waitsForHolder(config.text)) return answer
    return this.#whileBlocked(client, answer, letGo)
  }

  /** Time passes for the others as long as the server lets this one wait for a lock. */
  async #whileBlocked(client: CountedClient, answer: Promise<PgResult>, letGo: () => void): Promise<PgResult> {
    const { work, untilBlocked, blocked } = this.#options
    let over = false
    const settled = answer.then(
      () => {
        over = true
      },
      () => {
        over = true
      },
    )
    await untilBlocked(client.pid, () => over)
    if (over) return answer
    blocked.add(settled)
    letGo()
    work.end()
    await settled
    work.begin()
    blocked.delete(settled)
    return answer
  }

  /** Whoever waits for the session that was ended has the lock before anything else happens: how long that takes is chance. */
  async #withTheLock(answer: Promise<PgResult>): Promise<PgResult> {
    const result = await answer
    await Promise.all(this.#options.blocked)
    return result
  }

  /** The server is told the time of the run, and no statement is given up by real time. */
  #inItsTime({ text, query_timeout: _, ...rest }: PgQueryConfig): PgQueryConfig {
    const now = `(to_timestamp(0) + ${Math.floor(this.#options.now())}::bigint * interval '1 millisecond')`
    // The store waits for the disk even where the database does not: what a crash of the server loses is not tried here.
    const told = text.replace("current_setting('synchronous_commit') AS", "'on' AS")
    return { ...rest, text: told.replaceAll('clock_timestamp()', now) }
  }

  async #play(mishap: Mishap, client: CountedClient, config: PgQueryConfig): Promise<PgResult> {
    switch (mishap) {
      case 'die-before':
      case 'die-before-commit':
        return this.#die(false)
      case 'power-before':
        return this.#die(true)
      case 'die-after':
      case 'die-after-commit':
        await this.#told(client, config)
        return this.#die(false)
      case 'power-after':
      case 'power-after-commit':
        await this.#told(client, config)
        return this.#die(true)
      case 'commit-answer-lost':
        await this.#told(client, config)
        return this.#lose(client, config)
      default:
        return this.#failStatement(mishap, client, config)
    }
  }

  /** The server refuses the statement, or ends the session, or the connection breaks before the statement is sent. */
  #failStatement(mishap: Mishap, client: CountedClient, config: PgQueryConfig): Promise<PgResult> {
    const state = mishap === 'commit-rolled-back' ? SERIALIZATION : STATES[mishap]
    if (state !== undefined) return this.#options.work.inTurn(() => client.send(failing(state)))
    if (mishap === 'full-rolled-back') return this.#options.work.inTurn(() => client.send(END_SESSION))
    return this.#lose(client, config)
  }

  #lose(client: CountedClient, config: PgQueryConfig): Promise<PgResult> {
    return this.#options.work.inTurn(async () => {
      client.cut()
      await client.ended
      return client.send(config)
    })
  }

  #die(power: boolean): never {
    this.powerLost ||= power
    this.kill()
    throw new Crashed('the process died here')
  }
}

/** A connection as a process sees it. */
class CountedClient implements PgPoolClientLike {
  /** Resolves when the connection is gone. */
  readonly ended: Promise<void>
  readonly #native: Native
  readonly #driver: PgCrashDriver
  readonly #gone: () => void
  #released = false
  #began = false

  constructor(native: Native, driver: PgCrashDriver, gone: () => void) {
    this.#native = native
    this.#driver = driver
    this.#gone = gone
    this.ended = endOf(native)
  }

  get pid(): number {
    return this.#native.processID ?? 0
  }

  /** Whether a transaction is open that may write. */
  get writes(): boolean {
    return this.#began && this.getTransactionStatus() !== 'I'
  }

  getTransactionStatus(): string | null {
    return this.#native.getTransactionStatus?.() ?? null
  }

  query(config: PgQueryConfig | string, values?: unknown[]): Promise<PgResult> {
    const whole = typeof config === 'string' ? { text: config, ...(values ? { values } : {}) } : config
    return this.#driver.around(this, whole)
  }

  send(config: PgQueryConfig): Promise<PgResult> {
    if (/^\s*BEGIN/i.test(config.text)) this.#began = isBegin(config.text)
    return this.#native.query(config)
  }

  on(event: 'error', listener: (error: Error) => void): PgClientLike {
    this.#native.on(event, listener)
    return this
  }

  removeListener(event: 'error', listener: (error: Error) => void): PgClientLike {
    this.#native.removeListener(event, listener)
    return this
  }

  /** The connection breaks. */
  cut(): void {
    this.#native.connection?.stream.destroy()
  }

  release(destroy?: boolean): void {
    if (this.#released) return
    this.#released = true
    this.#gone()
    this.#native.release(destroy)
  }

  /** As the end of a process does: the server rolls back what was open. */
  drop(): void {
    this.release(true)
  }
}
