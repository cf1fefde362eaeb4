import { bytesToHex, type Hex, hexToBytes } from '../util/bytes.ts'
import { keccak256 } from '../util/digest.ts'

/** A log filter of 256 bytes, as in block headers and receipts (Yellow Paper, section 4.3.1). */
const BLOOM_BYTES = 256

export const EMPTY_BLOOM: Hex = `0x${'00'.repeat(BLOOM_BYTES)}`

/** Kept results of keccak: a value's three bit positions. Cleared when full, so memory stays under about 10 MB. */
const MAX_CACHED = 65_536
const cache = new Map<Hex, readonly number[]>()

/** The three bits that an address or a topic sets: the low 11 bits of the first three 16-bit words of its hash. */
function bitsOf(value: Hex): readonly number[] {
  const known = cache.get(value)
  if (known) return known
  const digest = keccak256(hexToBytes(value))
  const bits = [0, 2, 4].map((at) => (((digest[at] ?? 0) << 8) | (digest[at + 1] ?? 0)) & 2047)
  if (cache.size >= MAX_CACHED) cache.clear()
  cache.set(value, bits)
  return bits
}

/** The bloom of some logs: for each its address and every topic. */
export function bloomOf(logs: readonly { readonly address: Hex; readonly topics: readonly Hex[] }[]): Hex {
  if (logs.length === 0) return EMPTY_BLOOM
  const bytes = new Uint8Array(BLOOM_BYTES)
  for (const value of new Set(logs.flatMap((log) => [log.address, ...log.topics]))) {
    for (const bit of bitsOf(value)) {
      const at = BLOOM_BYTES - 1 - (bit >> 3)
      bytes[at] = (bytes[at] ?? 0) | (1 << (bit & 7))
    }
  }
  return bytesToHex(bytes)
}

/** Whether a bloom may hold a value: false is certain, true is not. */
export function bloomMayHold(bloom: Hex, value: Hex): boolean {
  const bytes = hexToBytes(bloom)
  return bitsOf(value).every((bit) => ((bytes[BLOOM_BYTES - 1 - (bit >> 3)] ?? 0) & (1 << (bit & 7))) !== 0)
}
