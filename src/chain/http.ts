import type { World } from '../util/world.ts'
import type { RpcCall, RpcOutcome, RpcTransport } from './rpc.ts'
import { type Meaning, type RpcFailure, readRefusal } from './rpc-errors.ts'

/**
 * JSON-RPC 2.0 over HTTP, and over whatever has a `request` function (EIP-1193). The URL is never printed (P12): errors
 * carry the label. Answers are matched by id, in any order; a call without an answer fails, it is not "no logs" (C13).
 */

/** The largest answer read: about 100,000 logs. A larger one counts as "response too large", so the range shrinks. */
export const MAX_ANSWER_BYTES = 64 * 1024 * 1024

export interface HttpOptions {
  /** Safe to print: `rpc[0]`. */
  readonly label: string
  /** Time for one request, answer included, in milliseconds. */
  readonly timeoutMs: number
  readonly world: World
  readonly headers?: Readonly<Record<string, string>>
}

function failure(meaning: Meaning, message: string, more: Partial<RpcFailure> = {}): RpcFailure {
  return { meaning, message, ...more }
}

async function readBounded(response: Response): Promise<string | null> {
  if (!response.body) return ''
  const decoder = new TextDecoder()
  let text = ''
  let size = 0
  for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
    size += chunk.byteLength
    // Leaving the loop cancels the body, so the rest is not downloaded.
    if (size > MAX_ANSWER_BYTES) return null
    text += decoder.decode(chunk, { stream: true })
  }
  return text + decoder.decode()
}

/** `Retry-After` in seconds or as a date (RFC 9110, section 10.2.3), at most an hour. */
function retryAfter(response: Response, world: World): number | undefined {
  const header = response.headers.get('retry-after')
  if (header === null) return undefined
  const ms = /^\d+$/.test(header.trim()) ? Number(header) * 1000 : Date.parse(header) - world.now()
  return Number.isFinite(ms) ? Math.min(Math.max(ms, 0), 3_600_000) : undefined
}

function asFailure(raw: unknown): RpcFailure {
  const error = (typeof raw === 'object' && raw !== null ? raw : {}) as Record<string, unknown>
  return {
    ...(typeof error.code === 'number' ? { code: error.code } : {}),
    message: typeof error.message === 'string' ? error.message : '',
    ...(error.data === undefined ? {} : { data: error.data }),
  }
}

type Fill = Pick<RpcFailure, 'status' | 'retryAfterMs'>

function outcomeOf(item: Record<string, unknown>, fill: Fill): RpcOutcome {
  if (item.error !== undefined && item.error !== null)
    return { ok: false, error: { ...asFailure(item.error), ...fill } }
  if ('result' in item) return { ok: true, result: item.result }
  return { ok: false, error: failure('invalid-answer', 'neither result nor error', fill) }
}

/** One outcome for each id from 1 to `count`. A lone error object refuses the whole batch. */
function match(body: unknown, count: number, fill: Fill): RpcOutcome[] {
  const list = Array.isArray(body) ? body : [body]
  const items = list.filter((one): one is Record<string, unknown> => typeof one === 'object' && one !== null)
  const byId = new Map(items.map((item) => [item.id, item]))
  // An error without a usable id speaks for every call that has no answer of its own.
  const general = items.find((item) => item.error && !(typeof item.id === 'number' && item.id >= 1 && item.id <= count))
  const missing: RpcOutcome = general
    ? outcomeOf(general, fill)
    : { ok: false, error: failure(items.length > 0 ? 'unanswered' : 'invalid-answer', 'no answer for this call', fill) }
  return Array.from({ length: count }, (_, i) => {
    const item = byId.get(i + 1)
    return item ? outcomeOf(item, fill) : missing
  })
}

function everywhere(count: number, error: RpcFailure): RpcOutcome[] {
  return Array.from({ length: count }, () => ({ ok: false, error }))
}

function parseJson(text: string): { readonly body: unknown } | null {
  try {
    return { body: JSON.parse(text) }
  } catch {
    return null
  }
}

