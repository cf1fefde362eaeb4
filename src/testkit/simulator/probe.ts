import type { SqliteDatabaseLike } from '../../store/sqlite/driver.ts'
import type { SqliteDb } from '../../store/sqlite/index.ts'
import type { TestWorld } from '../test-world.ts'
import { type FailureKind, must } from './failure.ts'
import type { Misbehaviour, Stage } from './plan.ts'

/** Virtual milliseconds: above any limit that a run gives its handlers. */
export const HANG_MS = 20_000

export const THROWN = {
  prepare: 'PREPARE_FAILED',
  handle: 'HANDLER_FAILED',
  undo: 'UNDO_FAILED',
  final: 'FINAL_FAILED',
} as const

/** The code with which a watcher must halt after a misbehaviour. */
function codeOf(stage: Stage, does: Misbehaviour): string {
  switch (does) {
    case 'throw':
    case 'throw-after':
    case 'commit':
      return THROWN[stage]
    case 'hang':
      return 'HANDLER_TIMEOUT'
    case 'swallow':
      return 'HANDLER_SWALLOWED_ERROR'
    case 'promise':
      return 'HANDLER_RETURNED_PROMISE'
    case 'rollback':
      return 'TRANSACTION_LOST'
    case 'reopen':
      return 'NONCE_LOST'
    case 'stale':
      return 'SCOPE_DEAD'
  }
}

/** The code with which a watcher must halt after a misbehaviour, on one kind of database. */
export type CodeOf = (stage: Stage, does: Misbehaviour) => string

/** A call that goes wrong on purpose. */
export interface PlannedCall {
  readonly does: Misbehaviour
  /** The handle of an earlier call. */
  readonly kept: unknown
  /** Said after what comes before the work: a transaction that was begun anew forgets what was said before. */
  readonly wrong: () => void
}

interface Fault {
  readonly watcher: string
  readonly stage: Stage
  readonly does: Misbehaviour
  after: number
  left: number
}

/** Stands inside the user's functions: lets them misbehave as planned, and notes what must never be seen from there. */
export class Probe {
  calls = 0
  /** Calls that went wrong on purpose, by stage and misbehaviour. */
  readonly misbehaved: Record<string, number> = {}
  readonly #clock: TestWorld
  readonly #handlerMs: number
  #faults: Fault[] = []
  /** Codes that misbehaviour has provoked, by watcher. */
  readonly #provoked = new Map<string, Set<string>>()
  #seen: { kind: FailureKind; words: string } | null = null
  /** What one of the user's functions did wrong since the last BEGIN. */
  #wrong: string | null = null
  /** The handle that a call of each watcher got last. */
  readonly #kept = new Map<string, unknown>()

  constructor(clock: TestWorld, handlerMs: number) {
    this.#clock = clock
    this.#handlerMs = handlerMs
  }

  /** @param after so many calls go well before, @param times so many calls go wrong then */
  plan(watcher: string, stage: Stage, does: Misbehaviour, after: number, times: number): void {
    // A transaction opened through `raw` and committed through `raw` is nobody's but the handler's: no guard reaches it.
    const other = does === 'commit' ? 'reopen' : 'commit'
    const raw = does === 'commit' || does === 'reopen'
    const clash = raw && this.#faults.some((one) => one.watcher === watcher && one.does === other && one.left > 0)
    this.#faults.push({ watcher, stage, does: clash ? 'throw' : does, after, left: times })
  }

  /** From here on the user's functions behave. */
  stop(): void {
    this.#faults = []
  }

  hasProvoked(watcher: string, code: string): boolean {
    return this.#provoked.get(watcher)?.has(code) ?? false
  }

  /** Something that must not be: told after the run, since a throw from here would be the user's. */
  saw(kind: FailureKind, words: string): void {
    this.#seen ??= { kind, words }
  }

