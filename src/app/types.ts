import type { ErrorCode } from '../errors.ts'
import type { HaltReason, Holder, WatcherCounters } from '../store/store.ts'

/** A running Tidemark in any process: no signal handlers, no `process.exit`, nothing listens. */
export interface Tidemark {
  /**
   * Migrates, checks the watchers, and follows them until `stop`. Resolves once running. Where several processes share a
   * database, a watcher that another one holds is stood by for. @throws {TidemarkError} `STORE_LOCKED` on an embedded store
   */
  start(): Promise<void>
  /** Finishes the open step, gives the lease back, closes the store. Idempotent. */
  stop(options?: { timeoutMs?: number }): Promise<void>
  /** One bounded piece of work for cron, alarms and tests; takes the lease and gives it back. */
  runOnce(options?: RunOnceOptions): Promise<RunOnceResult>
  /** Where every watcher stands. Reads the store only; works beside a running process. */
  status(): Promise<Status>
  /** Listens to what happens. Returns the function that stops listening. A throwing listener is logged, no more. */
  on<K extends keyof TidemarkEvents>(type: K, listener: (event: TidemarkEvents[K]) => void): () => void
  readonly admin: Admin
}

export interface RunOnceOptions {
  /** Stop after about so many milliseconds of work. Default 1,000. */
  readonly budgetMs?: number
  /** Only this watcher (`deposits/ethereum`). */
  readonly watcher?: string
  readonly signal?: AbortSignal
}

export interface RunOnceResult {
  /** The most telling thing done: events before undo before settle. `held`: another process has the lease. */
  readonly did: 'events' | 'undo' | 'settle' | 'idle' | 'held'
  /** Events applied. */
  readonly events: number
  /** When it is worth coming again; null when every watcher has ended or is halted. */
  readonly nextAt: Date | null
}

/** What a watcher is doing, in one word. `held`: another process runs it. `stopped`: nobody does. */
export type Health = 'backfilling' | 'live' | 'failing' | 'halted' | 'paused' | 'ended' | 'held' | 'stopped'

export interface WatcherStatus {
  /** `deposits/ethereum`. */
  readonly name: string
  readonly chain: string
  readonly chainId: number
  readonly health: Health
  /** Which process runs it; null: none. */
  readonly holder: Holder | null
  /** Last block whose events are all committed; null before the first. */
  readonly cursor: { readonly number: number; readonly hash: string } | null
  readonly startBlock: number
  /** The chain's head as last seen by this process; null from a process that does not run the watcher. */
  readonly head: number | null
  readonly lagBlocks: number | null
  /** Finality stored with the last commit. */
  readonly finalized: number | null
  readonly settled: number | null
  readonly lowWater: number | null
  readonly epoch: number
  readonly counters: WatcherCounters
  /** Why it is halted or paused, with the next step. */
  readonly reason: HaltReason | null
  /** The passing error that a failing watcher waits out; null otherwise. */
  readonly failing: {
    readonly code: ErrorCode
    readonly sentence: string
    readonly next: string
    readonly tries: number
  } | null
  /** When the last commit was made, ISO 8601; null before the first. */
  readonly updatedAt: string | null
}

export interface Status {
  /** Whether this process runs the watchers. */
  readonly running: boolean
  readonly store: string
  readonly watchers: readonly WatcherStatus[]
}

/** What `on` reports. Public facts only (P12): no arguments, no URLs. */
export interface TidemarkEvents {
  readonly applied: {
    watcher: string
    phase: 'backfill' | 'live'
    from: number
    to: number
    head: number
    events: number
    duplicates: number
  }
  readonly undone: { watcher: string; to: number | null; blocks: number; events: number; why: 'reorg' | 'sweep' }
  readonly settled: { watcher: string; through: number; events: number }
  readonly halted: { watcher: string; reason: HaltReason }
  readonly failing: { watcher: string; code: ErrorCode; sentence: string; tries: number; waitMs: number }
  readonly recovered: { watcher: string }
}

/** What an operator does. Each call names who and why, and leaves a row in the audit table. */
export interface Admin {
  /** Sets a halted or paused watcher running again. */
  resume(watcher: string, by: By, options?: ResumeOptions): Promise<void>
  pause(watcher: string, by: By): Promise<void>
  /**
   * After the database was restored from a backup: gives every watcher a token that no process knows, so that whoever
   * remembers the newer state is fenced and reads again, and ends the halts with `STORE_WENT_BACK` (P9).
   */
  restored(by: By): Promise<void>
  /** Gives a watcher's row a new name, so that its cursor and marks go with it. */
  rename(from: string, to: string, by: By): Promise<void>
}

export interface ResumeOptions {
  /**
   * After `REORG_BELOW_FINALITY`, `REORG_BELOW_CONFIRMATIONS` or `REORG_IRREVERSIBLE`: give up the orphaned blocks above the
   * settled line and apply the new ones. What the watcher cannot undo itself must have been corrected by hand. Holds until
   * the next commit.
   */
  readonly acceptReorg?: boolean
}

export interface By {
  readonly actor: string
  readonly reason: string
}

/** Structured log lines: a level, a sentence, public values. */
export interface Logger {
  log(level: 'debug' | 'info' | 'warn' | 'error', sentence: string, values?: Readonly<Record<string, unknown>>): void
}
