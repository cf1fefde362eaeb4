import type { TestWorld } from '../test-world.ts'
import { CHAIN } from './application.ts'
import type { FreezableDriver, Inspection } from './backend.ts'
import { must } from './failure.ts'
import type { WatcherState } from './inspector.ts'
import type { Action, PlannedAction, SharedAction } from './plan.ts'
import type { SimProcess } from './process.ts'

type Of<K extends SharedAction['kind']> = Extract<SharedAction, { kind: K }>

/** How long a lease lasts in a run, in simulated milliseconds. */
export const LEASE_MS = 10_000
/** Simulated time for which a process may work. */
const BUDGET_MS = 5_000

export interface FreezeGround {
  readonly processes: readonly SimProcess[]
  readonly clock: TestWorld
  readonly inspector: () => Inspection
  readonly refresh: () => Promise<void> | undefined
  /** Goes on with what a loss of power has left, when there was one. */
  readonly powerCut: () => void
  /** The whole name of the n-th watcher. */
  readonly nameOf: (watcher: number) => string
}

/** Actions of a person change a row, which a process that is frozen with a transaction open may have locked. */
const OF_PERSONS: ReadonlySet<string> = new Set(['resume', 'pause', 'moveCursor', 'pauseDuring'])

function involved(action: PlannedAction): readonly number[] {
  if ('process' in action) return [action.process]
  return action.kind === 'overlap' ? [action.first, action.second] : []
}

/**
 * Processes on a shared database that are frozen for longer than their leases, or lose them otherwise, and wake up when
 * others have taken over: the older one must change nothing any more, and must not stand in the way for longer than its
 * lease (P9).
 */
export class Freezes {
  readonly #ground: FreezeGround
  readonly #frozen = new Map<number, Promise<string>>()

  constructor(ground: FreezeGround) {
    this.#ground = ground
  }

  /** Why an action cannot happen now; null: it can. */
  blocks(action: PlannedAction): string | null {
    if (this.#frozen.size === 0 || action.kind === 'thaw') return null
    const stuck = involved(action).find((index) => this.#frozen.has(index))
    if (stuck !== undefined) return `process ${stuck} is frozen`
    if (action.kind === 'restore') return 'not now: a process is frozen'
    const inside = [...this.#frozen.keys()].some((index) => this.#driver(index).frozenInside)
    return inside && OF_PERSONS.has(action.kind) ? 'not now: a frozen process holds a row' : null
  }

  async freeze(action: Of<'freeze'>): Promise<string> {
    const { clock, nameOf } = this.#ground
    const process = this.#process(action.process)
    if (process.dead) process.start()
    const arrived = this.#driver(action.process)
      .freeze(action.atStatement)
      .then(() => true)
    const run = process.run(BUDGET_MS, action.watcher === null ? undefined : nameOf(action.watcher))
    // It is looked at when the process wakes up.
    run.catch(() => {})
    if (!(await Promise.race([arrived, run.then(() => false)]))) {
      await this.#driver(action.process).thaw()
      return `${await run}; it was not frozen`
    }
    this.#frozen.set(action.process, run)
    this.#disturb()
    // By its own clock it still has them.
    if (action.expires) await this.#driver(action.process).loseLock()
    await clock.sleep(action.ms)
    return `frozen${this.#driver(action.process).frozenInside ? ' in a transaction' : ''}; ${await this.#comes(action)}`
  }

  /** Another process comes: what it takes over, it must get in time. */
  async #comes({ process, other, ms, expires, stays }: Of<'freeze'>): Promise<string> {
    const { refresh, powerCut } = this.#ground
    if (other === process || this.#frozen.has(other)) return 'nobody came'
    await refresh()
    const held = this.#heldBy(process)
    const second = this.#process(other)
    if (stays !== undefined) return this.#stays(process, second, stays)
    const outcome = await second.run(BUDGET_MS)
    await refresh()
    powerCut()
    const sound = !this.#process(process).dead && !second.dead && !second.struck
    const left = this.#heldBy(process)
    if (sound && (ms > LEASE_MS || expires))
      must(left.size === 0, 'fencing', () => {
        return `the lease of process ${process}, which is frozen, is over, and process ${other} could not take ${[...left].join(', ')} over: ${outcome}`
      })
    const took = [...held].filter((watcher) => !left.has(watcher))
    await this.bury()
    return `process ${other}: ${outcome}${took.length > 0 ? `, which took over ${took.join(', ')}` : ''}`
  }

  /** The first process wakes up while the other one, held up at a request, is on duty: its leases are there to be harmed. */
  async #stays(process: number, second: SimProcess, atRequest: number): Promise<string> {
    const { refresh, powerCut } = this.#ground
    const arrived = second.gate.close(atRequest).then(() => true)
    const run = second.run(BUDGET_MS)
    const onDuty = await Promise.race([arrived, run.then(() => false)])
    const woken = await this.thaw({ process })
    second.disturbed = true
    second.gate.open()
    const outcome = await run
    this.#disturb()
    await refresh()
    powerCut()
    await this.bury()
    return `process ${second.index}: ${outcome}; ${onDuty ? 'meanwhile' : 'then'} process ${process} woke up: ${woken}`
  }

  async thaw({ process }: Pick<Of<'thaw'>, 'process'>): Promise<string> {
    const run = this.#frozen.get(process)
    if (!run) return 'it is not frozen'
    await this.#ground.refresh()
    return this.#wakes(process, async () => {
      await this.#driver(process).thaw()
      const outcome = await run
      this.#frozen.delete(process)
      return outcome
    })
  }

