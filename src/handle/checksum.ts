import { bytesToHex } from '../util/bytes.ts'
import { keccak256 } from '../util/digest.ts'

/** How errors say it. */
export const CHECKSUM_EXPECTED =
  'an address whose capital letters fit its checksum (EIP-55); one character is wrong. All in lower case is taken unchecked'

/**
 * Whether an address claims a checksum, by mixing capital and small letters, that is not its own (EIP-55). Nearly every
 * slip of one character shows here; unchecked, a filter would wait for a contract or an account that is nobody's.
 *
 * @param text `0x` or `0X` and 40 hex digits; anything else answers false
 */
export function hasWrongChecksum(text: string): boolean {
  if (!/^0x[0-9a-f]{40}$/i.test(text)) return false
  const digits = text.slice(2)
  const small = digits.toLowerCase()
  if (digits === small || digits === digits.toUpperCase()) return false
  const hash = bytesToHex(keccak256(new TextEncoder().encode(small))).slice(2)
  const right = [...small].map((digit, i) => (Number.parseInt(hash.charAt(i), 16) >= 8 ? digit.toUpperCase() : digit))
  return right.join('') !== digits
}
