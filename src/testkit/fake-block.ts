import type { Address, BlockNumber, Hash, LogIndex } from '../chain/block.ts'
import type { Log } from '../chain/log.ts'
import { bytesToHex, type Hex } from '../util/bytes.ts'
import { sha256 } from '../util/digest.ts'
import { bloomOf, EMPTY_BLOOM } from './bloom.ts'
import type { FakeTransaction } from './fake-log.ts'

/** How a chain seals its blocks. */
export interface SealRules {
  readonly chainId: number
  /** Part of every hash: chains of other seeds share no block. */
  readonly seed: string
  /** `zero`: headers carry an empty bloom even for blocks with logs (C17, variant 4). */
  readonly bloom: 'true' | 'zero'
  /** `transaction`: each transaction counts its logs from 0, so (block, log index) names nothing (C32). */
  readonly logIndex: 'block' | 'transaction'
}

/** A mined block. Its content never changes; the chain may stop calling it canonical. */
export interface FakeBlock {
  readonly number: BlockNumber
  readonly hash: Hash
  readonly parentHash: Hash
  /** The branch on which it was mined. */
  readonly branch: string
  /** Seconds since the Unix epoch. */
  readonly timestamp: number
  readonly transactions: readonly FakeTransaction[]
  /** All logs in the order of the block. */
  readonly logs: readonly Log[]
  /** 256 bytes. Worked out when first read, since hashing every topic is dear. */
  readonly logsBloom: Hex
}

export const NO_PARENT = `0x${'00'.repeat(32)}` as Hash

/** Branch names are visible in block hashes, so they are short. */
export function checkBranchName(name: string): void {
  if (!/^[a-z][a-z0-9]{0,5}$/.test(name)) {
    throw new RangeError(
      `a branch name is a letter and up to 5 letters or digits, all lower case: ${name.slice(0, 40)}`,
    )
  }
}

/** a, b, …, z, aa, ab, …: the n-th branch name, from 0. */
export function branchName(n: number): string {
  const letter = String.fromCharCode(97 + (n % 26))
  return n < 26 ? letter : branchName(Math.floor(n / 26) - 1) + letter
}

export interface BlockContent {
  readonly number: number
  readonly parentHash: Hash
  readonly branch: string
  readonly timestamp: number
  readonly transactions: readonly FakeTransaction[]
}

/**
 * A hash to be read: 4 bytes of block number, 6 of branch name in ASCII, 6 of zero, then 16 of a digest of all content.
 * Block 100 on branch a is `0x00000064` `610000000000` `000000000000` `…`. Other content, other hash; same, same.
 */
export function readableBlockHash(content: BlockContent, rules: SealRules): Hash {
  const branch = bytesToHex(new TextEncoder().encode(content.branch)).slice(2).padEnd(12, '0')
  const digest = bytesToHex(sha256(new TextEncoder().encode(JSON.stringify([rules, content]))))
  return `0x${content.number.toString(16).padStart(8, '0')}${branch}${'0'.repeat(12)}${digest.slice(2, 34)}` as Hash
}

/** `100a`: how the cases and test output name a block. Reads any hash of `readableBlockHash`. */
export function blockLabel(hash: string): string {
  const letters = (hash.slice(10, 22).match(/../g) ?? [])
    .map((pair) => Number.parseInt(pair, 16))
    .filter((code) => code > 0)
  return `${Number.parseInt(hash.slice(2, 10), 16)}${String.fromCharCode(...letters)}`
}

function placeLogs(content: BlockContent, blockHash: Hash, rules: SealRules): Log[] {
  const logs: Log[] = []
  for (const [transactionIndex, transaction] of content.transactions.entries()) {
    const first = rules.logIndex === 'block' ? logs.length : 0
    for (const [i, log] of transaction.logs.entries()) {
      logs.push({
        address: log.address as Address,
        topics: log.topics as readonly Hash[],
        data: log.data,
        blockNumber: content.number as BlockNumber,
        blockHash,
        transactionHash: transaction.hash as Hash,
        transactionIndex,
        logIndex: (first + i) as LogIndex,
      })
    }
  }
  return logs
}

/** Turns content into a block: hash, places of the logs, bloom. */
export function sealBlock(content: BlockContent, rules: SealRules): FakeBlock {
  const hash = readableBlockHash(content, rules)
  const logs = placeLogs(content, hash, rules)
  let bloom: Hex | undefined = rules.bloom === 'zero' ? EMPTY_BLOOM : undefined
  return {
    ...content,
    number: content.number as BlockNumber,
    hash,
    logs,
    get logsBloom() {
      bloom ??= bloomOf(logs)
      return bloom
    },
  }
}