  async thawAll(): Promise<void> {
    for (const process of [...this.#frozen.keys()]) await this.thaw({ process })
  }

  /** A frozen process that was killed has ended. */
  async bury(): Promise<void> {
    for (const [process, run] of [...this.#frozen]) {
      if (!this.#process(process).dead) continue
      await run
      this.#frozen.delete(process)
    }
    this.#disturb()
  }

  /** The first process waits for an answer of a node, and is well; with `steals` its leases are expired by hand. */
  async overlap(action: Extract<Action, { kind: 'overlap' }>, run: Promise<string>): Promise<string> {
    const { clock, refresh, powerCut } = this.#ground
    const [first, second] = [this.#process(action.first), this.#process(action.second)]
    await refresh()
    const held = this.#heldBy(action.first)
    if (action.steals) await first.driver.loseLock()
    // A lease that is renewed outlives its length.
    else await clock.sleep(2 * LEASE_MS)
    const outcome = await second.run(BUDGET_MS)
    await refresh()
    powerCut()
    const left = this.#heldBy(action.first)
    const sound = !first.dead && !second.dead && !first.struck && !second.struck
    const wrong = [...held].filter((watcher) => left.has(watcher) === action.steals)
    must(!sound || wrong.length === 0, 'fencing', () => {
      const what = action.steals ? 'did not take over' : 'took over, although its lease was renewed,'
      return `process ${action.second} ${what} ${wrong.join(', ')} of process ${action.first}: ${outcome}`
    })
    const woken = await this.#wakes(action.first, async () => {
      first.gate.open()
      return run
    })
    return `first: ${woken}; second: ${outcome}`
  }

  // ------------------------------------------------------------------------------------------------------ who is who

  #process(index: number): SimProcess {
    return this.#ground.processes[index] as SimProcess
  }

  #driver(index: number): FreezableDriver {
    return this.#process(index).driver as FreezableDriver
  }

  /** Whoever took the lease last gave up before it wrote its token, and let the lease expire. */
  #isGivenUp({ kind, token }: WatcherState): boolean {
    const lease = this.#ground.inspector().leases().get(`${kind}/${CHAIN}`)
    return lease?.expired === true && lease.token !== token
  }

  /** The watchers whose leases hold a token of the process, expired or not. */
  #heldBy(index: number): ReadonlySet<string> {
    const { tokens } = this.#driver(index)
    const leases = [...this.#ground.inspector().leases()]
    return new Set(leases.filter(([, { token }]) => tokens.has(token)).map(([watcher]) => watcher))
  }

  /**
   * A process goes on that may have lost its leases meanwhile: the rows of other processes stay as they are, but for those
   * that it takes anew.
   */
  async #wakes(index: number, go: () => Promise<string>): Promise<string> {
    const { inspector, refresh } = this.#ground
    const old = new Set(this.#driver(index).tokens)
    const held = this.#heldBy(index)
    const foreign = inspector()
      .watchers()
      .filter((row) => !held.has(`${row.kind}/${CHAIN}`) && !this.#isGivenUp(row))
    const process = this.#process(index)
    process.disturbed = true
    const outcome = await go()
    this.#disturb()
    await refresh()
    const rows = new Map(
      inspector()
        .watchers()
        .map((row) => [row.kind, row]),
    )
    for (const before of foreign) this.#untouched(process, before, rows.get(before.kind), old)
    return outcome
  }

  #untouched(process: SimProcess, before: WatcherState, now: WatcherState | undefined, old: ReadonlySet<string>): void {
    const { tokens } = process.driver as FreezableDriver
    const anew = now !== undefined && tokens.has(now.token) && !old.has(now.token)
    must(anew || JSON.stringify(before) === JSON.stringify(now), 'fencing', () => {
      return `process ${process.index} woke up when ${before.kind} was another's, and changed its row: ${JSON.stringify(before)} became ${JSON.stringify(now)}`
    })
  }

  /** Whoever meets the locks of a frozen process is told that the database is busy. */
  #disturb(): void {
    for (const process of this.#ground.processes) process.disturbed = this.#frozen.size > 0
  }
}
