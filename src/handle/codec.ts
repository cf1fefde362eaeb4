import type { AbiParameter } from 'abitype'
import { hexToBytes } from '../util/bytes.ts'

/**
 * Decoders for the values of the Solidity ABI (https://docs.soliditylang.org/en/latest/abi-spec.html), compiled once
 * for each event. They read the hex text of a log as it is: no byte array is made on the hot path.
 *
 * The library (`ox`) is not used for this, since it takes words with dirty high bits (a `uint8` of 511), drops a
 * byte order mark from a string, and answers checksummed addresses. Property tests hold these decoders against it.
 */
export interface Codec {
  /** Whether its container holds an offset to it instead of the value. */
  readonly dynamic: boolean
  /** Bytes that it takes in the head of its container; 32 when dynamic. */
  readonly headSize: number
  /** Reads the value that begins at byte `at`. @throws {MalformedLog} */
  read(input: AbiInput, at: number): unknown
  /** For types of a single word: reads its 64 hex digits. @throws {MalformedLog} */
  readonly word: ((digits: string) => unknown) | null
}

/** Why a log does not decode. Its message names types and never a value (P12). */
export class MalformedLog extends Error {
  override readonly name = 'MalformedLog'
}

/** Types nested deeper than this are refused: `uint256[][]` has depth 3. */
const MAX_DEPTH = 32

/**
 * The data of one log. Each word may be read 8 times, 1,024 reads on top: data made so that a few words unfold into
 * millions of values (offsets that share one tail) is refused instead of filling the memory.
 */
export class AbiInput {
  /** In bytes. */
  readonly size: number
  readonly #hex: string
  #reads: number

  /** @param hex `0x` text in lower case */
  constructor(hex: string) {
    this.#hex = hex
    this.size = (hex.length - 2) >> 1
    this.#reads = (this.size >> 2) + 1024
  }

