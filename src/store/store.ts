import type { BlockNumber, BlockRef, Hash, LogIndex } from '../chain/block.ts'
import type { Log } from '../chain/log.ts'
import type { StableId } from '../dedup/identity.ts'
import type { Maybe, Op } from '../util/op.ts'
import type { HandledPort } from './handled.ts'
import type { TotalsPort } from './totals.ts'

export type { HandledKey, HandledPort, HandledState, ScopeState } from './handled.ts'

/**
 * The store port: a transaction, and one small sub-port a folder. A verb answers at once or with a promise; the engine
 * does not care which (`util/op.ts`). A new database is one folder and a test file that calls the store contract.
 */
export interface Store<Db = unknown> {
  /** 'sqlite', 'postgres', … For messages only: nothing branches on it. */
  readonly kind: string
  readonly capabilities: StoreCapabilities
  /** Brings Tidemark's own tables up to date, or checks them. Refuses a database of a newer version (`STORE_NEWER`). */
  migrate(mode: 'auto' | 'check'): Promise<MigrationReport>
  /** The SQL that `migrate('auto')` would run now, for a person who runs it by hand. */
  pendingSql(): Promise<string>
  /**
   * Runs `body` in a write transaction and commits it. Whatever `body` throws rolls it back and is thrown on.
   * @throws {TidemarkError} `COMMIT_UNKNOWN` when the answer to COMMIT was lost; `STORE_*` for failures of the database
   */
  transact<T>(body: (tx: Tx<Db>) => Op<T>): Promise<T>
  /** Runs `body` on one snapshot, writing nothing. */
  read<T>(body: (tx: Tx<Db>) => Op<T>): Promise<T>
  /** The ports on a transaction that the application opened itself. @throws `NOT_IN_TRANSACTION` */
  join(db: Db): Tx<Db>
  /**
   * Takes the right to write for a watcher, or answers null when another process has it. Where stores are shared it is a
   * lease of its own; an embedded store has one lock for all its watchers.
   * @param watcher its whole name, `deposits/ethereum`
   */
  acquire(watcher: string): Promise<Lease | null>
  /** Who holds a watcher now, for `status`. Null: nobody. */
  holder(watcher: string): Promise<Holder | null>
  close(): Promise<void>
}

export interface StoreCapabilities {
  /** Whether a handler may return a promise. False on embedded stores: an open write transaction must not wait. */
  readonly asyncHandlers: boolean
  /** Whether several processes may run watchers on it at once, each watcher held by one of them. */
  readonly shared: boolean
  /**
   * Whether the database refuses a COMMIT that user code sends on `raw` while a commit of Tidemark's is open. Only then marks
   * may be written ahead of their handlers: elsewhere those that such a COMMIT takes along must be exactly those of the
   * events whose effects it takes along. Asked for each batch.
   */
  readonly refusesForeignCommit: boolean
  /**
   * How long a transaction that was open before a commit may still run, in milliseconds: forgetting deletes rows only
   * after it (P7). 0 where there is a single writer.
   */
  readonly longestTransactionMs: number
}

export interface MigrationReport {
  readonly from: number
  readonly to: number
  readonly applied: readonly string[]
}

/**
 * The right to write for a watcher. Its token is written into the cursor row and checked by each commit: correctness rests
 * on that alone, and the lease only keeps processes from working against each other (P9).
 */
export interface Lease {
  /** 16 random bytes. */
  readonly token: Uint8Array
  /** Aborts once the lease is lost, or could not be renewed in time. */
  readonly lost: AbortSignal
  /**
   * Asks the store whether the lease is still held, and extends it. For who writes its token into the cursor row, under that
   * row's lock: whoever takes the lease over later waits for the lock, and writes its own token after (P9).
   * @throws {TidemarkError} `STORE_*` when the store does not answer
   */
  confirm(): Maybe<boolean>
  /** Gives it back, so that another process need not wait. Never throws; idempotent. */
  release(): Promise<void>
}

export interface Holder {
  readonly host: string
  /** Process id; null where it cannot be told. */
  readonly pid: number | null
  /** Milliseconds until the lease expires by the database's clock; null where a process holds it as long as it lives. */
  readonly expiresInMs: number | null
}

