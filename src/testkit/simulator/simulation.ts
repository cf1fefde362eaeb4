import { type FakeRpc, fakeRpc } from '../fake-rpc.ts'
import type { FaultSettings } from '../fault-plan.ts'
import { Random } from '../random.ts'
import { TestWorld } from '../test-world.ts'
import { type Application, application } from './application.ts'
import { Disk } from './disk.ts'
import { fail, must } from './failure.ts'
import { Guardian } from './guardian.ts'
import { Inspector, type WatcherState } from './inspector.ts'
import { Operator } from './operator.ts'
import type { SwarmOptions } from './options.ts'
import { type Action, drawBlocks, type PlannedAction } from './plan.ts'
import { Probe } from './probe.ts'
import { type Ground, SimProcess, type Tally } from './process.ts'
import { SimChain } from './sim-chain.ts'
import type { Trace } from './trace.ts'
import { Liar } from './transport.ts'
import { wordsOf } from './words.ts'

type Of<K extends Action['kind']> = Extract<Action, { kind: K }> & PlannedAction

/** Rounds that the watchers get to settle once every fault has ended. */
const LAST_ROUNDS = 60
/** Longer than the longest wait after a failure. */
const ROUND_MS = 61_000
/** Milliseconds that pass between two actions. */
const PAUSE_MS = 60

/** Switches every fault of these settings off. */
function off(settings: FaultSettings): FaultSettings {
  return Object.fromEntries(Object.keys(settings).map((name) => [name, false]))
}

/** Another block 0 is no fault as long as none was seen: nobody could tell which one is right. */
function unknownChain(settings: FaultSettings): FaultSettings {
  return { ...settings, otherGenesis: false }
}

/** The world of one run, and what the actions of a plan do in it. */
export class Simulation {
  steps = 0
  readonly clock: TestWorld
  readonly chain: SimChain
  readonly probe: Probe
  readonly liar: Liar
  readonly providers: readonly FakeRpc[]
  readonly tally: Tally = { events: 0, crashes: 0, diskFaults: 0 }
  readonly #options: SwarmOptions
  readonly #trace: Trace
  readonly #disk: Disk
  readonly #guardian: Guardian
  readonly #operator: Operator
  readonly #processes: SimProcess[]
  #application: Application
  /** Which providers play their faults now. */
  readonly #unwell: boolean[]
  #knowsChain = false
  #inspector: Inspector

