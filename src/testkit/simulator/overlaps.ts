import type { Inspection } from './backend.ts'
import { must } from './failure.ts'
import type { Operator } from './operator.ts'
import type { Action, PlannedAction } from './plan.ts'
import type { SimProcess } from './process.ts'

type Of<K extends Action['kind']> = Extract<Action, { kind: K }> & PlannedAction

export interface OverlapGround {
  readonly processes: readonly SimProcess[]
  readonly operator: Operator
  /** Another one after each loss of power. */
  readonly inspector: () => Inspection
  /** Before anything is read from the inspector that may be newer than the last commit of a process. */
  readonly refresh: () => Promise<void> | undefined
  /** Where each watcher has a lease of its own: what happens while one is held up and another one comes. */
  readonly shared: ((action: Of<'overlap'>, run: Promise<string>) => Promise<string>) | null
  /** Goes on with what a loss of power has left, when there was one. */
  readonly powerCut: () => void
  readonly fork: (action: Of<'reorgDuring'>) => string
}

/** What happens to a process that is held up at one of its requests: another one comes, or a person. */
export class Overlaps {
  readonly #ground: OverlapGround

  constructor(ground: OverlapGround) {
    this.#ground = ground
  }

  async overlap(action: Of<'overlap'>): Promise<string> {
    const { processes } = this.#ground
    const first = processes[action.first] as SimProcess
    const second = processes[action.second] as SimProcess
    const { shared } = this.#ground
    return this.#held(first, action.atRequest, (run) =>
      shared ? shared(action, run) : this.#meanwhile(action, first, second, run),
    )
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

  async reorgDuring(action: Of<'reorgDuring'>): Promise<string> {
    const process = this.#ground.processes[action.process] as SimProcess
    return this.#held(process, action.atRequest, async (run) => {
      const said = this.#ground.fork(action)
      return `${said}; ${await this.#go(process, run)}`
    })
  }

  /** A run that was held up while its watcher was paused changes nothing of it any more. */
  async pauseDuring(action: Of<'pauseDuring'>, kind: string): Promise<string> {
    const { processes, operator, inspector } = this.#ground
    const process = processes[action.process] as SimProcess
    const watcher = () =>
      inspector()
        .watchers()
        .find((one) => one.kind === kind)
    return this.#held(process, action.atRequest, async (run) => {
      const said = await operator.pause(inspector(), kind)
      const before = watcher()
      const outcome = await this.#go(process, run)
      await this.#ground.refresh()
      if (said !== undefined) return `${outcome}; ${said}`
      const after = watcher()
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
    if (action.steals) await first.driver.loseLock()
    const other = await second.run(5_000)
    this.#ground.powerCut()
    must(
      action.steals || first.dead || second.dead || other === 'held' || other.startsWith('refused'),
      'fencing',
      () => `a second process ran beside the first: ${other}`,
    )
    // Who got the lock has written its own token, before anything else.
    const ran = !first.dead && !second.dead && other !== 'held' && !other.startsWith('refused')
    const tokens = this.#tokens()
    const taken = tokens.some((token) => !owner.includes(token))
    must(taken || !ran, 'fencing', () => `process ${second.index} took over under the token of process ${first.index}`)
    // A watcher that could not be taken over, for a failure of the disk, is still the first one's.
    const lost = () =>
      JSON.stringify(
        this.#ground
          .inspector()
          .watchers()
          .filter(({ token }) => !owner.includes(token)),
      )
    const before = lost()
    const outcome = await this.#go(first, run)
    must(
      !taken || lost() === before,
      'fencing',
      () => `process ${first.index} woke up after process ${second.index} had taken over, and changed a watcher's row`,
    )
    return `first: ${outcome}; second: ${other}${taken ? ', which took over' : ''}`
  }

  #tokens(): string[] {
    return this.#ground
      .inspector()
      .watchers()
      .map(({ token }) => token)
  }
}
