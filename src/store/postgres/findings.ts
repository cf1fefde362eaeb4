import { TidemarkError } from '../../errors.ts'
import { LostConnection, sqlState } from './pg-errors.ts'

type Values = Readonly<Record<string, unknown>>

/** What a guard can find, as errors that name the event. */
export class Findings {
  readonly #values: Values

  constructor(values: Values) {
    this.#values = values
  }

  dead(): TidemarkError {
    return this.#make('SCOPE_DEAD', 'db was used after its callback had returned')
  }

  refused(statement: string): TidemarkError {
    return this.#make('TRANSACTION_CONTROL_REFUSED', 'A handler may not control the transaction or the session', {
      statement,
    })
  }

  ended(throughRaw: boolean, cause?: unknown): TidemarkError {
    return throughRaw
      ? this.#make('HANDLER_ENDED_TRANSACTION', 'The handler ended the transaction through raw', {}, cause)
      : this.#make('TRANSACTION_LOST', 'A statement of the handler ended the transaction', {}, cause)
  }

  timeout(): TidemarkError {
    return this.#make('HANDLER_TIMEOUT', 'The handler ran out of time')
  }

  untracked(cause: unknown): TidemarkError {
    const sentence = "A write through db, which undo: 'managed' cannot take back"
    return this.#make('UNTRACKED_WRITE', sentence, {}, cause)
  }

  swallowed(cause: unknown): TidemarkError {
    return this.#make('HANDLER_SWALLOWED_ERROR', 'A statement failed and the handler went on', {}, cause)
  }

  forgotten(count: number, cause: unknown): TidemarkError {
    const sentence = 'Statements were still running when the callback had returned'
    return this.#make('HANDLER_FORGOT_AWAIT', sentence, { count }, cause)
  }

  sideBySide(): TidemarkError {
    return this.#make('HANDLER_FORGOT_AWAIT', 'Two savepoints were open side by side; await one before the next')
  }

  /** The session that the server ended because the handler left the transaction idle for too long. */
  idle(error: unknown): TidemarkError | undefined {
    const state = error instanceof LostConnection ? sqlState(error.cause) : sqlState(error)
    if (state !== '25P03') return undefined
    return this.#make('HANDLER_TIMEOUT', 'The handler left the transaction idle for longer than the lease', {}, error)
  }

  #make(code: TidemarkError['code'], sentence: string, more: Values = {}, cause?: unknown): TidemarkError {
    return new TidemarkError(code, sentence, { values: { ...this.#values, ...more }, cause })
  }
}
