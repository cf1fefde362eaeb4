import type { Hash, LogIndex } from '../chain/block.ts'
import { compareLogs, type Log } from '../chain/log.ts'
import { TidemarkError } from '../errors.ts'
import { type Hex, writeHex } from '../util/bytes.ts'
import { sha256Hex } from '../util/digest.ts'

/** 16 bytes as lower-case `0x` text: the same happening across reorgs (see `stableId`). */
export type StableId = Hex & { readonly __stableId: true }

/** What a stable id is made of: everything about a log but its position. */
export interface LogContent {
  readonly address: Hex
  readonly topics: readonly Hex[]
  readonly data: Hex
  readonly transactionHash: Hex
}

/** Chain id, transaction hash, address, topic count and n, with four topics and 768 bytes of data: most logs. */
const USUAL_BYTES = 965
/** Filled anew by each call, and read by none after it: an array for each log, and each of its parts, is most of the cost. */
const usual = new Uint8Array(USUAL_BYTES)

function writeUint64(value: number, target: Uint8Array, at: number): number {
  new DataView(target.buffer).setBigUint64(at, BigInt(value))
  return at + 8
}

/** Bytes of hex text; one that is not hex is refused where it is written. */
function sizeOf(hex: Hex): number {
  return Math.max(0, (hex.length >> 1) - 1)
}

/**
 * The stable id of a log: the first 16 bytes of the SHA-256 of
 * `chainId (8 bytes) · transaction hash (32) · address (20) · topic count (1) · topics · data · n (8)`.
 *
 * @param chainId the chain's EIP-155 id
 * @param log its content; position and block do not matter, so the id survives a reorg
 * @param n which of several identical logs of the transaction, from 0 (C07)
 * @returns 16 bytes as lower-case hex
 */
export function stableId(chainId: number, log: LogContent, n = 0): StableId {
  const { transactionHash, address, topics, data } = log
  const parts = [transactionHash, address, ...topics, data]
  const size = parts.reduce((sum, part) => sum + sizeOf(part), 8 + 1 + 8)
  const whole = size <= USUAL_BYTES ? usual : new Uint8Array(size)
  let at = writeUint64(chainId, whole, 0)
  at = writeHex(transactionHash, whole, at)
  at = writeHex(address, whole, at)
  whole[at++] = topics.length
  for (const topic of topics) at = writeHex(topic, whole, at)
  at = writeHex(data, whole, at)
  at = writeUint64(n, whole, at)
  return `0x${sha256Hex(whole.subarray(0, at)).slice(0, 32)}` as StableId
}

/** A log with its stable id, in the order of P5. */
export interface IdentifiedLog {
  readonly log: Log
  readonly stableId: StableId
}

function contentKey(log: Log): string {
  return `${log.blockHash}${log.transactionHash}${log.address}${log.topics.join()}/${log.data}`
}

/** How many logs each transaction has. */
function logsByTransaction(logs: readonly Log[]): ReadonlyMap<Hash, number> {
  const counts = new Map<Hash, number>()
  for (const { transactionHash } of logs) counts.set(transactionHash, (counts.get(transactionHash) ?? 0) + 1)
  return counts
}

/** Sorts logs by P5 and gives each its stable id, counting identical logs of one transaction. */
export function identify(chainId: number, logs: readonly Log[]): IdentifiedLog[] {
  const counts = logsByTransaction(logs)
  const seen = new Map<string, number>()
  return [...logs].sort(compareLogs).map((log) => {
    // The only log of its transaction has no twin: the long text need not be made.
    if (counts.get(log.transactionHash) === 1) return { log, stableId: stableId(chainId, log) }
    const key = contentKey(log)
    const n = seen.get(key) ?? 0
    seen.set(key, n + 1)
    return { log, stableId: stableId(chainId, log, n) }
  })
}

export interface EventRef {
  readonly chainId: number
  readonly transactionHash: Hash
  readonly logIndex: LogIndex
}

/** `chainId-txHash-logIndex`: how people name an event. Without `:`, which BullMQ refuses in job ids (C50). */
export function eventId(ref: { chainId: number; transactionHash: Hex; logIndex: number }): string {
  return `${ref.chainId}-${ref.transactionHash.toLowerCase()}-${ref.logIndex}`
}

/** @throws {TidemarkError} `EVENT_ID_INVALID` */
export function parseEventId(id: string): EventRef {
  const match = /^([1-9]\d*)-(0x[0-9a-fA-F]{64})-(0|[1-9]\d*)$/.exec(id)
  if (!match)
    throw new TidemarkError('EVENT_ID_INVALID', 'This is not an event id: it has the form chainId-txHash-logIndex')
  return {
    chainId: Number(match[1]),
    transactionHash: match[2]?.toLowerCase() as Hash,
    logIndex: Number(match[3]) as LogIndex,
  }
}
