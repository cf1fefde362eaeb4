import { type Address, type BlockNumber, type BlockRef, blockNumber, type Hash } from '../chain/block.ts'
import type { EventFilter } from '../chain/filter.ts'
import { type FinalityOption, type FinalityRule, finalBlock, finalityRule, targetBlock } from '../chain/finality.ts'
import { Providers } from '../chain/providers.ts'
import { type RpcTransport, readBalance, readCall, readCode, readStorage } from '../chain/rpc.ts'
import { isProviderFault } from '../chain/rpc-errors.ts'
import { TidemarkError } from '../errors.ts'
import type { Hex } from '../util/bytes.ts'
import type { Maybe } from '../util/op.ts'
import type { World } from '../util/world.ts'
import { backfill } from './backfill.ts'
import { rollback, standing } from './branch.ts'
import { EmptyBlocks } from './empty.ts'
import { follow } from './follow.ts'
import { GenesisCheck } from './genesis.ts'
import { checkFinalized } from './line.ts'
import { RangeReader } from './range-reader.ts'
import { ChainReader, type View } from './reader.ts'
import type { Position, Source, SourceStep, WatchPlan } from './source.ts'
import { type Identify, sweep } from './sweep.ts'
import { type IdleStep, nextBlock, refOf, settledLine, type Task } from './task.ts'

export interface EvmSourceOptions {
  /** EIP-155 id: each endpoint is asked for it before its first answer is used. */
  readonly chainId: number
  /** In order of preference: `httpTransport`, `eip1193Transport`, or the test kit's. */
  readonly transports: readonly RpcTransport[]
  readonly finality: FinalityOption
  /** Blocks below the head that never count as final, whatever the tag says (C30). */
  readonly minDepth: number
  /** Milliseconds between two looks at the head. */
  readonly pollMs: number
  /** Most blocks in one `eth_getLogs`. */
  readonly maxRange: number
  /** Blocks a watcher may be ahead of its settled line. */
  readonly undoLimitBlocks: number
  readonly world: World
  /** The filters of all watchers of this chain: a block's logs are fetched once for all of them. */
  readonly filters: readonly EventFilter[]
  /** `identify` of `dedup/identity.ts`. */
  readonly identify: Identify
  /** The hash of block 0 that the store keeps for this chain, or null. */
  readonly knownGenesis?: () => Maybe<Hash | null>
  /** An endpoint serves another chain and is not used; the others go on. */
  readonly onSetAside?: (label: string, error: TidemarkError) => void
}

/** Reads at one block (EIP-1898): the same answers on every try. */
export interface PinnedReads {
  readonly blockHash: Hash
  call(request: { readonly to: Hex; readonly data: Hex }): Promise<Hex>
  /** In wei. */
  getBalance(address: Hex): Promise<bigint>
  getCode(address: Hex): Promise<Hex>
  getStorageAt(address: Hex, slot: Hex): Promise<Hex>
}

export interface EvmSource extends Source {
  /** Block 0's hash, for the store to keep; null where no node has it. Also checks chain id and what is kept already. */
  genesis(signal?: AbortSignal): Promise<Hash | null>
  /** Head, and the block that counts as final now: for the status view and for `startBlock: 'now'`. */
  look(): Promise<{ readonly head: BlockRef; readonly finalized: BlockNumber | null }>
  pinned(blockHash: Hash): PinnedReads
  /** Blocks taken as empty although their bloom said "perhaps". */
  readonly doubts: number
}

/** Tries within one call when the chain changed while it was read: the next poll comes soon enough. */
const MAX_TRIES = 3
/** So often in a row a node may be behind before the watcher counts as failing. */
const PATIENCE = 5
/** This near to its target a watcher counts as live. */
const LIVE_DISTANCE = 64

class EvmChain implements EvmSource {
  readonly #options: EvmSourceOptions
  readonly #rule: FinalityRule
  readonly #reader: ChainReader
  readonly #ranges: RangeReader
  readonly #empties: EmptyBlocks
  readonly #genesis: GenesisCheck
  /** Watchers that have reached their target once: from then on what they read is live. */
  readonly #caughtUp = new Set<string>()
  readonly #misses = new Map<string, number>()

