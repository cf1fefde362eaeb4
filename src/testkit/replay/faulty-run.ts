import type { FaultSettings } from '../fault-plan.ts'
import { Random } from '../random.ts'
import type { PlannedReplay, ReplaySwarm } from './plan.ts'
import { ReplayChain } from './replay-chain.ts'
import type { ReplaySetup } from './setup.ts'
import { Stage, Trouble } from './stage.ts'
import { mishapWords, throwWords } from './words.ts'

/** Wall clock at the start of a faulty run, of a clean one, and of a second clean one: no two answer the same. */
export const STARTS = {
  faulty: Date.UTC(2030, 0, 1),
  clean: Date.UTC(2031, 5, 15, 6),
  again: Date.UTC(2032, 10, 20, 18),
} as const

/** Figures of a faulty run. */
export interface ReplayFigures {
  readonly steps: number
  readonly events: number
  readonly reorgs: number
  readonly crashes: number
  readonly faults: number
}

/** Budget of a run that is to get somewhere, in simulated milliseconds. */
const LONG_MS = 2_000
/** Milliseconds that pass between two actions. */
const PAUSE_MS = 60

function off(settings: FaultSettings): FaultSettings {
  return Object.fromEntries(Object.keys(settings).map((name) => [name, false]))
}

/** The application of a user in a hostile world: chains that reorganise, nodes that fail and lie, a process that is killed. */
export class FaultyRun {
  readonly stage: Stage
  /** What went wrong on purpose, in words and in order. */
  readonly happened: string[] = []
  readonly #setup: ReplaySetup
  readonly #seed: number | string
  readonly #swarm: ReplaySwarm
  #steps = 0
  #reorgs = 0
  #crashes = 0
  #faults = 0
  #swept = 0
  /** Cursors that were moved back and have not passed their old place yet, by full name. */
  readonly #moved = new Map<string, number>()

  private constructor(setup: ReplaySetup, seed: number | string, swarm: ReplaySwarm, stage: Stage) {
    this.#setup = setup
    this.#seed = seed
    this.#swarm = swarm
    this.stage = stage
    stage.observer.onFault = (watcher, which) => this.#struck(throwWords(watcher, which))
  }

  static async open(setup: ReplaySetup, seed: number | string, swarm: ReplaySwarm): Promise<FaultyRun> {
    const chains = Object.keys(setup.chains).map((name, i) => new ReplayChain(setup, name, i, seed, swarm.finalDepth))
    const { finality, maxEvents, lies } = swarm
    const holder: { run?: FaultyRun } = {}
    const stage = await Stage.open(setup, chains, {
      seed,
      start: STARTS.faulty,
      finality,
      maxEvents,
      lies,
      struck: (mishap, sql) => holder.run?.mishap(mishap.startsWith('die'), mishapWords(mishap, sql)),
    })
    holder.run = new FaultyRun(setup, seed, swarm, stage)
    return holder.run
  }

  get figures(): ReplayFigures {
    const nodes = this.stage.nodes
      .flatMap(({ log }) => Object.values(log.faults))
      .reduce((sum, count) => sum + count, 0)
    const lies = this.stage.liars.reduce((sum, { told }) => sum + told, 0)
    return {
      steps: this.#steps,
      events: this.stage.instance.events,
      reorgs: this.#reorgs,
      crashes: this.#crashes,
      faults: this.#faults + nodes + lies,
    }
  }

  mishap(died: boolean, words: string): void {
    if (died) {
      this.#crashes += 1
      this.happened.push(words)
    } else this.#struck(words)
  }