  /** As `saw`, from inside a transaction. One in which a function misbehaved may look like anything: it must end, and does not count. */
  sawInside(kind: FailureKind, words: string): void {
    if (this.#wrong === null) this.saw(kind, words)
  }

  began(): void {
    this.#wrong = null
  }

  /** @throws {SimulationFailure} when a function of the user's misbehaved in the transaction that is on the disk now */
  committed(): void {
    must(this.#wrong === null, 'one commit', () => `a transaction was committed although ${this.#wrong}`)
  }

  take(): { kind: FailureKind; words: string } | null {
    const seen = this.#seen
    this.#seen = null
    return seen
  }

  /** Runs one of the user's functions for one event, well or badly. */
  call<T>(watcher: string, stage: Stage, db: SqliteDb, work: () => T): T {
    const planned = this.enter(watcher, stage, db, codeOf)
    if (!planned) return work()
    const { does, kept, wrong } = planned
    return misbehave(does, { db, kept: kept as SqliteDb | undefined, clock: this.#clock, work, wrong })
  }

  /** One of the user's functions is called. Answers what it does wrong, if anything. */
  enter(watcher: string, stage: Stage, db: unknown, code: CodeOf): PlannedCall | null {
    this.calls += 1
    this.#clock.tick(this.#handlerMs)
    const kept = this.#kept.get(watcher)
    this.#kept.set(watcher, db)
    const planned = this.#next(watcher, stage)
    if (!planned) return null
    // Before the first call there is no handle that could have been kept.
    const does = planned === 'stale' && !kept ? 'throw' : planned
    this.#count(stage, does)
    const codes = this.#provoked.get(watcher) ?? new Set()
    this.#provoked.set(watcher, codes.add(code(stage, does)))
    return { does, kept, wrong: () => this.#goesWrong(watcher, stage, does) }
  }

  /** Time passes in the middle of a call. */
  passes(ms: number): void {
    this.#clock.tick(ms)
  }

  #count(stage: Stage, does: Misbehaviour): void {
    const name = `${stage} ${does}`
    this.misbehaved[name] = (this.misbehaved[name] ?? 0) + 1
  }

  #goesWrong(watcher: string, stage: Stage, does: Misbehaviour): void {
    this.#wrong = `${stage} of ${watcher} did ${does}`
  }

  /** `prepare` of one event: it waits, and has no database. What it does wrong is tried again, and halts nothing. */
  async prepare(watcher: string): Promise<void> {
    const does = this.#next(watcher, 'prepare')
    if (!does) return
    this.#count('prepare', does)
    if (does === 'hang') await this.#clock.sleep(HANG_MS)
    else throw new Error('a fault of prepare')
  }

  #next(watcher: string, stage: Stage): Misbehaviour | null {
    const fault = this.#faults.find((one) => one.watcher === watcher && one.stage === stage && one.left > 0)
    if (!fault) return null
    if (fault.after > 0) {
      fault.after -= 1
      return null
    }
    fault.left -= 1
    return fault.does
  }
}

function swallow(work: () => unknown): void {
  try {
    work()
  } catch {
    // As users do.
  }
}

/** Ends the transaction and opens another that looks the same, savepoint and all. */
function reopen(db: SqliteDb): void {
  const raw = db.raw as SqliteDatabaseLike
  raw.exec('ROLLBACK')
  raw.exec('BEGIN IMMEDIATE')
  raw.exec('SAVEPOINT tidemark_handler')
}

interface Call<T> {
  readonly db: SqliteDb
  readonly kept: SqliteDb | undefined
  readonly clock: TestWorld
  readonly work: () => T
  readonly wrong: () => void
}

function before(does: Misbehaviour, { db, kept, clock }: Call<unknown>): void {
  if (does === 'hang') clock.tick(HANG_MS)
  if (does === 'swallow') swallow(() => db.exec('INSERT INTO table_that_is_not_there VALUES (1)'))
  if (does === 'rollback') swallow(() => db.exec('INSERT OR ROLLBACK INTO simulator_once VALUES (1)'))
  if (does === 'commit') (db.raw as SqliteDatabaseLike).exec('COMMIT')
  if (does === 'stale') kept?.exec('UPDATE simulator_once SET id = id')
  if (does === 'reopen') reopen(db)
}

function misbehave<T>(does: Misbehaviour, call: Call<T>): T {
  call.wrong()
  if (does === 'throw') throw new Error('a fault of the handler')
  before(does, call)
  call.wrong()
  const result = call.work()
  if (does === 'throw-after') throw new Error('a fault of the handler')
  return does === 'promise' ? (Promise.resolve(result) as T) : result
}
