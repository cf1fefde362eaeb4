import { type Hex, hexToBytes } from '../util/bytes.ts'
import { keccak256 } from '../util/digest.ts'
import type { EventFilter, TopicFilter } from './filter.ts'
import type { Log } from './log.ts'

/**
 * What a header proves about its logs. A bloom never says "yes": it says "surely not" or "perhaps" (yellow paper,
 * section 4.3.1). On a busy block "perhaps" is often wrong, so it is a reason to ask again, never to stop for ever (C17).
 */

type Bits = readonly [number, number, number]

// Addresses and topics of filters come back for every block; log contents do not, so the table stays small.
const CACHE_LIMIT = 20_000
const cache = new Map<string, Bits>()

function bitsOf(item: Hex): Bits {
  const known = cache.get(item)
  if (known) return known
  const digest = keccak256(hexToBytes(item))
  const pair = (i: number) => (((digest[i] ?? 0) << 8) | (digest[i + 1] ?? 0)) & 2047
  const bits: Bits = [pair(0), pair(2), pair(4)]
  if (cache.size >= CACHE_LIMIT) cache.clear()
  cache.set(item, bits)
  return bits
}

function holds(bloom: Uint8Array, item: Hex): boolean {
  return bitsOf(item).every((bit) => ((bloom[255 - (bit >> 3)] ?? 0) & (1 << (bit & 7))) !== 0)
}

function topicMayBe(bloom: Uint8Array, topic: TopicFilter): boolean {
  if (topic === null) return true
  return typeof topic === 'string' ? holds(bloom, topic) : topic.some((one) => holds(bloom, one))
}

function filterMayMatch(bloom: Uint8Array, filter: EventFilter): boolean {
  if (filter.addresses !== null && !filter.addresses.some((one) => holds(bloom, one))) return false
  return filter.topics.every((topic) => topicMayBe(bloom, topic))
}

/**
 * Whether a block may hold a log of any of the filters.
 * @param bloom 256 bytes as hex: the header's `logsBloom`
 */
export function bloomMayContain(bloom: Hex, filters: readonly EventFilter[]): boolean {
  const bytes = hexToBytes(bloom)
  return filters.some((filter) => filterMayMatch(bytes, filter))
}

/** Whether every log lies inside the bloom, as the protocol demands. Some chains add logs that do not (Polygon, Cronos). */
export function bloomHoldsAll(bloom: Hex, logs: readonly Log[]): boolean {
  const bytes = hexToBytes(bloom)
  return logs.every((log) => holds(bytes, log.address) && log.topics.every((topic) => holds(bytes, topic)))
}

/** All bits zero: the block has no logs, or the chain does not fill in blooms (C17, fourth variant). */
export function isEmptyBloom(bloom: Hex): boolean {
  return /^0x0*$/.test(bloom)
}
