import type { Hash } from '../chain/block.ts'
import type { Log } from '../chain/log.ts'
import { type IdentifiedLog, identify } from '../dedup/identity.ts'
import { TidemarkError } from '../errors.ts'
import type { World } from '../util/world.ts'
import type { ReadyEvent } from './batch.ts'
import { decodeEvent, type TidemarkEvent } from './event.ts'
import { scrub } from './failure.ts'
import { EventFailure } from './scope.ts'
import type { CompiledWatcher, PinnedChain } from './watch.ts'

/** Runs of `prepare` in flight at once. */
const PREPARE_WIDTH = 8
const KEY_LENGTH = 255
const TIMED_OUT = Symbol('timed out')

export interface ReadyContext {
  readonly watcher: CompiledWatcher
  readonly world: World
  readonly signal: AbortSignal
  /** Reads pinned to a block, for `prepare`. */
  pinned(blockHash: Hash): PinnedChain
}

/** Events in order, up to the first that could not be made ready. */
export interface Readied {
  readonly events: readonly ReadyEvent[]
  readonly failure: EventFailure | null
}

function valuesOf(watcher: CompiledWatcher, event: TidemarkEvent): Record<string, unknown> {
  const { name, blockNumber, transactionHash, logIndex } = event
  return { watcher: watcher.name, event: name, block: Number(blockNumber), transaction: transactionHash, logIndex }
}

function keyOf(watcher: CompiledWatcher, event: TidemarkEvent): string | null {
  if (!watcher.key) return null
  const fail = (sentence: string, cause?: unknown) =>
    new TidemarkError('KEY_INVALID', sentence, { values: valuesOf(watcher, event), cause })
  let key: unknown
  try {
    key = (watcher.key as (event: TidemarkEvent) => unknown)(event)
  } catch (cause) {
    throw fail(`The key function threw: ${scrub(cause, event.args)}`, cause)
  }
  // A NUL or half a surrogate pair does not survive every driver: two keys could become one.
  if (typeof key !== 'string' || key.length === 0 || key.length > KEY_LENGTH || /\0|[\ud800-\udfff]/u.test(key)) {
    throw fail(`The key function did not return a well-formed string of 1 to ${KEY_LENGTH} characters without NUL`)
  }
  return key
}

function decodeOne(watcher: CompiledWatcher, identified: IdentifiedLog, sequence: number): ReadyEvent | null {
  const event = decodeEvent(watcher, identified)
  if (!event) return null
  const { log, stableId } = identified
  return { event, log, stableId, sequence, key: keyOf(watcher, event), prepared: undefined }
}

function failureAt(error: unknown, log: Log): EventFailure {
  if (!TidemarkError.is(error)) throw error
  return new EventFailure(error, log.blockNumber)
}

/** Decodes logs in the order of P5. A log that fits no event is passed over (C42, C43); one that fits and fails ends the list. */
export function decodeAll(watcher: CompiledWatcher, logs: readonly Log[]): Readied {
  const events: ReadyEvent[] = []
  let block = -1
  let sequence = 0
  for (const identified of identify(watcher.chainId, logs)) {
    if (identified.log.blockNumber !== block) [block, sequence] = [identified.log.blockNumber, 0]
    try {
      const ready = decodeOne(watcher, identified, sequence)
      if (!ready) continue
      events.push(ready)
      sequence++
    } catch (error) {
      return { events, failure: failureAt(error, identified.log) }
    }
  }
  return { events, failure: null }
}

async function withTimeout<T>(
  context: ReadyContext,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T | typeof TIMED_OUT> {
  const ended = new AbortController()
  const abort = () => ended.abort()
  context.signal.addEventListener('abort', abort, { once: true })
  try {
    const timer = context.world
      .sleep(context.watcher.handlerTimeout, ended.signal)
      .then((): typeof TIMED_OUT => TIMED_OUT)
    return await Promise.race([work(ended.signal), timer])
  } finally {
    context.signal.removeEventListener('abort', abort)
    ended.abort()
  }
}

async function prepareOne(context: ReadyContext, ready: ReadyEvent): Promise<ReadyEvent> {
  const { watcher } = context
  const prepare = watcher.prepare as (scope: unknown) => Promise<unknown>
  const { event } = ready
  let prepared: unknown
  try {
    const chain = context.pinned(event.blockHash)
    prepared = await withTimeout(context, async (signal) => prepare({ event, chain, signal }))
  } catch (error) {
    const values = valuesOf(watcher, event)
    throw new TidemarkError('PREPARE_FAILED', `prepare threw: ${scrub(error, event.args)}`, { values, cause: error })
  }
  if (prepared === TIMED_OUT) {
    const values = { ...valuesOf(watcher, event), limitMs: watcher.handlerTimeout }
    throw new TidemarkError('PREPARE_TIMEOUT', 'prepare took too long', { values })
  }
  return { ...ready, prepared }
}

/** Runs `prepare` for each event, a few at a time, outside any transaction. Stops at the first that fails. */
async function prepareAll(context: ReadyContext, decoded: Readied): Promise<Readied> {
  const events: ReadyEvent[] = []
  for (let at = 0; at < decoded.events.length; at += PREPARE_WIDTH) {
    const group = decoded.events.slice(at, at + PREPARE_WIDTH)
    const settled = await Promise.allSettled(group.map((ready) => prepareOne(context, ready)))
    for (const [i, result] of settled.entries()) {
      if (result.status === 'rejected')
        return { events, failure: failureAt(result.reason, (group[i] as ReadyEvent).log) }
      events.push(result.value)
    }
  }
  return { ...decoded, events }
}

/** Turns matched logs into events: decoded, keyed and prepared. Never throws for an event: the failure is in the answer. */
export async function makeReady(context: ReadyContext, logs: readonly Log[]): Promise<Readied> {
  const decoded = decodeAll(context.watcher, logs)
  return context.watcher.prepare ? prepareAll(context, decoded) : decoded
}
