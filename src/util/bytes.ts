/** Hex and bytes. Hashes are kept as bytes in every store and as lower-case `0x` text everywhere else. */
export type Hex = `0x${string}`

const HEX = '0123456789abcdef'
const PAIRS: string[] = Array.from({ length: 256 }, (_, i) => HEX.charAt(i >> 4) + HEX.charAt(i & 15))

export function bytesToHex(bytes: Uint8Array): Hex {
  let text = '0x'
  for (const byte of bytes) text += PAIRS[byte]
  return text as Hex
}

function nibble(code: number): number {
  if (code >= 48 && code <= 57) return code - 48
  const lower = code | 32
  return lower >= 97 && lower <= 102 ? lower - 87 : -1
}

/** @throws {TypeError} when `hex` is not `0x` followed by an even number of hex digits. */
export function hexToBytes(hex: string): Uint8Array {
  if (!hex.startsWith('0x') || hex.length % 2 !== 0) throw new TypeError(`not a byte string: ${hex.slice(0, 20)}`)
  const bytes = new Uint8Array((hex.length - 2) / 2)
  for (let i = 0; i < bytes.length; i++) {
    const high = nibble(hex.charCodeAt(2 + 2 * i))
    const low = nibble(hex.charCodeAt(3 + 2 * i))
    if (high < 0 || low < 0) throw new TypeError(`not a byte string: ${hex.slice(0, 20)}`)
    bytes[i] = (high << 4) | low
  }
  return bytes
}

export function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, i) => byte === b[i])
}
