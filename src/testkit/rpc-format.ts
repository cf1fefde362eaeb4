import type { Log } from '../chain/log.ts'
import type { Hex } from '../util/bytes.ts'
import { bloomOf, EMPTY_BLOOM } from './bloom.ts'
import type { FakeBlock } from './fake-block.ts'
import type { FakeLog } from './fake-log.ts'

/** JSON as a node sends it. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json }
export type JsonObject = { readonly [key: string]: Json }

/** A quantity in its shortest form: `0x0`, `0xa`. */
export function quantity(value: number | bigint): Hex {
  return `0x${value.toString(16)}`
}

const ZERO_32: Hex = `0x${'00'.repeat(32)}`
const ZERO_20: Hex = `0x${'00'.repeat(20)}`
/** keccak256(rlp([])): a block without uncles. */
const NO_UNCLES: Hex = '0x1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347'
/** Root of an empty trie. The fake chain computes no tries: every root is this one, whatever the block holds. */
const EMPTY_ROOT: Hex = '0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421'
const GAS_PER_TRANSACTION = 50_000

/** A log in geth's shape (`eth_getLogs`, receipts, subscriptions). */
export function logToJson(log: Log, removed = false): JsonObject {
  return {
    address: log.address,
    topics: log.topics,
    data: log.data,
    blockNumber: quantity(log.blockNumber),
    transactionHash: log.transactionHash,
    transactionIndex: quantity(log.transactionIndex),
    blockHash: log.blockHash,
    logIndex: quantity(log.logIndex),
    removed,
  }
}

export function transactionToJson(block: FakeBlock, index: number): JsonObject | null {
  const transaction = block.transactions[index]
  if (!transaction) return null
  return {
    blockHash: block.hash,
    blockNumber: quantity(block.number),
    from: transaction.from,
    gas: quantity(GAS_PER_TRANSACTION),
    gasPrice: quantity(1_000_000_000),
    hash: transaction.hash,
    input: '0x',
    nonce: quantity(index),
    r: '0x1',
    s: '0x1',
    to: transaction.to,
    transactionIndex: quantity(index),
    type: '0x0',
    v: '0x1b',
    value: '0x0',
  }
}

/** A block in geth's shape, with all header fields of the Shanghai fork. */
export function blockToJson(block: FakeBlock, fullTransactions: boolean): JsonObject {
  return {
    baseFeePerGas: quantity(1_000_000_000),
    difficulty: '0x0',
    extraData: '0x',
    gasLimit: quantity(30_000_000),
    gasUsed: quantity(GAS_PER_TRANSACTION * block.transactions.length),
    hash: block.hash,
    logsBloom: block.logsBloom,
    miner: ZERO_20,
    mixHash: ZERO_32,
    nonce: '0x0000000000000000',
    number: quantity(block.number),
    parentHash: block.parentHash,
    receiptsRoot: EMPTY_ROOT,
    sha3Uncles: NO_UNCLES,
    size: quantity(512 + 110 * block.transactions.length),
    stateRoot: EMPTY_ROOT,
    timestamp: quantity(block.timestamp),
    transactions: block.transactions.map((transaction, i) =>
      fullTransactions ? transactionToJson(block, i) : transaction.hash,
    ),
    transactionsRoot: EMPTY_ROOT,
    uncles: [],
    withdrawals: [],
    withdrawalsRoot: EMPTY_ROOT,
  }
}

function receiptBloom(block: FakeBlock, logs: readonly FakeLog[]): Hex {
  return block.logsBloom === EMPTY_BLOOM ? EMPTY_BLOOM : bloomOf(logs)
}

export function receiptToJson(block: FakeBlock, index: number): JsonObject | null {
  const transaction = block.transactions[index]
  if (!transaction) return null
  return {
    blockHash: block.hash,
    blockNumber: quantity(block.number),
    contractAddress: null,
    cumulativeGasUsed: quantity(GAS_PER_TRANSACTION * (index + 1)),
    effectiveGasPrice: quantity(1_000_000_000),
    from: transaction.from,
    gasUsed: quantity(GAS_PER_TRANSACTION),
    logs: block.logs.filter((log) => log.transactionIndex === index).map((log) => logToJson(log)),
    logsBloom: receiptBloom(block, transaction.logs),
    status: transaction.status === 'success' ? '0x1' : '0x0',
    to: transaction.to,
    transactionHash: transaction.hash,
    transactionIndex: quantity(index),
    type: '0x0',
  }
}
