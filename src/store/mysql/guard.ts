import { TidemarkError } from '../../errors.ts'
import type { World } from '../../util/world.ts'
import type { ScopeRules } from '../store.ts'
import { type Client, isOkPacket } from './driver.ts'
import { ERRNO, errnoOf, surroundingsError } from './mysql-errors.ts'
import type { Session } from './session.ts'
import { type Statement, statementsOf } from './statements.ts'

/** The connection and the transaction that user code works on. */
export interface Ground {
  readonly client: Client
  readonly session: Session
  readonly world: World
}

const ENDED = {
  TRANSACTION_LOST: 'A statement of the handler ended the transaction',
  HANDLER_ENDED_TRANSACTION: 'The handler ended the transaction through raw, or through a procedure',
} as const

/** The savepoint that finds out whether user code committed or rolled back where no statement could be looked at. */
const SAVEPOINT = 'tidemark_handler'

/** What has happened so far; a savepoint that is rolled back goes back to it. */
export interface Mark {
  readonly failed: number
  readonly writes: number
}

const ignore = () => {}

/**
 * Watches one callback of user code. What goes wrong is remembered as well as thrown, since user code may catch it and
 * go on: the finding is thrown again when the scope closes.
 *
 * Statements run strictly one after the other, also when user code starts several at once: after each of them the server's
 * word on the transaction is looked at before the next one is sent.
 */
export class Guard {
  readonly ground: Ground
  readonly rules: ScopeRules
  #tail: Promise<unknown> = Promise.resolve()
  /** Statements and savepoints that were begun and have not come to their end. */
  #pending = 0
  #closed = false
  /** Failed statements not yet forgiven by a savepoint. */
  #failed: unknown[] = []
  /** Writes not yet taken back by a savepoint; counted only where they are not allowed. */
  #writes = 0
  /** What no savepoint can forgive: the transaction is gone, the time is up. */
  #fatal: TidemarkError | undefined
  #watched = false
  #leftOpen: (() => boolean) | undefined

  constructor(ground: Ground, rules: ScopeRules) {
    this.ground = ground
    this.rules = rules
  }

