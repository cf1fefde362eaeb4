import { TidemarkError } from '../errors.ts'
import type { Hex } from '../util/bytes.ts'
import { type Address, type BlockNumber, blockNumber, type Hash, type Header, logIndex } from './block.ts'
import type { Log } from './log.ts'

/**
 * What nodes send, made uniform or refused. Nothing is guessed: an answer that does not have the shape of one is
 * `RPC_ANSWER_INVALID`, never "no events" (P4, C05). Messages name the field and the kind of value, not the value:
 * a topic is an event argument (P12).
 */

/** A log as it came: `removed` is looked at first by `collect/answer.ts`. */
export interface NodeLog {
  readonly log: Log
  /** The node says that this log's block is no longer on its chain (C27). */
  readonly removed: boolean
}

function kindOf(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'a list'
  return typeof value === 'string' ? `text of ${value.length} characters` : typeof value
}

/** The error for an answer that cannot be one. */
export function invalidAnswer(sentence: string, values: Record<string, unknown> = {}): TidemarkError {
  return new TidemarkError('RPC_ANSWER_INVALID', sentence, { values })
}

function wrongField(field: string, expected: string, value: unknown): TidemarkError {
  return invalidAnswer(`The node sent ${field} that is not ${expected}.`, { field, got: kindOf(value) })
}

/**
 * Reads a quantity: `0x0`, `0x00`, `0x0a` or a plain whole number (C39). Text without `0x` is refused: whether `"10"`
 * means ten or sixteen cannot be told.
 */
export function parseQuantity(value: unknown, field: string): number {
  const n = typeof value === 'string' && /^0x[0-9a-fA-F]{1,64}$/.test(value) ? Number(value) : value
  if (typeof n !== 'number' || !Number.isSafeInteger(n) || n < 0) throw wrongField(field, 'a whole number', value)
  return n
}

/** Reads a quantity of up to 256 bits. */
export function parseBigQuantity(value: unknown, field: string): bigint {
  if (typeof value === 'string' && /^0x[0-9a-fA-F]{1,64}$/.test(value)) return BigInt(value)
  return BigInt(parseQuantity(value, field))
}

function height(value: unknown, field: string): BlockNumber {
  return blockNumber(parseQuantity(value, field))
}

function bytes32(value: unknown, field: string): Hash {
  if (typeof value !== 'string' || !/^0x[0-9a-fA-F]{64}$/.test(value)) throw wrongField(field, '32 bytes', value)
  return value.toLowerCase() as Hash
}

const ZERO_HASH = `0x${'0'.repeat(64)}`

/** A hash that names something. All zeros name nothing: such an answer is refused, never stored (C36). */
export function parseHash(value: unknown, field: string): Hash {
  const found = bytes32(value, field)
  if (found === ZERO_HASH) throw invalidAnswer(`The node sent ${field} that is all zeros.`, { field })
  return found
}

function parseAddress(value: unknown, field: string): Address {
  if (typeof value !== 'string' || !/^0x[0-9a-fA-F]{40}$/.test(value)) throw wrongField(field, 'an address', value)
  return value.toLowerCase() as Address
}

/** Reads a byte string of any length, `0x` included. */
export function parseData(value: unknown, field: string): Hex {
  if (typeof value !== 'string' || value.length % 2 !== 0 || !/^0x[0-9a-fA-F]*$/.test(value)) {
    throw wrongField(field, 'a byte string', value)
  }
  return value.toLowerCase() as Hex
}

function record(value: unknown, what: string): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw wrongField(what, 'an object', value)
  return value as Record<string, unknown>
}

/** `null` and a missing list are read as "no topics" (C34). */
function parseTopics(value: unknown): Hash[] {
  if (value === null || value === undefined) return []
  if (!Array.isArray(value) || value.length > 4) throw wrongField('topics', 'a list of at most 4', value)
  return value.map((topic) => bytes32(topic, 'topics'))
}

function parseLog(value: unknown): NodeLog {
  const raw = record(value, 'a log')
  if (raw.blockNumber === null || raw.blockHash === null) {
    throw invalidAnswer('The node sent a pending log where only mined ones were asked for.', { field: 'blockHash' })
  }
  const log: Log = {
    address: parseAddress(raw.address, 'address'),
    topics: parseTopics(raw.topics),
    data: parseData(raw.data, 'data'),
    blockNumber: height(raw.blockNumber, 'blockNumber'),
    blockHash: parseHash(raw.blockHash, 'blockHash'),
    transactionHash: parseHash(raw.transactionHash, 'transactionHash'),
    transactionIndex: parseQuantity(raw.transactionIndex, 'transactionIndex'),
    logIndex: logIndex(parseQuantity(raw.logIndex, 'logIndex')),
  }
  return { log, removed: raw.removed === true }
}

/** Reads the result of `eth_getLogs`. Whatever is not a list is an error (C05). */
export function parseLogs(result: unknown): NodeLog[] {
  if (!Array.isArray(result)) throw wrongField('logs', 'a list', result)
  return result.map(parseLog)
}

function parseBloom(value: unknown): Hex | null {
  if (value === null || value === undefined) return null
  const bloom = parseData(value, 'logsBloom')
  return bloom.length === 514 ? bloom : null
}

/** Reads a block as a header. `null` means that the node does not have it, and is not block 0 (C40). */
export function parseHeader(result: unknown): Header | null {
  if (result === null || result === undefined) return null
  const raw = record(result, 'a block')
  return {
    number: height(raw.number, 'number'),
    hash: parseHash(raw.hash, 'hash'),
    // The parent of block 0 is all zeros.
    parentHash: bytes32(raw.parentHash, 'parentHash'),
    timestamp: parseQuantity(raw.timestamp, 'timestamp'),
    logsBloom: parseBloom(raw.logsBloom),
  }
}
