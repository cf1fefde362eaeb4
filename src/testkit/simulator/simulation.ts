import type { Hex } from '../../util/bytes.ts'
import type { Maybe } from '../../util/op.ts'
import { Random } from '../random.ts'
import { TestWorld } from '../test-world.ts'
import { type Application, CHAIN } from './application.ts'
import type { Backend, Inspection, ProcessDriver } from './backend.ts'
import { FORGET_STEP } from './checks.ts'
import { fail, must } from './failure.ts'
import { Freezes } from './freezes.ts'
import { Guardian } from './guardian.ts'
import type { WatcherState } from './inspector.ts'
import { Nodes } from './nodes.ts'
import { Operator } from './operator.ts'
import type { SwarmOptions } from './options.ts'
import { Overlaps } from './overlaps.ts'
import { type Action, drawBlocks, type PlannedAction } from './plan.ts'
import { Probe } from './probe.ts'
import { type Ground, isCrash, SimProcess, type Tally } from './process.ts'
import { Restores } from './restores.ts'
import { SimChain } from './sim-chain.ts'
import { Slips } from './slips.ts'
import type { Trace } from './trace.ts'
import { Liar } from './transport.ts'
import { wordsOf } from './words.ts'

type Of<K extends Action['kind']> = Extract<Action, { kind: K }> & PlannedAction

type Fork = Of<'reorg'> | Of<'reorgDuring'> | Of<'winBack'> | Of<'violate'>

/** Rounds that the watchers get to settle once every fault has ended. */
const LAST_ROUNDS = 60
/** Longer than the longest wait after a failure. */
const ROUND_MS = 61_000
/** Milliseconds that pass between two actions. */
const PAUSE_MS = 60

/** The world of one run, and what the actions of a plan do in it. */
export class Simulation {
  steps = 0
  readonly clock: TestWorld
  readonly chain: SimChain
  readonly probe: Probe
  readonly liar: Liar
  readonly slips: Slips
  readonly nodes: Nodes
  readonly tally: Tally = { events: 0, crashes: 0, mishaps: {} }
  readonly #options: SwarmOptions
  readonly #trace: Trace
  readonly #backend: Backend
  readonly #guardian: Guardian
  readonly #operator: Operator
  readonly #processes: SimProcess[]
  readonly #overlaps: Overlaps
  readonly #freezes: Freezes
  readonly #restores: Restores
  readonly #ground: Ground
  #application: Application
  /** By how much the wall clock is wrong. */
  #jumped = 0
  #inspector: Inspection
  /** What was found after a commit, in the middle of a run: a throw from there would be the engine's. */
  #broken: unknown = null

