import type { Hex } from '../util/bytes.ts'
import type { Address, BlockNumber, Hash, LogIndex } from './block.ts'

/** One log in one block, normalised: hex in lower case, quantities as numbers, never `removed`. */
export interface Log {
  readonly address: Address
  /** 0 to 4 topics of 32 bytes; empty for an anonymous event without indexed arguments. */
  readonly topics: readonly Hash[]
  readonly data: Hex
  readonly blockNumber: BlockNumber
  readonly blockHash: Hash
  readonly transactionHash: Hash
  readonly transactionIndex: number
  readonly logIndex: LogIndex
}

/**
 * The order of P5: block, transaction index, log index. The transaction index leads the log index, since some nodes
 * count logs per transaction (C32).
 */
export function compareLogs(a: Log, b: Log): number {
  return a.blockNumber - b.blockNumber || a.transactionIndex - b.transactionIndex || a.logIndex - b.logIndex
}
