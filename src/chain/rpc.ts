import { TidemarkError } from '../errors.ts'
import type { Hex } from '../util/bytes.ts'
import { invariant } from '../util/invariant.ts'
import type { Address, BlockNumber, Hash, Header } from './block.ts'
import type { LogQuery } from './filter.ts'
import {
  invalidAnswer,
  type NodeLog,
  parseBigQuantity,
  parseData,
  parseHeader,
  parseLogs,
  parseQuantity,
} from './parse.ts'
import { type RpcFailure, refusalError } from './rpc-errors.ts'

/**
 * The only file that names JSON-RPC methods. Block numbers go out in the shortest form: geth refuses `0x0a` (C39).
 * What must be true of one backend is asked in one request: behind one URL there may be many nodes (C16).
 */

export interface RpcCall {
  readonly method: string
  readonly params: readonly unknown[]
}

export type RpcOutcome =
  | { readonly ok: true; readonly result: unknown }
  | { readonly ok: false; readonly error: RpcFailure }

export interface RpcTransport {
  /** Safe to print: `rpc[0]`, never the URL (P12). */
  readonly label: string
  /**
   * Sends the calls as one request where the protocol can, and answers each in its place. Failures are outcomes; what it
   * throws counts as no connection (`status` and `retryAfterMs` on it are read).
   * @throws the signal's reason when `signal` aborts
   */
  send(calls: readonly RpcCall[], signal?: AbortSignal): Promise<readonly RpcOutcome[]>
}

/** Tags that a node resolves itself. */
export type BlockTag = 'latest' | 'safe' | 'finalized'

function quantity(n: number): Hex {
  return `0x${n.toString(16)}`
}

function blockCall(at: BlockNumber | number | BlockTag): RpcCall {
  return { method: 'eth_getBlockByNumber', params: [typeof at === 'number' ? quantity(at) : at, false] }
}

function hashCall(hash: Hash): RpcCall {
  return { method: 'eth_getBlockByHash', params: [hash, false] }
}

/** Address and topics as `eth_getLogs` takes them; both absent mean "any". */
function criteria(query: LogQuery): Record<string, unknown> {
  return {
    ...(query.addresses === null ? {} : { address: query.addresses }),
    ...(query.topics.length === 0 ? {} : { topics: query.topics }),
  }
}

function logsCall(query: LogQuery, range: Record<string, unknown>): RpcCall {
  return { method: 'eth_getLogs', params: [{ ...criteria(query), ...range }] }
}

/** What a transport that throws means by it. Its text is not kept: it may hold the URL (P12). */
function thrownFailure(error: unknown): RpcFailure {
  const { status, retryAfterMs, code } = (error ?? {}) as { status?: unknown; retryAfterMs?: unknown; code?: unknown }
  const wait = typeof retryAfterMs === 'number' ? { retryAfterMs } : {}
  if (typeof status === 'number') return { message: '', status, ...wait }
  return { message: '', meaning: code === 'ETIMEDOUT' ? 'unanswered' : 'unreachable', ...wait }
}

async function sendAll(
  node: RpcTransport,
  calls: readonly RpcCall[],
  signal?: AbortSignal,
): Promise<readonly RpcOutcome[]> {
  signal?.throwIfAborted()
  let outcomes: readonly RpcOutcome[]
  try {
    outcomes = await node.send(calls, signal)
  } catch (error) {
    signal?.throwIfAborted()
    throw refusalError(node.label, calls[0]?.method ?? '', thrownFailure(error))
  }
  invariant(outcomes.length === calls.length, 'a transport answers each call in its place', {
    calls: calls.length,
    outcomes: outcomes.length,
  })
  return outcomes
}

function resultOf(node: RpcTransport, calls: readonly RpcCall[], outcomes: readonly RpcOutcome[], i: number): unknown {
  const outcome = outcomes[i]
  const method = calls[i]?.method ?? ''
  invariant(outcome, 'an answer that was not asked for was read', { method })
  if (!outcome.ok) throw refusalError(node.label, method, outcome.error)
  return outcome.result
}

async function ask(node: RpcTransport, call: RpcCall, signal?: AbortSignal): Promise<unknown> {
  return resultOf(node, [call], await sendAll(node, [call], signal), 0)
}

function headerAt(number: number, result: unknown): Header | null {
  const header = parseHeader(result)
  if (header && header.number !== number) {
    throw invalidAnswer('The node answered with a block of another height.', { asked: number, got: header.number })
  }
  return header
}

function headerOf(hash: Hash, result: unknown): Header | null {
  const header = parseHeader(result)
  if (header && header.hash !== hash)
    throw invalidAnswer('The node answered with another block.', { asked: hash, got: header.hash })
  return header
}

/** `eth_chainId`: the EIP-155 id. */
export async function readChainId(node: RpcTransport, signal?: AbortSignal): Promise<number> {
  const id = parseQuantity(await ask(node, { method: 'eth_chainId', params: [] }, signal), 'chain id')
  if (id === 0) throw invalidAnswer('The node sent 0 as its chain id.', { field: 'chain id' })
  return id
}

export interface HeadAnswer {
  readonly head: Header
  /** Null: not asked for, null, or refused (C40). */
  readonly finalized: Header | null
  readonly safe: Header | null
}