  constructor(
    seed: number | string,
    options: SwarmOptions,
    trace: Trace,
    backend: (options: SwarmOptions, clock: TestWorld) => Backend,
  ) {
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
    const { mixes, nulls, gaps } = options
    this.slips = new Slips({ random: new Random(seed).fork('slips'), chain: this.chain, mixes, nulls, gaps })
    this.nodes = new Nodes(seed, options, this.chain, this.clock)
    this.#backend = backend(options, this.clock)
    this.#guardian = new Guardian(options, this.chain, this.probe)
    this.#operator = new Operator({
      options,
      clock: this.clock,
      backend: this.#backend,
      chain: this.chain,
      guardian: this.#guardian,
    })
    this.#application = this.#backend.application(options, this.probe)
    this.#inspector = this.#backend.inspect(this.#application)
    this.#ground = this.#groundOf(seed)
    this.#processes = Array.from(
      { length: this.#backend.processes(options) },
      (_, i) => new SimProcess(this.#ground, i),
    )
    const common = this.#common()
    const freezes = new Freezes({ ...common, clock: this.clock, nameOf: (n) => `${this.#kind(n)}/${CHAIN}` })
    this.#freezes = freezes
    this.#restores = new Restores({ ...common, guardian: this.#guardian, copies: this.#backend.copies })
    const operator = this.#operator
    const shared = this.#backend.shared ? freezes.overlap.bind(freezes) : null
    this.#overlaps = new Overlaps({ ...common, operator, shared, fork: (action) => this.#fork(action) })
  }

  #common() {
    return {
      processes: this.#processes,
      inspector: () => this.#inspector,
      refresh: () => this.#inspector.refresh(),
      powerCut: () => this.#powerCut(),
    }
  }

  #groundOf(seed: number | string): Ground {
    const { clock, liar, slips, tally } = this
    const providers = this.nodes.all
    const log = (line: string) => this.#trace.add(line)
    const watchers = () => this.#application.watchers
    const claimed: Ground['claimed'] = (watcher, line, block) => this.#claimed(watcher, line, block)
    const began = () => this.probe.began()
    const committed: Ground['committed'] = (driver) => this.#committed(driver)
    const saw: Ground['saw'] = (kind, words) => this.probe.saw(kind, words)
    const reorged: Ground['reorged'] = (watcher, to, blocks) => this.#reorged(watcher, to, blocks)
    const common = { seed, options: this.#options, clock, backend: this.#backend, providers, liar, slips }
    const environment = this.#backend.shared ? 'simulator' : undefined
    return { ...common, environment, watchers, tally, log, claimed, reorged, began, committed, saw }
  }

  /** Looks at the database as this commit has left it, before anything else happens. */
  #committed(driver: ProcessDriver): Maybe<void> {
    if (this.#broken !== null) return
    const loading = this.#inspector.refresh()
    if (loading) return loading.then(() => this.#glance(driver))
    this.#glance(driver)
  }

  #glance(driver: ProcessDriver): void {
    try {
      this.probe.committed()
      this.#backend.checkCommit(driver)
      this.#guardian.glance(this.#inspector)
    } catch (error) {
      this.#broken = error
    }
  }

  /** A process reports what it has committed, and nothing else. */
  #claimed(watcher: string, line: 'cursor' | 'settled', block: number | null): void {
    const found = this.#inspector.linesOf(watcher)
    if (found?.[line] !== block)
      this.probe.saw('one commit', `${watcher} was reported with ${line} ${block}, and has ${found?.[line]}`)
  }

  /** Nothing is given up before its replacement is on hand: some block of another line, at a height that was given up. */
  #reorged(watcher: string, to: number | null, blocks: ReadonlySet<string>): void {
    const left = this.#guardian.gaveUp(watcher)
    if (!left) return
    const replaces = (hash: string) => {
      const number = this.chain.chain.blockByHash(hash as Hex)?.number ?? -1
      return number > (to ?? -1) && number <= left.cursor && !left.hashes.has(hash)
    }
    if (![...blocks].some(replaces))
      this.probe.saw('undo', `${watcher} went back to ${to} before it had what stands in the place of ${left.cursor}`)
  }

  get reorgs(): number {
    return this.chain.reorgs
  }

  /** What went wrong on purpose, by name: faults of providers, mishaps, misbehaviour of functions, lies and slips. */
  get acted(): Readonly<Record<string, number>> {
    const { mixes, nulls, gaps } = this.slips.made
    const lists = [...this.nodes.all.map((rpc) => rpc.log.faults), this.tally.mishaps, this.probe.misbehaved]
    const acted: Record<string, number> = { lies: this.liar.told, mixes, nulls, gaps }
    for (const [name, count] of lists.flatMap((list) => Object.entries(list))) acted[name] = (acted[name] ?? 0) + count
    return Object.fromEntries(Object.entries(acted).filter(([, count]) => count > 0))
  }

  /** Everything that went wrong on purpose and was not a crash. */
  get faults(): number {
    return Object.entries(this.acted).reduce((sum, [name, count]) => (isCrash(name) ? sum : sum + count), 0)
  }

  async close(): Promise<void> {
    for (const process of this.#processes) process.driver.kill()
    await this.#freezes.bury()
    this.#inspector.close()
    this.#backend.close()
  }

  async perform(action: PlannedAction): Promise<void> {
    this.steps += 1
    this.#trace.add(wordsOf(action))
    const outcome = await this.#act(action).catch((error: unknown) => {
      throw this.#broken ?? error
    })
    if (outcome) this.#trace.add(`   ${outcome}`)
    await this.#afterwards()
    await this.clock.sleep(PAUSE_MS)
  }

  async #act(action: PlannedAction): Promise<string | undefined> {
    const blocked = this.#freezes.blocks(action)
    if (blocked !== null) return blocked
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
        return this.#overlaps.overlap(action)
      case 'reorgDuring':
        return this.#overlaps.reorgDuring(action)
      case 'pauseDuring':
        return this.#overlaps.pauseDuring(action, this.#kind(action.watcher))
      case 'freeze':
        return this.#freezes.freeze(action)
      case 'thaw':
        return this.#freezes.thaw(action)
      case 'restore':
        return this.#restores.restore(action)
      default:
        return this.#disturb(action)
    }
  }

  /** What a person corrects by hand is right for one chain only: it stands still until Tidemark has followed. */
  #fork(action: Fork): string {
    if (this.#guardian.correcting) return 'not now: effects were corrected by hand'
    if (action.kind === 'winBack') return this.chain.winBack(action)
    return action.kind === 'violate' ? this.chain.violate(action) : this.chain.reorg(action)
  }

  async #disturb(action: PlannedAction): Promise<string | undefined> {
    switch (action.kind) {
      case 'faults':
        return this.nodes.set(action.provider, action.on) as undefined
      case 'wait':
        return void (await this.clock.sleep(action.ms))
      case 'wallJump':
        return this.#jump(action.ms)
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

  #kind(watcher: number): string {
    return this.#options.watchers[watcher] as string
  }

  #jump(ms: number): undefined {
    this.#jumped += ms
    this.clock.jumpWallClock(ms)
  }

  async #restart({ process, at }: Of<'restart'>): Promise<undefined> {
    if (at) this.#application = this.#backend.application({ ...this.#options, at }, this.probe)
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
        return this.#operator.moveCursor(this.#inspector, this.#kind(action.watcher), action)
      default:
        return undefined
    }
  }

  /** What follows an action: the power may be out, and the database is looked at. */
  async #afterwards(): Promise<void> {
    if (this.#broken !== null) throw this.#broken
    this.#powerCut()
    await this.#freezes.bury()
    await this.#inspector.refresh()
    this.nodes.learn(() => this.#inspector.knowsChain)
    this.#guardian.look(this.#inspector)
  }

  #powerCut(): void {
    if (!this.#processes.some(({ driver }) => driver.powerLost)) return
    for (const process of this.#processes) process.driver.kill()
    for (const process of this.#processes) process.driver.powerLost = false
    this.#inspector.close()
    this.#backend.goOn()
    this.#inspector = this.#backend.inspect(this.#application)
  }

  /** Faults stop, the chain grows until everything is final, and the operator resumes: now everything must settle. */
  async settle(): Promise<void> {
    this.#trace.add('the faults are over')
    this.nodes.stop()
    for (const { driver } of this.#processes) driver.disarm()
    this.liar.stop()
    this.slips.stop()
    this.probe.stop()
    await this.#freezes.thawAll()
    // A clock that was set back by a day holds up forgetting for a day, where other transactions may be open.
    if (this.#backend.shared) this.#jump(-this.#jumped)
    this.chain.heal()
    const { finalDepth, minDepth, confirmations } = this.#options
    this.chain.mine(
      0xfffe,
      Array.from({ length: finalDepth + minDepth + confirmations + 2 }, () => []),
    )
    if (this.#backend.shared) await this.#stranger()
    for (let round = 0; round < LAST_ROUNDS; round++) {
      await this.#round()
      if (this.#unsettled().length === 0) return this.#conclude()
    }
    const [watcher] = this.#unsettled()
    if (watcher)
      fail(
        'liveness',
        `${watcher.kind} does not settle: cursor ${watcher.cursor}, settled ${watcher.settled}, ${watcher.state} ${watcher.code}, head ${this.chain.chain.head().number}`,
      )
  }

  /** A process of another environment is refused, once the database has a name. */
  async #stranger(): Promise<void> {
    if (this.#inspector.watchers().length === 0) return
    const stranger = new SimProcess({ ...this.#ground, environment: 'another' }, this.#processes.length)
    const code = await stranger.refusal()
    stranger.driver.kill()
    must(
      code === 'ENVIRONMENT_MISMATCH',
      'fencing',
      () => `a process of another environment ran: ${code ?? 'no error'}`,
    )
  }

  async #conclude(): Promise<void> {
    // Where there is enough to forget, that comes last: one more round brings it to its end, and another one where marks
    // stay until no older transaction can be open.
    const rounds = this.chain.chain.head().number > FORGET_STEP ? (this.#backend.shared ? 2 : 1) : 0
    for (let round = 0; round < rounds; round++) await this.#round()
    this.#guardian.verdict(this.#inspector)
  }

  async #round(): Promise<void> {
    await this.#operator.resume(this.#inspector)
    for (const process of this.#processes) {
      this.steps += 1
      this.#trace.add(`   process ${process.index}: ${await process.run(5_000)}`)
      await this.#afterwards()
    }
    await this.clock.sleep(ROUND_MS)
    this.chain.mine(0xfffd, [[]])
  }

  /** Watchers that have not settled the last block with events yet, or do not stand on the final chain. */
  #unsettled(): WatcherState[] {
    const last = this.chain.chain.canonical().findLast((block) => block.logs.length > 0)?.number ?? -1
    const watchers = this.#inspector.watchers()
    must(watchers.length === this.#options.watchers.length, 'liveness', () => 'a watcher has no row')
    return watchers.filter((watcher) => {
      const { state, settled, startBlock, cursor, cursorHash } = watcher
      if (this.#guardian.hasEnded(watcher)) return false
      const left = this.chain.chain.blockByNumber(cursor ?? 0)?.hash !== cursorHash
      return left || state !== 'running' || (settled ?? -1) < Math.max(last, startBlock)
    })
  }
}
