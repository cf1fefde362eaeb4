import { TidemarkError } from '../../errors.ts'
import { saysAutocommit, saysInTransaction } from './driver.ts'
import type { Answer, Executor } from './executors.ts'
import { bind, type SqlRows, type SqlValue } from './literals.ts'
import { ERRNO, errnoOf, isConnectionLost, storeError, surroundingsError } from './mysql-errors.ts'
import type { Names } from './names.ts'
import type { Row } from './values.ts'

/**
 * - `write`, `read`: a transaction that Tidemark opened itself
 * - `joined`: one that the application opened, as it says; whether that is so is asked before the first statement
 */
export type SessionKind = 'write' | 'read' | 'joined'

const PROBE = 'tidemark_probe'

/**
 * One transaction on one connection. Each of Tidemark's statements goes through here, and none is sent once the server has
 * said that the transaction is over: outside of it the statement would commit by itself, apart from its marks (P1).
 *
 * The server tells with each answer without rows whether a transaction is open. An answer with rows cannot end one. After
 * an error, which does not tell, the server is asked (`DO 0`): a deadlock rolls everything back, a lock that was not got
 * in time only its statement, unless `innodb_rollback_on_timeout` is on.
 */
export class Session {
  readonly names: Names
  readonly kind: SessionKind
  readonly #executor: Executor
  #open: boolean
  #tainted = false
  /** Whether `#open` was said by the server after the last statement. */
  #fresh = true
  #proven: boolean
  /** The failure that ended it, where that is known: a deadlock or a lost connection is passing, and nobody's mistake. */
  #endedBy: TidemarkError | undefined

  constructor(executor: Executor, names: Names, kind: SessionKind) {
    this.#executor = executor
    this.names = names
    this.kind = kind
    this.#open = true
    this.#proven = kind !== 'joined'
  }

  /** What the server said last. Once over, it stays over: a transaction opened since then is another one. */
  get inTransaction(): boolean {
    return this.#open
  }

  /** Whether user code had the connection to itself: what it left in the session must not meet anybody else. */
  get tainted(): boolean {
    return this.#tainted
  }

  taint(): void {
    this.#tainted = true
  }

  get endedBy(): TidemarkError | undefined {
    return this.#endedBy
  }

  /** The transaction was committed or rolled back, or its connection is gone. */
  end(): void {
    this.#open = false
  }

  /** Runs a writing statement of Tidemark. Answers how many rows it touched. */
  async run(text: string, ...values: readonly (SqlValue | SqlRows)[]): Promise<number> {
    return (await this.#own(text, values)).affected
  }

  async all(text: string, ...values: readonly (SqlValue | SqlRows)[]): Promise<readonly Row[]> {
    return (await this.#own(text, values)).rows
  }

  async get(text: string, ...values: readonly (SqlValue | SqlRows)[]): Promise<Row | undefined> {
    return (await this.all(text, ...values))[0]
  }

  /** SAVEPOINT and the like: errors as the driver threw them. */
  async control(sql: string): Promise<void> {
    this.#refuseOver()
    await this.#prove()
    try {
      this.note((await this.#executor.execute(sql)).status)
    } catch (error) {
      await this.noteFailure(error)
      throw error
    }
  }

  /** Takes over what the server said after a statement that went past this session. */
  note(status: number | null): void {
    this.#fresh = status !== null
    if (status !== null && !this.#statusOpen(status)) this.#open = false
  }

  /** Finds out what a failed statement left of the transaction. */
  async noteFailure(error: unknown): Promise<void> {
    // Refused before anything was sent.
    if (TidemarkError.is(error) || error instanceof RangeError) return
    const errno = errnoOf(error)
    if (errno === ERRNO.DEADLOCK || isConnectionLost(error)) this.#endBy(error)
    // It takes back its own statement alone, always, and is met too often to be asked about.
    if (errno === ERRNO.DUPLICATE_ENTRY || !this.#open) return
    await this.ask()
    if (!this.#open) this.#endBy(error)
  }

  /** The server's word now, by a statement of its own where the last answer did not carry it. */
  async refresh(): Promise<boolean> {
    if (this.#open && !this.#fresh) await this.ask()
    return this.#open
  }

  async ask(): Promise<void> {
    try {
      const { status } = await this.#executor.execute('DO 0')
      if (status !== null) this.note(status)
      else await this.#askBySavepoint()
    } catch (error) {
      // Not even that can be said any more.
      this.#endBy(error)
    }
  }

  /** Outside a transaction SAVEPOINT is taken and forgotten at once. */
  async #askBySavepoint(): Promise<void> {
    await this.#executor.execute(`SAVEPOINT ${PROBE}`)
    await this.#executor.execute(`RELEASE SAVEPOINT ${PROBE}`)
    this.#fresh = true
  }

  #statusOpen(status: number): boolean {
    // Without autocommit the next statement opens a transaction that only the application can commit.
    return saysInTransaction(status) || (this.kind === 'joined' && !saysAutocommit(status))
  }

  async #own(text: string, values: readonly (SqlValue | SqlRows)[]): Promise<Answer> {
    const sql = bind(this.names.parts(text), values)
    this.#refuseOver()
    await this.#prove()
    try {
      const answer = await this.#executor.execute(sql)
      this.note(answer.status)
      return answer
    } catch (error) {
      await this.noteFailure(error)
      throw storeError(error)
    }
  }

  /** Before anything is written on a connection of the application. @throws {TidemarkError} `NOT_IN_TRANSACTION` */
  async #prove(): Promise<void> {
    if (this.#proven) return
    await this.ask()
    if (!this.#open) {
      throw (
        this.#endedBy ??
        new TidemarkError('NOT_IN_TRANSACTION', 'The connection that was passed in has no open transaction')
      )
    }
    this.#proven = true
  }

  #endBy(error: unknown): void {
    this.#open = false
    this.#endedBy ??= surroundingsError(error)
  }

  /** Why nothing more can be sent. */
  over(): TidemarkError {
    if (this.#endedBy) return this.#endedBy
    return new TidemarkError('TRANSACTION_LOST', 'The transaction ended before Tidemark was done with it')
  }

  #refuseOver(): void {
    if (!this.#open) throw this.over()
  }
}

/** The name becomes part of a statement. */
export function savepointName(name: string): string {
  if (!/^[a-z_0-9]{1,40}$/.test(name))
    throw new TypeError('a savepoint is named with lower-case letters and underscores')
  return name
}
