import { type ErrorCode, TidemarkError } from '../errors.ts'

/**
 * What a provider's refusal means. Servers share codes between meanings (C12), so the order of reading is: what the
 * transport knows, codes that have one meaning, HTTP status, then the text of `data` and of the message, because there
 * is nothing else to go by. `shared/cases/rpc-errors.json` holds the real ones.
 */
export type Meaning =
  | 'range-too-large'
  | 'too-many-results'
  | 'response-too-large'
  | 'too-many-addresses'
  | 'timeout'
  | 'rate-limited'
  | 'quota-exceeded'
  | 'server-busy'
  | 'batch-too-large'
  | 'beyond-head'
  | 'block-not-found'
  | 'history-pruned'
  | 'filter-not-found'
  | 'unauthorized'
  | 'unsupported'
  | 'invalid-params'
  /** No connection, or it broke. */
  | 'unreachable'
  /** No answer within the transport's own time limit, or an answer to this call was missing in the batch (C13). */
  | 'unanswered'
  /** The answer cannot be one: not JSON, or of another shape. */
  | 'invalid-answer'
  | 'unknown'

/** A failed call, as a transport hands it over. */
export interface RpcFailure {
  readonly code?: number
  readonly message: string
  readonly data?: unknown
  /** HTTP status, when it was not 200. */
  readonly status?: number
  readonly retryAfterMs?: number
  /** Set by a transport that knows: the text is not looked at then. */
  readonly meaning?: Meaning
}

/** Advice in a refusal. Advice is checked before it is used (C11). */
export interface Hint {
  readonly from?: number
  readonly to?: number
  /** The limit that was stated: blocks, results, addresses or calls, as the meaning says. */
  readonly limit?: number
  readonly waitMs?: number
}

export interface Refusal {
  readonly meaning: Meaning
  readonly hint: Hint
}

// Codes with one meaning wherever they were seen. -32000, -32005, -32602, -32603 and -32600 have several.
const byCode: Readonly<Record<number, Meaning>> = {
  [-32601]: 'unsupported',
  [-39001]: 'block-not-found',
  [-32007]: 'rate-limited',
  [-32012]: 'rate-limited',
  [-32020]: 'response-too-large',
  [-32047]: 'range-too-large',
  [-32614]: 'range-too-large',
  [-32701]: 'range-too-large',
  4444: 'history-pruned',
  30: 'timeout',
  35: 'range-too-large',
}

// The first that fits decides: "Try with this block range" stands in a refusal about results, so results come first.
const byText: readonly (readonly [Meaning, RegExp])[] = [
  ['batch-too-large', /batch limit|max batch|batch size|batch too large/],
  ['too-many-addresses', /contains \d+ filters|too many addresses/],
  ['unauthorized', /unauthorized|must authenticate|invalid api key|forbidden/],
  ['quota-exceeded', /capacity limit exceeded|quota/],
  ['unsupported', /archive requests|(safe|finalized) block not found|method not (found|supported)|^limit exceeded$/],
  ['server-busy', /too many concurrent|no backend is|unable to rent|overloaded/],
  ['rate-limited', /request rate|rate limit|request limit reached|credits limited|too many requests|per second/],
  ['history-pruned', /pruned|is not available/],
  ['filter-not-found', /filter not found/],
  ['beyond-head', /unfinalized data|beyond current head|after last accepted block/],
  ['invalid-params', /invalid block range params|leading zero/],
  ['block-not-found', /unknown block|block not found|could not be found|header not found/],
  ['timeout', /time(d )?out/],
  ['response-too-large', /response (is )?too (large|big)|response size/],
  ['too-many-results', /logs matched|max results|more than [\w ]{0,40}(logs|results)|too many (logs|results)/],
  ['range-too-large', /range|blocks distance|requested blocks|too many blocks/],
]

function byStatus(status: number | undefined): Meaning | undefined {
  if (status === undefined) return undefined
  if (status === 401 || status === 403) return 'unauthorized'
  if (status === 408 || status === 504) return 'timeout'
  if (status === 413) return 'response-too-large'
  return status >= 500 ? 'server-busy' : undefined
}

/** A server's text is read so far, and so many of them: what it sends must not keep this process busy. */
const TEXT_LIMIT = 2_000
const TEXTS_LIMIT = 16

/** Text inside `data`, at most three levels down: some servers put the useful part there (C11). */
function textsOf(data: unknown, depth = 3): string[] {
  if (typeof data === 'string') return [data.slice(0, TEXT_LIMIT)]
  if (typeof data !== 'object' || data === null || depth === 0) return []
  const inner = Object.values(data).slice(0, TEXTS_LIMIT)
  return inner.flatMap((value) => textsOf(value, depth - 1)).slice(0, TEXTS_LIMIT)
}

function meaningFromText(texts: readonly string[]): Meaning | undefined {
  for (const [meaning, pattern] of byText) {
    if (texts.some((text) => pattern.test(text.trim().toLowerCase()))) return meaning
  }
  return undefined
}

function meaningOf(failure: RpcFailure, texts: readonly string[]): Meaning {
  if (failure.meaning) return failure.meaning
  const coded = failure.code === undefined ? undefined : byCode[failure.code]
  if (coded) return coded
  const worded = meaningFromText(texts)
  if (failure.status === 429) return worded === 'quota-exceeded' ? worded : 'rate-limited'
  return worded ?? byStatus(failure.status) ?? (failure.code === -32602 ? 'invalid-params' : 'unknown')
}

