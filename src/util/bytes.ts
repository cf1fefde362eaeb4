/** Hex and bytes. Hashes are kept as bytes in every store and as lower-case `0x` text everywhere else. */
export type Hex = `0x${string}`

const HEX = '0123456789abcdef'
const PAIRS: string[] = Array.from({ length: 256 }, (_, i) => HEX.charAt(i >> 4) + HEX.charAt(i & 15))

export function bytesToHex(bytes: Uint8Array): Hex {
  let text = '0x'
  for (const byte of bytes) text += PAIRS[byte]
  return text as Hex
}

/** The value of each character that is a hex digit; 255 for the others. */
const DIGITS = new Uint8Array(128).fill(255)
for (let i = 0; i < 16; i++) {
  DIGITS[HEX.charCodeAt(i)] = i
  DIGITS[HEX.toUpperCase().charCodeAt(i)] = i
}

function notBytes(hex: string): TypeError {
  return new TypeError(`not a byte string: ${hex.slice(0, 20)}`)
}

/**
 * Writes the bytes of `hex` into `target` from `at` on: for parts of a longer text, without an array for each.
 * @returns the place after the last of them
 * @throws {TypeError} when `hex` is not `0x` followed by an even number of hex digits
 * @throws {RangeError} when they do not fit
 */
export function writeHex(hex: string, target: Uint8Array, at: number): number {
  if (!hex.startsWith('0x') || hex.length % 2 !== 0) throw notBytes(hex)
  const end = at + hex.length / 2 - 1
  if (end > target.length) throw new RangeError('the bytes do not fit')
  for (let i = at, from = 2; i < end; i++, from += 2) {
    // What lies beyond ASCII is undefined here, and 255 as a value.
    const high = DIGITS[hex.charCodeAt(from)] ?? 255
    const low = DIGITS[hex.charCodeAt(from + 1)] ?? 255
    if ((high | low) > 15) throw notBytes(hex)
    target[i] = (high << 4) | low
  }
  return end
}

/** @throws {TypeError} when `hex` is not `0x` followed by an even number of hex digits. */
export function hexToBytes(hex: string): Uint8Array {
  const bytes = new Uint8Array(Math.max(0, (hex.length >> 1) - 1))
  writeHex(hex, bytes, 0)
  return bytes
}

export function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, i) => byte === b[i])
}
