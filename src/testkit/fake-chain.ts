import type { Log } from '../chain/log.ts'
import type { Hex } from '../util/bytes.ts'
import { type BlockStore, ChainView, type LogSearch } from './chain-view.ts'
import { branchName, checkBranchName, type FakeBlock, NO_PARENT, type SealRules, sealBlock } from './fake-block.ts'
import {
  completeTransaction,
  type FakeLog,
  type FakeTransaction,
  type Minable,
  readableTransactionHash,
} from './fake-log.ts'
import { FinalityPointer, type FinalitySetting } from './finality-pointer.ts'
import { Random } from './random.ts'
import { planReorg, type Reinclude } from './reorg-plan.ts'

export interface FakeChainOptions {
  /** EIP-155 id. */
  readonly chainId: number
  /** Part of every hash and of the reorg helper's choices. Default 1. */
  readonly seed?: number | string
  /** Name of the first branch. Default `a`. */
  readonly genesisBranch?: string
  /** Seconds since the Unix epoch. Default 1,600,000,000. */
  readonly genesisTimestamp?: number
  /** Seconds between blocks. Default 12. */
  readonly blockTime?: number
  /** Default `true`: a correct bloom. */
  readonly bloom?: SealRules['bloom']
  /** Default `block`: numbered through the block. */
  readonly logIndex?: SealRules['logIndex']
  /** Default `{ depth: 32 }`. */
  readonly safe?: FinalitySetting
  /** Default `{ depth: 64 }`. */
  readonly finalized?: FinalitySetting
}

export interface MineOptions {
  /** Default: the canonical branch. */
  readonly branch?: string
  /** Seconds since the Unix epoch. Default: the parent's plus the block time. */
  readonly timestamp?: number
}

export interface ReorgOptions {
  /** Default `same`. */
  readonly reinclude?: Reinclude
  /** How many blocks longer (or, negative, shorter) the new branch is. Default 1. */
  readonly extraBlocks?: number
  /** Default: the next unused letter. */
  readonly branch?: string
  /** New content for each replacement block, put behind what is re-included. */
  readonly also?: (blockNumber: number) => readonly Minable[]
  /** What `changed-content` does to a log. Default: adds one to its value. */
  readonly change?: (log: FakeLog) => FakeLog
  /** Needed to orphan a block that is finalized: a real chain never does. */
  readonly violateFinality?: boolean
}

export interface Reorg {
  readonly branch: string
  readonly commonAncestor: FakeBlock
  /** Lowest first. */
  readonly orphaned: readonly FakeBlock[]
  /** Lowest first. */
  readonly replacement: readonly FakeBlock[]
  /** Transactions that are on no replacement block. */
  readonly dropped: readonly FakeTransaction[]
}

/** More blocks than this in one fake chain is a runaway test. */
const MAX_BLOCKS = 2_000_000
/** Abandoned tips that are remembered for nodes on the wrong branch. */
const MAX_ABANDONED = 16

/**
 * A chain in memory: blocks with readable hashes, branches, reorgs that bring transactions back elsewhere, finality
 * that can lag or be broken. Deterministic: a seed and a list of calls give the same hashes everywhere.
 *
 * ```ts
 * const chain = fakeChain({ chainId: 1 })
 * chain.mine([transfer(TOKEN, ALICE, BOB, 5)])     // block 1a
 * chain.reorg(1, { reinclude: 'shuffled' })         // 1b, 2b; 1a is orphaned
 * chain.adopt('a')                                  // a wins back (C25)
 * ```
 */
export class FakeChain implements BlockStore {
  readonly chainId: number
  readonly genesis: FakeBlock
  readonly #rules: SealRules
  readonly #random: Random
  readonly #blockTime: number
  readonly #blocks = new Map<Hex, FakeBlock>()
  readonly #inclusions = new Map<Hex, FakeBlock[]>()
  readonly #tips = new Map<string, FakeBlock>()
  readonly #safe: FinalityPointer
  readonly #finalized: FinalityPointer
  /** The canonical branch, by height. */
  readonly #line: FakeBlock[] = []
  #abandoned: FakeBlock[] = []
  #branch: string
  #transactions = 0
  #forks = 1

  constructor(options: FakeChainOptions) {
    const { chainId, seed = 1, bloom = 'true', logIndex = 'block', genesisBranch = 'a' } = options
    checkBranchName(genesisBranch)
    this.chainId = chainId
    this.#rules = { chainId, seed: String(seed), bloom, logIndex }
    this.#random = new Random(seed).fork(`chain ${chainId}`)
    this.#blockTime = options.blockTime ?? 12
    this.#safe = new FinalityPointer(options.safe === undefined ? { depth: 32 } : options.safe)
    this.#finalized = new FinalityPointer(options.finalized === undefined ? { depth: 64 } : options.finalized)
    this.#branch = genesisBranch
    const timestamp = options.genesisTimestamp ?? 1_600_000_000
    this.genesis = this.#seal(undefined, genesisBranch, [], timestamp)
    this.#line.push(this.genesis)
  }