function hintedRange(data: unknown, text: string): { from: number; to: number } | undefined {
  const named = data as { from?: unknown; to?: unknown } | null | undefined
  const pair =
    /\[\s*(0x[0-9a-f]+|\d+)\s*,\s*(0x[0-9a-f]+|\d+)\s*\]/i.exec(text) ?? /with the range (\d+)-(\d+)/i.exec(text)
  const from = Number(pair?.[1] ?? named?.from)
  const to = Number(pair?.[2] ?? named?.to)
  return Number.isSafeInteger(from) && Number.isSafeInteger(to) && from <= to ? { from, to } : undefined
}

/** The smallest decimal number in the text: servers state the limit, and the larger number that was asked for. */
function statedLimit(text: string): number | undefined {
  const numbers = [...text.matchAll(/(?<![\w.])(\d[\d,]*)(k?)(?![\w])/gi)].map(
    ([, digits, k]) => Number(digits?.replaceAll(',', '')) * (k ? 1000 : 1),
  )
  const usable = numbers.filter((n) => Number.isSafeInteger(n) && n > 0)
  return usable.length > 0 ? Math.min(...usable) : undefined
}

function waitOf(failure: RpcFailure): number | undefined {
  if (failure.retryAfterMs !== undefined) return failure.retryAfterMs
  const seconds = (failure.data as { rate?: { backoff_seconds?: unknown } } | null | undefined)?.rate?.backoff_seconds
  return typeof seconds === 'number' && seconds > 0 ? seconds * 1000 : undefined
}

/** Reads a refusal: what it means and what it advises. */
export function readRefusal(failure: RpcFailure): Refusal {
  const texts = [...textsOf(failure.data), failure.message.slice(0, TEXT_LIMIT)]
  const text = texts.join(' ')
  const range = hintedRange(failure.data, text)
  const limit = range ? undefined : statedLimit(text)
  const waitMs = waitOf(failure)
  return {
    meaning: meaningOf(failure, texts),
    hint: { ...range, ...(limit === undefined ? {} : { limit }), ...(waitMs === undefined ? {} : { waitMs }) },
  }
}

const codes: Partial<Record<Meaning, ErrorCode>> = {
  'range-too-large': 'RPC_RANGE_TOO_LARGE',
  'too-many-results': 'RPC_RANGE_TOO_LARGE',
  'response-too-large': 'RPC_RANGE_TOO_LARGE',
  timeout: 'RPC_RANGE_TOO_LARGE',
  'rate-limited': 'RPC_RATE_LIMITED',
  'quota-exceeded': 'RPC_RATE_LIMITED',
  'server-busy': 'RPC_RATE_LIMITED',
  'beyond-head': 'RPC_BEHIND',
  'block-not-found': 'RPC_BEHIND',
  unreachable: 'RPC_UNREACHABLE',
  unanswered: 'RPC_TIMEOUT',
  'invalid-answer': 'RPC_ANSWER_INVALID',
}

// Kept beside the error, not in it: hints and meanings steer requests, they are not for printing.
const refusals = new WeakMap<TidemarkError, Refusal>()

/**
 * The error for a failed call. The server's own words are left out: they may hold the URL, a key or the filter (P12);
 * meaning, code and status say what is needed.
 */
export function refusalError(node: string, method: string, failure: RpcFailure): TidemarkError {
  const refusal = readRefusal(failure)
  const { meaning, hint } = refusal
  const values = { node, method, meaning, rpcCode: failure.code, httpStatus: failure.status, retryAfterMs: hint.waitMs }
  const error = new TidemarkError(codes[meaning] ?? 'RPC_REFUSED', `The node refused ${method}: ${meaning}.`, {
    values,
  })
  refusals.set(error, refusal)
  return error
}

/** What the provider meant, when `error` came from one. */
export function refusalOf(error: unknown): Refusal | undefined {
  return TidemarkError.is(error) ? refusals.get(error) : undefined
}

const ASK_SMALLER: ReadonlySet<Meaning> = new Set([
  'range-too-large',
  'too-many-results',
  'response-too-large',
  'timeout',
])

/** Whether a smaller range may help. A rate limit never makes requests smaller. */
export function asksForSmaller(refusal: Refusal | undefined): boolean {
  return refusal !== undefined && ASK_SMALLER.has(refusal.meaning)
}

// Faults of the request, or a matter of waiting: another provider would say the same, or is not to be jumped to.
const NOT_THE_PROVIDER: ReadonlySet<Meaning> = new Set<Meaning>([
  ...ASK_SMALLER,
  'too-many-addresses',
  'batch-too-large',
  'beyond-head',
  'block-not-found',
  'invalid-params',
])

/** Whether an error speaks against the provider itself, so that another one should be asked. */
export function isProviderFault(error: unknown): boolean {
  const refusal = refusalOf(error)
  if (refusal) return !NOT_THE_PROVIDER.has(refusal.meaning)
  return TidemarkError.has(error, 'RPC_ANSWER_INVALID') || TidemarkError.has(error, 'CHAIN_MISMATCH')
}
