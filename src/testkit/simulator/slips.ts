import type { RpcCall, RpcOutcome } from '../../chain/rpc.ts'
import type { Hex } from '../../util/bytes.ts'
import type { LogSearch } from '../chain-view.ts'
import type { Random } from '../random.ts'
import { type Json, type JsonObject, logToJson } from '../rpc-format.ts'
import type { SimChain } from './sim-chain.ts'

type Logs = readonly JsonObject[]
type Filter = Pick<LogSearch, 'address' | 'topics'> & { readonly blockHash?: Hex }

/** Shares of blocks about which the first answer is wrong. */
export interface SlipOptions {
  readonly random: Random
  readonly chain: SimChain
  /** The first reading by hash holds some logs of the sibling block, too, not marked as removed. */
  readonly mixes: number
  /** The first answer is no list. */
  readonly nulls: number
  /** The first range that covers the block holds none of its logs: the node has not indexed it yet. */
  readonly gaps: number
}

/** What came in place of a list of logs from real nodes (C05). */
const NO_LISTS: readonly Json[] = [null, null, {}, 'null', 0]

/** Slips of a node that the evidence of the same reading must find. Each is made once: the next answer is honest. */
export class Slips {
  readonly made = { mixes: 0, nulls: 0, gaps: 0 }
  readonly #options: SlipOptions
  readonly #asked = new Set<string>()
  #stopped = false

  constructor(options: SlipOptions) {
    this.#options = options
  }

  bend(call: RpcCall, outcome: RpcOutcome): RpcOutcome {
    if (this.#stopped || call.method !== 'eth_getLogs' || !outcome.ok || !Array.isArray(outcome.result)) return outcome
    const filter = (call.params[0] ?? {}) as Filter
    const logs = outcome.result as Logs
    const { blockHash } = filter
    const key = `list ${JSON.stringify(filter)}`
    if (this.#slips(key, this.#options.nulls)) return { ok: true, result: this.#noList(key) }
    return { ok: true, result: blockHash === undefined ? this.#indexed(logs) : this.#mixed(filter, blockHash, logs) }
  }

  #slips(key: string, chance: number): boolean {
    if (this.#asked.has(key)) return false
    this.#asked.add(key)
    return this.#options.random.fork(key).chance(chance)
  }

  #noList(key: string): Json {
    this.made.nulls += 1
    return this.#options.random.fork(key).fork('answer').pick(NO_LISTS)
  }

  #mixed({ address, topics }: Filter, blockHash: Hex, logs: Logs): Logs {
    const { chain, mixes } = this.#options
    const sibling = chain.siblingOf(blockHash)
    if (sibling === null || !this.#slips(blockHash, mixes)) return logs
    const search = { blockHash: sibling.hash, ...(address ? { address } : {}), ...(topics ? { topics } : {}) }
    const own = this.#options.random.fork(blockHash).fork('logs')
    const others = chain.chain.logs(search).filter(() => own.chance(0.6))
    if (others.length > 0) this.made.mixes += 1
    return [...logs, ...others.map((log) => logToJson(log))]
  }

  #indexed(logs: Logs): Logs {
    const hidden = new Set<unknown>()
    for (const { blockHash } of logs) if (this.#slips(`range ${blockHash}`, this.#options.gaps)) hidden.add(blockHash)
    this.made.gaps += hidden.size
    return logs.filter(({ blockHash }) => !hidden.has(blockHash))
  }

  stop(): void {
    this.#stopped = true
  }
}