  #struck(words: string): void {
    this.#faults += 1
    this.happened.push(words)
  }

  /** @throws {Trouble} when a watcher stops without a plan for it */
  async perform(action: PlannedReplay): Promise<void> {
    this.#steps += 1
    if (await this.#act(action)) await this.#run(action.kind === 'run' ? action.budgetMs : LONG_MS)
    await this.stage.clock.sleep(PAUSE_MS)
  }

  /** Answers whether the watchers run afterwards. */
  async #act(action: PlannedReplay): Promise<boolean> {
    switch (action.kind) {
      case 'mine':
        this.#chain(action.chain).mine(action.id, action.blocks, this.#random(action.id))
        return action.runs
      case 'reorg':
        return this.#reorg(action)
      case 'redeliver':
        return this.#redeliver(action)
      case 'run':
        return true
      default:
        return this.#disturb(action)
    }
  }

  async #disturb(action: PlannedReplay): Promise<false> {
    if (action.kind === 'mishap') this.stage.instance.arm(action.mishap, action.at)
    if (action.kind === 'throw') this.stage.observer.plan(this.#watcher(action.watcher), action.stage, action.times)
    if (action.kind === 'nodes') this.#nodes(action.on)
    if (action.kind === 'wait') await this.stage.clock.sleep(action.ms)
    return false
  }

  #random(id: number): Random {
    return new Random(this.#seed).fork(`content ${id}`)
  }

  #chain(index: number): ReplayChain {
    return this.stage.chains[index] as ReplayChain
  }

  #watcher(index: number): string {
    return Object.keys(this.#setup.watchers)[index] as string
  }

  #nodes(on: boolean): void {
    const { faults } = this.#swarm
    for (const node of this.stage.nodes) node.setFaults(on ? faults : off(faults))
  }

  /** Not while a cursor that was moved by hand catches up: that the two come together is not promised. */
  #reorg(action: Extract<PlannedReplay, { kind: 'reorg' }>): boolean {
    if (this.#moved.size > 0) return action.runs
    const words = this.#chain(action.chain).reorg(action.id, action, this.#random(action.id))
    if (words === null) return action.runs
    this.#reorgs += 1
    this.happened.push(words)
    return action.runs
  }

  /** Back to a block that is applied and not settled, while the cursor's own branch is the canonical one. */
  async #redeliver({ watcher, back }: Extract<PlannedReplay, { kind: 'redeliver' }>): Promise<boolean> {
    const key = this.#watcher(watcher)
    for (const one of await this.stage.instance.status()) {
      const chain = this.stage.chains.find(({ name }) => `${key}/${name}` === one.name)?.chain
      if (!chain || one.cursor === null || this.#moved.size > 0) continue
      const lowest = Math.max(one.settled ?? 0, one.lowWater ?? 0, one.startBlock)
      const target = chain.blockByNumber(Math.max(one.cursor.number - back, lowest))
      if (
        chain.blockByNumber(one.cursor.number)?.hash !== one.cursor.hash ||
        !target ||
        target.number >= one.cursor.number
      )
        continue
      this.#moved.set(one.name, one.cursor.number)
      this.stage.scratch.moveCursor(one.name, target.number, target.hash)
      this.#struck(`the blocks ${target.number + 1} to ${one.cursor.number} were delivered to ${key} once more`)
    }
    return true
  }

  async #run(budgetMs: number): Promise<void> {
    const { instance } = this.stage
    await this.stage.run(budgetMs)
    if (instance.swept > this.#swept)
      this.happened.push('the second reading found logs that the node had left out or made up')
    this.#swept = instance.swept
    if (this.#moved.size === 0) return
    for (const { name, cursor } of await instance.status()) {
      if ((cursor?.number ?? -1) >= (this.#moved.get(name) ?? Number.POSITIVE_INFINITY)) this.#moved.delete(name)
    }
  }

  /** The faults end, the chains grow until everything is final, and the watchers get done. */
  async settle(): Promise<void> {
    const { instance, nodes, liars, observer, chains } = this.stage
    for (const node of nodes) node.stopFaults()
    for (const liar of liars) liar.stop()
    instance.disarm()
    observer.stop()
    for (const chain of chains) chain.mineEmpty(chain.finalDepth + 6)
    await this.stage.settle(true)
  }
}

/** Plays a plan to its end. @returns the trouble that ended it early; null: there was none */
export async function play(run: FaultyRun, plan: readonly PlannedReplay[]): Promise<Trouble | null> {
  try {
    for (const action of plan) await run.perform(action)
    await run.settle()
    return null
  } catch (error) {
    if (!(error instanceof Trouble)) throw error
    return error
  }
}
