/** The error object of JSON-RPC 2.0. Some servers leave the code out. */
export interface ErrorObject {
  readonly code?: number
  readonly message: string
  readonly data?: unknown
}

/** Thrown inside the fake node where a real one answers with an error object. */
export class RpcRefusal extends Error {
  override readonly name = 'RpcRefusal'
  readonly error: ErrorObject

  constructor(error: ErrorObject) {
    super(error.message)
    this.error = error
  }
}

/** @throws {RpcRefusal} always */
export function refuse(error: ErrorObject): never {
  throw new RpcRefusal(error)
}

/** A range of blocks that was refused. */
export interface RefusedRange {
  readonly from: number
  readonly to: number
  /** The limit that it broke: blocks or logs. */
  readonly limit: number
  /** The last block up to which the answer would have been allowed. */
  readonly fits: number
}

const hex = (value: number) => `0x${value.toString(16)}`
const span = (range: RefusedRange) => range.to - range.from + 1
const thousands = (value: number) => value.toLocaleString('en-US')

/** In whose words a node refuses. */
export type RefusalStyle = keyof typeof rangeRefusals

/** One cap on the number of blocks, in the words of seven providers. The texts are those that the servers send. */
export const rangeRefusals = {
  infura: (range: RefusedRange): ErrorObject => ({
    code: -32602,
    message: `range ${span(range)} exceeds limit of ${range.limit}`,
  }),
  quicknode: (range: RefusedRange): ErrorObject => ({
    code: -32614,
    message: `eth_getLogs is limited to a ${thousands(range.limit)} range`,
  }),
  blast: (range: RefusedRange): ErrorObject => ({
    code: -32600,
    message: `You can make eth_getLogs requests with up to a ${range.limit} block range. Based on your parameters, this block range should work: [${hex(range.from)}, ${hex(range.fits)}]`,
  }),
  // C11: only `data` tells what is wrong.
  ronin: (range: RefusedRange): ErrorObject => ({
    code: -32602,
    message: 'Invalid params',
    data: `requested block range ${span(range)} exceeds the limit of ${range.limit}; narrow your fromBlock/toBlock`,
  }),
  erigon: (range: RefusedRange): ErrorObject => ({
    code: -32602,
    message: `query block range exceeds server limit, narrow your filter: ${range.limit}`,
  }),
  cronos: (range: RefusedRange): ErrorObject => ({
    code: -32000,
    message: `maximum [from, to] blocks distance: ${range.limit}`,
    data: null,
  }),
  besu: (_range: RefusedRange): ErrorObject => ({
    code: -32005,
    message: 'Requested range exceeds maximum RPC range limit',
  }),
} as const

const infuraResults = (range: RefusedRange): ErrorObject => ({
  code: -32005,
  message: `query returned more than ${range.limit} results. Try with this block range [${hex(range.from)}, ${hex(range.fits)}].`,
  data: { from: hex(range.from), limit: range.limit, to: hex(range.fits) },
})

/** One cap on the number of logs, in the same providers' words, or in those of a client with the same error shape. */
export const resultRefusals: Readonly<Record<RefusalStyle, (range: RefusedRange) => ErrorObject>> = {
  infura: infuraResults,
  quicknode: ({ limit }) => ({ code: -32602, message: `query exceeds max results ${limit}` }),
  blast: ({ from, fits, limit }) => ({
    code: -32602,
    message: `query exceeds max results ${limit}, retry with the range ${from}-${fits}`,
  }),
  ronin: ({ from, fits, limit }) => ({
    code: -32602,
    message: 'invalid params',
    data: `Query returned more than ${limit} results. Try with this block range [${hex(from)}, ${hex(fits)}].`,
  }),
  erigon: ({ limit }) => ({ code: -32000, message: `query returns too many logs, narrow your filter: ${limit}` }),
  cronos: () => ({
    code: -32000,
    message: 'query returned more than allowed number of logs, try with smaller block range',
  }),
  besu: ({ limit }) => ({ code: -32005, message: `Too many logs requested. Max logs per response is ${limit}.` }),
}

/** Passing refusals as servers send them: what the `providerError` fault answers. None of them is about the range. */
export const passingRefusals: readonly ErrorObject[] = [
  {
    code: -32005,
    message: 'project ID request rate exceeded',
    data: { rate: { allowed_rps: 50, backoff_seconds: 0, current_rps: 52.3 } },
  },
  {
    code: -32007,
    message: '300/second request limit reached - reduce calls per second or upgrade your account at quicknode.com',
  },
  { code: -32012, message: 'credits limited to 6000/sec' },
  { code: 30, message: 'Request timeout on the free tier, please upgrade your tier to the paid one' },
  {
    code: -32017,
    message: 'Timeout',
    data: 'Nethermind.JsonRpc.Modules.ModuleRentalTimeoutException: Unable to rent an instance of IEthRpcModule. Too many concurrent requests.',
  },
  { message: 'no backend is currently healthy to serve traffic' },
  { code: -32603, message: 'Internal error' },
]

/** Refusals of a block that exists, by a node that does not have it yet (C16, C19, C31). */
export const behindRefusals: readonly ErrorObject[] = [
  { code: -32602, message: 'block range extends beyond current head block' },
  { code: -32000, message: 'cannot query unfinalized data' },
  { code: -32000, message: 'unknown block' },
  { code: -39001, message: 'Unknown block' },
]

/** A range that is allowed but takes too long (C14). */
export const slowRefusals: readonly ErrorObject[] = [
  { code: -32000, message: 'Query timeout exceeded. Consider reducing your block range.' },
  { code: -32603, message: 'query timeout of 10 seconds exceeded' },
]

/** A tag that does not resolve (C40); null stands for `result: null`. */
export const missingTagAnswers: readonly (ErrorObject | null)[] = [
  { code: -32000, message: 'safe block not found' },
  { code: -39001, message: 'Unknown block' },
  { code: -32602, message: 'invalid argument 0: hex string without 0x prefix' },
  null,
]
