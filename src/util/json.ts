import { bytesToHex, hexToBytes } from './bytes.ts'

/**
 * Values as text, for memos and reasons: JSON, and what JSON has no form for goes into an object with one tagged key.
 *
 * | value | text |
 * |---|---|
 * | bigint | `{"$bigint":"12"}` |
 * | Uint8Array | `{"$bytes":"0x0c"}` |
 * | −0 | `{"$number":"-0"}` |
 * | a user's own key that begins with `$` | the same key with one more `$` |
 *
 * What comes back equals what went in, so nothing is dropped or rounded in silence: functions, symbols, NaN, infinities,
 * dates, maps, class instances and cycles are refused. A property that is undefined counts as absent.
 */

/** Deeper values are refused, so that no value can end the stack. */
const DEPTH = 100

/** @throws {TypeError} when `value` holds something that would not come back as it was */
export function encodeValue(value: unknown): string {
  return JSON.stringify(pack(value, []))
}

/** @throws {SyntaxError | TypeError} when `text` is not what `encodeValue` writes */
export function decodeValue(text: string): unknown {
  return unpack(JSON.parse(text))
}

function pack(value: unknown, parents: readonly object[]): unknown {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return value
  if (typeof value === 'number') return packNumber(value)
  if (typeof value === 'bigint') return { $bigint: value.toString() }
  if (typeof value !== 'object') throw new TypeError(`a value of type ${typeof value} cannot be kept as text`)
  if (value instanceof Uint8Array) return { $bytes: bytesToHex(value) }
  if (parents.includes(value)) throw new TypeError('a value that contains itself cannot be kept as text')
  if (parents.length >= DEPTH) throw new TypeError(`a value nested deeper than ${DEPTH} cannot be kept as text`)
  const inside = [...parents, value]
  return Array.isArray(value) ? packArray(value, inside) : packObject(value, inside)
}

function packNumber(value: number): unknown {
  if (!Number.isFinite(value)) throw new TypeError('a number that is not finite cannot be kept as text')
  return Object.is(value, -0) ? { $number: '-0' } : value
}

function packArray(array: readonly unknown[], inside: readonly object[]): unknown[] {
  // Array.from visits holes too: as undefined they are refused, where JSON would turn them into null.
  return Array.from(array, (one) => pack(one, inside))
}

function packObject(object: object, inside: readonly object[]): unknown {
  if (!isPlain(object)) throw new TypeError('an instance of a class cannot be kept as text')
  if (Object.getOwnPropertySymbols(object).length > 0) throw new TypeError('a symbol key cannot be kept as text')
  const entries = Object.entries(object).filter(([, value]) => value !== undefined)
  // fromEntries defines properties, so that a key named __proto__ stays a key.
  return Object.fromEntries(entries.map(([key, value]) => [key.startsWith('$') ? `$${key}` : key, pack(value, inside)]))
}

/** An object literal, of this realm or another, or an object without prototype. */
function isPlain(object: object): boolean {
  const prototype = Object.getPrototypeOf(object)
  return prototype === null || (Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype, 'hasOwnProperty'))
}

function unpack(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(unpack)
  const entries = Object.entries(value)
  const [first] = entries
  if (first && /^\$[^$]/.test(first[0])) return unpackTag(first[0], first[1])
  return Object.fromEntries(entries.map(([key, one]) => [key.startsWith('$') ? key.slice(1) : key, unpack(one)]))
}

function unpackTag(tag: string, content: unknown): unknown {
  if (typeof content === 'string') {
    if (tag === '$bigint') return BigInt(content)
    if (tag === '$bytes') return hexToBytes(content)
    if (tag === '$number' && content === '-0') return -0
  }
  throw new TypeError(`unknown tag ${tag} in a kept value`)
}
