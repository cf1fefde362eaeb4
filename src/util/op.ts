/**
 * An operation that may have to wait for its database, or may not.
 *
 * The commit path is written once, as generators, and run by one of two drivers: `runSync` for embedded stores, where
 * an open write transaction must never wait for the event loop (another writer in the same process would deadlock
 * with it), and `runAsync` for stores behind a connection. An operation yields a promise to wait for it.
 */
export type Op<T> = Generator<PromiseLike<unknown>, T, unknown>

/** A value, or the promise of one. Store ports return this; `wait` turns it into an `Op`. */
export type Maybe<T> = T | PromiseLike<T>

export function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    (typeof value === 'object' || typeof value === 'function') &&
    value !== null &&
    typeof (value as { then?: unknown }).then === 'function'
  )
}

/** Waits for a store's answer inside an operation. Costs nothing when the store answers at once. */
export function* wait<T>(value: Maybe<T>): Op<T> {
  return isThenable(value) ? ((yield value) as T) : value
}

/** Runs an operation to its end without leaving the call. The store must answer every verb at once. */
export function runSync<T>(op: Op<T>): T {
  const step = op.next()
  if (!step.done) {
    op.return(undefined as never)
    throw new TypeError('an embedded store returned a promise inside a transaction')
  }
  return step.value
}

/** Runs an operation to its end, awaiting each promise that it yields. */
export async function runAsync<T>(op: Op<T>): Promise<T> {
  let step = op.next()
  while (!step.done) {
    try {
      const value = await step.value
      step = op.next(value)
    } catch (error) {
      step = op.throw(error)
    }
  }
  return step.value
}