  spend(reads: number): void {
    this.#reads -= reads
    if (this.#reads < 0) throw new MalformedLog('the data refers to itself too often')
  }

  /** 64 hex digits. */
  word(at: number): string {
    return this.digits(at, 32)
  }

  /** The hex of `length` bytes at byte `at`. @throws {MalformedLog} when they are not all there */
  digits(at: number, length: number): string {
    if (at + length > this.size) throw new MalformedLog('the data is too short')
    this.spend((length + 31) >> 5)
    return this.#hex.slice(2 + 2 * at, 2 + 2 * (at + length))
  }

  /** A length or an offset, below 2^32: no log is that large. */
  count(at: number): number {
    const digits = this.word(at)
    if (!digits.startsWith(ZEROS_56)) throw new MalformedLog('a length or an offset is too large')
    return Number.parseInt(digits.slice(56), 16)
  }
}

const ZEROS_56 = '0'.repeat(56)
const ZERO = '0'.repeat(64)
const ONE = ZERO.slice(1).concat('1')

function dirty(type: string): MalformedLog {
  return new MalformedLog(`a word has bits that are outside of ${type}`)
}

function wordCodec(word: (digits: string) => unknown): Codec {
  return { dynamic: false, headSize: 32, word, read: (input, at) => word(input.word(at)) }
}

function unsigned(bits: number): Codec {
  const high = '0'.repeat(64 - bits / 4)
  return wordCodec((digits) => {
    if (!digits.startsWith(high)) throw dirty(`uint${bits}`)
    return bits > 48 ? BigInt(`0x${digits}`) : Number.parseInt(digits.slice(high.length), 16)
  })
}

function signed(bits: number): Codec {
  return wordCodec((digits) => {
    const value = BigInt.asIntN(256, BigInt(`0x${digits}`))
    if (BigInt.asIntN(bits, value) !== value) throw dirty(`int${bits}`)
    return bits > 48 ? value : Number(value)
  })
}

function fixedBytes(type: string, length: number): Codec {
  const low = '0'.repeat(64 - 2 * length)
  return wordCodec((digits) => {
    if (!digits.endsWith(low)) throw dirty(type)
    return `0x${digits.slice(0, 2 * length)}`
  })
}

const addressCodec = wordCodec((digits) => {
  if (!digits.startsWith(ZERO.slice(0, 24))) throw dirty('address')
  return `0x${digits.slice(24)}`
})

const boolCodec = wordCodec((digits) => {
  if (digits !== ZERO && digits !== ONE) throw dirty('bool')
  return digits === ONE
})

const bytesCodec: Codec = {
  dynamic: true,
  headSize: 32,
  word: null,
  read: (input, at) => `0x${input.digits(at + 32, input.count(at))}`,
}

// Bytes that are not UTF-8 become U+FFFD instead of an error; the event keeps its raw data beside the text (C48).
const utf8 = new TextDecoder('utf-8', { ignoreBOM: true })

const stringCodec: Codec = {
  dynamic: true,
  headSize: 32,
  word: null,
  read: (input, at) => utf8.decode(hexToBytes(`0x${input.digits(at + 32, input.count(at))}`)),
}

/** Reads a member of a container that begins at `base`; its head is at `head`. */
function readMember(codec: Codec, input: AbiInput, base: number, head: number): unknown {
  return codec.read(input, codec.dynamic ? base + input.count(head) : head)
}

function readElements(element: Codec, input: AbiInput, base: number, count: number): unknown[] {
  // A length beyond the data ends at the first element that is not there, so nothing is allocated ahead.
  const values: unknown[] = []
  for (let i = 0; i < count; i++) {
    if (element.headSize === 0) input.spend(1)
    values.push(readMember(element, input, base, base + i * element.headSize))
  }
  return values
}

function arrayCodec(element: Codec, length: number | null): Codec {
  if (length === null) {
    const read = (input: AbiInput, at: number) => readElements(element, input, at + 32, input.count(at))
    return { dynamic: true, headSize: 32, word: null, read }
  }
  const headSize = element.dynamic ? 32 : element.headSize * length
  // Sizes stay far below 2^53, so that sums of them are exact.
  if (headSize > 2 ** 32) throw new TypeError('a fixed array is larger than any log')
  return {
    dynamic: element.dynamic,
    headSize,
    word: null,
    read: (input, at) => readElements(element, input, at, length),
  }
}

/** Whether values of these parameters come as an object by name, or as an array because one has no name. */
export function areNamed(parameters: readonly { readonly name?: string | undefined }[]): boolean {
  return parameters.every(({ name }) => typeof name === 'string' && name !== '')
}

function tupleCodec(components: readonly AbiParameter[], depth: number): Codec {
  const members = layOut(components, depth)
  const dynamic = members.some(({ codec }) => codec.dynamic)
  const size = members.reduce((sum, { codec }) => sum + codec.headSize, 0)
  // An empty tuple is an array, as in viem and abitype.
  const named = members.length > 0 && areNamed(components)
  const read = (input: AbiInput, at: number): unknown => {
    const values = members.map(({ codec, head }) => readMember(codec, input, at, at + head))
    return named ? Object.fromEntries(members.map(({ name }, i) => [name, values[i]])) : values
  }
  return { dynamic, headSize: dynamic ? 32 : size, word: null, read }
}

/** A member of a tuple, or of the data of an event, with the byte position of its head. */
export interface Member {
  readonly name: string
  readonly head: number
  readonly codec: Codec
}

/** @throws {TypeError} for a name that is there twice, or that no object can hold: a value would be lost */
export function checkNames(parameters: readonly AbiParameter[]): void {
  const names = parameters.map(({ name }) => name ?? '').filter((name) => name !== '')
  const twice = names.find((name, i) => names.indexOf(name) !== i)
  if (twice !== undefined) throw new TypeError(`two parameters are named ${twice.slice(0, 60)}`)
  if (names.includes('__proto__')) throw new TypeError('a parameter cannot be named __proto__')
}

/** Gives each parameter its place in the head of a tuple, or of an event's data. @throws {TypeError} */
export function layOut(parameters: readonly AbiParameter[], depth = 0): Member[] {
  checkNames(parameters)
  let head = 0
  return parameters.map((parameter) => {
    const codec = compileCodec(parameter, depth + 1)
    const member = { name: parameter.name ?? '', head, codec }
    head += codec.headSize
    return member
  })
}

/** Reads one member from the data of an event. @throws {MalformedLog} */
export function readData(member: Member, input: AbiInput): unknown {
  return readMember(member.codec, input, 0, member.head)
}

function integerCodec(prefix: string, digits: string): Codec | null {
  const bits = digits === '' ? 256 : Number(digits)
  if (bits < 8 || bits > 256 || bits % 8 !== 0) return null
  return prefix === 'int' ? signed(bits) : unsigned(bits)
}

function elementaryCodec(type: string): Codec | null {
  if (type === 'address') return addressCodec
  if (type === 'bool') return boolCodec
  if (type === 'string') return stringCodec
  if (type === 'bytes') return bytesCodec
  if (type === 'function') return fixedBytes(type, 24)
  const integer = /^(u?int)(\d*)$/.exec(type)
  if (integer) return integerCodec(integer[1] ?? '', integer[2] ?? '')
  const length = Number(/^bytes(\d+)$/.exec(type)?.[1] ?? 0)
  return length >= 1 && length <= 32 ? fixedBytes(type, length) : null
}

/**
 * @returns the decoder of one parameter, `indexed` left aside
 * @throws {TypeError} when the ABI knows no such type (fixed-point numbers included: no compiler emits them)
 */
export function compileCodec(parameter: AbiParameter, depth = 0): Codec {
  if (depth > MAX_DEPTH) throw new TypeError(`types are nested deeper than ${MAX_DEPTH}`)
  const array = /^(.*)\[(\d*)\]$/.exec(parameter.type)
  if (array) {
    const element = compileCodec({ ...parameter, type: array[1] ?? '' } as AbiParameter, depth + 1)
    return arrayCodec(element, array[2] === '' ? null : Number(array[2]))
  }
  if (parameter.type === 'tuple') {
    const components = (parameter as { components?: readonly AbiParameter[] }).components
    if (!Array.isArray(components)) throw new TypeError('a tuple has no components')
    return tupleCodec(components, depth)
  }
  const codec = elementaryCodec(parameter.type)
  if (codec === null) throw new TypeError(`there is no type ${parameter.type.slice(0, 60)}`)
  return codec
}
