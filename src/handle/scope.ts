import { TidemarkError } from '../errors.ts'
import type { DbScope, Tx } from '../store/store.ts'
import { isThenable, type Op, wait } from '../util/op.ts'
import type { TidemarkEvent } from './event.ts'
import { scrub } from './failure.ts'
import type { WriteOrigin } from './participant.ts'
import type { Run } from './run.ts'

/** Which of the user's functions is called; each fails under its own code. */
export type Stage = 'handle' | 'undo' | 'final'

const FAILED = { handle: 'HANDLER_FAILED', undo: 'UNDO_FAILED', final: 'FINAL_FAILED' } as const

const NO_TABLES: Readonly<Record<string, unknown>> = Object.freeze({})

/** Rows of the `final` stage start here, so that they never meet those of the handler for the same event. */
const FINAL_ORDINAL = 1_000_000

/** What may be said in public about an event (P12). */
export function publicValues(run: Run, event: TidemarkEvent): Record<string, unknown> {
  return {
    watcher: run.watcher.name,
    event: event.name,
    // A number, so that whoever hears of it can write it as JSON.
    block: Number(event.blockNumber),
    transaction: event.transactionHash,
    logIndex: event.logIndex,
  }
}

/** An error tied to the event it happened at, so that the blocks before it can still be committed. */
export class EventFailure extends Error {
  readonly error: TidemarkError
  readonly block: number

  constructor(error: TidemarkError, block: number) {
    super(error.message)
    this.error = error
    this.block = block
  }
}

function promiseRefused(values: Record<string, unknown>, promise: PromiseLike<unknown>): never {
  promise.then(undefined, () => {}) // its own rejection must not end the process
  throw new TidemarkError('HANDLER_RETURNED_PROMISE', 'The handler returned a promise on an embedded store', { values })
}

/** Errors of the managed tables do not know which event they were written for; whoever reads the halt must. */
function atEvent(error: TidemarkError, values: Record<string, unknown>): TidemarkError {
  if ('block' in error.values) return error
  return new TidemarkError(error.code, error.sentence, { values: { ...values, ...error.values }, cause: error })
}

function userError(stage: Stage, error: unknown, event: TidemarkEvent, values: Record<string, unknown>): TidemarkError {
  if (error instanceof EventFailure) return error.error
  if (TidemarkError.is(error)) return atEvent(error, values)
  return new TidemarkError(FAILED[stage], `The ${stage} function threw: ${scrub(error, event.args)}`, {
    values,
    cause: error,
  })
}

function* settleResult(run: Run, values: Record<string, unknown>, result: unknown, deadline: number): Op<unknown> {
  if (!isThenable(result)) return result
  if (!run.store.capabilities.asyncHandlers) promiseRefused(values, result)
  return yield* wait(inTime(run, values, result, deadline))
}

/** A promise that is never kept must not hold the transaction for ever (P11). */
function inTime(
  run: Run,
  values: Record<string, unknown>,
  result: PromiseLike<unknown>,
  deadline: number,
): Promise<unknown> {
  // A simulated clock says nothing about how long a real server takes: there the time it took is looked at afterwards.
  if (run.world.simulated) return Promise.resolve(result)
  return run.alarm.race(
    result,
    deadline,
    () =>
      new TidemarkError('HANDLER_TIMEOUT', 'The handler did not come to an end', {
        values: { ...values, limitMs: run.watcher.handlerTimeout },
      }),
  )
}

/** A call of one of the user's functions, on what it gets for one event. */
export type UserCall = (db: DbScope<unknown>, tables: Readonly<Record<string, unknown>>) => unknown

/** Calls user code on a guarded handle. The guard's own findings win over what the user's code threw. */
function* callGuarded(tx: Tx, run: Run, stage: Stage, event: TidemarkEvent, call: UserCall): Op<unknown> {
  const values = publicValues(run, event)
  const life = { over: false }
  const started = run.world.monotonic()
  const timeout = run.watcher.handlerTimeout
  // What the final stage writes is never taken back, so it need not be tracked.
  const mayWrite = stage === 'final' || run.watcher.undo !== 'managed'
  const deadline = started + timeout
  const scope = tx.openScope({ mayWrite, values, deadline })
  let result: unknown
  try {
    result = yield* settleResult(run, values, call(scope, tablesFor(tx, run, stage, event, life)), deadline)
  } catch (error) {
    life.over = true
    yield* wait(scope.close('threw'))
    throw userError(stage, error, event, values)
  }
  life.over = true
  yield* wait(scope.close('returned'))
  const took = run.world.monotonic() - started
  if (took > timeout) {
    throw new TidemarkError('HANDLER_TIMEOUT', `The ${stage} function took too long`, {
      values: { ...values, tookMs: Math.round(took), limitMs: timeout },
    })
  }
  return result
}

/** Runs one of the user's functions for one event. @throws {EventFailure} */
export function* callUser(tx: Tx, run: Run, stage: Stage, event: TidemarkEvent, call: UserCall): Op<unknown> {
  try {
    return yield* callGuarded(tx, run, stage, event, call)
  } catch (error) {
    if (!TidemarkError.is(error)) throw error
    throw new EventFailure(error, Number(event.blockNumber))
  }
}

/** The managed tables as the user's function sees them for one event; they die with its callback, as `db` does. */
function tablesFor(
  tx: Tx,
  run: Run,
  stage: Stage,
  event: TidemarkEvent,
  life: { readonly over: boolean },
): Readonly<Record<string, unknown>> {
  if (run.participants.length === 0) return NO_TABLES
  const origin: WriteOrigin = {
    blockNumber: Number(event.blockNumber) as WriteOrigin['blockNumber'],
    stableId: event.stableId,
    firstOrdinal: stage === 'final' ? FINAL_ORDINAL : 0,
    revocable: stage !== 'final',
    alive: () => {
      if (!life.over) return
      throw new TidemarkError('SCOPE_DEAD', 'tables was used after its callback had returned', {
        values: publicValues(run, event),
      })
    },
  }
  return Object.fromEntries(Object.entries(run.tables).map(([name, table]) => [name, table.api(origin, tx)]))
}
