import type { RpcCall, RpcOutcome } from '../chain/rpc.ts'
import type { ChainView } from './chain-view.ts'
import type { FakeChain } from './fake-chain.ts'
import { Attempts, type FaultPlan } from './fault-plan.ts'
import {
  type CallFault,
  type CallFaultName,
  callFaults,
  type FaultContext,
  type FaultName,
  type ViewFault,
  type ViewFaultName,
  viewFaults,
} from './faults.ts'
import { type ErrorObject, RpcRefusal } from './provider-errors.ts'
import type { Random } from './random.ts'
import type { Json } from './rpc-format.ts'
import { honestResult, type NodeHabits } from './rpc-methods.ts'

/** One of the nodes behind a URL. A batch is answered by one of them, the next batch perhaps by another. */
export interface Backend {
  /** How many blocks it is behind the canonical head. Default 0. */
  readonly behind?: number
  /** The branch that it follows; `abandoned` for the one that was canonical last. Default: the canonical one. */
  readonly branch?: string
  /** Another chain altogether. */
  readonly chain?: FakeChain
}

/** A batch on its way: the node that answers it and what that node sees. */
export interface Session {
  /** Position of the node among the backends. */
  readonly backend: number
  readonly view: ChainView
  readonly abandoned: ChainView
  /** Faults of the view that hit. */
  readonly faults: readonly FaultName[]
}

/** An answer with how it came about. */
export interface Answered {
  readonly outcome: RpcOutcome
  readonly attempt: number
  readonly faults: readonly FaultName[]
}

const callFaultList = Object.entries(callFaults) as readonly [CallFaultName, CallFault][]
const viewFaultList = Object.entries(viewFaults) as readonly [ViewFaultName, ViewFault][]
const refusals = callFaultList.filter(([, fault]) => fault.acts === 'refusal')
const results = callFaultList.filter(([, fault]) => fault.acts === 'result')

function refusedBy(error: ErrorObject | null): RpcOutcome {
  return error ? { ok: false, error } : { ok: true, result: null }
}

/** The nodes behind one URL: honest answers bent by a fault plan. */
export class FaultyNode {
  readonly #chain: FakeChain
  readonly #backends: readonly Backend[]
  readonly #habits: NodeHabits
  readonly #plan: FaultPlan
  readonly #random: Random
  readonly #attempts = new Attempts()

  constructor(chain: FakeChain, backends: readonly Backend[], habits: NodeHabits, plan: FaultPlan, random: Random) {
    if (backends.length === 0) throw new RangeError('a URL needs at least one backend')
    this.#chain = chain
    this.#backends = backends
    this.#habits = habits
    this.#plan = plan
    this.#random = random
  }

  /** Chooses the node for a batch and what it sees. `key` and `attempt` name the batch. */
  open(key: string, attempt: number): Session {
    const backend = this.#random.fork(`backend ${attempt} ${key}`).int(0, this.#backends.length - 1)
    const { behind, branch, chain = this.#chain } = this.#backends[backend] ?? {}
    const abandoned = chain.view({ branch: 'abandoned' })
    const faults: FaultName[] = []
    let view = chain.view({ ...(behind === undefined ? {} : { behind }), ...(branch === undefined ? {} : { branch }) })
    for (const [name, see] of viewFaultList) {
      const random = this.#plan.hits(name, key, attempt)
      if (!random) continue
      view = see({ view, abandoned, random })
      faults.push(name)
    }
    return { backend, view, abandoned, faults }
  }

  /** What a node with this view says without any further fault. */
  honest(session: Session, call: RpcCall): RpcOutcome {
    try {
      return { ok: true, result: honestResult(session.view, call, this.#habits) }
    } catch (error) {
      if (error instanceof RpcRefusal) return { ok: false, error: error.error }
      throw error
    }
  }

  /** Answers one call. `script` stands in for chain and faults where a test wrote the answer. */
  answer(session: Session, call: RpcCall, script?: (honest: () => RpcOutcome) => RpcOutcome): Answered {
    const key = JSON.stringify([call.method, call.params])
    const attempt = this.#attempts.next(key)
    if (script) return { outcome: script(() => this.honest(session, call)), attempt, faults: [] }
    const hits = (name: CallFaultName) => this.#plan.hits(name, key, attempt)
    const refused = this.#refusal(session, call, hits)
    const { outcome, faults } = refused ?? this.#result(session, call, hits)
    return { outcome, attempt, faults: [...session.faults, ...faults] }
  }

  #refusal(session: Session, call: RpcCall, hits: (name: CallFaultName) => Random | null) {
    for (const [name, fault] of refusals) {
      const random = fault.acts === 'refusal' && fault.applies(call) ? hits(name) : null
      if (random && fault.acts === 'refusal') {
        return { outcome: refusedBy(fault.refuse({ ...session, random })), faults: [name] }
      }
    }
    return null
  }

  #result(session: Session, call: RpcCall, hits: (name: CallFaultName) => Random | null) {
    const honest = this.honest(session, call)
    const faults: CallFaultName[] = []
    if (!honest.ok) return { outcome: honest, faults }
    let result = honest.result as Json
    for (const [name, fault] of results) {
      const random = fault.acts === 'result' && fault.applies(call) ? hits(name) : null
      if (!random || fault.acts !== 'result') continue
      const context: FaultContext = { view: session.view, abandoned: session.abandoned, random }
      result = fault.change(result, context, call)
      faults.push(name)
    }
    return { outcome: { ok: true, result } as const, faults }
  }
}
