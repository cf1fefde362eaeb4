import type { Watcher } from '../../handle/watch.ts'
import { Random } from '../random.ts'
import type { TestWorld } from '../test-world.ts'
import { inFrame, type Reach, type TrapFrame } from './traps.ts'

/** The functions of a watcher that run inside the transaction. */
export type Stage = 'handle' | 'undo' | 'final'

/** With what code a watcher halts after its function threw. */
const THROWN = { handle: 'HANDLER_FAILED', undo: 'UNDO_FAILED', final: 'FINAL_FAILED' } as const

/** SQLite's code for "another connection has the lock" (https://sqlite.org/rescode.html#busy), in its low byte. */
const BUSY = 5

/** Reaches that are told apart at most. */
const MAX_KINDS = 1_000

/** How often one function of the user's did one thing. */
export interface Reached {
  readonly watcher: string
  readonly stage: Stage
  readonly reach: Reach
  /** `fetch`, `Date.now()`. */
  readonly what: string
  readonly times: number
}

/** Stands between Tidemark and the user's functions in one run: counts what they do, and makes them fail when the plan says so. */
export class Observer {
  /** Functions that met a lock of another connection: the watchers. */
  readonly locked = new Set<string>()
  readonly #clock: TestWorld
  readonly #random: Random
  readonly #reached = new Map<string, Reached>()
  #faults: { watcher: string; stage: Stage; left: number }[] = []
  /** Planned failures by watcher and code that no halt was taken for yet. */
  readonly #provoked = new Map<string, number>()
  /** Called when a planned failure strikes. */
  onFault: (watcher: string, stage: Stage) => void = () => {}

  constructor(clock: TestWorld, seed: number | string) {
    this.#clock = clock
    this.#random = new Random(seed).fork('chance of the handlers')
  }

  get reached(): readonly Reached[] {
    return [...this.#reached.values()]
  }

  /** From now on `times` calls of this function work, and then throw. */
  plan(watcher: string, stage: Stage, times: number): void {
    this.#faults.push({ watcher, stage, left: times })
  }

  stop(): void {
    this.#faults = []
  }

  /** Whether a halt with this code was planned. Each is answered once. */
  takeProvoked(watcher: string, code: string): boolean {
    const key = `${watcher} ${code}`
    const left = this.#provoked.get(key) ?? 0
    this.#provoked.set(key, left - 1)
    return left > 0
  }

  /** The watcher with its functions observed. `on` says where it runs. */
  observe(name: string, watcher: Watcher, on: Watcher['definition']['on']): Watcher {
    const { definition } = watcher
    const { handle, undo, final } = definition
    const watched = {
      ...definition,
      on,
      handle: this.#around(name, 'handle', handle),
      ...(typeof undo === 'function' ? { undo: this.#around(name, 'undo', undo) } : {}),
      ...(final ? { final: this.#around(name, 'final', final) } : {}),
    }
    return { isTidemarkWatcher: true, definition: watched as Watcher['definition'] }
  }

  #around(watcher: string, stage: Stage, work: (scope: never) => unknown): (scope: unknown) => unknown {
    const frame: TrapFrame = {
      now: () => this.#clock.now(),
      random: () => this.#random.next(),
      note: (reach, what) => this.#note({ watcher, stage, reach, what }),
    }
    return (scope) => {
      const result = this.#watchingLocks(watcher, () => inFrame(frame, () => work(scope as never)))
      this.#failAsPlanned(watcher, stage)
      return result
    }
  }

  #watchingLocks<T>(watcher: string, work: () => T): T {
    try {
      return work()
    } catch (error) {
      const { errcode, code } = (error ?? {}) as { errcode?: unknown; code?: unknown }
      if ((Number(errcode) & 255) === BUSY || String(code).startsWith('SQLITE_BUSY')) this.locked.add(watcher)
      throw error
    }
  }

  #note(seen: Omit<Reached, 'times'>): void {
    const key = Object.values(seen).join(' ')
    const times = (this.#reached.get(key)?.times ?? 0) + 1
    if (times > 1 || this.#reached.size < MAX_KINDS) this.#reached.set(key, { ...seen, times })
  }

  /** After its work: whatever it did outside of the transaction is done by now. */
  #failAsPlanned(watcher: string, stage: Stage): void {
    const fault = this.#faults.find((one) => one.watcher === watcher && one.stage === stage && one.left > 0)
    if (!fault) return
    fault.left -= 1
    const key = `${watcher} ${THROWN[stage]}`
    this.#provoked.set(key, Math.max(0, this.#provoked.get(key) ?? 0) + 1)
    this.onFault(watcher, stage)
    throw new Error('a planned failure of the simulation')
  }
}
