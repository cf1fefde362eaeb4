import type { RpcCall } from '../chain/rpc.ts'
import type { Hex } from '../util/bytes.ts'
import type { ChainView } from './chain-view.ts'
import { falsifyLogs, isFresh, isLogList, withoutFresh } from './log-lies.ts'
import {
  behindRefusals,
  type ErrorObject,
  missingTagAnswers,
  passingRefusals,
  slowRefusals,
} from './provider-errors.ts'
import type { Random } from './random.ts'
import { type Json, type JsonObject, quantity } from './rpc-format.ts'

/** What a fault may look at. All of it follows from the request, its attempt, the seed and the state of the chain. */
export interface FaultContext {
  /** What the node that answers knows. */
  readonly view: ChainView
  /** The branch that was canonical last; the view itself while there was no reorg. */
  readonly abandoned: ChainView
  /** A stream of its own for this fault, request and attempt. */
  readonly random: Random
}

/**
 * A fault in how the answering node sees the chain. It hits a whole batch, since one batch is answered by one node: the
 * evidence level E0 rests on that.
 */
export type ViewFault = (context: FaultContext) => ChainView

/** A fault in the answer to one call: an error object in its place, or another result. */
export type CallFault =
  | { readonly acts: 'refusal'; applies(call: RpcCall): boolean; refuse(context: FaultContext): ErrorObject | null }
  | {
      readonly acts: 'result'
      applies(call: RpcCall): boolean
      change(result: Json, context: FaultContext, call: RpcCall): Json
    }

const only =
  (...methods: string[]) =>
  (call: RpcCall) =>
    methods.includes(call.method)
const any = () => true
const isLogs = only('eth_getLogs')
const readsBlocks = only('eth_getLogs', 'eth_getBlockByNumber', 'eth_getBlockByHash', 'eth_getBlockReceipts')
const readsGenesis = (call: RpcCall) =>
  call.method === 'eth_getBlockByNumber' && (call.params[0] === '0x0' || call.params[0] === 'earliest')
const readsTag = (call: RpcCall) =>
  call.method === 'eth_getBlockByNumber' && (call.params[0] === 'safe' || call.params[0] === 'finalized')

/** Another hash of the same height: the last hex digit differs. */
function otherHash(value: Json | undefined): Hex {
  const text = String(value)
  return `${text.slice(0, -1)}${text.endsWith('f') ? '0' : 'f'}` as Hex
}

function emptyWhenFresh(result: Json, { view }: FaultContext, call: RpcCall): Json {
  if (isLogList(call, result)) return withoutFresh(result, view)
  if (call.method === 'eth_getBlockReceipts' && Array.isArray(result)) {
    const receipts = result as readonly JsonObject[]
    return receipts.map((receipt) => (isFresh(receipt, view) ? { ...receipt, logs: [] } : receipt))
  }
  const block = result as JsonObject | null
  return block && isFresh({ blockNumber: block.number ?? null }, view) ? { ...block, transactions: [] } : result
}

const refusal = (applies: (call: RpcCall) => boolean, errors: readonly (ErrorObject | null)[]): CallFault => ({
  acts: 'refusal',
  applies,
  refuse: ({ random }) => random.pick(errors),
})

const lie = (change: (result: readonly JsonObject[], context: FaultContext) => Json): CallFault => ({
  acts: 'result',
  applies: isLogs,
  change: (result, context, call) => (isLogList(call, result) ? change(result, context) : result),
})

const MALFORMED: readonly Json[] = [{}, 'null', 0, true, [null], [[]], [{}]]

export const viewFaults = {
  /** The node that answers is 1 to 5 blocks behind (C16). For one that stays behind, see `backends`. */
  lag: ({ view, random }) => view.below(view.head.number - random.int(1, 5)),
  /** The node that answers is on the branch that was abandoned last (C18, C31). */
  sibling: ({ abandoned }) => abandoned,
  /** The node that answers was just restarted: its head is block 0 (C20). */
  headZero: ({ view }) => view.below(0),
} as const satisfies Readonly<Record<string, ViewFault>>

export type ViewFaultName = keyof typeof viewFaults