  constructor(seed: number | string, options: SwarmOptions, trace: Trace) {
    this.#options = options
    this.#trace = trace
    this.clock = new TestWorld({ seed, autoAdvance: true })
    this.chain = new SimChain(seed, options)
    this.chain.mine(
      0xffff,
      drawBlocks(new Random(seed).fork('history'), options.history, options.history > 100 ? 0.08 : options.density),
    )
    this.probe = new Probe(this.clock, options.handlerMs)
    this.liar = new Liar(new Random(seed).fork('lies'), options.lies, (block) => block <= this.chain.floor)
    this.providers = options.faults.map((faults, i) =>
      fakeRpc(this.chain.chain, {
        ...options.habits[i],
        seed,
        label: `rpc[${i}]`,
        faults: unknownChain(faults),
        world: this.clock,
      }),
    )
    this.#unwell = options.faults.map(() => true)
    this.#disk = new Disk(options.folder)
    this.#guardian = new Guardian(options, this.chain, this.probe)
    this.#operator = new Operator({
      options,
      clock: this.clock,
      disk: this.#disk,
      chain: this.chain,
      guardian: this.#guardian,
    })
    this.#application = application(options, this.probe)
    this.#inspector = new Inspector(this.#disk.file)
    this.#inspector.exec(this.#application.schema)
    this.#processes = Array.from({ length: options.processes }, (_, i) => new SimProcess(this.#ground(seed), i))
  }

  #ground(seed: number | string): Ground {
    const { clock, providers, liar, tally } = this
    const log = (line: string) => this.#trace.add(line)
    const watchers = () => this.#application.watchers
    const claimed: Ground['claimed'] = (watcher, line, block) => this.#claimed(watcher, line, block)
    return { seed, options: this.#options, clock, disk: this.#disk, providers, liar, watchers, tally, log, claimed }
  }

  /** A process reports what it has committed, and nothing else. */
  #claimed(watcher: string, line: 'cursor' | 'settled', block: number | null): void {
    const found = this.#inspector.linesOf(watcher)
    if (found?.[line] !== block)
      this.probe.saw('one commit', `${watcher} was reported with ${line} ${block}, and has ${found?.[line]}`)
  }

  get reorgs(): number {
    return this.chain.reorgs
  }

  /** Everything that went wrong on purpose and was not a crash. */
  get faults(): number {
    const provided = this.providers
      .flatMap((rpc) => Object.values(rpc.log.faults))
      .reduce((sum, count) => sum + count, 0)
    return provided + this.tally.diskFaults + this.probe.misbehaved + this.liar.told
  }

  close(): void {
    for (const process of this.#processes) process.driver.kill()
    this.#inspector.close()
    this.#disk.remove()
  }

  async perform(action: PlannedAction): Promise<void> {
    this.steps += 1
    this.#trace.add(wordsOf(action))
    const outcome = await this.#act(action)
    if (outcome) this.#trace.add(`   ${outcome}`)
    this.#afterwards()
    await this.clock.sleep(PAUSE_MS)
  }

  async #act(action: PlannedAction): Promise<string | undefined> {
    switch (action.kind) {
      case 'mine':
        return this.chain.mine(action.id, action.blocks)
      case 'reorg':
      case 'winBack':
      case 'violate':
        return this.#fork(action)
      case 'finality':
        return this.chain.finality(action)
      case 'run':
        return this.#processes[action.process]?.run(action.budgetMs)
      case 'overlap':
        return this.#overlap(action)
      case 'pauseDuring':
        return this.#pauseDuring(action)
      default:
        return this.#disturb(action)
    }
  }

  /** What a person corrects by hand is right for one chain only: it stands still until Tidemark has followed. */
  #fork(action: Of<'reorg'> | Of<'winBack'> | Of<'violate'>): string {
    if (this.#guardian.correcting) return 'not now: effects were corrected by hand'
    if (action.kind === 'reorg') return this.chain.reorg(action)
    return action.kind === 'winBack' ? this.chain.winBack(action) : this.chain.violate(action)
  }

  async #disturb(action: PlannedAction): Promise<string | undefined> {
    switch (action.kind) {
      case 'faults':
        return this.#setFaults(action)
      case 'wait':
        return void (await this.clock.sleep(action.ms))
      case 'wallJump':
        return this.clock.jumpWallClock(action.ms) as undefined
      case 'arm':
        return this.#processes[action.process]?.driver.arm(action.mishap, action.at) as undefined
      case 'restart':
        return this.#restart(action)
      case 'handlerFault':
        return this.probe.plan(
          this.#kind(action.watcher),
          action.stage,
          action.does,
          action.after,
          action.times,
        ) as undefined
      default:
        return this.#operate(action)
    }
  }

  #watcher(index: number): WatcherState | undefined {
    return this.#inspector.watchers().find(({ kind }) => kind === this.#kind(index))
  }

  #kind(watcher: number): string {
    return this.#options.watchers[watcher] as string
  }

  #setFaults({ provider, on }: Of<'faults'>): undefined {
    this.#unwell[provider] = on
    this.#applyFaults()
  }

  #applyFaults(): void {
    for (const [i, faults] of this.#options.faults.entries()) {
      const now = this.#unwell[i] ? faults : off(faults)
      this.providers[i]?.setFaults(this.#knowsChain ? now : unknownChain(now))
    }
  }

  /** A chain is known by what was seen of it first: from then on another one can be recognised. */
  #learn(): void {
    if (this.#knowsChain || !this.#inspector.knowsChain) return
    this.#knowsChain = true
    this.#applyFaults()
  }

  async #restart({ process, at }: Of<'restart'>): Promise<undefined> {
    if (at) this.#application = application({ ...this.#options, at }, this.probe)
    const one = this.#processes[process] as SimProcess
    if (one.dead) one.start()
    else await one.restart()
  }

  async #operate(action: PlannedAction): Promise<string | undefined> {
    switch (action.kind) {
      case 'resume':
        return this.#operator.resume(this.#inspector)
      case 'pause':
        return this.#operator.pause(this.#inspector, this.#kind(action.watcher))
      case 'moveCursor':
        return this.#operator.moveCursor(this.#inspector, this.#kind(action.watcher), action.back)
      default:
        return undefined
    }
  }

  async #overlap(action: Of<'overlap'>): Promise<string> {
    const first = this.#processes[action.first] as SimProcess
    const second = this.#processes[action.second] as SimProcess
    return this.#held(first, action.atRequest, (run) => this.#meanwhile(action, first, second, run))
  }

  /** Holds a process up at one of its requests while `work` goes on; `work` lets it go and answers what came of it. */
  async #held(
    process: SimProcess,
    atRequest: number,
    work: (run: Promise<string>) => Promise<string>,
  ): Promise<string> {
    if (process.dead) process.start()
    const arrived = process.gate.close(atRequest).then(() => true)
    const run = process.run(5_000)
    if (await Promise.race([arrived, run.then(() => false)])) return work(run)
    return `${await this.#go(process, run)}; it was not held up`
  }

  /** A run that was held up while its watcher was paused changes nothing of it any more. */
  async #pauseDuring(action: Of<'pauseDuring'>): Promise<string> {
    const process = this.#processes[action.process] as SimProcess
    return this.#held(process, action.atRequest, async (run) => {
      const said = await this.#operator.pause(this.#inspector, this.#kind(action.watcher))
      const before = this.#watcher(action.watcher)
      const outcome = await this.#go(process, run)
      if (said !== undefined) return `${outcome}; ${said}`
      const after = this.#watcher(action.watcher)
      must(
        JSON.stringify(before) === JSON.stringify(after),
        'cursor',
        () => `${before?.kind}: its row changed while it was paused`,
      )
      return outcome
    })
  }

  async #go(first: SimProcess, run: Promise<string>): Promise<string> {
    first.gate.open()
    return run
  }

  async #meanwhile(
    action: Of<'overlap'>,
    first: SimProcess,
    second: SimProcess,
    run: Promise<string>,
  ): Promise<string> {
    const owner = this.#tokens()
    if (action.steals) first.driver.loseLock()
    const other = await second.run(5_000)
    this.#powerCut()
    must(
      action.steals || first.dead || second.dead || other === 'held' || other.startsWith('refused'),
      'fencing',
      () => `a second process ran beside the first: ${other}`,
    )
    const taken = this.#tokens() !== owner
    const before = JSON.stringify(this.#inspector.watchers())
    const outcome = await this.#go(first, run)
    must(
      !taken || JSON.stringify(this.#inspector.watchers()) === before,
      'fencing',
      () => `process ${first.index} woke up after process ${second.index} had taken over, and changed a watcher's row`,
    )
    return `first: ${outcome}; second: ${other}${taken ? ', which took over' : ''}`
  }

  #tokens(): string {
    return this.#inspector
      .watchers()
      .map(({ token }) => token)
      .join()
  }

  /** What follows an action: the power may be out, and the database is looked at. */
  #afterwards(): void {
    this.#powerCut()
    this.#learn()
    this.#guardian.look(this.#inspector)
  }

  #powerCut(): void {
    if (!this.#processes.some(({ driver }) => driver.powerLost)) return
    for (const process of this.#processes) process.driver.kill()
    for (const process of this.#processes) process.driver.powerLost = false
    this.#inspector.close()
    this.#disk.useSnapshot()
    this.#inspector = new Inspector(this.#disk.file)
  }

  /** Faults stop, the chain grows until everything is final, and the operator resumes: now everything must settle. */
  async settle(): Promise<void> {
    this.#trace.add('the faults are over')
    this.#unwell.fill(false)
    for (const rpc of this.providers) rpc.stopFaults()
    for (const { driver } of this.#processes) driver.disarm()
    this.liar.stop()
    this.probe.stop()
    this.chain.heal()
    const { finalDepth, minDepth, confirmations } = this.#options
    this.chain.mine(
      0xfffe,
      Array.from({ length: finalDepth + minDepth + confirmations + 2 }, () => []),
    )
    for (let round = 0; round < LAST_ROUNDS; round++) {
      await this.#round()
      if (this.#unsettled().length === 0) return this.#guardian.verdict(this.#inspector)
    }
    const [watcher] = this.#unsettled()
    if (watcher)
      fail(
        'liveness',
        `${watcher.kind} does not settle: cursor ${watcher.cursor}, settled ${watcher.settled}, ${watcher.state} ${watcher.code}, head ${this.chain.chain.head().number}`,
      )
  }

  async #round(): Promise<void> {
    await this.#operator.resume(this.#inspector)
    for (const process of this.#processes) {
      this.steps += 1
      this.#trace.add(`   process ${process.index}: ${await process.run(5_000)}`)
      this.#afterwards()
    }
    await this.clock.sleep(ROUND_MS)
    this.chain.mine(0xfffd, [[]])
  }

  /** Watchers that have not settled the last block with events yet. */
  #unsettled(): WatcherState[] {
    const last = this.chain.chain.canonical().findLast((block) => block.logs.length > 0)?.number ?? -1
    const watchers = this.#inspector.watchers()
    must(watchers.length === this.#options.watchers.length, 'liveness', () => 'a watcher has no row')
    return watchers.filter((watcher) => {
      const { state, settled, startBlock } = watcher
      return !this.#guardian.hasEnded(watcher) && (state !== 'running' || (settled ?? -1) < Math.max(last, startBlock))
    })
  }
}