function tagged(outcome: RpcOutcome | undefined): Header | null {
  return outcome?.ok ? parseHeader(outcome.result) : null
}

/** The head, and the tags asked for, as one backend sees them in one request. A tag that cannot be resolved is null. */
export async function readHead(
  node: RpcTransport,
  tags: readonly BlockTag[],
  signal?: AbortSignal,
): Promise<HeadAnswer> {
  const calls = [blockCall('latest'), ...tags.map(blockCall)]
  const outcomes = await sendAll(node, calls, signal)
  const head = parseHeader(resultOf(node, calls, outcomes, 0))
  if (!head) throw invalidAnswer('The node answered null for its latest block.')
  const tag = (name: BlockTag) => (tags.includes(name) ? tagged(outcomes[1 + tags.indexOf(name)]) : null)
  return { head, finalized: tag('finalized'), safe: tag('safe') }
}

/** Headers by height, in order; null where the node has none. One request. */
export async function readHeaders(
  node: RpcTransport,
  numbers: readonly number[],
  signal?: AbortSignal,
): Promise<(Header | null)[]> {
  const calls = numbers.map((n) => blockCall(n))
  const outcomes = await sendAll(node, calls, signal)
  return numbers.map((number, i) => headerAt(number, resultOf(node, calls, outcomes, i)))
}

export interface RangeAnswer {
  readonly logs: readonly NodeLog[]
  /** The headers of `witnesses`, from the same request. */
  readonly headers: readonly (Header | null)[]
}

/**
 * Logs of a closed range with the headers of `witnesses`, in one request (E0): the backend that gave the logs shows
 * which blocks it has. A range whose start lies above its end is never sent (C02).
 */
export async function readRange(
  node: RpcTransport,
  query: LogQuery,
  range: { readonly from: number; readonly to: number },
  witnesses: readonly number[],
  signal?: AbortSignal,
): Promise<RangeAnswer> {
  invariant(range.from <= range.to, 'a range of logs starts at or below its end', { ...range })
  const bounds = { fromBlock: quantity(range.from), toBlock: quantity(range.to) }
  const calls = [logsCall(query, bounds), ...witnesses.map((n) => blockCall(n))]
  const outcomes = await sendAll(node, calls, signal)
  const logs = parseLogs(resultOf(node, calls, outcomes, 0))
  return { logs, headers: witnesses.map((n, i) => headerAt(n, resultOf(node, calls, outcomes, i + 1))) }
}

export interface BlockAnswer {
  readonly logs: readonly NodeLog[]
  readonly header: Header
}

function isMissing(error: unknown): boolean {
  return TidemarkError.has(error, 'RPC_BEHIND')
}

/**
 * Logs of blocks by hash, each with its header in the same request (E0). Null where the node does not have the block
 * now: an unknown block, a null header, or an empty list beside a null header are all the same answer (C31).
 */
export async function readBlocks(
  node: RpcTransport,
  query: LogQuery,
  hashes: readonly Hash[],
  signal?: AbortSignal,
): Promise<(BlockAnswer | null)[]> {
  const calls = hashes.flatMap((hash) => [logsCall(query, { blockHash: hash }), hashCall(hash)])
  const outcomes = await sendAll(node, calls, signal)
  return hashes.map((hash, i) => {
    try {
      const header = headerOf(hash, resultOf(node, calls, outcomes, 2 * i + 1))
      return header && { header, logs: parseLogs(resultOf(node, calls, outcomes, 2 * i)) }
    } catch (error) {
      if (isMissing(error)) return null
      throw error
    }
  })
}

// ------------------------------------------------------------- reads for `prepare`, pinned to a block (EIP-1898)

function pinned(block: Hash): { readonly blockHash: Hash } {
  return { blockHash: block }
}

/** `eth_call` at a block. @returns the returned bytes */
export async function readCall(
  node: RpcTransport,
  call: { readonly to: Address; readonly data: Hex; readonly from?: Address },
  block: Hash,
  signal?: AbortSignal,
): Promise<Hex> {
  return parseData(await ask(node, { method: 'eth_call', params: [call, pinned(block)] }, signal), 'call result')
}

/** `eth_getBalance` at a block, in wei. */
export async function readBalance(
  node: RpcTransport,
  address: Address,
  block: Hash,
  signal?: AbortSignal,
): Promise<bigint> {
  return parseBigQuantity(
    await ask(node, { method: 'eth_getBalance', params: [address, pinned(block)] }, signal),
    'balance',
  )
}

/** `eth_getCode` at a block. */
export async function readCode(node: RpcTransport, address: Address, block: Hash, signal?: AbortSignal): Promise<Hex> {
  return parseData(await ask(node, { method: 'eth_getCode', params: [address, pinned(block)] }, signal), 'code')
}

/** `eth_getStorageAt` at a block. @returns 32 bytes */
export async function readStorage(
  node: RpcTransport,
  address: Address,
  slot: bigint,
  block: Hash,
  signal?: AbortSignal,
): Promise<Hex> {
  const params = [address, `0x${slot.toString(16)}`, pinned(block)]
  return parseData(await ask(node, { method: 'eth_getStorageAt', params }, signal), 'storage')
}
