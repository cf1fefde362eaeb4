import type { Hex } from '../../util/bytes.ts'
import type { FakeBlock } from '../fake-block.ts'
import { FakeChain, type Reorg } from '../fake-chain.ts'
import { type FakeLog, nftTransfer, type TransactionInput, testAddress, transfer } from '../fake-log.ts'
import type { SwarmOptions } from './options.ts'
import type { Action, BlockPlan, LogPlan, PlannedAction, TransactionPlan } from './plan.ts'

export const CHAIN_ID = 1
export const TOKEN = testAddress('TOKEN')
const STRANGER = testAddress('STRANGER')

function account(n: number): Hex {
  return testAddress(`ACCOUNT${n}`)
}

function logOf(plan: LogPlan): FakeLog {
  const { kind, from, to, value } = plan
  if (kind === 'look-alike') return nftTransfer(TOKEN, account(from), account(to), value)
  return transfer(kind === 'pay' ? TOKEN : STRANGER, account(from), account(to), value)
}

/** `0x7478`, then the action, block and place that a transaction was planned in: shrinking a plan renames nothing. */
function transactionHash(...place: readonly number[]): Hex {
  const digits = place.map((n) => n.toString(16).padStart(4, '0')).join('')
  return `0x7478${digits}${'0'.repeat(60 - digits.length)}`
}

type ReorgAction = Extract<Action, { kind: 'reorg' | 'reorgDuring' }>
type FinalityAction = Extract<Action, { kind: 'finality' }>

/**
 * The chain of a run: a fake chain that keeps its promise (no block at or below the highest finality ever shown is
 * replaced) until the plan breaks it on purpose.
 */
export class SimChain {
  readonly chain: FakeChain
  reorgs = 0
  /** The chain broke its promise: blocks above this one were replaced although they were final. */
  violated: number | null = null
  /** The highest block that ever counted as final: by its tag or depth, and below the minimum depth. */
  floor = 0
  readonly #options: SwarmOptions
  #highest = 0
  #deepest = 0
  readonly #abandoned: string[] = []

  constructor(seed: number | string, options: SwarmOptions) {
    this.#options = options
    const { bloom, logIndex, finalDepth } = options
    const safe = { depth: Math.ceil(finalDepth / 2) }
    this.chain = new FakeChain({ chainId: CHAIN_ID, seed, bloom, logIndex, safe, finalized: this.#follow })
  }

  get #follow() {
    return { depth: this.#options.finalDepth }
  }

  /** The highest head that was ever shown. */
  get highest(): number {
    return this.#highest
  }

  /** Whether some block with `confirmations` (1: the head itself) was replaced. */
  replacedConfirmed(confirmations: number): boolean {
    return this.#deepest >= confirmations
  }

  mine(id: number, blocks: readonly BlockPlan[]): string {
    for (const [i, block] of blocks.entries()) this.chain.mine(this.#contents(id, i, block))
    this.#moved()
    return `head ${this.#head()}`
  }

  #contents(id: number, block: number, plan: BlockPlan): TransactionInput[] {
    return plan.map((logs: TransactionPlan, i) => ({ logs: logs.map(logOf), hash: transactionHash(id, block, i) }))
  }

  #head(): string {
    const head = this.chain.head()
    return `${head.number}${head.branch}`
  }

  #moved(): void {
    this.#highest = Math.max(this.#highest, this.chain.head().number)
    const { finality, finalDepth, minDepth } = this.#options
    const found = finality === 'depth' ? this.#highest - finalDepth : (this.chain.finalizedNumber ?? 0)
    this.floor = Math.max(this.floor, Math.min(found, this.#highest - minDepth))
  }

  /** As many blocks as planned, and finality allows. */
  reorg(action: ReorgAction & PlannedAction): string {
    const depth = Math.min(action.depth, this.chain.head().number - this.floor)
    if (depth < 1) return 'nothing may be replaced'
    return this.#told(this.#replace(action, depth, action))
  }

  #replace(
    action: PlannedAction & { readonly fresh: BlockPlan },
    depth: number,
    how: Pick<ReorgAction, 'reinclude' | 'extraBlocks'>,
  ): Reorg {
    const base = this.chain.head().number - depth
    const old = this.chain.branch
    const also = (number: number) => (number === base + 1 ? this.#contents(action.id, 0, action.fresh) : [])
    // What is final here is decided by `floor`: a minimum depth allows what the tag alone would not.
    const reorg = this.chain.reorg(depth, {
      reinclude: how.reinclude,
      extraBlocks: Math.max(how.extraBlocks, 1 - depth),
      also,
      violateFinality: true,
    })
    this.#left(old, base)
    return reorg
  }

  #told({ branch, commonAncestor, orphaned, dropped }: Reorg): string {
    return `${orphaned.length} blocks above ${commonAncestor.number} replaced by branch ${branch}, ${dropped.length} transactions dropped, head ${this.#head()}`
  }

  #left(branch: string, base: number): void {
    this.reorgs += 1
    this.#deepest = Math.max(this.#deepest, this.#highest - base)
    this.#abandoned.push(branch)
    this.#moved()
  }

