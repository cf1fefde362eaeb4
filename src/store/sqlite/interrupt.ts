import { createContext, Script } from 'node:vm'
import { TidemarkError } from '../../errors.ts'

/**
 * Node can end an endless loop in one place only: while `node:vm` runs a script with a timeout. The script here does
 * nothing but call the function, and the termination reaches into it (a call costs about 0.1 ms, so the engine calls
 * whole slices of events through it).
 *
 * The limit must lie above every deadline that statements check by themselves. A termination that strikes while the
 * thread is inside a native call of @photostructure/sqlite aborts the process, so a loop that touches the database has
 * to end by its deadline, and only loops that touch nothing may reach this limit. Should the process die all the same,
 * nothing is lost: the transaction is rolled back when the file is next opened.
 */
// In an object of its own: a name of the context itself is read and set through an interceptor, a few µs each time.
const held: { work: (() => unknown) | undefined } = { work: undefined }
const context = createContext({ held })
const script = new Script('held.work()')

function isTermination(error: unknown): boolean {
  return (error as { code?: unknown } | null)?.code === 'ERR_SCRIPT_EXECUTION_TIMEOUT'
}

/** @throws {TidemarkError} `HANDLER_TIMEOUT` when `work` runs longer than `limitMs` of real time */
export function callWithin<T>(work: () => T, limitMs: number): T {
  if (!Number.isFinite(limitMs)) return work()
  const outer = held.work
  held.work = work
  try {
    return script.runInContext(context, { timeout: Math.max(1, Math.ceil(limitMs)), displayErrors: false }) as T
  } catch (error) {
    if (!isTermination(error)) throw error
    throw new TidemarkError('HANDLER_TIMEOUT', 'The handler did not return', { values: { limitMs } })
  } finally {
    held.work = outer
  }
}