  constructor(options: EvmSourceOptions) {
    const { chainId, transports, world, filters, pollMs, onSetAside } = options
    const providers = new Providers({ chainId, transports, world, ...(onSetAside ? { onSetAside } : {}) })
    this.#options = options
    this.#rule = finalityRule(options.finality, options.minDepth)
    this.#reader = new ChainReader({ providers, world, filters, pollMs })
    if (this.#rule.tag) this.#reader.want('finalized')
    this.#ranges = new RangeReader(this.#reader, options.maxRange)
    this.#empties = new EmptyBlocks(this.#reader, world)
    this.#genesis = new GenesisCheck(this.#reader, options.knownGenesis ?? (() => null))
  }

  get lastHead(): BlockRef | null {
    return this.#reader.lastHead
  }

  get doubts(): number {
    return this.#empties.doubts
  }

  async genesis(signal?: AbortSignal): Promise<Hash | null> {
    return this.#again(async () => {
      const view = await this.#reader.view(signal)
      await this.#genesis.check(view, false, signal)
      return this.#genesis.read(view, signal)
    }, signal)
  }

  async look(): Promise<{ head: BlockRef; finalized: BlockNumber | null }> {
    const view = await this.#reader.view()
    return { head: refOf(view.head), finalized: finalBlock(this.#rule, view, []) }
  }

  pinned(blockHash: Hash): PinnedReads {
    const ask = async <T>(work: (node: RpcTransport) => Promise<T>) => (await this.#reader.providers.ask(work)).value
    return {
      blockHash,
      call: ({ to, data }) => ask((node) => readCall(node, { to: to as Address, data }, blockHash)),
      getBalance: (address) => ask((node) => readBalance(node, address as Address, blockHash)),
      getCode: (address) => ask((node) => readCode(node, address as Address, blockHash)),
      getStorageAt: (address, slot) => ask((node) => readStorage(node, address as Address, BigInt(slot), blockHash)),
    }
  }

  async next(plan: WatchPlan, position: Position, signal?: AbortSignal): Promise<SourceStep> {
    if (isEnded(plan, position)) return { kind: 'idle', why: 'ended', waitMs: null, head: this.lastHead }
    if (plan.at === 'safe') this.#reader.want('safe')
    try {
      const step = await this.#again(() => this.#decide(plan, position, signal), signal)
      this.#misses.delete(plan.name)
      return step
    } catch (error) {
      signal?.throwIfAborted()
      return this.#wait(plan, error)
    }
  }

  /** Begins anew when the chain changed while it was read, or when another provider can go on. */
  async #again<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    for (let tries = 1; ; tries++) {
      try {
        return await work()
      } catch (error) {
        signal?.throwIfAborted()
        const changed = TidemarkError.has(error, 'EVIDENCE_MISSING') && tries < MAX_TRIES
        if (!changed && !this.#elsewhere(error, tries)) throw error
      }
    }
  }

  #elsewhere(error: unknown, tries: number): boolean {
    const { count, anyLeft, anyRested } = this.#reader.providers
    if (!isProviderFault(error)) return false
    // Each mismatch sets an endpoint aside, so this ends; and it must not be given up, since it would halt the watchers.
    if (TidemarkError.has(error, 'CHAIN_MISMATCH')) return anyLeft
    return tries <= count && anyRested
  }

  /** A node that is behind is waited for (C16, C19); only when it goes on is it a failure that shows. */
  #wait(plan: WatchPlan, error: unknown): SourceStep {
    const behind = TidemarkError.has(error, 'RPC_BEHIND') || TidemarkError.has(error, 'EVIDENCE_MISSING')
    const misses = (this.#misses.get(plan.name) ?? 0) + 1
    if (!behind || misses > PATIENCE) throw error
    this.#misses.set(plan.name, misses)
    return { kind: 'idle', why: 'node-behind', waitMs: Math.max(1, this.#options.pollMs), head: this.lastHead }
  }

  /** In this order: the right chain, the right branch, blocks to settle, blocks to apply. */
  async #decide(plan: WatchPlan, position: Position, signal: AbortSignal | undefined): Promise<SourceStep> {
    const view = await this.#reader.view(signal)
    const fallen = view.head.number < Math.max(position.finalized ?? 0, position.settled ?? 0)
    await this.#genesis.check(view, fallen, signal)
    const task = this.#task(plan, position, view, signal)
    await checkFinalized(this.#reader, task)
    const stands = await standing(this.#reader, task)
    if (stands === 'behind') return this.#idle(task, 'node-behind')
    if (stands === 'gone') return (await rollback(this.#reader, this.#genesis, task)) ?? this.#idle(task, 'node-behind')
    const { chainId, identify } = this.#options
    const settling = await sweep({ reader: this.#reader, ranges: this.#ranges, chainId, identify }, task)
    return settling ?? this.#advance(task)
  }

  #task(plan: WatchPlan, position: Position, view: View, signal: AbortSignal | undefined): Task {
    const final = finalBlock(this.#rule, view, position.trail)
    const claim = finalBlock(this.#rule, view, [])
    const target = targetBlock(plan.at, view, final)
    const near = target !== null && target - nextBlock({ plan, position }) < LIVE_DISTANCE
    const phase = near || this.#caughtUp.has(plan.name) ? 'live' : 'backfill'
    return { plan, position, view, final, claim, target, phase, signal }
  }

  async #advance(task: Task): Promise<SourceStep> {
    const { plan, view, final, target } = task
    const next = nextBlock(task)
    const last = blockNumber(Math.min(target ?? 0, view.head.number, plan.endBlock ?? Number.MAX_SAFE_INTEGER))
    if (target === null || last < next) return this.#atTarget(task, next)
    if (final !== null && next <= final) {
      return backfill(this.#reader, this.#ranges, task, blockNumber(Math.min(last, final)))
    }
    const room = settledLine(task) + this.#options.undoLimitBlocks
    if (room < next) return this.#idle(task, 'finality-stalled')
    const step = await follow(this.#reader, this.#empties, task, blockNumber(Math.min(last, room)))
    return step ?? this.#idle(task, 'node-behind')
  }

  #atTarget(task: Task, next: number): IdleStep {
    this.#caughtUp.add(task.plan.name)
    return this.#idle(task, next > task.view.head.number ? 'at-head' : 'not-final')
  }

  #idle(task: Task, why: IdleStep['why']): IdleStep {
    const { world, pollMs } = this.#options
    const left = task.view.seenAt + pollMs - world.monotonic()
    return { kind: 'idle', why, waitMs: Math.max(1, Math.ceil(left)), head: refOf(task.view.head) }
  }
}

/** The end block is applied and settled: there is nothing left that a reorg could change. */
function isEnded({ endBlock }: WatchPlan, { settled, cursor }: Position): boolean {
  if (endBlock === null || settled === null || settled < endBlock) return false
  // An end block set lower than what is applied ends nothing before that is settled too.
  return cursor === null || settled >= cursor.number
}

/** The source of an EVM chain over JSON-RPC: one for all watchers of the chain. */
export function createEvmSource(options: EvmSourceOptions): EvmSource {
  return new EvmChain(options)
}
