import type { AbiParameter } from 'abitype'
import type { ParsedEvent } from '../handle/abi.ts'
import { encodeTopic, encodeValueType } from '../handle/arguments.ts'
import { areNamed } from '../handle/codec.ts'
import type { Hex } from '../util/bytes.ts'
import { bytesToHex } from '../util/bytes.ts'

/**
 * Encodes values of the Solidity ABI (https://docs.soliditylang.org/en/latest/abi-spec.html): the other way round of
 * `handle/codec.ts`. A property test holds it against a library and against that decoder.
 */

/** Arguments of an event: by name, or by position where one of them has no name. */
export type EventArgumentsInput = Readonly<Record<string, unknown>> | readonly unknown[]

/** What an event becomes in a log. */
export interface EncodedEvent {
  readonly topics: readonly Hex[]
  readonly data: Hex
}

interface Encoded {
  readonly dynamic: boolean
  /** Hex without `0x`; a whole number of words. */
  readonly digits: string
}

function wrong(type: string, value: unknown): TypeError {
  return new TypeError(
    `${value === undefined ? 'there is no value' : `a value of type ${typeof value} is given`} for ${type}`,
  )
}

function wordOf(value: number): string {
  return value.toString(16).padStart(64, '0')
}

function componentsOf(parameter: AbiParameter): readonly AbiParameter[] {
  return (parameter as { components?: readonly AbiParameter[] }).components ?? []
}

/** Element type and length of an array; null for any other type. A length of null: as many as there are. */
function arrayOf(parameter: AbiParameter): { element: AbiParameter; length: number | null } | null {
  const array = /^(.*)\[(\d*)\]$/.exec(parameter.type)
  if (!array) return null
  return {
    element: { ...parameter, type: array[1] ?? '' } as AbiParameter,
    length: array[2] === '' ? null : Number(array[2]),
  }
}

function isDynamic(parameter: AbiParameter): boolean {
  const array = arrayOf(parameter)
  if (array) return array.length === null || isDynamic(array.element)
  if (parameter.type === 'tuple') return componentsOf(parameter).some(isDynamic)
  return parameter.type === 'string' || parameter.type === 'bytes'
}

/** A length, and the bytes filled up to whole words. */
function encodeBytes(digits: string): Encoded {
  const padded = digits.padEnd(Math.ceil(digits.length / 64) * 64, '0')
  return { dynamic: true, digits: wordOf(digits.length / 2) + padded }
}

function bytesOf(parameter: AbiParameter, value: unknown): string {
  if (typeof value !== 'string') throw wrong(parameter.type, value)
  if (parameter.type === 'string') return bytesToHex(new TextEncoder().encode(value)).slice(2)
  if (!/^0x([0-9a-f]{2})*$/i.test(value)) throw new TypeError('bytes are given as 0x and pairs of hex digits')
  return value.slice(2).toLowerCase()
}

/** Heads, then the tails that they point to. */
function encodeSequence(parts: readonly Encoded[]): string {
  let tail = ''
  const headSize = parts.reduce((sum, { dynamic, digits }) => sum + (dynamic ? 32 : digits.length / 2), 0)
  const heads = parts.map(({ dynamic, digits }) => {
    if (!dynamic) return digits
    const offset = headSize + tail.length / 2
    tail += digits
    return wordOf(offset)
  })
  return heads.join('') + tail
}

function encodeArray(
  parameter: AbiParameter,
  value: unknown,
  { element, length }: NonNullable<ReturnType<typeof arrayOf>>,
): Encoded {
  if (!Array.isArray(value)) throw wrong(parameter.type, value)
  if (length !== null && value.length !== length)
    throw new TypeError(`${parameter.type} takes ${length} values, got ${value.length}`)
  const digits = encodeSequence(value.map((one) => encodeOne(element, one)))
  return { dynamic: isDynamic(parameter), digits: length === null ? wordOf(value.length) + digits : digits }
}

function encodeOne(parameter: AbiParameter, value: unknown): Encoded {
  const array = arrayOf(parameter)
  if (array) return encodeArray(parameter, value, array)
  if (parameter.type === 'tuple') {
    const components = componentsOf(parameter)
    const digits = encodeSequence(
      valuesOf(components, value).map((one, i) => encodeOne(components[i] as AbiParameter, one)),
    )
    return { dynamic: isDynamic(parameter), digits }
  }
  if (isDynamic(parameter)) return encodeBytes(bytesOf(parameter, value))
  const digits = encodeValueType(parameter.type, value)
  if (digits === undefined) throw wrong(parameter.type, value)
  return { dynamic: false, digits }
}

/** The values in the order of the parameters. @throws {TypeError} for a name that is missing, or not there */
function valuesOf(parameters: readonly AbiParameter[], values: unknown): readonly unknown[] {
  if (Array.isArray(values)) {
    if (values.length !== parameters.length)
      throw new TypeError(`${parameters.length} values are needed, got ${values.length}`)
    return values
  }
  if (typeof values !== 'object' || values === null || !areNamed(parameters)) {
    throw new TypeError('values are given by name, or as a list where one of them has no name')
  }
  const named = values as Readonly<Record<string, unknown>>
  const odd = Object.keys(named).find((name) => !parameters.some((parameter) => parameter.name === name))
  if (odd !== undefined) throw new TypeError(`there is no parameter ${odd.slice(0, 60)}`)
  return parameters.map(({ name }) => named[name as string])
}

/**
 * The data of a list of values, as `abi.encode` gives it.
 * @throws {TypeError} for a value that is not of its type
 */
export function encodeParameters(parameters: readonly AbiParameter[], values: readonly unknown[]): Hex {
  return `0x${encodeSequence(valuesOf(parameters, values).map((one, i) => encodeOne(parameters[i] as AbiParameter, one)))}`
}

/**
 * Topics and data of an event. Of an indexed text or bytes the topic is its hash; an indexed array or tuple is given by
 * the hash itself, as in the filters of a watcher.
 * @throws {TypeError} which names the argument
 */
export function encodeEvent(event: ParsedEvent, args: EventArgumentsInput): EncodedEvent {
  const values = valuesOf(event.inputs, args)
  const topics: Hex[] = event.topic0 === null ? [] : [event.topic0]
  event.inputs.forEach((input, i) => {
    if (!input.indexed) return
    const topic = encodeTopic(input.type, values[i])
    if (topic === undefined) throw wrong(`${input.type} ${input.name ?? i}`, values[i])
    topics.push(topic)
  })
  const inData = event.inputs.flatMap((input, i) => (input.indexed ? [] : [{ input, value: values[i] }]))
  return {
    topics,
    data: encodeParameters(
      inData.map(({ input }) => input),
      inData.map(({ value }) => value),
    ),
  }
}