/** The body is read first: servers send a proper refusal under status 413, 429 or 500 too. */
async function interpret(response: Response, count: number, world: World): Promise<RpcOutcome[]> {
  const wait = retryAfter(response, world)
  const fill: Fill = {
    ...(response.ok ? {} : { status: response.status }),
    ...(wait === undefined ? {} : { retryAfterMs: wait }),
  }
  const text = await readBounded(response)
  if (text === null) return everywhere(count, failure('response-too-large', 'answer over the size limit', fill))
  const json = parseJson(text)
  if (json && typeof json.body === 'object' && json.body !== null) return match(json.body, count, fill)
  if (response.ok) return everywhere(count, failure('invalid-answer', 'not a JSON-RPC answer', fill))
  return everywhere(count, { message: '', ...fill })
}

const DOWN: ReadonlySet<Meaning> = new Set<Meaning>([
  'unreachable',
  'unanswered',
  'rate-limited',
  'quota-exceeded',
  'server-busy',
])

/** The failure of a node that is down or limits requests: it is not asked for the rest. */
function downOf(answers: readonly RpcOutcome[]): RpcFailure | null {
  const failed = answers[0]
  if (!failed || failed.ok || answers.some((one) => one.ok)) return null
  return DOWN.has(readRefusal(failed.error).meaning) ? failed.error : null
}

/** How many calls a request may hold: what most providers allow without a plan. */
const MAX_BATCH = 100
/**
 * After so many requests without a refusal a lowered limit is doubled again, since a refusal may have been a passing one;
 * each time the doubled one is refused at once, twice as many are waited for.
 */
const RECOVER_AFTER = 8
const RECOVER_AT_MOST = 1024

/** The URL without user and password: `fetch` refuses them there. */
function urlOf(text: string): string {
  const url = new URL(text)
  url.username = ''
  url.password = ''
  return url.href
}

/** A lone `%` in a password is taken as it is. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

/** User and password of a URL as the header that they stand for (RFC 7617). */
function authorizationOf(text: string): Readonly<Record<string, string>> {
  const { username, password } = new URL(text)
  if (username === '' && password === '') return {}
  const bytes = new TextEncoder().encode(`${decoded(username)}:${decoded(password)}`)
  return { authorization: `Basic ${btoa(String.fromCharCode(...bytes))}` }
}

class HttpTransport implements RpcTransport {
  readonly label: string
  readonly #url: string
  readonly #authorization: Readonly<Record<string, string>>
  readonly #options: HttpOptions
  #maxBatch = MAX_BATCH
  #accepted = 0
  #recoverAfter = RECOVER_AFTER

  constructor(url: string, options: HttpOptions) {
    this.label = options.label
    this.#url = urlOf(url)
    this.#authorization = authorizationOf(url)
    this.#options = options
  }

