import type { Watcher } from '../handle/watch.ts'
import type { SqliteParameter, SqliteRow } from '../store/sqlite/driver.ts'
import type { ScratchDatabase } from '../store/sqlite/scratch.ts'
import type { EventArgumentsInput } from './encode.ts'
import { FakeChain } from './fake-chain.ts'
import type { FakeLog } from './fake-log.ts'
import { fakeRpc } from './fake-rpc.ts'
import { Random } from './random.ts'
import type { Reinclude } from './reorg-plan.ts'
import { type EventMaker, eventMakers } from './replay/event-maker.ts'
import { Instance } from './replay/instance.ts'
import { type ReplayReport, runReplays } from './replay/replays.ts'
import { makeScratch, type ReplaySetup, type SimulationOptions } from './replay/setup.ts'
import { haltWords } from './replay/words.ts'
import { Disk } from './simulator/disk.ts'
import { TestWorld } from './test-world.ts'

export interface TestWatcherOptions extends SimulationOptions {
  /** Default, and only choice so far: `'sqlite'`. */
  readonly store?: 'sqlite'
  /** Key under which the watcher would stand in the configuration. Default `watcher`. */
  readonly name?: string
  /** Which of the watcher's chains `emit`, `mine` and `reorg` are for. Default: its first. */
  readonly chain?: string
  /** Folder for the databases. Default: memory of the machine where that is a folder, else the one for temporary files. */
  readonly folder?: string
  /** EIP-155 ids of its chains. Default: 1, 2, … in their order. */
  readonly chainIds?: Readonly<Record<string, number>>
}

export interface ReplaySafeOptions {
  /** Default 20. */
  readonly seeds?: number
  /** The first seed. Default 1. */
  readonly from?: number
  /** Columns that may differ, on top of those of `testWatcher`. */
  readonly ignore?: readonly string[]
}

/** Where the next COMMIT of the process ends. */
export type CrashPoint = 'before-commit' | 'after-commit' | 'answer-lost'

interface Opened {
  readonly scratch: ScratchDatabase
  readonly instance: Instance
}

const MISHAP = {
  'before-commit': 'die-before-commit',
  'after-commit': 'die-after-commit',
  'answer-lost': 'commit-answer-lost',
} as const

/** Blocks until one is final. */
const FINAL_DEPTH = 8
const BUDGET_MS = 5_000
/** Rounds of work after each change of the chain; a watcher that needs more is stuck. */
const ROUNDS = 40
const ROUND_MS = 61_000
const DEFAULT_SEEDS = 20

function setupOf(watcher: Watcher, options: TestWatcherOptions): ReplaySetup {
  const { name = 'watcher', chainIds = {}, store: _store, chain: _chain, ...simulation } = options
  const chains = Object.keys(watcher.definition.on).map(
    (chain, i) => [chain, { id: chainIds[chain] ?? i + 1, finality: 'tag' }] as const,
  )
  return { ...simulation, watchers: { [name]: watcher }, chains: Object.fromEntries(chains) }
}

/**
 * One watcher on a fake chain and a scratch database, driven step by step. Made by {@link testWatcher}. It throws plain
 * errors and needs no test runner.
 */
export class WatcherTest {
  /** For what has no word here: branches, finality, odd logs. */
  readonly chain: FakeChain
  readonly #setup: ReplaySetup
  readonly #chainName: string
  readonly #fullName: string
  readonly #clock = new TestWorld({ autoAdvance: true })
  readonly #disk: Disk
  readonly #makers: readonly EventMaker[]
  #pending: FakeLog[] = []
  #opened: Opened | null = null

  constructor(watcher: Watcher, options: TestWatcherOptions) {
    const chains = Object.keys(watcher.definition.on)
    const { store = 'sqlite', chain = chains[0] as string, name = 'watcher' } = options
    if (store !== 'sqlite') throw new Error(`testWatcher works on 'sqlite' so far, got ${String(store)}`)
    if (!chains.includes(chain))
      throw new Error(`the watcher does not run on ${chain}; it runs on ${chains.join(', ')}`)
    // Only now: a refusal leaves no folder behind.
    this.#disk = new Disk(options.folder)
    this.#setup = setupOf(watcher, options)
    this.#chainName = chain
    this.#fullName = `${name}/${chain}`
    this.#makers = eventMakers(name, watcher, chain)
    this.chain = new FakeChain({
      chainId: this.#setup.chains[chain]?.id ?? 1,
      safe: { depth: FINAL_DEPTH / 2 },
      finalized: { depth: FINAL_DEPTH },
    })
  }

  /** The scratch database's file, for handlers that open a connection of their own. */
  get file(): string {
    return this.#disk.file
  }

  /**
   * Adds an event to the next block, in a transaction of its own. Nothing is mined yet.
   * @param name its key in the watcher's `events`
   * @param args by name, or a list where an argument has no name; an indexed array or tuple by its hash
   * @throws {Error} for an event or an argument that the watcher does not have
   */
  emit(name: string, args: EventArgumentsInput = {}, options: { readonly address?: string } = {}): this {
    const maker = this.#makers.find((one) => one.name === name)
    if (!maker)
      throw new Error(`the watcher has no event ${name}; it has ${this.#makers.map((one) => one.name).join(', ')}`)
    this.#pending.push(maker.encode(args, options.address))
    return this
  }

