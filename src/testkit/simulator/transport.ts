import type { RpcCall, RpcOutcome, RpcTransport } from '../../chain/rpc.ts'
import type { FakeRpc } from '../fake-rpc.ts'
import { falsifyLogs } from '../log-lies.ts'
import type { Random } from '../random.ts'
import type { JsonObject } from '../rpc-format.ts'
import type { TestWorld } from '../test-world.ts'
import type { Slips } from './slips.ts'

/** Holds a process up at one of its requests, so that another one can run meanwhile. */
export class Gate {
  #left: number | null = null
  #arrived: () => void = () => {}
  #open: Promise<void> = Promise.resolve()
  #release: () => void = () => {}

  /** @returns resolves when the process waits at its `atRequest`-th request from now on */
  close(atRequest: number): Promise<void> {
    this.#left = atRequest
    this.#open = new Promise((resolve) => {
      this.#release = resolve
    })
    return new Promise((resolve) => {
      this.#arrived = resolve
    })
  }

  open(): void {
    this.#left = null
    this.#release()
  }

  async pass(): Promise<void> {
    if (this.#left === null) return
    this.#left -= 1
    if (this.#left > 0) return
    this.#left = null
    this.#arrived()
    await this.#open
  }
}

type Logs = readonly JsonObject[]

/**
 * Lies that only the second reading finds: the first time that the logs of an unfinal block are asked for by its hash,
 * some are left out, or one is made up. Told by one provider only: another one, and the next answer, are honest.
 */
export class Liar {
  told = 0
  readonly #random: Random
  #chance: number
  readonly #isFinal: (blockNumber: number) => boolean
  readonly #asked = new Set<string>()

  constructor(random: Random, chance: number, isFinal: (blockNumber: number) => boolean) {
    this.#random = random
    this.#chance = chance
    this.#isFinal = isFinal
  }

  bend(call: RpcCall, outcome: RpcOutcome): RpcOutcome {
    const { blockHash } = (call.params[0] ?? {}) as { blockHash?: string }
    if (this.#chance === 0 || call.method !== 'eth_getLogs' || blockHash === undefined || this.#asked.has(blockHash))
      return outcome
    this.#asked.add(blockHash)
    const random = this.#random.fork(blockHash)
    if (!outcome.ok || !Array.isArray(outcome.result) || !random.chance(this.#chance)) return outcome
    return this.#lie(outcome.result as Logs, random)
  }

  #lie(logs: Logs, random: Random): RpcOutcome {
    const number = Number.parseInt(String(logs[0]?.blockNumber ?? '0x0').slice(2), 16)
    if (logs.length === 0 || this.#isFinal(number)) return { ok: true, result: logs }
    this.told += 1
    const lie = random.chance(0.6) ? falsifyLogs.truncated : falsifyLogs.phantom
    // Of the context, these two lies look at the random stream alone.
    return { ok: true, result: lie(logs, { random } as Parameters<typeof lie>[1]) }
  }

  stop(): void {
    this.#chance = 0
  }
}

export interface TransportOptions {
  readonly rpc: FakeRpc
  readonly clock: TestWorld
  readonly gate: Gate
  readonly liar: Liar | null
  readonly latencyMs: number
  /** Lies of another kind than the liar's. */
  readonly slips?: Slips | null
  /** The logs of a block, asked for by its hash, have come. */
  readonly gotBlock?: (blockHash: string) => void
  /** A dead process asks nobody any more. */
  readonly isDead: () => boolean
}

/** One provider as one process reaches it. */
export class ProcessTransport implements RpcTransport {
  readonly label: string
  readonly #options: TransportOptions

  constructor(options: TransportOptions) {
    this.label = options.rpc.label
    this.#options = options
  }

  async send(calls: readonly RpcCall[], signal?: AbortSignal): Promise<readonly RpcOutcome[]> {
    const { rpc, clock, gate, latencyMs, isDead } = this.#options
    clock.tick(latencyMs)
    await gate.pass()
    if (isDead()) throw new Error('the process is dead')
    const outcomes = await rpc.send(calls, signal)
    return outcomes.map((outcome, i) => this.#bent(calls[i] as RpcCall, outcome))
  }

  #bent(call: RpcCall, honest: RpcOutcome): RpcOutcome {
    const { liar, slips, gotBlock } = this.#options
    const slipped = slips?.bend(call, honest) ?? honest
    const outcome = liar?.bend(call, slipped) ?? slipped
    const { blockHash } = (call.params[0] ?? {}) as { blockHash?: string }
    if (blockHash !== undefined && outcome.ok && Array.isArray(outcome.result)) gotBlock?.(blockHash)
    return outcome
  }

  /** Tidemark takes `send`; the configuration asks for this one too. */
  request(call: { readonly method: string; readonly params?: unknown }): Promise<unknown> {
    return this.#options.rpc.request(call)
  }
}