  async send(calls: readonly RpcCall[], signal?: AbortSignal): Promise<readonly RpcOutcome[]> {
    const outcomes: RpcOutcome[] = []
    while (outcomes.length < calls.length) {
      const part = calls.slice(outcomes.length, outcomes.length + this.#maxBatch)
      const answers = await this.#post(part, signal)
      if (this.#refusesBatch(part.length, answers)) continue
      outcomes.push(...answers)
      const down = downOf(answers)
      if (down) outcomes.push(...everywhere(calls.length - outcomes.length, down))
      else this.#accept()
    }
    return outcomes
  }

  #accept(): void {
    this.#accepted += 1
    if (this.#maxBatch === MAX_BATCH || this.#accepted < this.#recoverAfter) return
    this.#maxBatch = Math.min(MAX_BATCH, this.#maxBatch * 2)
    this.#accepted = 0
  }

  /** A batch over the server's limit is halved, down to single calls; the limit is remembered (C13). */
  #refusesBatch(size: number, answers: readonly RpcOutcome[]): boolean {
    const first = answers[0]
    if (size < 2 || !first || first.ok || answers.some((one) => one.ok)) return false
    const refusal = readRefusal(first.error)
    if (refusal.meaning !== 'batch-too-large') return false
    const half = Math.ceil(size / 2)
    const atOnce = this.#accepted === 0 && this.#maxBatch < MAX_BATCH
    if (atOnce) this.#recoverAfter = Math.min(RECOVER_AT_MOST, this.#recoverAfter * 2)
    this.#maxBatch = Math.max(1, refusal.hint.limit && refusal.hint.limit < size ? refusal.hint.limit : half)
    this.#accepted = 0
    return true
  }

  async #post(calls: readonly RpcCall[], signal?: AbortSignal): Promise<RpcOutcome[]> {
    const { timeoutMs, world } = this.#options
    const timeout = new AbortController()
    const done = new AbortController()
    // The sleep ends with the request, so no timer is left behind.
    void world.sleep(timeoutMs, done.signal).then(() => done.signal.aborted || timeout.abort())
    try {
      const response = await this.#fetch(calls, signal ? AbortSignal.any([signal, timeout.signal]) : timeout.signal)
      return await interpret(response, calls.length, world)
    } catch {
      signal?.throwIfAborted()
      const meaning = timeout.signal.aborted ? 'unanswered' : 'unreachable'
      return everywhere(calls.length, failure(meaning, meaning))
    } finally {
      done.abort()
    }
  }

  #fetch(calls: readonly RpcCall[], signal: AbortSignal): Promise<Response> {
    const requests = calls.map((call, i) => ({ jsonrpc: '2.0', id: i + 1, ...call }))
    return fetch(this.#url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...this.#authorization, ...this.#options.headers },
      body: JSON.stringify(calls.length === 1 ? requests[0] : requests),
      signal,
    })
  }
}

/**
 * A transport over the runtime's `fetch`.
 * @param url http or https, credentials and keys included; it is kept private
 */
export function httpTransport(url: string, options: HttpOptions): RpcTransport {
  return new HttpTransport(url, options)
}

/** What viem transports and clients, ethers' and wallets' providers have in common. */
export interface Eip1193 {
  request(call: { method: string; params?: unknown }): Promise<unknown>
}

export interface Eip1193Options {
  /** Safe to print. */
  readonly label: string
  /** Milliseconds for each call: a provider whose socket is dead may never answer. */
  readonly timeoutMs: number
  readonly world: World
}

const UNANSWERED: RpcOutcome = { ok: false, error: { message: 'unanswered', meaning: 'unanswered' } }

async function request(
  provider: Eip1193,
  call: RpcCall,
  options: Eip1193Options,
  signal?: AbortSignal,
): Promise<RpcOutcome> {
  const done = new AbortController()
  const timer = options.world.sleep(options.timeoutMs, signal ? AbortSignal.any([signal, done.signal]) : done.signal)
  const answer = ask(provider, call)
  const outcome = await Promise.race([answer, timer.then(() => UNANSWERED)])
  done.abort()
  signal?.throwIfAborted()
  return outcome
}

/** Never rejects, so a late failure of a call that was given up harms nobody. */
async function ask(provider: Eip1193, call: RpcCall): Promise<RpcOutcome> {
  try {
    return { ok: true, result: await provider.request({ method: call.method, params: call.params }) }
  } catch (error) {
    const known = asFailure(error)
    return { ok: false, error: known.code === undefined ? { ...known, meaning: 'unreachable' } : known }
  }
}

/**
 * A transport over an EIP-1193 provider. It has no batches, so calls go out one after the other and E0 is weaker: behind
 * a load balancer they may reach different backends. The headers that prove a range are asked for after its logs.
 */
export function eip1193Transport(provider: Eip1193, options: Eip1193Options): RpcTransport {
  return {
    label: options.label,
    async send(calls, signal) {
      const outcomes: RpcOutcome[] = []
      for (const call of calls) {
        signal?.throwIfAborted()
        outcomes.push(await request(provider, call, options, signal))
      }
      return outcomes
    },
  }
}