  /** Mines blocks, the first with what was emitted, and lets the watcher take them in. */
  async mine(blocks = 1): Promise<void> {
    for (let i = 0; i < blocks; i++) this.chain.mine(this.#pending.splice(0))
    await this.#run()
  }

  /**
   * Replaces the last `depth` blocks, and lets the watcher undo and take in.
   * @param options.reinclude what becomes of their transactions. Default `same`: they come back in blocks with other hashes
   */
  async reorg(
    depth = 1,
    options: { readonly reinclude?: Reinclude; readonly extraBlocks?: number } = {},
  ): Promise<void> {
    this.chain.reorg(depth, options)
    await this.#run()
  }

  /** The blocks that are not settled yet are delivered once more: nothing may change. */
  async redeliver(): Promise<void> {
    const { scratch, instance } = await this.#open()
    const found = (await instance.status()).find(({ name }) => name === this.#fullName)
    const target = this.chain.blockByNumber(Math.max(found?.settled ?? 0, found?.startBlock ?? 1))
    if (found?.cursor && target && target.number < found.cursor.number)
      scratch.moveCursor(found.name, target.number, target.hash)
    await this.#run()
  }

  /** The process dies at its next COMMIT, or does not hear the answer to it; then another one goes on. */
  async crash(point: CrashPoint = 'before-commit'): Promise<void> {
    const { instance } = await this.#open()
    instance.arm(MISHAP[point], 1)
  }

  /** Mines what was emitted and as many blocks as make it final, and lets the watcher settle it, `final` stage and all. */
  async settle(): Promise<void> {
    await this.mine()
    this.chain.mineEmpty(FINAL_DEPTH + 1)
    await this.#run()
  }

  /** All rows of a table of yours. Integers are bigints, as a number could not hold each of them. */
  async rows(table: string): Promise<SqliteRow[]> {
    const { scratch } = await this.#open()
    return scratch.rows(table)
  }

  /** The rows of a query. */
  async sql(query: string, ...parameters: SqliteParameter[]): Promise<SqliteRow[]> {
    const { scratch } = await this.#open()
    return scratch.query(query, ...parameters)
  }

  /**
   * Runs the watcher's functions through repeated deliveries, reorgs, kills around each commit, lost answers, nodes that lag
   * and lie, and retries, on scratch databases of their own. Then it compares your tables with those of a clean run.
   * @throws {Error} which row differs after which fault, and how to repeat it
   */
  async expectReplaySafe(options: ReplaySafeOptions = {}): Promise<ReplayReport> {
    const { seeds = DEFAULT_SEEDS, from = 1, ignore = [] } = options
    const setup = { ...this.#setup, ignore: [...(this.#setup.ignore ?? []), ...ignore] }
    const report = await runReplays(setup, { seeds, from, explain: 1, stopAtFirst: true })
    const failure = report.failures[0]
    if (!failure) return report
    throw new Error(
      [
        `not replay-safe, seed ${failure.seed}:`,
        ...failure.findings,
        `repeat: expectReplaySafe({ seeds: 1, from: ${failure.seed} })`,
      ].join('\n  '),
    )
  }

  async close(): Promise<void> {
    await this.#opened?.instance.close()
    this.#opened?.scratch.close()
    this.#disk.remove()
  }

  async #open(): Promise<Opened> {
    if (this.#opened) return this.#opened
    const scratch = await makeScratch(this.#setup, this.#disk.file)
    const rpc = fakeRpc(this.chain, { world: this.#clock })
    const instance = new Instance({
      file: this.#disk.file,
      clock: this.#clock,
      random: new Random('test'),
      watchers: this.#watchers(),
      chains: { [this.#chainName]: { id: this.chain.chainId, finality: 'tag', rpc, liar: null } },
      struck: () => {},
    })
    this.#opened = { scratch, instance }
    return this.#opened
  }

  /** On this chain alone, from its first block. */
  #watchers(): Record<string, Watcher> {
    const { prepare } = this.#setup
    return Object.fromEntries(
      Object.entries(this.#setup.watchers).map(([name, { definition }]) => {
        const { startBlock: _start, endBlock: _end, ...binding } = definition.on[this.#chainName] ?? { startBlock: 1 }
        const prepared =
          prepare && definition.prepare
            ? { prepare: async ({ event }: { event: never }) => prepare({ watcher: name, event }) }
            : {}
        const changed = { ...definition, ...prepared, on: { [this.#chainName]: { ...binding, startBlock: 1 } } }
        return [name, { isTidemarkWatcher: true, definition: changed as Watcher['definition'] }]
      }),
    )
  }

  /** Until nothing is left to do. @throws {Error} when the watcher halts */
  async #run(): Promise<void> {
    const { instance } = await this.#open()
    for (let round = 0, quiet = 0; round < ROUNDS && quiet < 2; round++) {
      const before = await placeOf(instance)
      await instance.run(BUDGET_MS)
      const [halt] = await instance.halts()
      if (halt) throw new Error(haltWords(halt, false))
      quiet = (await placeOf(instance)) === before ? quiet + 1 : 0
      await this.#clock.sleep(ROUND_MS)
    }
  }
}

/** Where the watchers stand, without the times, which move in any case. */
async function placeOf(instance: Instance): Promise<string> {
  const all = await instance.status()
  return JSON.stringify(all.map(({ cursor, settled, epoch, health }) => [cursor, settled, epoch, health]))
}

/**
 * Tests one watcher without a chain, a node or a database server:
 *
 * ```ts
 * const t = testWatcher(deposits, { schema: 'CREATE TABLE …' })
 * t.emit('Transfer', { from: ALICE, to: BOB, value: 5n })
 * await t.mine()
 * await t.reorg(1)
 * console.log(await t.rows('accounts'))
 * await t.expectReplaySafe({ seeds: 50 })
 * await t.close()
 * ```
 */
export function testWatcher(watcher: Watcher, options: TestWatcherOptions = {}): WatcherTest {
  return new WatcherTest(watcher, options)
}
