import type { BlockNumber, BlockRef } from '../../src/chain/block.ts'
import type { EventFilter } from '../../src/chain/filter.ts'
import type { RpcTransport } from '../../src/chain/rpc.ts'
import { createEvmSource, type EvmSource, type EvmSourceOptions } from '../../src/collect/evm.ts'
import type { AppliedEvent, At, SourceStep, WatchPlan } from '../../src/collect/source.ts'
import { identify } from '../../src/dedup/identity.ts'
import { TidemarkError } from '../../src/errors.ts'
import {
  type FakeChain,
  type TestWorld,
  TRANSFER_TOPIC,
  testAddress,
  testWorld,
  transfer,
} from '../../src/testkit/index.ts'

/** The smallest engine that a source can drive: it keeps a position and applied events, and checks each step. */

export const TOKEN = testAddress('TOKEN')
export const ALICE = testAddress('ALICE')
export const BOB = testAddress('BOB')

export const transferFilter: EventFilter = {
  name: 'Transfer',
  addresses: [TOKEN as never],
  topics: [TRANSFER_TOPIC as never],
  topicCount: 3,
}

export function pay(value: number) {
  return transfer(TOKEN, ALICE, BOB, value)
}

export function plan(at: At, more: Partial<WatchPlan> = {}): WatchPlan {
  return {
    name: 'transfers',
    filters: [transferFilter],
    startBlock: 0 as BlockNumber,
    endBlock: null,
    at,
    keepsUndo: at === 'latest' || at === 'safe',
    maxEvents: 500,
    ...more,
  }
}

export interface DriveOptions extends Partial<Omit<EvmSourceOptions, 'world'>> {
  readonly world?: TestWorld
}

export function sourceOf(chainId: number, transports: readonly RpcTransport[], options: DriveOptions = {}): EvmSource {
  const { world = testWorld({ autoAdvance: true }), ...more } = options
  return createEvmSource({
    chainId,
    transports,
    finality: { depth: 10 },
    minDepth: 0,
    pollMs: 0,
    maxRange: 1000,
    undoLimitBlocks: 1000,
    world,
    filters: [transferFilter],
    identify,
    ...more,
  })
}

interface Applied extends AppliedEvent {
  readonly value: number
}

function check(condition: boolean, sentence: string): asserts condition {
  if (!condition) throw new Error(`a step broke the contract: ${sentence}`)
}

/** A watcher whose database is memory. `restart` is a new process: only what is stored survives. */
export class Driver {
  readonly plan: WatchPlan
  source: EvmSource
  cursor: BlockRef | null = null
  trail: BlockRef[] = []
  settled: BlockNumber | null = null
  finalized: BlockNumber | null = null
  applied: Applied[] = []
  readonly steps: SourceStep[] = []
  readonly chainId: number

  constructor(chainId: number, source: EvmSource, watchPlan: WatchPlan) {
    this.chainId = chainId
    this.source = source
    this.plan = watchPlan
  }

  get values(): number[] {
    return this.applied.map((one) => one.value)
  }

  kinds(): string[] {
    return this.steps.map((step) => (step.kind === 'idle' ? `idle ${step.why}` : step.kind))
  }

  async step(): Promise<SourceStep> {
    const { cursor, trail, settled, finalized } = this
    const applied = async (from: BlockNumber, to: BlockNumber) =>
      this.applied.filter((one) => one.blockNumber >= from && one.blockNumber <= to)
    const step = await this.source.next(this.plan, { cursor, trail: [...trail], settled, finalized, applied })
    this.steps.push(step)
    if (step.kind === 'blocks') this.#apply(step)
    if (step.kind === 'rollback') this.#undo(step.to)
    if (step.kind === 'settle') this.#settle(step.upTo, step.finalized)
    return step
  }

