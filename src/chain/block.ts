import type { Hex } from '../util/bytes.ts'

declare const brand: unique symbol

/** A block's height. A safe integer (below 2^53); 64 bits wide in every store. */
export type BlockNumber = number & { readonly [brand]: 'BlockNumber' }
/** A log's position in its block, as the node gave it. Up to 2^32 − 1; some nodes count per transaction. */
export type LogIndex = number & { readonly [brand]: 'LogIndex' }
/** 32 bytes, lower-case `0x` text. */
export type Hash = Hex & { readonly [brand]: 'Hash' }
/** 20 bytes, lower-case `0x` text. */
export type Address = Hex & { readonly [brand]: 'Address' }

/** A block named by height and hash. A height alone names nothing: the chain may have changed its mind. */
export interface BlockRef {
  readonly number: BlockNumber
  readonly hash: Hash
}

/** What Tidemark keeps of a block header. */
export interface Header extends BlockRef {
  readonly parentHash: Hash
  /** Seconds since the Unix epoch, as the chain says. */
  readonly timestamp: number
  /** 256 bytes as hex, or null where the node left it out. */
  readonly logsBloom: Hex | null
}

/** @throws {RangeError} when `n` is not a whole number from 0 to 2^53 − 1. */
export function blockNumber(n: number | bigint): BlockNumber {
  const value = Number(n)
  if (!Number.isSafeInteger(value) || value < 0) throw new RangeError(`not a block number: ${n}`)
  return value as BlockNumber
}

/** @throws {RangeError} when `n` is not a whole number from 0 to 2^53 − 1. */
export function logIndex(n: number | bigint): LogIndex {
  const value = Number(n)
  if (!Number.isSafeInteger(value) || value < 0) throw new RangeError(`not a log index: ${n}`)
  return value as LogIndex
}

/** @throws {TypeError} when `text` is not 32 bytes of hex. */
export function hash(text: string): Hash {
  if (!/^0x[0-9a-fA-F]{64}$/.test(text)) throw new TypeError(`not a 32-byte hash: ${text.slice(0, 70)}`)
  return text.toLowerCase() as Hash
}

/** @throws {TypeError} when `text` is not 20 bytes of hex. One stored spelling: lower case (case C46). */
export function address(text: string): Address {
  if (!/^0x[0-9a-fA-F]{40}$/.test(text)) throw new TypeError(`not a 20-byte address: ${text.slice(0, 50)}`)
  return text.toLowerCase() as Address
}
