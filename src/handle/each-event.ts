import { TidemarkError } from '../errors.ts'
import type { Tx } from '../store/store.ts'
import type { Op } from '../util/op.ts'
import type { TidemarkEvent } from './event.ts'
import type { Run } from './run.ts'
import { EventFailure, publicValues } from './scope.ts'

/** User code runs in slices of about this long between two arms of the watchdog that ends endless loops. */
export const SLICE_MS = 50

/** Statements check their deadline themselves; the hard limit lies above it and is for loops that touch nothing. */
export function hardLimit(run: Run): number {
  return SLICE_MS + 2 * run.watcher.handlerTimeout
}

/** The watchdog does not know at which event it struck: the one that was next is named here. */
export function hungAt(run: Run, event: TidemarkEvent | undefined, error: unknown): unknown {
  if (!event || !TidemarkError.has(error, 'HANDLER_TIMEOUT')) return error
  const values = { ...publicValues(run, event), limitMs: run.watcher.handlerTimeout }
  return new EventFailure(
    new TidemarkError('HANDLER_TIMEOUT', error.sentence, { values, cause: error }),
    Number(event.blockNumber),
  )
}

/**
 * Calls user code for each item in order, so that an endless loop ends as a failure of its event (P11).
 * @param eventOf the event of an item, for the failure
 * @throws {EventFailure}
 */
export function* forEachEvent<T>(
  tx: Tx,
  run: Run,
  items: readonly T[],
  eventOf: (item: T) => TidemarkEvent,
  call: (item: T) => Op<void>,
): Op<void> {
  let next = 0
  const slice = function* (): Op<void> {
    const until = run.world.monotonic() + SLICE_MS
    while (next < items.length) {
      yield* call(items[next] as T)
      next++
      if (run.world.monotonic() >= until) return
    }
  }
  try {
    while (next < items.length) yield* tx.interruptible(slice, hardLimit(run))
  } catch (error) {
    const item = items[next]
    throw hungAt(run, item && eventOf(item), error)
  }
}
