import type { RpcCall, RpcOutcome } from '../../src/chain/rpc.ts'
import { type FakeChain, FakeRpc, type FakeRpcOptions } from '../../src/testkit/index.ts'

/** Whether a call of `eth_getLogs` is by range; by block hash where not. */
export function isRange(params: readonly unknown[]): boolean {
  return 'fromBlock' in (params[0] as object)
}

export function isByHash(params: readonly unknown[]): boolean {
  return 'blockHash' in (params[0] as object)
}

/** A URL behind which another node may answer: a load balancer, a restarted node. Counts what is in flight. */
export class BalancedRpc extends FakeRpc {
  /** The node that answers a request instead of this one; undefined: this one. */
  route: ((calls: readonly RpcCall[]) => FakeRpc | undefined) | undefined
  /** The most requests for logs that were open at one moment. */
  mostInFlight = 0
  #inFlight = 0

  constructor(chain: FakeChain, options: FakeRpcOptions = {}) {
    super(chain, options)
  }

  override async send(calls: readonly RpcCall[], signal?: AbortSignal): Promise<readonly RpcOutcome[]> {
    const logs = calls.some((call) => call.method === 'eth_getLogs')
    if (logs) this.mostInFlight = Math.max(this.mostInFlight, ++this.#inFlight)
    try {
      const other = this.route?.(calls)
      return await (other ? other.send(calls, signal) : super.send(calls, signal))
    } finally {
      if (logs) this.#inFlight--
    }
  }
}

export function asksLogs(calls: readonly RpcCall[]): boolean {
  return calls.some((call) => call.method === 'eth_getLogs')
}

const moveHex = (value: unknown, by: number) => `0x${(Number.parseInt(String(value).slice(2), 16) + by).toString(16)}`
const isHeight = (value: unknown) => typeof value === 'string' && /^0x[0-9a-f]{1,13}$/.test(value) && value !== '0x0'

/** The chain with every height but block 0 moved up: heights that no test could mine. Hashes stay as they are. */
export class LiftedRpc extends FakeRpc {
  readonly #by: number

  constructor(chain: FakeChain, by: number) {
    super(chain)
    this.#by = by
  }

  override async send(calls: readonly RpcCall[], signal?: AbortSignal): Promise<readonly RpcOutcome[]> {
    const outcomes = await super.send(
      calls.map((call) => this.#lowered(call)),
      signal,
    )
    return outcomes.map((one) => (one.ok ? { ok: true, result: this.#lifted(one.result) } : one))
  }

  #lowered({ method, params }: RpcCall): RpcCall {
    const fields = ['fromBlock', 'toBlock']
    const lower = (value: unknown): unknown => {
      if (isHeight(value)) return moveHex(value, -this.#by)
      if (typeof value !== 'object' || value === null) return value
      return Object.fromEntries(
        Object.entries(value).map(([key, one]) => [key, fields.includes(key) ? lower(one) : one]),
      )
    }
    return { method, params: params.map(lower) }
  }

  #lifted(result: unknown): unknown {
    if (Array.isArray(result)) return result.map((one) => this.#lifted(one))
    if (typeof result !== 'object' || result === null) return result
    const lift = ([key, value]: [string, unknown]) =>
      [key, ['number', 'blockNumber'].includes(key) && isHeight(value) ? moveHex(value, this.#by) : value] as const
    return Object.fromEntries(Object.entries(result).map(lift))
  }
}
