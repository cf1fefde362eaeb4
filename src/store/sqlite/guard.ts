import { TidemarkError } from '../../errors.ts'
import { isThenable } from '../../util/op.ts'
import type { ScopeRules } from '../store.ts'
import type { Connection } from './connection.ts'
import type { SqliteParameter, SqliteStatementLike } from './driver.ts'
import { surroundingsError } from './sqlite-errors.ts'
import { changesSchema, controlWord, firstWords } from './statements.ts'
import { isStorableText } from './values.ts'

const ENDED = {
  TRANSACTION_LOST: 'A statement of the handler ended the transaction',
  HANDLER_ENDED_TRANSACTION: 'The handler ended the transaction through raw',
} as const

const OPEN = 'SAVEPOINT tidemark_handler'
const RELEASE = 'RELEASE tidemark_handler'

/**
 * Watches one callback of user code. What goes wrong is remembered as well as thrown, since user code may catch it and
 * go on: the finding is thrown again when the scope closes.
 */
export class Guard {
  readonly connection: Connection
  readonly rules: ScopeRules
  readonly #changesBefore: number
  /** Changes that a savepoint took back again: they are counted by SQLite all the same. */
  #changesUndone = 0
  /** Changes that Tidemark made itself in the middle of the callback: managed rows that were flushed. */
  #changesOwn = 0
  #closed = false
  /** Failed statements not yet forgiven by a savepoint. */
  readonly #failed: unknown[] = []
  /** What no savepoint can forgive: the transaction is gone, the disk is full, the time is up. */
  #fatal: TidemarkError | undefined
  /** Made with the first one: most callbacks iterate over nothing. */
  #iterators: Set<Iterator<unknown>> | undefined
  #savepoints = 0

  constructor(connection: Connection, rules: ScopeRules) {
    this.connection = connection
    this.rules = rules
    this.#changesBefore = rules.mayWrite ? 0 : this.connection.totalChanges()
  }

  /** Opens the savepoint by which a transaction that was exchanged behind our back is found out. */
  open(): void {
    this.#checkOpen('TRANSACTION_LOST')
    this.connection.savepoint(OPEN)
  }

  /** Runs one statement of the user between the checks. */
  statement<T>(work: () => T): T {
    this.#before()
    let result: T
    try {
      result = work()
    } catch (error) {
      throw this.#noticed(error)
    }
    this.#checkOpen('TRANSACTION_LOST')
    return result
  }

  /** Prepares a text. Nothing runs, so that the transaction is open is left to the checks of the run. */
  compile(sql: string): void {
    this.#usable()
    try {
      this.prepared(sql, false)
    } catch (error) {
      throw this.#noticed(error)
    }
  }

  /** A cached, checked statement for one use. */
  prepared(sql: string, bigints: boolean): SqliteStatementLike {
    const { userStatements } = this.connection
    const known = userStatements.find(sql, bigints)
    if (known) return known
    const words = this.checkText(sql, 'one')
    // A kept text is not read again, and the next callback may be one that must not change the schema.
    return changesSchema(words) ? userStatements.fresh(sql, bigints) : userStatements.get(sql, bigints)
  }

  /** @returns the first word of each statement */
  checkText(sql: string, count: 'one' | 'many'): string[] {
    const words = firstWords(sql)
    const control = controlWord(words)
    if (control) {
      const values = { ...this.rules.values, statement: control }
      throw new TidemarkError('TRANSACTION_CONTROL_REFUSED', 'A handler may not control the transaction', { values })
    }
    if (!this.rules.mayWrite && changesSchema(words)) throw this.#untracked()
    // The driver would run the first and drop the others without a word.
    if (count === 'one' && words.length > 1) throw new TypeError('prepare takes one statement; exec takes several')
    return words
  }

