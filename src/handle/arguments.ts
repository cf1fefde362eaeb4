import type { AbiEventParameter } from 'abitype'
import type { Hash } from '../chain/block.ts'
import type { TopicFilter } from '../chain/filter.ts'
import { TidemarkError } from '../errors.ts'
import { bytesToHex, hexToBytes } from '../util/bytes.ts'
import { keccak256 } from '../util/digest.ts'
import { nearest } from '../util/nearest.ts'
import { hashText, isValueType, type ParsedEvent } from './abi.ts'
import { CHECKSUM_EXPECTED, hasWrongChecksum } from './checksum.ts'
import { areNamed } from './codec.ts'

/** Values that one argument is filtered by, at most: every log is compared with each of them. */
export const MAX_FILTER_VALUES = 10_000

function wrong(key: string, argument: string, sentence: string, values: Record<string, unknown> = {}): TidemarkError {
  return new TidemarkError('EVENT_ARGS_INVALID', sentence, { values: { event: key, argument, ...values } })
}

/** Hex text of any case, also `0X…`, in lower case; undefined when it is none, or not of `length` bytes. */
function hexText(value: unknown, length?: number): string | undefined {
  if (typeof value !== 'string' || !/^0[xX]([0-9a-fA-F]{2})*$/.test(value)) return undefined
  return length === undefined || value.length === 2 + 2 * length ? value.slice(2).toLowerCase() : undefined
}

function encodeInteger(type: string, value: unknown): string | undefined {
  if (typeof value !== 'bigint' && !Number.isSafeInteger(value)) return undefined
  const bits = Number(/\d+$/.exec(type)?.[0] ?? 256)
  const whole = BigInt(value as bigint | number)
  const kept = type.startsWith('u') ? BigInt.asUintN(bits, whole) : BigInt.asIntN(bits, whole)
  return kept === whole ? BigInt.asUintN(256, whole).toString(16).padStart(64, '0') : undefined
}

/** The word of one value of a single-word type, 64 hex digits; undefined when it is not of the type. */
export function encodeValueType(type: string, value: unknown): string | undefined {
  if (type === 'address') return hexText(value, 20)?.padStart(64, '0')
  if (type === 'bool') return typeof value === 'boolean' ? (value ? '1' : '0').padStart(64, '0') : undefined
  if (type.includes('int')) return encodeInteger(type, value)
  const length = type === 'function' ? 24 : Number(type.slice('bytes'.length))
  return hexText(value, length)?.padEnd(64, '0')
}

/**
 * The topic of one value, or undefined when it is not of the type. Text and bytes are hashed; for arrays and tuples,
 * whose topic is a hash as well, the hash itself is given.
 */
export function encodeTopic(type: string, value: unknown): Hash | undefined {
  if (type === 'string') return typeof value === 'string' ? hashText(value) : undefined
  if (type === 'bytes') {
    const hex = hexText(value)
    return hex === undefined ? undefined : (bytesToHex(keccak256(hexToBytes(`0x${hex}`))) as Hash)
  }
  const digits = isValueType(type) ? encodeValueType(type, value) : hexText(value, 32)
  return digits === undefined ? undefined : (`0x${digits}` as Hash)
}

function expected(type: string): string {
  if (isValueType(type) || type === 'string' || type === 'bytes') return type
  return 'the 32-byte hash that is the topic of an array or tuple'
}

function filterFor(key: string, input: AbiEventParameter, label: string, wanted: unknown): TopicFilter {
  const values: readonly unknown[] = Array.isArray(wanted) ? wanted : [wanted]
  // A node reads an empty list as "any value": the opposite of what was meant.
  if (values.length === 0) throw wrong(key, label, 'The list of values is empty, so the event could never come')
  if (values.length > MAX_FILTER_VALUES) throw wrong(key, label, `There are more than ${MAX_FILTER_VALUES} values`)
  const topics = values.map((value) => {
    const topic = encodeTopic(input.type, value)
    // The value itself is not printed (P12).
    if (topic === undefined)
      throw wrong(key, label, 'A value is not of the type', { got: typeof value, expected: expected(input.type) })
    if (input.type === 'address' && hasWrongChecksum(value as string))
      throw wrong(key, label, 'An address has a wrong checksum', { expected: CHECKSUM_EXPECTED })
    return topic
  })
  const sorted = [...new Set(topics)].sort()
  return sorted.length === 1 ? (sorted[0] as Hash) : sorted
}

/** The wanted values by position in the inputs. @throws {TidemarkError} for a name that the event does not have */
function byPosition(key: string, event: ParsedEvent, args: object): Map<number, unknown> {
  const named = areNamed(event.inputs)
  const known = event.inputs.map((input, i) => (named ? (input.name as string) : String(i)))
  const wanted = new Map<number, unknown>()
  for (const [name, value] of Object.entries(args)) {
    const at = known.indexOf(name)
    if (at === -1) throw wrong(key, name, 'The event has no such argument', { didYouMean: nearest(name, known) })
    if (!event.inputs[at]?.indexed)
      throw wrong(key, name, 'Only indexed arguments can be filtered by', { expected: 'an indexed argument' })
    if (value === null || value === undefined) {
      // Else an unset variable would silently mean "any value".
      throw wrong(key, name, 'The value is missing: leave the argument out to match any', { got: String(value) })
    }
    wanted.set(at, value)
  }
  return wanted
}

/**
 * The topics that logs of an event must have.
 *
 * @param args values by argument name (by position where an argument has no name); a list means any of its values
 * @returns one entry a topic, trailing nulls left out; values sorted, none twice
 * @throws {TidemarkError} `EVENT_ARGS_INVALID`
 */
export function eventTopics(key: string, event: ParsedEvent, args: unknown): TopicFilter[] {
  if (args !== undefined && (typeof args !== 'object' || args === null)) {
    throw new TidemarkError('EVENT_ARGS_INVALID', '`args` is no object', { values: { event: key, got: typeof args } })
  }
  const wanted = byPosition(key, event, args ?? {})
  const topics: TopicFilter[] = event.topic0 === null ? [] : [event.topic0]
  event.inputs.forEach((input, i) => {
    if (!input.indexed) return
    topics.push(wanted.has(i) ? filterFor(key, input, input.name || String(i), wanted.get(i)) : null)
  })
  while (topics.length > 0 && topics.at(-1) === null) topics.pop()
  return topics
}