  alive(): void {
    if (!this.#closed) return
    throw new TidemarkError('SCOPE_DEAD', 'db was used after its callback had returned', { values: this.rules.values })
  }

  mark(): Mark {
    return { failed: this.#failed.length, writes: this.#writes }
  }

  /** What came since is undone: failures are forgiven, writes are gone. */
  forgive(mark: Mark): void {
    this.#failed.length = Math.min(this.#failed.length, mark.failed)
    this.#writes = mark.writes
  }

  /** @param leftOpen whether a transaction that user code began inside this one was never ended */
  onClose(leftOpen: () => boolean): void {
    this.#leftOpen = leftOpen
  }

  /** Runs one statement of the user between the checks. */
  statement<T>(sql: string, check: () => void, work: () => Promise<T>): Promise<T> {
    return this.#counted(() =>
      this.#next(async () => {
        this.#before()
        return this.#attempt(async () => {
          check()
          const statements = this.#allowed(sql)
          if (statements.some(({ kind }) => kind === 'opaque')) this.watch()
          const result = await work()
          this.#noteAnswer(statements, result)
          return result
        })
      }),
    )
  }

  /** SAVEPOINT and the like, in the order of the statements. */
  control<T>(work: () => Promise<T>): Promise<T> {
    return this.#counted(() =>
      this.#next(async () => {
        this.#before()
        return this.#attempt(work)
      }),
    )
  }

  /** A nested savepoint: a throw undoes what `fn` wrote and forgives what failed inside. */
  savepoint<T>(name: string, fn: () => T): Promise<Awaited<T>> {
    return this.#counted(async (): Promise<Awaited<T>> => {
      const before = this.mark()
      await this.control(() => this.ground.session.control(`SAVEPOINT ${name}`))
      try {
        const result = await fn()
        await this.control(() => this.ground.session.control(`RELEASE SAVEPOINT ${name}`))
        this.rewatch()
        return result
      } catch (error) {
        await this.#undo(name, before)
        throw this.#fatal ?? error
      }
    })
  }

  /**
   * From here on user code may do what no statement shows. The savepoint goes to the connection before whatever follows:
   * the driver keeps the order.
   */
  watch(): void {
    if (this.#watched) return
    this.#watched = true
    this.ground.session.taint()
    this.#openSavepoint()
  }

  /** An outer savepoint that was released or rolled back has taken the inner one with it. */
  rewatch(): void {
    if (this.#watched) this.#openSavepoint()
  }

  /** @throws what was noticed and not forgiven */
  async close(outcome: 'returned' | 'threw'): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    const forgotten = this.#pending
    await this.#tail
    await this.#endWatch()
    if (!this.ground.session.inTransaction) this.#end('HANDLER_ENDED_TRANSACTION')
    if (this.#fatal) throw this.#fatal
    if (outcome === 'threw') return
    if (forgotten > 0) throw this.#forgot(forgotten)
    this.#throwLeftOpen()
    this.#throwSwallowed()
    if (this.#writes > 0) throw this.#untracked()
  }

  #next<T>(work: () => Promise<T>): Promise<T> {
    const run = this.#tail.then(work)
    this.#tail = run.then(ignore, ignore)
    return run
  }

  /** A promise that user code drops must neither end the process when it fails nor go unnoticed while it runs. */
  #counted<T>(work: () => Promise<T>): Promise<T> {
    this.#pending++
    const run = work().finally(() => this.#pending--)
    run.catch(ignore)
    return run
  }

  #before(): void {
    this.alive()
    if (this.#fatal) throw this.#fatal
    if (!this.ground.session.inTransaction) throw this.#end('HANDLER_ENDED_TRANSACTION')
    if (this.ground.world.monotonic() < this.rules.deadline) return
    this.#fatal = new TidemarkError('HANDLER_TIMEOUT', 'The handler ran out of time', { values: this.rules.values })
    throw this.#fatal
  }

  async #attempt<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      throw await this.#noticed(error)
    }
  }

  /** What user code gets to see; it is kept until the close, or until a savepoint forgives it. */
  async #noticed(error: unknown): Promise<unknown> {
    if (this.#fatal) return this.#fatal
    await this.ground.session.noteFailure(error)
    const known = surroundingsError(error)
    if (!this.ground.session.inTransaction) {
      // A deadlock is passing, and whatever else ended it is not: the code says which.
      this.#fatal = known ?? this.#ended('TRANSACTION_LOST', error)
      return this.#fatal
    }
    this.#failed.push(known ?? error)
    return known ?? error
  }

  #allowed(sql: string): readonly Statement[] {
    const statements = statementsOf(sql)
    const refused = statements.find(({ kind }) => kind === 'refused')
    if (!refused) return statements
    const values = { ...this.rules.values, statement: refused.word.slice(0, 40) }
    const sentence = 'A handler may not send a statement that could commit, as DDL does here, or change the session'
    throw new TidemarkError('TRANSACTION_CONTROL_REFUSED', sentence, { values })
  }

  #noteAnswer(statements: readonly Statement[], result: unknown): void {
    const first = Array.isArray(result) ? result[0] : undefined
    const answers: readonly unknown[] = Array.isArray(first) ? first : [first]
    const packets = answers.filter(isOkPacket)
    for (const { serverStatus } of packets) this.ground.session.note(serverStatus)
    if (packets.length === 0) this.ground.session.note(null)
    if (!this.ground.session.inTransaction) throw this.#end('TRANSACTION_LOST')
    if (this.rules.mayWrite) return
    // WITH begins writes as well: they answer without rows.
    const wrote = ({ word, kind }: Statement) =>
      kind === 'write' || kind === 'opaque' || (word === 'WITH' && packets.length > 0)
    this.#writes += statements.filter(wrote).length
  }

  async #undo(name: string, before: Mark): Promise<void> {
    if (!this.ground.session.inTransaction) {
      this.#end('HANDLER_ENDED_TRANSACTION')
      return
    }
    try {
      await this.#next(() => this.ground.session.control(`ROLLBACK TO SAVEPOINT ${name}`))
      await this.#next(() => this.ground.session.control(`RELEASE SAVEPOINT ${name}`))
      this.rewatch()
      this.forgive(before)
    } catch (error) {
      // Only raw can have ended it: the transaction that is open now is another one.
      this.#fatal ??= surroundingsError(error) ?? this.#ended('HANDLER_ENDED_TRANSACTION', error)
    }
  }

  #openSavepoint(): void {
    this.ground.client.query(`SAVEPOINT ${SAVEPOINT}`).catch(ignore) // its RELEASE will tell
  }

  async #endWatch(): Promise<void> {
    if (!this.#watched || this.#fatal) return
    try {
      await this.ground.session.control(`RELEASE SAVEPOINT ${SAVEPOINT}`)
    } catch (error) {
      const gone = errnoOf(error) === ERRNO.NO_SUCH_SAVEPOINT
      this.#fatal ??= (gone ? undefined : surroundingsError(error)) ?? this.#ended('HANDLER_ENDED_TRANSACTION', error)
      // What is open now, if anything, is not the transaction that the marks were written in.
      this.ground.session.end()
    }
  }

  #throwLeftOpen(): void {
    if (!this.#leftOpen?.()) return
    throw new TidemarkError('TRANSACTION_CONTROL_REFUSED', 'The handler began a transaction and did not end it', {
      values: this.rules.values,
    })
  }

  #throwSwallowed(): void {
    const [first] = this.#failed
    if (first === undefined) return
    if (TidemarkError.is(first)) throw first
    throw new TidemarkError('HANDLER_SWALLOWED_ERROR', 'A statement failed and the handler went on', {
      values: this.rules.values,
      cause: first,
    })
  }

  /** The transaction is gone: by a deadlock or a lost connection where that was seen, else by the handler. */
  #end(code: keyof typeof ENDED): TidemarkError {
    this.#fatal ??= this.ground.session.endedBy ?? this.#ended(code)
    return this.#fatal
  }

  #ended(code: keyof typeof ENDED, cause?: unknown): TidemarkError {
    return new TidemarkError(code, ENDED[code], { values: this.rules.values, cause })
  }

  #forgot(statements: number): TidemarkError {
    return new TidemarkError('HANDLER_FORGOT_AWAIT', 'The handler returned before its statements had', {
      values: { ...this.rules.values, statements },
    })
  }

  #untracked(): TidemarkError {
    return new TidemarkError('UNTRACKED_WRITE', "A write through db, which undo: 'managed' cannot take back", {
      values: this.rules.values,
    })
  }
}
