import type { Hex } from '../../util/bytes.ts'
import { FakeChain } from '../fake-chain.ts'
import { type FakeLog, rawLog, type TransactionInput } from '../fake-log.ts'
import type { Random } from '../random.ts'
import type { Reinclude } from '../reorg-plan.ts'
import { type EventMaker, eventMakers } from './event-maker.ts'
import { canUndo, type ReplaySetup, type SimulatedEvent, simulatedBinding } from './setup.ts'

/** `0x7478`, then the chain, action, block and place: leaving out an action renames no transaction of the others. */
function transactionHash(...place: readonly number[]): Hex {
  const digits = place.map((n) => n.toString(16).padStart(4, '0')).join('')
  return `0x7478${digits}${'0'.repeat(60 - digits.length)}`
}

/** Logs that a transaction may hold; more is a mistake of `generate`. */
const MAX_LOGS = 1_000

/** Blocks from the head down that a reorg may replace on a chain, for all its watchers. */
function deepest(setup: ReplaySetup, chain: string, finalDepth: number): number {
  const limits = Object.values(setup.watchers).map((watcher) => {
    const binding = watcher.definition.on[chain]
    if (!binding) return finalDepth
    const { at } = simulatedBinding(binding)
    if (typeof at === 'object') return at.confirmations - 1
    return canUndo(watcher, chain) ? finalDepth : 0
  })
  return Math.min(finalDepth - 1, ...limits)
}

/** One chain of a run, with the events of the watchers on it. */
export class ReplayChain {
  readonly name: string
  readonly chain: FakeChain
  /** 0: no watcher here can take anything back, so nothing is replaced. */
  readonly maxReorg: number
  /** Whether logs may be withheld at first: every watcher here can take back what it did without them. */
  readonly mayLie: boolean
  readonly finalDepth: number
  readonly #index: number
  readonly #setup: ReplaySetup
  readonly #makers: readonly EventMaker[]
  /** Logs by their first topic: what a transaction can emit instead. */
  readonly #pool = new Map<string, FakeLog[]>()
  #highest = 0

  constructor(setup: ReplaySetup, name: string, index: number, seed: number | string, finalDepth: number) {
    this.name = name
    this.#index = index
    this.#setup = setup
    this.finalDepth = finalDepth
    this.chain = new FakeChain({
      chainId: setup.chains[name]?.id ?? 1,
      seed,
      safe: { depth: Math.ceil(finalDepth / 2) },
      finalized: { depth: finalDepth },
    })
    this.maxReorg = deepest(setup, name, finalDepth)
    const here = Object.entries(setup.watchers).filter(([, { definition }]) => name in definition.on)
    this.mayLie = here.every(([, watcher]) => canUndo(watcher, name))
    this.#makers = here.flatMap(([key, watcher]) => eventMakers(key, watcher, name))
  }

  /** The last block that may not be replaced any more. */
  get floor(): number {
    return Math.max(this.chain.finalizedNumber ?? 0, this.#highest - this.maxReorg)
  }

  /** @param id of the action, from which hashes and content follow */
  mine(id: number, blocks: number, random: Random): string {
    for (let i = 0; i < blocks; i++) this.chain.mine(this.#transactions(id, i, random.fork(`block ${i}`)))
    this.#moved()
    return `head ${this.chain.head().number}`
  }

  mineEmpty(blocks: number): void {
    this.chain.mineEmpty(blocks)
    this.#moved()
  }

  #moved(): void {
    this.#highest = Math.max(this.#highest, this.chain.head().number)
  }

  #transactions(id: number, block: number, random: Random): TransactionInput[] {
    if (random.chance(0.15)) return []
    return Array.from({ length: random.pick([1, 1, 2, 3]) }, (_, i) => {
      return { logs: this.#logs(random.fork(`transaction ${i}`)), hash: transactionHash(this.#index, id, block, i) }
    })
  }

  #logs(random: Random): FakeLog[] {
    const generate = this.#setup.generate
    const logs = generate ? this.#generated(generate, random) : this.#made(random)
    for (const log of logs) this.#keep(log)
    return logs
  }

  /** Sometimes the same twice in one transaction: two events (C07). */
  #made(random: Random): FakeLog[] {
    const logs = Array.from({ length: random.pick([1, 1, 2, 3]) }, () => random.pick(this.#makers).make(random))
    return random.chance(0.15) ? [...logs, ...logs] : logs
  }

  #generated(generate: NonNullable<ReplaySetup['generate']>, random: Random): FakeLog[] {
    const { watcher } = random.pick(this.#makers)
    const own = this.#makers.filter((maker) => maker.watcher === watcher)
    const events = generate(random, { watcher, chain: this.name, events: own.map(({ name }) => name) })
    if (!Array.isArray(events) || events.length > MAX_LOGS)
      throw new TypeError(`generate returns a list of at most ${MAX_LOGS} events or logs`)
    return events.map((event) =>
      'topics' in event ? rawLog(event.address, event.topics, event.data) : encodeAs(own, event),
    )
  }

  #keep(log: FakeLog): void {
    const key = `${log.topics.length} ${log.topics[0]}`
    this.#pool.set(key, [...(this.#pool.get(key) ?? []), log].slice(-50))
  }

  /** Another log of the same event, which was made before: a changed value stays one that the application can meet. */
  #instead(log: FakeLog, random: Random): FakeLog {
    const others = this.#pool.get(`${log.topics.length} ${log.topics[0]}`) ?? []
    return others.length > 0 ? random.pick(others) : log
  }

  /** As many blocks as planned and allowed. Null: nothing may be replaced. */
  reorg(
    id: number,
    plan: { depth: number; reinclude: Reinclude; extraBlocks: number; fresh: boolean },
    random: Random,
  ): string | null {
    const { number } = this.chain.head()
    const depth = Math.min(plan.depth, number - this.floor)
    if (depth < 1) return null
    const { dropped } = this.chain.reorg(depth, {
      reinclude: plan.reinclude,
      extraBlocks: Math.max(plan.extraBlocks, 1 - depth),
      change: (log) => this.#instead(log, random),
      also: (block) =>
        plan.fresh && block === number - depth + 1 ? this.#transactions(id, 0, random.fork('fresh')) : [],
    })
    this.#moved()
    const lost = dropped.length > 0 ? `, ${dropped.length} transactions did not come back` : ''
    return `a reorg replaced ${depth === 1 ? 'the last block' : `the last ${depth} blocks`} (transactions: ${plan.reinclude}${lost})`
  }

  /** The last block with a log; 0: there is none. */
  get lastWithLogs(): number {
    return this.chain.canonical().findLast((block) => block.logs.length > 0)?.number ?? 0
  }
}

/** An event of `generate` as a log. @throws {TypeError} which names it */
function encodeAs(makers: readonly EventMaker[], event: SimulatedEvent): FakeLog {
  const maker = makers.find(({ name }) => name === event.name)
  if (!maker)
    throw new TypeError(
      `generate made an event ${String(event.name).slice(0, 60)}; the watcher has ${makers.map(({ name }) => name).join(', ')}`,
    )
  return maker.encode(event.args, event.address)
}
