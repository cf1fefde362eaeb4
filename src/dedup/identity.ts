import { compareLogs, type Log } from '../chain/log.ts'
import type { Hash, LogIndex } from '../chain/block.ts'
import { TidemarkError } from '../errors.ts'
import { bytesToHex, type Hex, hexToBytes } from '../util/bytes.ts'
import { sha256 } from '../util/digest.ts'

/** 16 bytes as lower-case `0x` text: the same happening across reorgs (see `stableId`). */
export type StableId = Hex & { readonly __stableId: true }

/** What a stable id is made of: everything about a log but its position. */
export interface LogContent {
  readonly address: Hex
  readonly topics: readonly Hex[]
  readonly data: Hex
  readonly transactionHash: Hex
}

function uint64(value: number | bigint): Uint8Array {
  const bytes = new Uint8Array(8)
  new DataView(bytes.buffer).setBigUint64(0, BigInt(value))
  return bytes
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
  const parts = [
    uint64(chainId),
    hexToBytes(log.transactionHash),
    hexToBytes(log.address),
    Uint8Array.of(log.topics.length),
    ...log.topics.map(hexToBytes),
    hexToBytes(log.data),
    uint64(n),
  ]
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of parts) {
    whole.set(part, at)
    at += part.length
  }
  return bytesToHex(sha256(whole).subarray(0, 16)) as StableId
}

/** A log with its stable id, in the order of P5. */
export interface IdentifiedLog {
  readonly log: Log
  readonly stableId: StableId
}

function contentKey(log: Log): string {
  return `${log.blockHash}${log.transactionHash}${log.address}${log.topics.join()}/${log.data}`
}

/** Sorts logs by P5 and gives each its stable id, counting identical logs of one transaction. */
export function identify(chainId: number, logs: readonly Log[]): IdentifiedLog[] {
  const seen = new Map<string, number>()
  return [...logs].sort(compareLogs).map((log) => {
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
  if (!match) throw new TidemarkError('EVENT_ID_INVALID', 'This is not an event id', { values: { got: id.slice(0, 120) } })
  return {
    chainId: Number(match[1]),
    transactionHash: match[2]?.toLowerCase() as Hash,
    logIndex: Number(match[3]) as LogIndex,
  }
}
