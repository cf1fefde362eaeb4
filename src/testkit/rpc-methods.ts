import type { RpcCall } from '../chain/rpc.ts'
import type { Hex } from '../util/bytes.ts'
import type { ChainView, LogSearch } from './chain-view.ts'
import type { FakeBlock } from './fake-block.ts'
import { type RefusalStyle, rangeRefusals, refuse, resultRefusals } from './provider-errors.ts'
import { blockToJson, type Json, logToJson, quantity, receiptToJson, transactionToJson } from './rpc-format.ts'

/** What a node does by design, not by fault. */
export interface NodeHabits {
  /** A `toBlock` above the head: older nodes answer the part they have, newer ones refuse (C16). */
  readonly aboveHead: 'silent' | 'error'
  /** Text of `web3_clientVersion`. */
  readonly clientVersion: string
  /** Most blocks in one `eth_getLogs`. */
  readonly maxRange: number
  /** Most logs in one answer. */
  readonly maxResults: number
  /** Most addresses in one filter (C15). */
  readonly maxAddresses: number
  /** Most calls in one batch (C13). */
  readonly maxBatch: number
  /** Whether blocks of abandoned branches can still be asked for by hash, as on geth; anvil forgets them. */
  readonly keepsOrphans: boolean
  /** In whose words it refuses what breaks `maxRange` or `maxResults`. */
  readonly refuses: RefusalStyle
}

/** One request with the node that has to answer it. */
interface Ask {
  readonly view: ChainView
  readonly habits: NodeHabits
  readonly params: readonly unknown[]
}

function invalidArgument(position: number, why: string): never {
  return refuse({ code: -32602, message: `invalid argument ${position}: ${why}` })
}

function numberOf(value: unknown, position: number): number {
  if (typeof value !== 'string' || !value.startsWith('0x'))
    return invalidArgument(position, 'hex string without 0x prefix')
  if (value === '0x') return invalidArgument(position, 'hex string "0x"')
  if (/^0x0./.test(value)) return invalidArgument(position, 'hex number with leading zero digits')
  if (!/^0x[0-9a-f]{1,13}$/i.test(value)) return invalidArgument(position, 'hex number > 64 bits')
  return Number.parseInt(value.slice(2), 16)
}

const TAGS = ['latest', 'pending', 'safe', 'finalized', 'earliest']

/** The number that a block parameter names. @throws `RpcRefusal` where geth refuses; a tag that does not resolve too. */
function numberOfTag(view: ChainView, value: unknown, position: number): number {
  if (typeof value !== 'string' || !TAGS.includes(value)) return numberOf(value, position)
  if (value === 'earliest') return 0
  if (value === 'latest' || value === 'pending') return view.head.number
  const block = value === 'safe' ? view.safe : view.finalized
  return block ? block.number : refuse({ code: -32000, message: `${value} block not found` })
}

function blockAt({ view, params }: Ask): FakeBlock | null {
  return view.blockByNumber(numberOfTag(view, params[0], 0))
}

function hashOf(value: unknown, position: number): Hex {
  if (typeof value !== 'string' || !/^0x[0-9a-f]{64}$/i.test(value)) {
    return invalidArgument(position, 'hex string has invalid length, want 64 for common.Hash')
  }
  return value.toLowerCase() as Hex
}

function byHash({ view, habits }: Ask, hash: Hex): FakeBlock | null {
  const block = view.blockByHash(hash)
  return block && (habits.keepsOrphans || view.holds(block)) ? block : null
}

interface RawFilter {
  readonly fromBlock?: unknown
  readonly toBlock?: unknown
  readonly blockHash?: unknown
  readonly address?: unknown
  readonly topics?: unknown
}

function contentFilter(filter: RawFilter, habits: NodeHabits): Pick<LogSearch, 'address' | 'topics'> {
  const address = (filter.address ?? []) as Hex | readonly Hex[]
  const list = typeof address === 'string' ? [address] : address
  if (list.length > habits.maxAddresses) {
    refuse({
      code: -32602,
      message: `This query contains ${list.length} filters. The current limit is ${habits.maxAddresses}.`,
    })
  }
  if (!list.every((one) => /^0x[0-9a-f]{40}$/i.test(one))) {
    invalidArgument(0, 'invalid address: hex string has invalid length, want 40')
  }
  return { address, topics: (filter.topics ?? []) as LogSearch['topics'] & object }
}

function searchOf({ view, params, habits }: Ask): LogSearch {
  const filter = (params[0] ?? {}) as RawFilter
  const content = contentFilter(filter, habits)
  if (filter.blockHash !== undefined && filter.blockHash !== null) {
    if (filter.fromBlock !== undefined || filter.toBlock !== undefined) {
      invalidArgument(0, 'cannot specify both BlockHash and FromBlock/ToBlock, choose one or the other')
    }
    return { ...content, blockHash: hashOf(filter.blockHash, 0) }
  }
  const fromBlock = numberOfTag(view, filter.fromBlock ?? 'latest', 0)
  const toBlock = numberOfTag(view, filter.toBlock ?? 'latest', 0)
  if (fromBlock > toBlock) refuse({ code: -32000, message: 'invalid block range params' })
  return { ...content, fromBlock, toBlock }
}

