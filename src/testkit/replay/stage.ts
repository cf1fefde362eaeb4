import type { WatcherStatus } from '../../app/types.ts'
import type { Watcher } from '../../handle/watch.ts'
import type { ScratchDatabase, ScratchTable } from '../../store/sqlite/scratch.ts'
import { type FakeRpc, fakeRpc } from '../fake-rpc.ts'
import { Random } from '../random.ts'
import { Disk } from '../simulator/disk.ts'
import type { Mishap } from '../simulator/plan.ts'
import { Liar } from '../simulator/transport.ts'
import { TestWorld } from '../test-world.ts'
import { Instance, type Reachable } from './instance.ts'
import { Observer } from './observer.ts'
import type { ReplayChain } from './replay-chain.ts'
import { makeScratch, type ReplaySetup, simulatedOn } from './setup.ts'
import { haltWords, isPlain } from './words.ts'

/** Ends a run: what a user's watcher did, in words. */
export class Trouble extends Error {
  /** Other events would show it as well: it is not about those that were made. */
  readonly isPlain: boolean

  constructor(words: string, isPlain = false) {
    super(words)
    this.isPlain = isPlain
  }
}

export interface StageOptions {
  readonly seed: number | string
  /** Milliseconds since the epoch: clean runs begin at another time than faulty ones. */
  readonly start: number
  readonly finality: 'tag' | 'depth'
  /** Null: as the watchers say. */
  readonly maxEvents: number | null
  readonly lies: number
  struck(mishap: Mishap, sql: string): void
}

/** Longer than the longest wait after a failure. */
const ROUND_MS = 61_000
const BUDGET_MS = 5_000
/** Rounds that the watchers get to settle once every fault has ended. */
const LAST_ROUNDS = 40
/** Halts that a person resumes in a row at most. */
const MAX_RESUMES = 50

/** Where one run takes place: a database of its own, nodes of its own over chains that may be shared, an observed application. */
export class Stage {
  readonly clock: TestWorld
  readonly observer: Observer
  readonly instance: Instance
  readonly nodes: readonly FakeRpc[]
  readonly liars: readonly Liar[]
  readonly chains: readonly ReplayChain[]
  readonly scratch: ScratchDatabase
  readonly #disk: Disk

  private constructor(
    setup: ReplaySetup,
    chains: readonly ReplayChain[],
    options: StageOptions,
    scratch: ScratchDatabase,
    disk: Disk,
  ) {
    this.chains = chains
    this.scratch = scratch
    this.#disk = disk
    const { seed, start } = options
    this.clock = new TestWorld({ seed, start, autoAdvance: true })
    this.observer = new Observer(this.clock, `${seed} ${start}`)
    this.nodes = chains.map(({ chain, name }) => fakeRpc(chain, { seed, label: `${name} ${seed}`, world: this.clock }))
    this.liars = chains.map(
      (chain) =>
        new Liar(
          new Random(seed).fork(`lies ${chain.name}`),
          chain.mayLie ? options.lies : 0,
          (block) => block <= chain.floor,
        ),
    )
    this.instance = new Instance({
      file: disk.file,
      clock: this.clock,
      random: new Random(seed).fork('processes'),
      watchers: this.#observed(setup, options),
      chains: Object.fromEntries(chains.map((chain, i) => [chain.name, this.#reachable(setup, chain, i, options)])),
      struck: (mishap, sql) => options.struck(mishap, sql),
    })
  }

  static async open(setup: ReplaySetup, chains: readonly ReplayChain[], options: StageOptions): Promise<Stage> {
    const disk = new Disk(setup.folder)
    try {
      return new Stage(setup, chains, options, await makeScratch(setup, disk.file), disk)
    } catch (error) {
      disk.remove()
      throw error
    }
  }

  #reachable(setup: ReplaySetup, chain: ReplayChain, i: number, { finality }: StageOptions): Reachable {
    const own = setup.chains[chain.name]
    const byDepth = finality === 'depth' || own?.finality === 'depth'
    return {
      id: own?.id ?? 1,
      finality: byDepth ? { depth: chain.finalDepth } : 'tag',
      rpc: this.nodes[i] as FakeRpc,
      liar: this.liars[i] ?? null,
    }
  }

  #observed(setup: ReplaySetup, { maxEvents }: StageOptions): Record<string, Watcher> {
    return Object.fromEntries(
      Object.entries(setup.watchers).map(([name, watcher]) => {
        const { definition } = watcher
        const batch = maxEvents === null ? {} : { batch: { ...definition.batch, maxEvents } }
        const { prepare } = setup
        const prepared =
          prepare && definition.prepare
            ? { prepare: async ({ event }: { event: never }) => prepare({ watcher: name, event }) }
            : {}
        const changed = { ...definition, ...batch, ...prepared } as Watcher['definition']
        return [
          name,
          this.observer.observe(name, { isTidemarkWatcher: true, definition: changed }, simulatedOn(watcher)),
        ]
      }),
    )
  }

  /** What a handler left running may still write: it gets a turn before its tables are read. */
  async tables(): Promise<ScratchTable[]> {
    await this.clock.runPending()
    return this.scratch.tables()
  }

  /**
   * One run of the process. A halt that was planned is resumed at once.
   * @throws {Trouble} for one that was not
   */
  async run(budgetMs: number): Promise<void> {
    for (let resumes = 0; resumes < MAX_RESUMES; resumes++) {
      await this.instance.run(budgetMs)
      if (!(await this.#resumed())) return
    }
  }

  async #resumed(): Promise<boolean> {
    const halts = await this.instance.halts()
    for (const halt of halts) {
      const key = halt.watcher.slice(0, halt.watcher.indexOf('/'))
      const { code } = halt.reason
      const locked = this.observer.locked.has(key)
      if (!this.observer.takeProvoked(key, code)) throw new Trouble(haltWords(halt, locked), isPlain(code, locked))
      await this.instance.resume(halt.watcher)
    }
    return halts.length > 0
  }

  /** Runs without faults until everything is settled. @throws {Trouble} when it never is */
  async settle(grow: boolean): Promise<void> {
    let open: readonly WatcherStatus[] = []
    for (let round = 0; round < LAST_ROUNDS; round++) {
      await this.run(BUDGET_MS)
      open = await this.#unsettled()
      if (open.length === 0) return
      await this.clock.sleep(ROUND_MS)
      if (grow) for (const chain of this.chains) chain.mineEmpty(1)
    }
    throw new Trouble(this.#unsettledWords(open))
  }

  async #unsettled(): Promise<WatcherStatus[]> {
    const last = new Map(this.chains.map((chain) => [chain.name, chain.lastWithLogs]))
    const all = await this.instance.status()
    return all.filter(
      ({ chain, settled, health }) => health === 'halted' || (settled ?? -1) < Math.max(last.get(chain) ?? 0, 1),
    )
  }

  #unsettledWords([first]: readonly WatcherStatus[]): string {
    const { name = 'a watcher', cursor = null } = first ?? {}
    const code = this.instance.failing.get(name)
    const prepares = code?.startsWith('PREPARE')
      ? ' What `prepare` asks the network for cannot come in simulated time: give `prepare` in the options of the simulation.'
      : ''
    return `${name} does not get done, although all faults have ended: it stands at block ${cursor?.number ?? 'none'}${code ? `, failing with ${code}` : ''}.${prepares}`
  }

  async close(): Promise<void> {
    await this.instance.close()
    this.scratch.close()
    this.#disk.remove()
  }
}
