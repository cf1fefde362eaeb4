import type { RpcCall, RpcOutcome, RpcTransport } from '../chain/rpc.ts'
import type { World } from '../util/world.ts'
import type { FakeChain } from './fake-chain.ts'
import { Attempts, FaultPlan, type FaultSettings } from './fault-plan.ts'
import { type WireFaultName, wireFaultNames } from './faults.ts'
import { type Backend, FaultyNode } from './faulty-node.ts'
import type { ErrorObject } from './provider-errors.ts'
import { Random } from './random.ts'
import { RequestLog } from './request-log.ts'
import type { Json } from './rpc-format.ts'
import type { NodeHabits } from './rpc-methods.ts'
import { failureOf, tooLargeBatch, type WireOutcome, wireOutcome } from './wire-faults.ts'

export interface FakeRpcOptions extends Partial<NodeHabits> {
  /** Default 1. Faults are a function of it, of the request, and of how often that request came. */
  readonly seed?: number | string
  /** Safe to print; part of the seed, so two URLs fail at different moments. Default `fake`. */
  readonly label?: string
  readonly faults?: FaultSettings
  /** The nodes behind the URL. Default: one that is up to date. */
  readonly backends?: readonly Backend[]
  /**
   * Whose time `latencyMs` and `hang` take in `send`. Without it answers come at once, and `hang` ends as unanswered at
   * once. Over HTTP neither counts: answers come at once, and a request that hangs does so until its client gives up.
   */
  readonly world?: World
  /** Milliseconds for each request. Default 0. */
  readonly latencyMs?: number
  /** Milliseconds until a request that hangs is given up. Default 60,000. */
  readonly hangMs?: number
}

/** An answer written by a test: a result, an error object, a fault of the wire, or one made from the honest answer. */
export type ScriptedAnswer =
  | { readonly result: Json }
  | { readonly error: ErrorObject }
  | WireFaultName
  | ((call: RpcCall, honest: RpcOutcome) => RpcOutcome)

/** Which calls of a method a script is for: all, or those whose parameters it accepts. */
export type CallMatcher = 'any' | ((params: readonly unknown[]) => boolean)

interface Script {
  readonly method: string
  readonly matches: CallMatcher
  readonly answer: ScriptedAnswer
  left: number
}

const DEFAULT_HABITS: NodeHabits = {
  aboveHead: 'silent',
  clientVersion: 'Geth/v1.14.0-stable/linux-amd64/go1.22.2',
  maxRange: Number.POSITIVE_INFINITY,
  maxResults: Number.POSITIVE_INFINITY,
  maxAddresses: Number.POSITIVE_INFINITY,
  maxBatch: Number.POSITIVE_INFINITY,
  keepsOrphans: true,
  refuses: 'infura',
}

/** Scripts waiting at once; more is a mistake of the test. */
const MAX_SCRIPTS = 10_000

/**
 * A node that answers JSON-RPC from a fake chain as geth would, with faults on demand. It is a transport as Tidemark's
 * readers take it (`send`), and an EIP-1193 provider (`request`).
 *
 * Faults are decided by seed, method, parameters and how often that same request came, and by nothing else: neither
 * the order of requests nor time changes them, so a run can be repeated and shrunk.
 *
 * ```ts
 * const rpc = fakeRpc(chain, { seed: 7, faults: { lag: 0.2, repeatedLogs: 0.1, emptyFresh: { chance: 1, attempts: 1 } } })
 * rpc.once('eth_getLogs', 'any', { error: { code: -32005, message: 'limit exceeded' } })
 * rpc.log.ranges()          // every range that eth_getLogs was asked for
 * ```
 */
export class FakeRpc implements RpcTransport {
  readonly label: string
  /** What was asked and which faults hit, for assertions. */
  readonly log = new RequestLog()
  readonly #options: FakeRpcOptions
  readonly #maxBatch: number
  readonly #random: Random
  readonly #plan: FaultPlan
  readonly #node: FaultyNode
  readonly #batches = new Attempts()
  #scripts: Script[] = []

  /** @throws {RangeError} for an unknown fault, a chance outside 0 … 1, or an empty list of backends. */
  constructor(chain: FakeChain, options: FakeRpcOptions = {}) {
    const habits = { ...DEFAULT_HABITS, ...options }
    this.label = options.label ?? 'fake'
    this.#options = options
    this.#maxBatch = habits.maxBatch
    this.#random = new Random(options.seed ?? 1).fork(`rpc ${this.label}`)
    this.#plan = new FaultPlan(this.#random, options.faults ?? {})
    this.#node = new FaultyNode(chain, options.backends ?? [{}], habits, this.#plan, this.#random)
  }

  /** Number of calls by method since the last `log.clear()`. */
  get counters(): Readonly<Record<string, number>> {
    return this.log.counters
  }

  /** Changes some faults; those that are not named stay as they are. */
  setFaults(settings: FaultSettings): void {
    this.#plan.set(settings)
  }