  alive(): void {
    if (!this.#closed) return
    throw new TidemarkError('SCOPE_DEAD', 'db was used after its callback had returned', { values: this.rules.values })
  }

  keep(iterator: Iterator<unknown>): void {
    this.#iterators ??= new Set()
    this.#iterators.add(iterator)
  }

  drop(iterator: Iterator<unknown>): void {
    this.#iterators?.delete(iterator)
  }

  /** Runs writes of Tidemark's own, which are tracked: they are not the user's. */
  own<T>(work: () => T): T {
    const before = this.connection.totalChanges()
    try {
      return work()
    } finally {
      this.#changesOwn += this.connection.totalChanges() - before
    }
  }

  /** A nested savepoint: a throw undoes what `fn` wrote and forgives what failed inside. */
  savepoint<T>(fn: () => T): T {
    const name = `tidemark_user_${++this.#savepoints}`
    const failedBefore = this.#failed.length
    const changesBefore = this.connection.totalChanges() - this.#changesOwn
    this.statement(() => this.connection.savepoint(`SAVEPOINT ${name}`))
    try {
      const result = refusePromise(fn(), this.rules)
      this.statement(() => this.connection.savepoint(`RELEASE ${name}`))
      return result
    } catch (error) {
      this.#undoSavepoint(name)
      this.#failed.length = failedBefore
      this.#changesUndone += this.connection.totalChanges() - this.#changesOwn - changesBefore
      throw this.#fatal ?? error
    } finally {
      this.#savepoints--
    }
  }

  /** @throws what was noticed and not forgiven */
  close(outcome: 'returned' | 'threw'): void {
    if (this.#closed) return
    this.#closed = true
    this.#endIterators()
    this.#checkOpen('HANDLER_ENDED_TRANSACTION')
    if (this.#fatal) throw this.#fatal
    if (outcome === 'threw') return
    this.#releaseSavepoint()
    this.#throwSwallowed()
    if (this.rules.mayWrite) return
    const written = this.connection.totalChanges() - this.#changesBefore - this.#changesOwn
    if (written !== this.#changesUndone) throw this.#untracked()
  }

  #before(): void {
    this.#usable()
    // Outside a transaction the statement would commit by itself.
    this.#checkOpen('HANDLER_ENDED_TRANSACTION')
  }

  #usable(): void {
    this.alive()
    if (this.#fatal) throw this.#fatal
    if (this.connection.world.monotonic() < this.rules.deadline) return
    this.#fatal = new TidemarkError('HANDLER_TIMEOUT', 'The handler ran out of time', { values: this.rules.values })
    throw this.#fatal
  }

  #noticed(error: unknown): unknown {
    this.#fatal ??= surroundingsError(error)
    if (this.#fatal) return this.#fatal
    this.#failed.push(error)
    this.#checkOpen('TRANSACTION_LOST', error)
    return error
  }

  /**
   * INSERT OR ROLLBACK and RAISE(ROLLBACK) end the transaction from inside a statement, which is seen right after it.
   * A transaction that is gone at any other moment was ended through `raw`.
   */
  #checkOpen(code: keyof typeof ENDED, cause?: unknown): void {
    if (this.connection.inTransaction) return
    this.#fatal ??= new TidemarkError(code, ENDED[code], { values: this.rules.values, cause })
    throw this.#fatal
  }

  #undoSavepoint(name: string): void {
    this.#checkOpen('HANDLER_ENDED_TRANSACTION')
    try {
      this.connection.savepoint(`ROLLBACK TO ${name}`)
      this.connection.savepoint(`RELEASE ${name}`)
    } catch (error) {
      // Only raw can have ended it: the transaction that is open now is another one.
      const values = this.rules.values
      this.#fatal ??= new TidemarkError('HANDLER_ENDED_TRANSACTION', ENDED.HANDLER_ENDED_TRANSACTION, {
        values,
        cause: error,
      })
    }
  }

  /** Gone: someone committed or rolled back in between, and opened another transaction. */
  #releaseSavepoint(): void {
    try {
      this.connection.savepoint(RELEASE)
    } catch (cause) {
      const { values } = this.rules
      throw new TidemarkError('HANDLER_ENDED_TRANSACTION', ENDED.HANDLER_ENDED_TRANSACTION, { values, cause })
    }
  }

  /** An iterator left open would hold the snapshot of this transaction beyond its commit. */
  #endIterators(): void {
    if (!this.#iterators) return
    for (const iterator of this.#iterators) iterator.return?.()
    this.#iterators.clear()
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

  #untracked(): TidemarkError {
    return new TidemarkError('UNTRACKED_WRITE', "A write through db, which undo: 'managed' cannot take back", {
      values: this.rules.values,
    })
  }
}

function refusePromise<T>(result: T, rules: ScopeRules): T {
  if (!isThenable(result)) return result
  result.then(undefined, () => {}) // its own rejection must not end the process
  throw new TidemarkError('HANDLER_RETURNED_PROMISE', 'The function in savepoint returned a promise', {
    values: rules.values,
  })
}

/**
 * What a driver would change without a word is refused: a text with a NUL is cut there (@photostructure/sqlite), half a
 * surrogate pair is replaced, and any object in the first place, a date for example, is taken for named values and binds nothing.
 */
export function checkParameters(parameters: readonly SqliteParameter[]): void {
  // Counted: `entries()` would make an array for each parameter of each event.
  for (let i = 0; i < parameters.length; i++) {
    const parameter = parameters[i] as SqliteParameter
    if (typeof parameter === 'string') checkText(parameter)
    else if (typeof parameter === 'object' && parameter !== null && !ArrayBuffer.isView(parameter))
      checkNamed(parameter, i)
  }
}

function checkNamed(named: Readonly<Record<string, unknown>>, position: number): void {
  const prototype = Object.getPrototypeOf(named)
  if (position > 0 || (prototype !== null && prototype !== Object.prototype)) {
    throw new TypeError(
      'a parameter may be null, a number, a bigint, a text, bytes, or first one plain object of names',
    )
  }
  for (const value of Object.values(named)) if (typeof value === 'string') checkText(value)
}

function checkText(value: string): void {
  if (isStorableText(value)) return
  throw new RangeError(
    'a text parameter holds a NUL or half a surrogate pair, which SQLite would change: store it as bytes',
  )
}
