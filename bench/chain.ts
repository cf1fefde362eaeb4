import type { RpcCall, RpcOutcome, RpcTransport } from '../src/chain/rpc.ts'
import type { Eip1193Provider } from '../src/config.ts'

export interface ChainShape {
  readonly logsPerBlock: number
  /** The head at first. */
  readonly head: number
  /** Blocks by which each look at the head finds it higher. */
  readonly step: number
  /** The head stops here. */
  readonly lastHead: number
  /** The finalized block is the last multiple of `every` that lies at least `behind` blocks below the head. */
  readonly finality: { readonly behind: number; readonly every: number }
}

export const CHAIN_ID = 31337
export const TOKEN = `0x${'70'.repeat(20)}`
/** The signature of `Transfer(address,address,uint256)`. */
const TRANSFER = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef'
const ACCOUNTS = 10_007

const hex = (n: number): string => `0x${n.toString(16)}`
const word = (start: string, n: number): string => `0x${start}${n.toString(16).padStart(64 - start.length, '0')}`
const hashOf = (number: number): string => (number < 0 ? word('', 0) : word('b10c', number))

/**
 * A chain that is a function of the height: nothing is stored, so a million events cost no memory. It is a node good
 * enough for evidence E0: hashes link, a block is known by number and by hash, blooms are left out. Without reorgs.
 */
export class GeneratedChain implements RpcTransport, Eip1193Provider {
  readonly label = 'generated'
  /** Every call in turn, when they are kept: for `replay`. */
  readonly #asked: RpcCall[] | null
  readonly #shape: ChainShape
  #head: number

  constructor(shape: ChainShape, options: { readonly keepCalls?: boolean } = {}) {
    this.#shape = shape
    this.#head = shape.head
    this.#asked = options.keepCalls ? [] : null
  }

  async send(calls: readonly RpcCall[]): Promise<readonly RpcOutcome[]> {
    this.#asked?.push(...calls)
    return calls.map(({ method, params }): RpcOutcome => ({ ok: true, result: this.#answer(method, params) }))
  }

  /**
   * Makes every answer again, on a chain of its own: what that takes was the node's part of a run and not the engine's.
   * (Clocks read around each answer would cost more than the answers.)
   */
  replay(): void {
    const again = new GeneratedChain(this.#shape)
    for (const { method, params } of this.#asked ?? []) again.#answer(method, params)
  }

  async request(): Promise<never> {
    throw new Error('the engine asks through send')
  }

  #answer(method: string, params: readonly unknown[]): unknown {
    const [first] = params
    switch (method) {
      case 'eth_chainId':
        return hex(CHAIN_ID)
      case 'eth_getBlockByNumber':
        return this.#block(this.#numberOf(first as string))
      case 'eth_getBlockByHash':
        return this.#block(Number.parseInt((first as string).slice(6), 16))
      case 'eth_getLogs':
        return this.#logs(first as Record<string, string>)
      default:
        throw new Error(`the generated chain does not answer ${method}`)
    }
  }

  #numberOf(at: string): number {
    if (at === 'latest') {
      const head = this.#head
      this.#head = Math.min(head + this.#shape.step, this.#shape.lastHead)
      return head
    }
    return at === 'finalized' ? this.#finalized() : Number(at)
  }

  /** Asked in the same request as the head, right after it. */
  #finalized(): number {
    const { behind, every } = this.#shape.finality
    return Math.max(0, Math.floor((this.#head - this.#shape.step - behind) / every) * every)
  }

  #block(number: number): unknown {
    if (number > this.#head) return null
    return { number: hex(number), hash: hashOf(number), parentHash: hashOf(number - 1), timestamp: hex(number * 12) }
  }

  #logs({ blockHash, fromBlock = '', toBlock = '' }: Record<string, string>): unknown[] {
    const from = blockHash ? Number.parseInt(blockHash.slice(6), 16) : Number(fromBlock)
    const to = Math.min(blockHash ? from : Number(toBlock), this.#head)
    const logs: unknown[] = []
    for (let number = Math.max(from, 1); number <= to; number++) {
      for (let i = 0; i < this.#shape.logsPerBlock; i++) logs.push(logOf(number, i, this.#shape.logsPerBlock))
    }
    return logs
  }
}

/** The i-th Transfer of a block: each in a transaction of its own, accounts and amounts all over the place. */
export function logOf(number: number, i: number, logsPerBlock: number): unknown {
  const nth = number * logsPerBlock + i
  return {
    address: TOKEN,
    topics: [TRANSFER, word('', (nth * 31) % ACCOUNTS), word('', (nth * 17 + 5) % ACCOUNTS)],
    data: word('', (nth * 1_000_003) % 1_000_000_007),
    blockNumber: hex(number),
    blockHash: hashOf(number),
    transactionHash: word('7a', nth),
    transactionIndex: hex(i),
    logIndex: hex(i),
    removed: false,
  }
}