  /** From here on the node is honest. Scripts that wait are dropped too. */
  stopFaults(): void {
    this.#plan.stop()
    this.#scripts = []
  }

  /** Answers the next matching call in this way, instead of by the chain and the faults. */
  once(method: string, matches: CallMatcher, answer: ScriptedAnswer): this {
    return this.times(1, method, matches, answer)
  }

  /** Answers the next `count` matching calls in this way. Older scripts go first. `Infinity` never ends. */
  times(count: number, method: string, matches: CallMatcher, answer: ScriptedAnswer): this {
    if (this.#scripts.length >= MAX_SCRIPTS) throw new RangeError(`more than ${MAX_SCRIPTS} scripts wait at once`)
    this.#scripts.push({ method, matches, answer, left: count })
    return this
  }

  /**
   * Sends a batch. Resolves to one outcome for each call, in their order; failures of the wire are outcomes too. A
   * refused batch is not sent again in parts.
   * @throws the signal's reason, and nothing else, when `signal` aborts
   */
  async send(calls: readonly RpcCall[], signal?: AbortSignal): Promise<readonly RpcOutcome[]> {
    signal?.throwIfAborted()
    const outcome = this.handle(calls)
    const { world, latencyMs = 0, hangMs = 60_000 } = this.#options
    const waits = outcome.kind === 'hang' ? hangMs : latencyMs
    if (waits > 0) await world?.sleep(waits, signal)
    signal?.throwIfAborted()
    if (outcome.kind === 'answers') return outcome.answers
    const error = outcome.kind === 'batch-error' ? outcome.error : failureOf(outcome)
    return calls.map(() => ({ ok: false, error }))
  }

  /** One call in the manner of EIP-1193. @throws an `Error` with `code` and `data` where the node refuses */
  async request(call: { readonly method: string; readonly params?: unknown }): Promise<unknown> {
    const params = Array.isArray(call.params) ? (call.params as readonly unknown[]) : []
    const [outcome] = await this.send([{ method: call.method, params }])
    if (outcome?.ok) return outcome.result
    const { message, code, data } = outcome?.error ?? { message: 'no answer' }
    throw Object.assign(new Error(message), code === undefined ? {} : { code }, data === undefined ? {} : { data })
  }

  /** Decides what becomes of a batch, at once. `send` and the HTTP server put it into practice. */
  handle(calls: readonly RpcCall[]): WireOutcome {
    const key = JSON.stringify(calls)
    const attempt = this.#batches.next(key)
    if (calls.length > this.#maxBatch) {
      return { kind: 'batch-error', error: tooLargeBatch(calls.length, this.#maxBatch) }
    }
    const session = this.#node.open(key, attempt)
    const scripts = calls.map((call) => this.#takeScript(call))
    const answers = calls.map((call, i) => {
      const script = scripts[i]
      const { outcome, ...how } = this.#node.answer(session, call, script && ((honest) => play(script, call, honest)))
      this.log.add({ ...call, ...how, backend: session.backend, answered: outcome.ok })
      return outcome
    })
    return this.#wire(scripts.find(isWireFault), answers, key, attempt)
  }

  #wire(
    scripted: WireFaultName | undefined,
    answers: readonly RpcOutcome[],
    key: string,
    attempt: number,
  ): WireOutcome {
    // A single call is no batch, so it cannot be refused as one.
    const possible = wireFaultNames.filter((name) => name !== 'batchRefused' || answers.length > 1)
    const fault = scripted ?? possible.find((name) => this.#plan.hits(name, key, attempt))
    if (!fault) return { kind: 'answers', answers, onWire: answers.map((_, i) => i) }
    this.log.wire(fault, answers.length)
    return wireOutcome(fault, answers, this.#random.fork(`wire ${attempt} ${key}`))
  }

  #takeScript(call: RpcCall): ScriptedAnswer | undefined {
    const script = this.#scripts.find(
      ({ method, matches }) => method === call.method && (matches === 'any' || matches(call.params)),
    )
    if (!script) return undefined
    script.left -= 1
    if (script.left <= 0) this.#scripts = this.#scripts.filter((other) => other !== script)
    return script.answer
  }
}

function isWireFault(answer: ScriptedAnswer | undefined): answer is WireFaultName {
  return typeof answer === 'string'
}

function play(answer: ScriptedAnswer, call: RpcCall, honest: () => RpcOutcome): RpcOutcome {
  if (isWireFault(answer)) return honest()
  if (typeof answer === 'function') return answer(call, honest())
  return 'error' in answer ? { ok: false, error: answer.error } : { ok: true, result: answer.result }
}

/** A fake node over a fake chain: see {@link FakeRpc}. */
export function fakeRpc(chain: FakeChain, options: FakeRpcOptions = {}): FakeRpc {
  return new FakeRpc(chain, options)
}