function getLogs(ask: Ask): Json {
  const { view, habits } = ask
  const search = searchOf(ask)
  if (search.blockHash !== undefined && !byHash(ask, search.blockHash)) {
    refuse({ code: -32000, message: 'unknown block' })
  }
  if ((search.toBlock ?? 0) > view.head.number && habits.aboveHead === 'error') {
    refuse({ code: -32602, message: 'block range extends beyond current head block' })
  }
  const from = search.fromBlock ?? 0
  const to = search.toBlock ?? from
  if (to - from + 1 > habits.maxRange) {
    refuse(rangeRefusals[habits.refuses]({ from, to, limit: habits.maxRange, fits: from + habits.maxRange - 1 }))
  }
  const logs = view.logs(search)
  if (logs.length > habits.maxResults) {
    const fits = Math.max(from, (logs[habits.maxResults]?.blockNumber ?? to) - 1)
    refuse(resultRefusals[habits.refuses]({ from, to, limit: habits.maxResults, fits }))
  }
  return logs.map((log) => logToJson(log))
}

/** A block named by number, tag, hash, or an EIP-1898 object. Null where the node does not know it. */
function anyBlock(ask: Ask, value: unknown, position: number): FakeBlock | null {
  const { view } = ask
  if (typeof value === 'string' && value.length === 66) return byHash(ask, hashOf(value, position))
  if (typeof value !== 'object' || value === null) return view.blockByNumber(numberOfTag(view, value, position))
  const { blockHash, blockNumber, requireCanonical } = value as Record<string, unknown>
  if (blockHash === undefined) return view.blockByNumber(numberOfTag(view, blockNumber, position))
  const block = byHash(ask, hashOf(blockHash, position))
  if (block && requireCanonical === true && !view.holds(block)) {
    refuse({ code: -32000, message: 'hash is not currently canonical' })
  }
  return block
}

/** Reads of state: the fake chain has none, but the block that they are pinned to must exist (EIP-1898). */
function stateRead(blockPosition: number, result: Json): (ask: Ask) => Json {
  return (ask) => {
    const block = anyBlock(ask, ask.params[blockPosition] ?? 'latest', blockPosition)
    return block ? result : refuse({ code: -32000, message: 'header not found' })
  }
}

function blockReceipts(ask: Ask): Json {
  const block = anyBlock(ask, ask.params[0], 0)
  return block ? block.transactions.map((_, i) => receiptToJson(block, i)) : null
}

function transactionReceipt({ view, params }: Ask): Json {
  const found = view.transaction(hashOf(params[0], 0))
  return found && receiptToJson(found.block, found.transactionIndex)
}

function transactionByHash({ view, params }: Ask): Json {
  const found = view.transaction(hashOf(params[0], 0))
  return found && transactionToJson(found.block, found.transactionIndex)
}

function blockByHash(ask: Ask): Json {
  const block = byHash(ask, hashOf(ask.params[0], 0))
  return block && blockToJson(block, ask.params[1] === true)
}

function blockByNumber(ask: Ask): Json {
  const block = blockAt(ask)
  return block && blockToJson(block, ask.params[1] === true)
}

const methods: Readonly<Record<string, (ask: Ask) => Json>> = {
  eth_chainId: ({ view }) => quantity(view.chainId),
  net_version: ({ view }) => String(view.chainId),
  web3_clientVersion: ({ habits }) => habits.clientVersion,
  eth_syncing: () => false,
  eth_blockNumber: ({ view }) => quantity(view.head.number),
  eth_getBlockByNumber: blockByNumber,
  eth_getBlockByHash: blockByHash,
  eth_getLogs: getLogs,
  eth_getBlockReceipts: blockReceipts,
  eth_getTransactionReceipt: transactionReceipt,
  eth_getTransactionByHash: transactionByHash,
  eth_call: stateRead(1, '0x'),
  eth_getBalance: stateRead(1, '0x0'),
  eth_getCode: stateRead(1, '0x'),
  eth_getStorageAt: stateRead(2, `0x${'00'.repeat(32)}`),
}

/**
 * What an honest node with this view of the chain says, in geth's words and shapes.
 * @throws `RpcRefusal` with the error object that geth would send.
 */
export function honestResult(view: ChainView, call: RpcCall, habits: NodeHabits): Json {
  const method = Object.hasOwn(methods, call.method) ? methods[call.method] : undefined
  if (!method) {
    return refuse({ code: -32601, message: `the method ${call.method} does not exist/is not available` })
  }
  return method({ view, params: call.params, habits })
}