  /** The canonical branch's name. */
  get branch(): string {
    return this.#branch
  }

  get branches(): readonly string[] {
    return [...this.#tips.keys()]
  }

  head(): FakeBlock {
    return this.#line.at(-1) as FakeBlock
  }

  /** The canonical block at a height; null above the head. */
  blockByNumber(number: number): FakeBlock | null {
    return this.#line[number] ?? null
  }

  /** A block of any branch that is still kept. */
  blockByHash(hash: Hex): FakeBlock | null {
    return this.#blocks.get(hash) ?? null
  }

  /** Canonical logs by range, or the logs of one block of any branch. */
  logs(search: LogSearch = {}): Log[] {
    return this.view().logs(search)
  }

  /** Canonical blocks from `from` to `to`, both included. */
  canonical(from = 0, to = this.head().number as number): readonly FakeBlock[] {
    return this.#line.slice(from, to + 1)
  }

  get(hash: Hex): FakeBlock | undefined {
    return this.#blocks.get(hash)
  }

  canonicalAt(number: number): FakeBlock | undefined {
    return this.#line[number]
  }

  including(transactionHash: Hex): readonly FakeBlock[] {
    return this.#inclusions.get(transactionHash) ?? []
  }

  /** A transaction that can be mined, mined again on another branch, or left out. Nothing is mined by this call. */
  transaction(content: Minable): FakeTransaction {
    return completeTransaction(content, () => {
      this.#transactions += 1
      return readableTransactionHash(`${this.chainId}/${this.#rules.seed}`, this.#transactions)
    })
  }

  /** Mines one block on top of a branch. Each entry is a transaction; a bare log is a transaction of its own. */
  mine(contents: readonly Minable[] = [], options: MineOptions = {}): FakeBlock {
    const branch = options.branch ?? this.#branch
    const parent = this.tip(branch)
    const transactions = contents.map((content) => this.transaction(content))
    const block = this.#seal(parent, branch, transactions, options.timestamp ?? parent.timestamp + this.#blockTime)
    if (branch === this.#branch) this.#extend([block])
    return block
  }

  /** Mines `count` blocks without transactions. */
  mineEmpty(count: number, options: MineOptions = {}): readonly FakeBlock[] {
    return Array.from({ length: count }, () => this.mine([], options))
  }

  #seal(
    parent: FakeBlock | undefined,
    branch: string,
    transactions: readonly FakeTransaction[],
    timestamp: number,
  ): FakeBlock {
    if (this.#blocks.size >= MAX_BLOCKS) throw new RangeError(`a fake chain holds at most ${MAX_BLOCKS} blocks`)
    const number = parent ? parent.number + 1 : 0
    const parentHash = parent?.hash ?? NO_PARENT
    const block = sealBlock({ number, parentHash, branch, timestamp, transactions }, this.#rules)
    this.#blocks.set(block.hash, block)
    this.#tips.set(branch, block)
    for (const { hash } of transactions) this.#inclusions.set(hash, [...this.including(hash), block])
    return block
  }

  #extend(blocks: readonly FakeBlock[]): void {
    for (const block of blocks) this.#line.push(block)
    this.#safe.moved(this.head().number)
    this.#finalized.moved(this.head().number)
  }

  /** The newest block of a branch. @throws {RangeError} when there is no such branch. */
  tip(branch: string): FakeBlock {
    const tip = this.#tips.get(branch)
    if (!tip) throw new RangeError(`no branch ${branch}; there are ${this.branches.join(', ')}`)
    return tip
  }

  /** Starts a branch on a canonical block, without adopting it: blocks are mined on it by `mine(…, { branch })`. */
  fork(atNumber: number, branch: string): FakeBlock {
    checkBranchName(branch)
    if (this.#tips.has(branch)) throw new RangeError(`branch ${branch} exists already`)
    const base = this.#line[atNumber]
    if (!base) throw new RangeError(`no canonical block ${atNumber}; the head is ${this.head().number}`)
    this.#tips.set(branch, base)
    return base
  }

  /**
   * Makes a branch the canonical one, whatever its length.
   * @throws {RangeError} when that orphans a finalized block, unless `violateFinality` is set.
   */
  adopt(branch: string, options: { readonly violateFinality?: boolean } = {}): void {
    const gained = this.#above(this.tip(branch))
    const ancestor = this.tip(branch).number - gained.length
    this.#guardFinality(ancestor, options.violateFinality ?? false)
    if (ancestor < this.head().number) this.#abandoned = [this.head(), ...this.#abandoned].slice(0, MAX_ABANDONED)
    this.#line.length = ancestor + 1
    this.#branch = branch
    this.#extend(gained)
  }

  /** Blocks from just above the canonical branch up to `tip`, lowest first. */
  #above(tip: FakeBlock): FakeBlock[] {
    const blocks: FakeBlock[] = []
    for (let block = tip; this.#line[block.number] !== block; ) {
      blocks.push(block)
      const parent = this.#blocks.get(block.parentHash)
      if (!parent) throw new RangeError(`a block under branch ${tip.branch} was forgotten`)
      block = parent
    }
    return blocks.reverse()
  }

  #guardFinality(ancestor: number, allowed: boolean): void {
    const final = this.finalizedNumber
    if (allowed || final === null || ancestor >= Math.min(final, this.head().number)) return
    throw new RangeError(`block ${ancestor + 1} is finalized (up to ${final}); set violateFinality to orphan it`)
  }

  /**
   * Replaces the top `depth` blocks by a new branch, `depth + extraBlocks` blocks long, and adopts it. Transactions that
   * come back keep their hash; block, transaction index and log index may differ.
   * @throws {RangeError} when `depth` reaches genesis, or a finalized block without `violateFinality`.
   */
  reorg(depth: number, options: ReorgOptions = {}): Reorg {
    const base = this.head().number - depth
    const count = depth + (options.extraBlocks ?? 1)
    if (!(depth >= 1) || base < 0)
      throw new RangeError(`a reorg here has a depth of 1 to ${this.head().number}, got ${depth}`)
    if (count < 0) throw new RangeError('the new branch cannot have fewer than 0 blocks')
    this.#guardFinality(base, options.violateFinality ?? false)
    const orphaned = this.#line.slice(base + 1)
    const branch = options.branch ?? this.#unusedBranch()
    const commonAncestor = this.fork(base, branch)
    const replacement = this.#replace(orphaned, count, branch, options)
    this.adopt(branch, { violateFinality: true })
    const kept = new Set(replacement.flatMap((block) => block.transactions.map(({ hash }) => hash)))
    const dropped = orphaned.flatMap((block) => block.transactions).filter(({ hash }) => !kept.has(hash))
    return { branch, commonAncestor, orphaned, replacement, dropped }
  }

  #replace(orphaned: readonly FakeBlock[], count: number, branch: string, options: ReorgOptions): FakeBlock[] {
    const transactions = orphaned.map((block) => block.transactions)
    const random = this.#random.fork(`reorg ${branch} ${this.tip(branch).hash}`)
    const plan = planReorg(transactions, count, options.reinclude ?? 'same', random, options.change)
    return plan.map((again) => {
      const fresh = options.also?.(this.tip(branch).number + 1) ?? []
      return this.mine([...again, ...fresh], { branch })
    })
  }

  #unusedBranch(): string {
    let name = branchName(this.#forks)
    while (this.#tips.has(name)) name = branchName(++this.#forks)
    return name
  }

  /** Drops a branch's orphaned blocks, as nodes do that keep no side blocks; asking for their hashes then gives null. */
  forget(branch: string): void {
    if (branch === this.#branch) throw new RangeError(`branch ${branch} is the canonical one`)
    const gone = new Set(this.#above(this.tip(branch)).filter((block) => block.branch === branch))
    const user = [...this.#tips].find(
      ([name, tip]) => name !== branch && this.#above(tip).some((block) => gone.has(block)),
    )
    if (user) throw new RangeError(`branch ${user[0]} stands on ${branch}; forget ${user[0]} first`)
    for (const block of gone) {
      this.#blocks.delete(block.hash)
      for (const { hash } of block.transactions) {
        this.#inclusions.set(
          hash,
          this.including(hash).filter((other) => other !== block),
        )
      }
    }
    this.#abandoned = this.#abandoned.filter((block) => !gone.has(block))
    this.#tips.delete(branch)
  }

  setSafe(setting: FinalitySetting): void {
    this.#safe.set(setting)
    this.#safe.moved(this.head().number)
  }

  /** `{ depth }` follows the head, a number stays (to lag, or to step back), null: the tag does not resolve. */
  setFinalized(setting: FinalitySetting): void {
    this.#finalized.set(setting)
    this.#finalized.moved(this.head().number)
  }

  get safeNumber(): number | null {
    return this.#safe.number
  }

  get finalizedNumber(): number | null {
    return this.#finalized.number
  }

  /**
   * The chain as some node sees it.
   * @param options.behind how many blocks short of the canonical head it stops
   * @param options.branch the branch it follows; `abandoned` is the one that was canonical last, if any
   */
  view(options: { readonly behind?: number; readonly branch?: string } = {}): ChainView {
    if (options.branch === 'abandoned') return new ChainView(this, this.#lastAbandoned() ?? this.head())
    if (options.branch !== undefined) return new ChainView(this, this.tip(options.branch))
    const number = Math.max(0, this.head().number - (options.behind ?? 0))
    return new ChainView(this, this.#line[number] as FakeBlock)
  }

  #lastAbandoned(): FakeBlock | undefined {
    return this.#abandoned.find((block) => this.#line[block.number] !== block)
  }
}

/** A chain in memory with one block, its genesis: see {@link FakeChain}. */
export function fakeChain(options: FakeChainOptions): FakeChain {
  return new FakeChain(options)
}
