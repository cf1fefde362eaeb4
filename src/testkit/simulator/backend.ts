import type { Store } from '../../store/store.ts'
import type { Maybe } from '../../util/op.ts'
import type { World } from '../../util/world.ts'
import type { TestWorld } from '../test-world.ts'
import type { Application } from './application.ts'
import type { FailureKind } from './failure.ts'
import type { EffectLine, WatcherState, WatcherTables } from './inspector.ts'
import type { SwarmOptions } from './options.ts'
import type { Mishap, PlannedAction } from './plan.ts'
import type { Probe } from './probe.ts'

/** What a driver tells of the statements of its process. */
export interface DriverEvents {
  /** A mishap struck. */
  struck(mishap: Mishap, sql: string): void
  /** A transaction begins: what happened in the one before is over. */
  began?(): void
  /** A transaction is on the disk, whatever the process hears of it. Where it answers a promise, the process waits. */
  committed?(): unknown
  /** The driver saw what must never be. */
  saw?(kind: FailureKind, words: string): void
}

/** The way of one simulated process to the database: at a planned statement something goes wrong. */
export interface ProcessDriver {
  /** The process is dead: it reaches neither disk nor network. */
  readonly dead: boolean
  /** Power was lost: the other processes are dead as well. */
  powerLost: boolean
  readonly statements: number
  arm(mishap: Mishap, at: number): void
  disarm(): void
  /** What keeps other processes out is gone without a word to the process. */
  loseLock(): Maybe<void>
  kill(): void
}

/** A driver whose process can be frozen between two statements: nothing of it moves until it is thawed. */
export interface FreezableDriver extends ProcessDriver {
  /** Fencing tokens of leases that the process was given, in hex. */
  readonly tokens: ReadonlySet<string>
  readonly frozen: boolean
  /** Frozen with a transaction open. */
  readonly frozenInside: boolean
  /** @returns resolves when the process is frozen at its `atStatement`-th statement from now on */
  freeze(atStatement: number): Promise<void>
  /** Goes on, or will not be frozen any more. */
  thaw(): Promise<void>
}

/** A lease as it stands in its table, by the clock of the run. */
export interface LeaseLine {
  /** In hex. */
  readonly token: string
  readonly expired: boolean
}

/** Looks at the database from outside: only what is committed. */
export interface Inspection {
  /** Where looking takes a wait: reads everything, and the other verbs answer from that. undefined: they look themselves. */
  refresh(): Promise<void> | undefined
  /** Whether anything was committed since the last call. */
  changed(): boolean
  readonly knowsChain: boolean
  linesOf(watcher: string): { readonly cursor: number | null; readonly settled: number | null } | undefined
  nonceOf(watcher: WatcherState): string
  /** By the whole name of the watcher. */
  leases(): ReadonlyMap<string, LeaseLine>
  watchers(): WatcherState[]
  tables(watcher: WatcherState): WatcherTables
  /** What a person does with a database shell. */
  moveCursor(watcher: Pick<WatcherState, 'id'>, block: number, hash: string): Maybe<void>
  /** Takes effects back, as a person does whose watcher cannot. */
  takeBack(name: string, effects: readonly EffectLine[]): Maybe<void>
  close(): void
}

/** Copies of the whole database, but for what names processes: leases stay as they are. */
export interface Copies {
  keep(): Promise<void>
  /** The newest copy takes the place of what is there. */
  putBack(): Promise<void>
}

/** The database of one run, and the ways to it. */
export interface Backend {
  /** Whether several processes run at once, each watcher held by one of them. */
  readonly shared: boolean
  /** Null where no copy is put back in a run. */
  readonly copies: Copies | null
  /** How many processes a run has. */
  processes(options: SwarmOptions): number
  application(options: SwarmOptions, probe: Probe): Application
  /** A look from outside; makes the tables of the application where they are not there yet. */
  inspect(application: Application): Inspection
  driver(events: DriverEvents): ProcessDriver
  /** The store of a process. */
  store(driver: ProcessDriver, world: World): Store
  /** The store of a person beside the processes: nothing goes wrong there. */
  personStore(world: World): Store
  /** Looks at a commit of a process, after `refresh`. @throws {SimulationFailure} */
  checkCommit(driver: ProcessDriver): void
  /** Goes on with what a loss of power has left. All processes are dead. */
  goOn(): void
  close(): void
}

/** A database other than the default: a SQLite file of each run's own. */
export interface SimulatedDatabase {
  /** Empties it for the next run, and answers how that run reaches it. */
  begin(): Promise<(options: SwarmOptions, clock: TestWorld) => Backend>
  /** The plan of a seed, with what only such a database makes possible. */
  planOf(seed: number | string, options: SwarmOptions, plan: readonly PlannedAction[]): readonly PlannedAction[]
}