export interface Tx<Db = unknown> {
  readonly cursors: CursorPort
  readonly trail: TrailPort
  readonly marks: MarkPort
  readonly kept: KeptPort
  readonly commits: CommitPort
  readonly managed: ManagedPort
  readonly totals: TotalsPort
  readonly handled: HandledPort
  readonly audit: AuditPort
  readonly meta: MetaPort
  /** The driver's own word on whether the transaction is still open. */
  inTransaction(): boolean
  savepoint(name: string): Maybe<void>
  /** @throws the driver's error when the savepoint is gone: someone committed or rolled back in between. */
  release(name: string): Maybe<void>
  rollbackTo(name: string): Maybe<void>
  /** A guarded handle for user code; dies with `close`. */
  openScope(rules: ScopeRules): DbScope<Db>
  /** Runs an operation in the store's way: to its end at once on an embedded store, as a promise elsewhere. */
  drive<T>(op: Op<T>): Maybe<T>
  /**
   * Runs an operation that calls user code so that an endless loop in it ends with `HANDLER_TIMEOUT`, where the runtime
   * can do that. Statements check their own, earlier deadline (`ScopeRules`).
   * @param hardLimitMs above every deadline of the scopes opened inside
   */
  interruptible<T>(op: () => Op<T>, hardLimitMs: number): Op<T>
}

export interface ScopeRules {
  /** False for undo: 'managed': a write through `db` is refused, since nothing could take it back. */
  readonly mayWrite: boolean
  /** For messages: which event is being handled. Public facts only. */
  readonly values: Readonly<Record<string, unknown>>
  /** Milliseconds on the monotonic clock after which a statement is refused with `HANDLER_TIMEOUT`. */
  readonly deadline: number
}

/**
 * A handle that lives as long as one callback. What could end the transaction unseen, `raw`, is only reached behind a
 * savepoint of the scope's own, which `close` releases: gone means that someone committed or rolled back in between.
 */
export interface DbScope<Db> {
  /** Shaped like the driver's client, behind a guard; `raw` on it is the marked way out. */
  readonly db: Db
  /**
   * Runs `fn` in a nested savepoint: a throw undoes what it wrote, and a failed statement inside counts as handled. Answers a
   * promise where handlers may be asynchronous.
   */
  savepoint<T>(fn: () => T): T
  /** Runs writes of Tidemark's own in the middle of the callback: not the user's, so not untracked. */
  own<T>(work: () => T): T
  /**
   * Ends the scope. Later use of `db` throws `SCOPE_DEAD`.
   * @throws what the guard noticed: `HANDLER_SWALLOWED_ERROR`, `HANDLER_FORGOT_AWAIT`, `HANDLER_ENDED_TRANSACTION`,
   *   `TRANSACTION_LOST`, `UNTRACKED_WRITE`
   */
  close(outcome: 'returned' | 'threw'): Maybe<void>
}

// ---------------------------------------------------------------------------------------------------- cursor

export type WatcherState = 'running' | 'paused' | 'halted'

/** Counts since the watcher was made. Safe integers; 64 bits wide in every store (C45). */
export interface WatcherCounters {
  readonly applied: number
  readonly undone: number
  readonly duplicates: number
  readonly reorgs: number
}

/** One watcher on one chain: its row is the cursor that a commit locks. */
export interface WatcherRow {
  /** Small integer that stands for the watcher in every other table. */
  readonly id: number
  /** `deposits/ethereum`. */
  readonly name: string
  readonly chainId: number
  /** Canonical text of the filter and start: a change is refused (`WATCHER_FILTER_CHANGED`). */
  readonly fingerprint: string
  readonly startBlock: BlockNumber
  /** The last block whose events are all committed; null before the first commit. */
  readonly cursor: BlockRef | null
  /** Raised by each rollback. */
  readonly epoch: number
  readonly token: Uint8Array | null
  /** Final and cross-checked up to here; null: nothing yet. Never goes back. */
  readonly settled: BlockNumber | null
  /** The finality stored with the last commit. Never goes back; a violation is judged against it. */
  readonly finalized: BlockNumber | null
  /** At or below it no event is ever new; null: nothing was forgotten yet. */
  readonly lowWater: BlockNumber | null
  /** When the low-water mark was committed, ms since the epoch: rows are deleted only some time later. */
  readonly lowWaterAt: number | null
  readonly state: WatcherState
  /** Why it is halted or paused; public facts only. */
  readonly reason: HaltReason | null
  readonly counters: WatcherCounters
  /** How often the row was changed. A process that finds a lower one than it wrote works on a restored database. */
  readonly revision: number
  /** When the last commit was made, ms since the epoch. */
  readonly updatedAt: number
}

