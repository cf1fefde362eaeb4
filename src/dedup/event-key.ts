import { address, type BlockNumber, blockNumber, hash, logIndex } from '../chain/block.ts'
import { TidemarkError } from '../errors.ts'
import type { Hex } from '../util/bytes.ts'
import { invariant } from '../util/invariant.ts'
import { eventId, stableId } from './identity.ts'

/** The longest key that an `identity` function may return, in characters. */
const LONGEST_IDENTITY = 255

/** A number as client libraries give it, or the hex text of a raw JSON-RPC answer. Decimal text is refused. */
export type Quantity = number | bigint | Hex

/** What every event needs, whatever names it: where it stands, so that its mark can be forgotten in time. */
export interface Positioned {
  /** EIP-155 id. Default: the manager's. */
  readonly chainId?: number | undefined
  /** The block that holds it. A pending log has none and is refused. */
  readonly blockNumber: Quantity
}

/** A log as nodes and client libraries return it: hex in any spelling (C46), quantities as number, bigint or hex. */
export interface DeduplicationEvent extends Positioned {
  readonly transactionHash: Hex
  readonly logIndex: Quantity
  /** The content: `address`, `topics` and `data` together, with `n`. Then the mark survives a reorg (see `eventKey`). */
  readonly address?: Hex | undefined
  readonly topics?: readonly Hex[] | undefined
  readonly data?: Hex | undefined
  /** Which of several identical logs of one transaction, from 0 (C07): `numberIdenticalLogs` tells. Needed with content. */
  readonly n?: number | undefined
  /** A log that a node took back (`removed: true`) is refused: it happened no more. */
  readonly removed?: boolean | undefined
  /** No part of the key: it only keeps the logs of sibling blocks apart in `numberIdenticalLogs`. */
  readonly blockHash?: Hex | undefined
}

/** An event as the marks know it. */
export interface EventKey {
  readonly chainId: number
  readonly key: string
  readonly block: BlockNumber
}

function refuse(sentence: string, values: Record<string, unknown>): never {
  throw new TidemarkError('EVENT_KEY_INVALID', sentence, { values })
}

/** Runs a check of one field and words its failure. The value itself stays out: it may be an argument (P12). */
function field<T>(name: string, read: () => T): T {
  try {
    return read()
  } catch {
    return refuse(`The event's '${name}' is missing or not what a node returns.`, { field: name })
  }
}

function logKey(chainId: number, event: DeduplicationEvent): string {
  if (event.removed === true) refuse('The node took this log back: it is on the chain no more.', { field: 'removed' })
  const transactionHash = field('transactionHash', () => hash(event.transactionHash))
  const { topics, data } = event
  if (event.address === undefined || topics === undefined || data === undefined) {
    return `event-${eventId({ chainId, transactionHash, logIndex: field('logIndex', () => logIndex(quantity(event.logIndex))) })}`
  }
  const content = {
    transactionHash,
    address: field('address', () => address(event.address ?? '')),
    topics: field('topics', () => topics.map(hash)),
    data,
  }
  // With a default of 0 the second of two equal payouts would be a repeat of the first, and be lost.
  if (event.n === undefined) {
    refuse('An event with content needs its `n`: pass the logs through `numberIdenticalLogs`, or give `n`.', {
      field: 'n',
    })
  }
  const n = field('n', () => logIndex(quantity(event.n)))
  return `stable-${field('data', () => stableId(chainId, content, n))}`
}

function ownKey(text: unknown): string {
  if (typeof text === 'string' && text.length > 0 && text.length <= LONGEST_IDENTITY) return `own-${text}`
  return refuse('`identity` must return a text of 1 to 255 characters.', { field: 'identity', got: typeof text })
}

/**
 * The key of an event's mark.
 *
 * - With its content (`address`, `topics`, `data`) and `n`: the stable id. A log that a reorg re-includes at another index
 *   or in another block is still the same.
 * - Without: the event id, `chainId-txHash-logIndex`. A re-included log with another index is then new.
 * - With an `identity` function: what it returns, for chains whose logs have no index.
 *
 * The three have different prefixes and never collide. So **one event handed over in two of these forms is two events**:
 * stay with one form for one `name`.
 * @throws {TidemarkError} `EVENT_KEY_INVALID`
 */
export function eventKey<E extends Positioned>(
  defaultChain: number,
  event: E,
  identity?: (event: E) => string,
): EventKey {
  if (typeof event !== 'object' || event === null) refuse('An event is an object.', { got: typeof event })
  const chainId = event.chainId ?? defaultChain
  if (!isChainId(chainId)) refuse("The event's chain id is not a whole number above 0.", { field: 'chainId' })
  const block = field('blockNumber', () => blockNumber(quantity(event.blockNumber)))
  const key = identity ? ownKey(identity(event)) : logKey(chainId, event as unknown as DeduplicationEvent)
  return { chainId, key, block }
}

/** What names an event, read back from its key. */
export interface NamedEvent {
  /** `event-id`: `parseEventId` reads it. `stable-id`: what `stableId` answers for the log. `identity`: the caller's own. */
  readonly by: 'event-id' | 'stable-id' | 'identity'
  readonly id: string
}

const PREFIXES = { event: 'event-id', stable: 'stable-id', own: 'identity' } as const

export function readKey(key: string): NamedEvent {
  const dash = key.indexOf('-')
  const by = PREFIXES[key.slice(0, dash) as keyof typeof PREFIXES]
  invariant(by !== undefined, 'a key in the table of marks must be one that `eventKey` made')
  return { by, id: key.slice(dash + 1) }
}

/** `Number(null)` is 0 and `Number('')` too: a pending log must not become one of block 0. `'10'` may be hex or not. */
function quantity(value: unknown): number | bigint {
  if (typeof value === 'number' || typeof value === 'bigint') return value
  if (typeof value === 'string' && /^0x[0-9a-f]{1,16}$/i.test(value)) return BigInt(value)
  throw new RangeError('not a quantity')
}

export function isChainId(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0
}

/**
 * Gives each log its `n`. One transaction can emit the same content twice, for example two equal transfers in a batch
 * payout: without `n` the second would count as a repeat of the first, and be lost (C07).
 *
 * @param logs whole transactions: all their logs that the caller's filter selects, in any order, as a client library or
 *   the node itself returns them
 * @returns the same logs in the same order, each with `n`
 * @throws {TidemarkError} `EVENT_KEY_INVALID` for a log without a place on the chain, such as a pending one
 */
export function numberIdenticalLogs<L extends DeduplicationEvent>(logs: readonly L[]): (L & { readonly n: number })[] {
  const last = new Map<string, { n: number; index: number }>()
  const numbers = new Map<L, number>()
  const placed = logs.map((log) => ({ log, index: field('logIndex', () => logIndex(quantity(log.logIndex))) }))
  for (const { log, index } of placed.sort((a, b) => a.index - b.index)) {
    const content = contentOf(log)
    const before = last.get(content)
    // The same index again is the same log delivered twice, not a second one.
    const n = before === undefined ? 0 : before.index === index ? before.n : before.n + 1
    last.set(content, { n, index })
    numbers.set(log, n)
  }
  return logs.map((log) => ({ ...log, n: numbers.get(log) ?? 0 }))
}

function contentOf(log: DeduplicationEvent): string {
  const { chainId, blockHash, transactionHash, address, topics, data } = log
  const block = field('blockNumber', () => blockNumber(quantity(log.blockNumber)))
  return [chainId, block, blockHash, transactionHash, address, topics?.join(), data].join('/').toLowerCase()
}
