import type { Log } from '../chain/log.ts'
import type { Hex } from '../util/bytes.ts'
import type { FakeBlock } from './fake-block.ts'
import type { FakeTransaction } from './fake-log.ts'

/** What to look for, in the manner of `eth_getLogs`: by range or by block hash. */
export interface LogSearch {
  /** First block, inclusive. Default 0. */
  readonly fromBlock?: number
  /** Last block, inclusive. Default: the head. Blocks above the head are passed over in silence (C16). */
  readonly toBlock?: number
  /** A single block, on whatever branch; excludes the range. */
  readonly blockHash?: Hex
  readonly address?: Hex | readonly Hex[]
  /** By position: null matches anything, a list matches any of its values. A log with fewer topics does not match. */
  readonly topics?: readonly (Hex | readonly Hex[] | null)[]
}

/** A transaction at its place. */
export interface Inclusion {
  readonly block: FakeBlock
  readonly transactionIndex: number
  readonly transaction: FakeTransaction
}

/** The blocks that views share. Implemented by the fake chain. */
export interface BlockStore {
  readonly chainId: number
  get(hash: Hex): FakeBlock | undefined
  /** The canonical block at a height. */
  canonicalAt(number: number): FakeBlock | undefined
  /** Blocks of any branch that hold a transaction. */
  including(transactionHash: Hex): readonly FakeBlock[]
  readonly safeNumber: number | null
  readonly finalizedNumber: number | null
}

function asList(value: Hex | readonly Hex[]): readonly Hex[] {
  return typeof value === 'string' ? [value] : value
}

/** Whether a log is wanted. Hex is compared without regard to case. */
export function matchesSearch(search: LogSearch, log: Pick<Log, 'address' | 'topics'>): boolean {
  const among = (wanted: Hex | readonly Hex[], value: Hex) => asList(wanted).some((one) => one.toLowerCase() === value)
  if (search.address !== undefined && asList(search.address).length > 0 && !among(search.address, log.address))
    return false
  return (search.topics ?? []).every((wanted, i) => {
    const topic = log.topics[i]
    if (topic === undefined) return false
    return wanted === null || (typeof wanted !== 'string' && wanted.length === 0) || among(wanted, topic)
  })
}

/**
 * The chain as one node sees it: a tip and everything below it. The canonical view is what an honest, current node
 * knows; others lag behind it or sit on an abandoned branch.
 */
export class ChainView {
  readonly head: FakeBlock
  readonly #store: BlockStore
  /** Blocks of this view that are not canonical, by number. */
  readonly #aside = new Map<number, FakeBlock>()

  constructor(store: BlockStore, head: FakeBlock) {
    this.#store = store
    this.head = head
    for (let block = head; store.canonicalAt(block.number) !== block; ) {
      this.#aside.set(block.number, block)
      const parent = store.get(block.parentHash)
      if (!parent) break
      block = parent
    }
  }

  get chainId(): number {
    return this.#store.chainId
  }

  /** The same branch with its head at `number`, but never below block 0 or above this head. */
  below(number: number): ChainView {
    return new ChainView(this.#store, this.blockByNumber(Math.max(0, number)) ?? this.head)
  }

  /** The block at a height on this view's branch; null above its head. */
  blockByNumber(number: number): FakeBlock | null {
    if (number > this.head.number) return null
    return this.#aside.get(number) ?? this.#store.canonicalAt(number) ?? null
  }

  /** A block of any branch that is still kept and not above this view's head. */
  blockByHash(hash: Hex): FakeBlock | null {
    const block = this.#store.get(hash)
    return block && block.number <= this.head.number ? block : null
  }

  /** Whether a block is on this view's branch. */
  holds(block: FakeBlock): boolean {
    return this.blockByNumber(block.number) === block
  }

  get safe(): FakeBlock | null {
    return this.#tag(this.#store.safeNumber)
  }

  get finalized(): FakeBlock | null {
    return this.#tag(this.#store.finalizedNumber)
  }

  /**
   * A node that lags knows an older tag: never one above its own head. One that sits on an abandoned branch knows one below
   * the fork, since no node sees a block become final that the chain then leaves.
   */
  #tag(number: number | null): FakeBlock | null {
    if (number === null) return null
    let height = Math.min(number, this.head.number)
    while (this.#aside.has(height)) height -= 1
    return this.blockByNumber(height)
  }

  /** Matching logs in the order of the chain. An unknown `blockHash` gives an empty list. */
  logs(search: LogSearch = {}): Log[] {
    return this.#searched(search).flatMap((block) => block.logs.filter((log) => matchesSearch(search, log)))
  }

  #searched(search: LogSearch): FakeBlock[] {
    if (search.blockHash !== undefined) {
      const block = this.blockByHash(search.blockHash)
      return block ? [block] : []
    }
    const blocks: FakeBlock[] = []
    const last = Math.min(search.toBlock ?? this.head.number, this.head.number)
    for (let n = search.fromBlock ?? 0; n <= last; n++) {
      const block = this.blockByNumber(n)
      if (block) blocks.push(block)
    }
    return blocks
  }

  /** Where a transaction is on this view's branch; null when it is not. */
  transaction(hash: Hex): Inclusion | null {
    const block = this.#store.including(hash).find((candidate) => this.holds(candidate))
    if (!block) return null
    const transactionIndex = block.transactions.findIndex((one) => one.hash === hash)
    const transaction = block.transactions[transactionIndex]
    return transaction ? { block, transactionIndex, transaction } : null
  }
}