/** The code of a reason that stands while the watcher runs: an operator gave up blocks that were final or confirmed. */
export const REORG_ACCEPTED = 'REORG_ACCEPTED'

export interface HaltReason {
  readonly code: string
  readonly sentence: string
  readonly next: string
  readonly values: Readonly<Record<string, unknown>>
  readonly at: number
}

export interface NewWatcher {
  readonly name: string
  readonly chainId: number
  readonly fingerprint: string
  readonly startBlock: BlockNumber
}

/** What a commit changes in the cursor row. Absent keys stay as they are; counters are added. */
export interface CursorChange {
  readonly cursor?: BlockRef | null
  readonly epoch?: number
  readonly settled?: BlockNumber | null
  readonly finalized?: BlockNumber | null
  readonly lowWater?: BlockNumber
  readonly lowWaterAt?: number
  readonly state?: WatcherState
  readonly reason?: HaltReason | null
  readonly fingerprint?: string
  readonly name?: string
  readonly token?: Uint8Array
  readonly add?: Partial<WatcherCounters>
  readonly updatedAt: number
}

export interface CursorPort {
  /** Makes the row; where another process has made it meanwhile, answers that one. */
  create(watcher: NewWatcher, now: number): Maybe<WatcherRow>
  list(): Maybe<readonly WatcherRow[]>
  find(name: string): Maybe<WatcherRow | undefined>
  /** Reads the row and locks it until the transaction ends. */
  lock(id: number): Maybe<WatcherRow | undefined>
  /** Raises the revision by one each time. */
  change(id: number, change: CursorChange): Maybe<void>
  /** The first write of a commit: locks the row and writes the nonce. Answers the row, undefined when there is none. */
  open(id: number, nonce: Uint8Array): Maybe<WatcherRow | undefined>
  /**
   * The last write of a commit: changes the row if it still holds the nonce. False: the transaction was lost in between, and
   * nothing was changed.
   */
  close(id: number, nonce: Uint8Array, change: CursorChange): Maybe<boolean>
  /** What the last commit wrote. */
  readNonce(id: number): Maybe<Uint8Array | null>
  /** The genesis hash first seen for a chain, kept to recognise another chain behind the same URL (C20). */
  genesis(chainId: number): Maybe<Hash | null>
  setGenesis(chainId: number, hash: Hash): Maybe<void>
}

// ----------------------------------------------------------------------------------------------------- trail

export interface TrailPort {
  /** The remembered blocks, newest first. */
  list(watcher: number): Maybe<readonly BlockRef[]>
  add(watcher: number, blocks: readonly BlockRef[]): Maybe<void>
  deleteAbove(watcher: number, block: BlockNumber | -1): Maybe<void>
  deleteBelow(watcher: number, block: BlockNumber): Maybe<void>
}

// ----------------------------------------------------------------------------------------------------- marks

/** A row of `tidemark_processed_events`. */
export interface Mark {
  readonly blockNumber: BlockNumber
  readonly blockHash: Hash
  readonly stableId: StableId
  readonly transactionHash: Hash
  readonly logIndex: LogIndex
}

export interface MarkPort {
  /** Inserts each mark that is not there yet. Answers, in order, whether it was new. */
  insert(watcher: number, marks: readonly Mark[]): Maybe<readonly boolean[]>
  /** The marks of a closed range of blocks, in key order. */
  between(watcher: number, from: BlockNumber, to: BlockNumber): Maybe<readonly Mark[]>
  count(watcher: number): Maybe<number>
  /** The number of marks above a block, then deleted. */
  deleteAbove(watcher: number, block: BlockNumber | -1): Maybe<number>
  /** Deletes at most `limit` marks at or below a block, oldest first. Answers how many. */
  deleteThrough(watcher: number, block: BlockNumber, limit: number): Maybe<number>
}