/** Faults in the answer to one call, and which real report each retells. */
export const callFaults = {
  /** A passing error object: rate, quota, busy, internal (C12). */
  providerError: refusal(any, passingRefusals),
  /** The node says that it does not have the block yet (C16, C19). */
  behindError: refusal(readsBlocks, behindRefusals),
  /** A legal range takes too long (C14). */
  slowError: refusal(isLogs, slowRefusals),
  /** `safe` or `finalized` does not resolve, in one of four ways (C40). */
  missingTag: refusal(readsTag, missingTagAnswers),
  /** Blocks at the head look empty for a moment: no logs, or no transactions (C17). */
  emptyFresh: { acts: 'result', applies: readsBlocks, change: emptyWhenFresh },
  /** The list of logs ends too early, without any sign. */
  truncatedLogs: lie(falsifyLogs.truncated),
  /** The logs of one block carry another block hash than its header (C18). */
  foreignHash: lie(falsifyLogs.foreignHash),
  /** Entries of abandoned blocks stand among the live ones, `removed: true` (C27). */
  removedLogs: lie(falsifyLogs.removed),
  /** Some logs come twice. */
  repeatedLogs: lie(falsifyLogs.repeated),
  /** The logs come in another order, sometimes newest first (C38). */
  unorderedLogs: lie(falsifyLogs.unordered),
  /** A log that is on no chain. */
  phantomLog: lie(falsifyLogs.phantom),
  /** `result: null` (C05). */
  nullResult: { acts: 'result', applies: any, change: () => null },
  /** A result that cannot be one: an object, a text, a list of nulls (C05). */
  malformedResult: { acts: 'result', applies: any, change: (_, { random }) => random.pick(MALFORMED) },
  /** The URL answers for another chain. */
  otherChainId: {
    acts: 'result',
    applies: only('eth_chainId', 'net_version'),
    change: (_, { view }, call) =>
      call.method === 'net_version' ? String(view.chainId + 1) : quantity(view.chainId + 1),
  },
  /** Block 0 has another hash (C20, variant 2). */
  otherGenesis: {
    acts: 'result',
    applies: readsGenesis,
    change: (result) => result && { ...(result as JsonObject), hash: otherHash((result as JsonObject).hash) },
  },
} as const satisfies Readonly<Record<string, CallFault>>

export type CallFaultName = keyof typeof callFaults

/**
 * Faults between the node and its client. One of them hits a whole batch.
 *
 * - `cut`: the connection breaks before the answer; `cutMidAnswer`: in the middle of it
 * - `hang`: the request is never answered
 * - `rateLimited`: HTTP 429 with `Retry-After`
 * - `htmlPage`: HTTP 502 and a page of HTML
 * - `batchRefused`: one error object instead of a list (C13)
 * - `missingAnswers`: some calls of the batch are not answered (C13, variant 2)
 * - `shuffledAnswers`: the answers come in another order (C13, variant 3); seen over HTTP only
 */
export const wireFaultNames = [
  'cut',
  'cutMidAnswer',
  'hang',
  'rateLimited',
  'htmlPage',
  'batchRefused',
  'missingAnswers',
  'shuffledAnswers',
] as const

export type WireFaultName = (typeof wireFaultNames)[number]
export type FaultName = ViewFaultName | CallFaultName | WireFaultName

export const faultNames: readonly FaultName[] = [
  ...(Object.keys(viewFaults) as ViewFaultName[]),
  ...(Object.keys(callFaults) as CallFaultName[]),
  ...wireFaultNames,
]

/**
 * Faults by what it takes to survive them:
 *
 * - `transport`: ask again
 * - `refusals`: understand the error, then ask again, elsewhere or less
 * - `disorder`: read the answer with care (drop removed, sort, drop repeats)
 * - `views`: check that the node that answered had the block
 * - `lies`: nothing in the answer shows it; blooms, a second provider or receipts do
 * - `wrongChain`: stop (P8)
 */
export const faultGroups = {
  transport: wireFaultNames,
  refusals: ['providerError', 'behindError', 'slowError', 'missingTag', 'nullResult', 'malformedResult'],
  disorder: ['removedLogs', 'repeatedLogs', 'unorderedLogs'],
  views: ['lag', 'sibling', 'headZero', 'foreignHash'],
  lies: ['emptyFresh', 'truncatedLogs', 'phantomLog'],
  wrongChain: ['otherChainId', 'otherGenesis'],
} as const satisfies Readonly<Record<string, readonly FaultName[]>>