  #apply(step: Extract<SourceStep, { kind: 'blocks' }>): void {
    const next = this.cursor ? this.cursor.number + 1 : this.plan.startBlock
    check(step.from === next, `from ${step.from}, expected ${next}`)
    check(step.to.number >= step.from, 'an empty range')
    check(
      step.logs.every((log) => log.blockNumber >= step.from && log.blockNumber <= step.to.number),
      'a log outside',
    )
    const fresh = identify(this.chainId, step.logs)
    check(
      fresh.every(({ log }, i) => log === step.logs[i]),
      'logs out of order',
    )
    for (const { log, stableId } of fresh) {
      const known = this.applied.some((one) => one.blockHash === log.blockHash && one.stableId === stableId)
      check(!known, 'a log twice')
      this.applied.push({
        blockNumber: log.blockNumber,
        blockHash: log.blockHash,
        stableId,
        value: Number(BigInt(log.data)),
      })
    }
    // As the engine does: final blocks settle in the commit that applies them, when nothing below is unsettled.
    const atOnce =
      step.finalized !== null && step.to.number <= step.finalized && (this.cursor?.number ?? null) === this.settled
    if (atOnce) this.settled = step.to.number
    else this.#remember(step.trail)
    this.cursor = step.to
    this.#final(step.finalized)
  }

  #remember(blocks: readonly BlockRef[]): void {
    for (const block of blocks) {
      check(!this.trail.some((one) => one.number === block.number), `block ${block.number} is in the trail twice`)
      this.trail.unshift(block)
    }
  }

  #final(finalized: BlockNumber | null): void {
    if (finalized !== null && finalized > (this.finalized ?? -1)) this.finalized = finalized
  }

  #undo(to: BlockRef | null): void {
    const above = to ? to.number : this.plan.startBlock - 1
    check(above >= (this.settled ?? -1), 'a rollback below the settled line')
    check(this.cursor !== null && above < this.cursor.number, 'a rollback that does not go back')
    const undone = this.applied.filter((one) => one.blockNumber > above)
    if (undone.length > 0 && !this.plan.keepsUndo) throw new TidemarkError('SWEEP_DIFFERS', 'cannot undo')
    this.applied = this.applied.filter((one) => one.blockNumber <= above)
    this.trail = this.trail.filter((one) => one.number <= above)
    this.cursor = to
  }

  #settle(upTo: BlockNumber, finalized: BlockNumber): void {
    check(
      upTo > (this.settled ?? -1) && upTo <= (this.cursor?.number ?? -1),
      'the settled line moves up, below the cursor',
    )
    this.settled = upTo
    this.trail = this.trail.filter((one) => one.number >= upTo)
    this.#final(finalized)
  }

  /** Steps until there is nothing to do, at most `limit` times. Passing errors are stepped over when `patient`. */
  async run(limit = 200, patient = false): Promise<this> {
    for (let i = 0; i < limit; i++) {
      try {
        const step = await this.step()
        if (step.kind === 'idle' && step.why !== 'node-behind') return this
        if (step.kind === 'idle' && !patient) return this
      } catch (error) {
        if (!patient || !TidemarkError.is(error) || error.kind !== 'retries') throw error
      }
    }
    throw new Error(`not idle after ${limit} steps: ${this.kinds().slice(-12).join(', ')}`)
  }

  /** What a naive reader of the final chain has, up to the cursor. */
  expected(chain: FakeChain): string[] {
    const { startBlock } = this.plan
    const logs = chain.logs({
      fromBlock: startBlock,
      toBlock: this.cursor?.number ?? -1,
      address: TOKEN,
      topics: [TRANSFER_TOPIC],
    })
    return identify(
      chain.chainId,
      logs.filter((log) => log.topics.length === 3),
    ).map(({ log, stableId }) => `${log.blockNumber}/${log.blockHash}/${stableId}`)
  }

  held(): string[] {
    return this.applied.map((one) => `${one.blockNumber}/${one.blockHash}/${one.stableId}`)
  }
}