// ----------------------------------------------------------------------------------------------- kept events

/** An event kept until its block settles: for the undo function and the `final` stage. */
export interface KeptEvent {
  /** The event's name in the watcher. */
  readonly eventName: string
  readonly log: Log
  readonly stableId: StableId
  /** Position in the block, in the order of P5, from 0. */
  readonly sequence: number
  readonly key: string | null
  /** What the handler returned, as text (`util/json.ts`), or null. */
  readonly memo: string | null
}

export interface KeptPort {
  add(watcher: number, events: readonly KeptEvent[]): Maybe<void>
  /** Events above a block, newest first: the order of undo. */
  above(watcher: number, block: BlockNumber | -1): Maybe<readonly KeptEvent[]>
  /** Events at or below a block, oldest first, at most `limit`: the order of the `final` stage. */
  through(watcher: number, block: BlockNumber, limit: number): Maybe<readonly KeptEvent[]>
  deleteAbove(watcher: number, block: BlockNumber | -1): Maybe<void>
  deleteThrough(watcher: number, block: BlockNumber): Maybe<void>
}

// --------------------------------------------------------------------------------------------------- commits

/** One row for each range that was committed: what was applied there, for `verify` and for the operator. */
export interface CommitRow {
  readonly from: BlockNumber
  readonly to: BlockNumber
  readonly events: number
  /** XOR of the stable ids, 16 bytes. */
  readonly digest: Uint8Array
  readonly committedAt: number
  /** Which try it was, from 1. */
  readonly attempt: number
  /** The build that made it, as configured; '' when unknown. */
  readonly build: string
}

export interface CommitPort {
  /** False, and nothing is written, where a row that is there reaches into its blocks. */
  add(watcher: number, row: CommitRow): Maybe<boolean>
  /** Newest first, at most `limit`. */
  list(watcher: number, limit: number): Maybe<readonly CommitRow[]>
  /** Removes rows above a block, and cuts the row that straddles it, with its count and digest taken anew. */
  cutAbove(watcher: number, block: BlockNumber | -1, rest: { events: number; digest: Uint8Array } | null): Maybe<void>
  /** The row that covers a block and goes on above it, if any. */
  straddling(watcher: number, block: BlockNumber | -1): Maybe<CommitRow | undefined>
  /** Merges settled rows at or below a block into rows of at most `span` blocks. Bounded work a call. Answers rows saved. */
  compact(watcher: number, through: BlockNumber, span: number, limit: number): Maybe<number>
}

// --------------------------------------------------------------------------------------------- managed writes

/** SQL types are the store's business; these are the kinds of value a managed column can hold. */
export type ColumnType = 'text' | 'integer' | 'bytes' | 'uint256' | 'int256' | 'boolean'

export interface ManagedTable {
  readonly table: string
  readonly columns: Readonly<Record<string, ColumnType>>
}

/** A row of a managed table, with the event that made it. */
export interface ManagedRow {
  readonly blockNumber: BlockNumber
  readonly stableId: StableId
  /** k-th row of that event in that table, from 0. */
  readonly ordinal: number
  readonly values: Readonly<Record<string, unknown>>
}

export interface ManagedPort {
  /** Makes the table, or checks that it has the columns. @throws `STORE_TABLE_MISMATCH` */
  ensureTable(table: ManagedTable): Maybe<void>
  insertRows(table: ManagedTable, watcher: number, rows: readonly ManagedRow[]): Maybe<void>
  /** Deletes the rows of blocks above `block`. Answers how many. */
  deleteRowsAbove(table: ManagedTable, watcher: number, block: BlockNumber | -1): Maybe<number>
}

// ----------------------------------------------------------------------------------------------------- audit

export interface AuditRow {
  readonly at: number
  readonly actor: string
  readonly action: string
  readonly watcher: string
  readonly reason: string
}

export interface AuditPort {
  /** Bounded: the newest 10,000 rows are kept. */
  add(row: AuditRow): Maybe<void>
  list(limit: number): Maybe<readonly AuditRow[]>
}

// ------------------------------------------------------------------------------------------------------ meta

/** Few facts about the whole database: `environment`, `epoch`. */
export interface MetaPort {
  get(key: string): Maybe<string | null>
  set(key: string, value: string): Maybe<void>
}