  /** A → B → A: the branch that was left last, extended until it is longer. */
  winBack(action: Extract<Action, { kind: 'winBack' }> & PlannedAction): string {
    const branch = this.#abandoned.at(-1)
    if (branch === undefined || branch === this.chain.branch) return 'there is no branch to win back'
    const base = this.#ancestor(this.chain.tip(branch)).number
    if (base < this.floor) return 'the branch left the chain below finality'
    const old = this.chain.branch
    const wanted = this.chain.head().number + action.extraBlocks
    this.chain.mine(this.#contents(action.id, 0, action.fresh), { branch })
    while (this.chain.tip(branch).number < wanted) this.chain.mine([], { branch })
    this.chain.adopt(branch, { violateFinality: true })
    this.#abandoned.pop()
    this.#left(old, base)
    return `branch ${branch} is back above ${base}, head ${this.#head()}`
  }

  /** Another block of the same height, on another branch; null: there is none. */
  siblingOf(hash: Hex): FakeBlock | null {
    const block = this.chain.blockByHash(hash)
    if (!block) return null
    const others = this.chain.branches.map((branch) => this.chain.view({ branch }).blockByNumber(block.number))
    return others.find((other) => other !== null && other.hash !== hash) ?? null
  }

  /** The newest block of `block`'s line that is canonical. */
  #ancestor(block: FakeBlock): FakeBlock {
    let at = block
    while (this.chain.blockByNumber(at.number) !== at) at = this.chain.blockByHash(at.parentHash) as FakeBlock
    return at
  }

  finality({ to, by }: FinalityAction): string {
    const now = this.chain.finalizedNumber ?? this.floor
    if (to === 'follow') this.chain.setFinalized(this.#follow)
    else this.chain.setFinalized(to === 'unresolved' ? null : Math.max(0, to === 'lag' ? now : now - by))
    this.#moved()
    return `finalized is ${this.chain.finalizedNumber ?? 'not resolved'}`
  }

  /** Finality catches up: the tag follows the head from here on. */
  heal(): void {
    this.chain.setFinalized(this.#follow)
    this.#moved()
  }

  /** Replaces final blocks, and buries the replacement. */
  violate(action: Extract<Action, { kind: 'violate' }> & PlannedAction): string {
    const base = Math.max(0, this.floor - action.below)
    const depth = this.chain.head().number - base
    if (depth < 1 || this.floor === 0) return 'nothing is final yet'
    this.violated = base
    const { finalDepth, minDepth } = this.#options
    const extraBlocks = Math.max(finalDepth, minDepth) + 2
    return this.#told(this.#replace(action, depth, { reinclude: 'some-dropped', extraBlocks }))
  }

  /** The blocks from 0 up to a block of any branch, lowest first. Null when the hash is on no branch. */
  lineTo(hash: string): FakeBlock[] | null {
    const line: FakeBlock[] = []
    for (let at = this.chain.blockByHash(hash as Hex); at; at = this.chain.blockByHash(at.parentHash)) {
      // Below the first canonical block both lines are one.
      if (this.chain.blockByNumber(at.number) === at) return [...this.chain.canonical(0, at.number), ...line.reverse()]
      line.push(at)
    }
    return null
  }
}
