import { type AbiEvent, type AbiEventParameter, type AbiParameter, parseAbiItem } from 'abitype'
import type { Hash } from '../chain/block.ts'
import { type ErrorCode, TidemarkError } from '../errors.ts'
import { bytesToHex } from '../util/bytes.ts'
import { keccak256 } from '../util/digest.ts'
import { nearest } from '../util/nearest.ts'
import { checkNames, compileCodec } from './codec.ts'

/** An event of an ABI, checked, with what tells its logs from others. */
export interface ParsedEvent {
  readonly eventName: string
  readonly anonymous: boolean
  readonly inputs: readonly AbiEventParameter[]
  /** `Transfer(address,address,uint256)`: what topic 0 is the hash of. */
  readonly signature: string
  /** With what the signature leaves out: `Transfer(address indexed,address indexed,uint256)`. Part of the fingerprint. */
  readonly fullSignature: string
  /** Null for an anonymous event. */
  readonly topic0: Hash | null
  /** Tells an ERC-20 from an ERC-721 `Transfer` (C42). */
  readonly topicCount: number
}

/** A log has at most 4 topics. */
const MAX_TOPICS = 4
/** No real event comes near; the stack of the EVM ends far below. */
const MAX_PARAMETERS = 100

const textEncoder = new TextEncoder()

/** Keccak-256 of a text in UTF-8: topic 0, and topics of indexed strings. */
export function hashText(text: string): Hash {
  return bytesToHex(keccak256(textEncoder.encode(text))) as Hash
}

function refuse(
  code: ErrorCode,
  key: string,
  sentence: string,
  values: Record<string, unknown> = {},
  cause?: unknown,
): never {
  throw new TidemarkError(code, sentence, { values: { event: key, ...values }, cause })
}

/** `uint` is short for `uint256`, also inside `uint[2][]`. */
function fullType(type: string): string {
  return type.replace(/^(u?int)(?!\d)/, '$1256')
}

/** The type as it stands in a signature: tuples written out, `function` as it is. */
function canonicalType(parameter: AbiParameter): string {
  if (!parameter.type.startsWith('tuple')) return fullType(parameter.type)
  const { components } = parameter as { components: readonly AbiParameter[] }
  return `(${components.map(canonicalType).join()})${parameter.type.slice('tuple'.length)}`
}

/** Whether an indexed argument of this type is its own topic; of every other type the topic is a hash. */
export function isValueType(type: string): boolean {
  return /^(address|bool|function|u?int\d*|bytes\d+)$/.test(type)
}

function reasonOf(error: unknown): string {
  // The first line says what; the library's further lines repeat the signature.
  return error instanceof Error ? (error.message.split('\n')[0] ?? '').slice(0, 200) : 'unknown'
}

/**
 * Reads `event Name(type indexed name, …)`, with `anonymous` at the end where it applies (the library knows no such
 * word). Tuples are written inline: `(uint256 a, string b)[] items`.
 */
function parseText(key: string, text: string): unknown {
  const anonymous = /\)\s*anonymous\s*;?\s*$/.test(text)
  const plain = text
    .replace(/\)\s*(anonymous)?\s*;?\s*$/, ')')
    .replace(/\s+/g, ' ')
    .trim()
  if (!plain.startsWith('event ')) {
    refuse('ABI_INVALID', key, 'The signature of an event starts with `event `', {
      expected: 'event Name(type indexed name, …)',
    })
  }
  try {
    return { ...(parseAbiItem(plain as 'event Any()') as AbiEvent), anonymous }
  } catch (cause) {
    return refuse('ABI_INVALID', key, 'The event signature cannot be read', { reason: reasonOf(cause) }, cause)
  }
}

function isEvent(item: unknown): item is { type: 'event'; name: unknown } {
  return typeof item === 'object' && item !== null && (item as { type?: unknown }).type === 'event'
}

function findInAbi(key: string, abi: readonly unknown[]): unknown {
  const events = abi.filter(isEvent)
  const named = events.filter((event) => event.name === key)
  if (named.length === 1) return named[0]
  if (named.length > 1) {
    refuse('ABI_EVENT_AMBIGUOUS', key, `The ABI has ${named.length} events of this name`)
  }
  const names = events.map((event) => event.name).filter((name) => typeof name === 'string')
  return refuse(
    'ABI_EVENT_MISSING',
    key,
    'The ABI has no event of this name: with a whole ABI, the key names the event',
    {
      didYouMean: nearest(key, names),
      found: events.length,
    },
  )
}

function select(key: string, spec: unknown): unknown {
  if (typeof spec === 'string') return parseText(key, spec)
  if (Array.isArray(spec)) return findInAbi(key, spec)
  if (isEvent(spec)) return spec
  return refuse('ABI_INVALID', key, 'This is no event', {
    got: typeof spec,
    expected: 'a signature, an event of an ABI, or an ABI',
  })
}

function checkParameter(parameter: unknown): void {
  if (typeof parameter !== 'object' || parameter === null) throw new TypeError('an input is not an object')
  const { type, name, components } = parameter as Record<string, unknown>
  if (typeof type !== 'string') throw new TypeError('an input has no type')
  if (name !== undefined && typeof name !== 'string') throw new TypeError('the name of an input is not text')
  if (Array.isArray(components)) components.forEach(checkParameter)
}

function checkShape(item: unknown): AbiEvent {
  const { name, inputs } = item as { name?: unknown; inputs?: unknown }
  if (typeof name !== 'string' || !/^[A-Za-z_$][\w$]*$/.test(name)) throw new TypeError('the event has no valid name')
  if (!Array.isArray(inputs)) throw new TypeError('the event has no inputs')
  if (inputs.length > MAX_PARAMETERS) throw new TypeError(`the event has more than ${MAX_PARAMETERS} inputs`)
  inputs.forEach(checkParameter)
  checkNames(inputs)
  for (const input of inputs as AbiEventParameter[]) compileCodec(input)
  return item as AbiEvent
}

function topicCountOf(event: AbiEvent): number {
  const count = event.inputs.filter(({ indexed }) => indexed).length + (event.anonymous ? 0 : 1)
  if (count > MAX_TOPICS) throw new TypeError('a log has at most 4 topics: too many inputs are indexed')
  return count
}

function describeEvent(event: AbiEvent): ParsedEvent {
  const anonymous = event.anonymous === true
  const types = event.inputs.map(canonicalType)
  const signature = `${event.name}(${types.join()})`
  const full = event.inputs.map(({ indexed }, i) => `${types[i]}${indexed ? ' indexed' : ''}`)
  return {
    eventName: event.name,
    anonymous,
    inputs: event.inputs,
    signature,
    fullSignature: `${event.name}(${full.join()})${anonymous ? ' anonymous' : ''}`,
    topic0: anonymous ? null : hashText(signature),
    topicCount: topicCountOf(event),
  }
}

/**
 * Reads and checks the event that a watcher names.
 *
 * @param key its name in the watcher; with a whole ABI, the name of the event in it
 * @param spec a human-readable signature, one event of a JSON ABI, or a whole JSON ABI
 * @throws {TidemarkError} `ABI_INVALID` with the reason, `ABI_EVENT_MISSING`, `ABI_EVENT_AMBIGUOUS`
 */
export function parseEvent(key: string, spec: unknown): ParsedEvent {
  const item = select(key, spec)
  try {
    return describeEvent(checkShape(item))
  } catch (cause) {
    return refuse('ABI_INVALID', key, 'The event cannot be read', { reason: reasonOf(cause) }, cause)
  }
}
