import { TidemarkError } from '../../errors.ts'
import { LostConnection, sqlState } from './pg-errors.ts'

type Values = Readonly<Record<string, unknown>>

/** What a guard can find, as errors that name the event. */
export interface Findings {
  dead(): TidemarkError
  refused(statement: string): TidemarkError
  ended(throughRaw: boolean, cause?: unknown): TidemarkError
  timeout(): TidemarkError
  untracked(cause: unknown): TidemarkError
  swallowed(cause: unknown): TidemarkError
  forgotten(count: number, cause: unknown): TidemarkError
  sideBySide(): TidemarkError
  /** The session that the server ended because the handler left the transaction idle for too long. */
  idle(error: unknown): TidemarkError | undefined
}

export function findings(values: Values): Findings {
  const make = (code: TidemarkError['code'], sentence: string, more: Values = {}, cause?: unknown) =>
    new TidemarkError(code, sentence, { values: { ...values, ...more }, cause })
  return {
    dead: () => make('SCOPE_DEAD', 'db was used after its callback had returned'),
    refused: (statement) =>
      make('TRANSACTION_CONTROL_REFUSED', 'A handler may not control the transaction or the session', { statement }),
    ended: (throughRaw, cause) =>
      throughRaw
        ? make('HANDLER_ENDED_TRANSACTION', 'The handler ended the transaction through raw', {}, cause)
        : make('TRANSACTION_LOST', 'A statement of the handler ended the transaction', {}, cause),
    timeout: () => make('HANDLER_TIMEOUT', 'The handler ran out of time'),
    untracked: (cause) =>
      make('UNTRACKED_WRITE', "A write through db, which undo: 'managed' cannot take back", {}, cause),
    swallowed: (cause) => make('HANDLER_SWALLOWED_ERROR', 'A statement failed and the handler went on', {}, cause),
    forgotten: (count, cause) =>
      make('HANDLER_FORGOT_AWAIT', 'Statements were still running when the callback had returned', { count }, cause),
    sideBySide: () => make('HANDLER_FORGOT_AWAIT', 'Two savepoints were open side by side; await one before the next'),
    idle: (error) => {
      const state = error instanceof LostConnection ? sqlState(error.cause) : sqlState(error)
      if (state !== '25P03') return undefined
      return make('HANDLER_TIMEOUT', 'The handler left the transaction idle for longer than the lease', {}, error)
    },
  }
}
