import { openDefault, type SqliteDatabaseLike, type SqliteStatementLike } from '../../store/sqlite/driver.ts'
import type { Inspection, LeaseLine } from './backend.ts'
import type { WatcherKind } from './options.ts'

/** The row of a watcher, as it stands in the database. */
export interface WatcherState {
  readonly id: number
  readonly kind: WatcherKind
  readonly startBlock: number
  readonly cursor: number | null
  readonly cursorHash: string
  readonly epoch: number
  readonly token: string
  readonly settled: number | null
  readonly finalized: number | null
  readonly lowWater: number | null
  readonly state: 'running' | 'paused' | 'halted'
  /** Code of the reason, or ''. */
  readonly code: string
  /** The block above which the halted watcher would have gone back, where its reason names one. */
  readonly above: number | null
  readonly applied: number
  readonly undone: number
  readonly duplicates: number
  readonly reorgs: number
}

export interface MarkLine {
  readonly block: number
  /** `block/hash/transaction/index`. */
  readonly place: string
  readonly stable: string
}

/** One effect of the user's, in the order of the handler's calls. */
export interface EffectLine {
  readonly n: number
  readonly block: number
  readonly place: string
  readonly logIndex: number
  readonly sender: string
  readonly receiver: string
  readonly amount: number
}

export interface RowLine {
  readonly block: number
  readonly stable: string
  readonly ordinal: number
  readonly hash: string
  readonly sender: string
  readonly receiver: string
  readonly amount: number
}

/** The sum of one account in the table of sums. */
export interface TotalLine {
  readonly account: string
  readonly amount: number
  readonly additions: number
}

export interface CommitLine {
  readonly first: number
  readonly last: number
  readonly events: number
  readonly digest: string
}

/** Everything that a watcher has in the database. */
export interface WatcherTables {
  readonly marks: readonly MarkLine[]
  readonly effects: readonly EffectLine[]
  readonly balances: ReadonlyMap<string, number>
  /** Entries of the ledger that were paid, in the order of the calls. */
  readonly finals: readonly { readonly entry: number; readonly block: number }[]
  readonly rows: readonly RowLine[]
  readonly paid: readonly RowLine[]
  /** The sums, and the blocks of which changes are kept; null for a watcher without. */
  readonly totals: { readonly lines: readonly TotalLine[]; readonly kept: readonly number[] } | null
  readonly kept: readonly number[]
  readonly trail: ReadonlyMap<number, string>
  readonly commits: readonly CommitLine[]
}

const WATCHERS = `
  SELECT id, name, start_block AS startBlock, cursor_block AS cursor, '0x' || lower(hex(cursor_hash)) AS cursorHash, epoch,
    lower(hex(token)) AS token, settled, finalized, low_water AS lowWater, state, reason, applied, undone, duplicates, reorgs
  FROM tidemark_watchers ORDER BY id`
const MARKS = `
  SELECT block_number AS block, lower(hex(stable_id)) AS stable,
    block_number || '/0x' || lower(hex(block_hash)) || '/0x' || lower(hex(transaction_hash)) || '/' || log_index AS place
  FROM tidemark_processed_events WHERE watcher = ? ORDER BY block_number, log_index`
const KEPT = 'SELECT block_number AS block FROM tidemark_kept_events WHERE watcher = ? ORDER BY block_number, sequence'
const TRAIL = `
  SELECT block_number AS block, '0x' || lower(hex(block_hash)) AS hash FROM tidemark_unfinalized_blocks WHERE watcher = ?`
const COMMITS = `
  SELECT from_block AS first, to_block AS last, events, lower(hex(digest)) AS digest
  FROM tidemark_commits WHERE watcher = ? ORDER BY from_block`

const effectsOf = (name: string) => `
  SELECT n, block_number AS block, log_index AS logIndex, sender, receiver, amount,
    block_number || '/' || block_hash || '/' || transaction_hash || '/' || log_index AS place
  FROM ${name}_ledger ORDER BY n`
const balancesOf = (name: string) => `SELECT account, amount FROM ${name}_balances`
const finalsOf = (name: string) => `SELECT entry, block_number AS block FROM ${name}_finals ORDER BY n`
const managedOf = (table: string) => `
  SELECT tidemark_block AS block, lower(hex(tidemark_event)) AS stable, tidemark_ordinal AS ordinal, block AS hash, sender, receiver,
    CAST(amount AS INTEGER) AS amount
  FROM ${table} ORDER BY tidemark_block, tidemark_event, tidemark_ordinal`

const TOTALS = 'SELECT account, amount, tidemark_additions AS additions FROM managed_sums'
/** A sum is kept as text: the number and 10^77. */
const AMOUNT_ZERO = 10n ** 77n
const TOTALS_KEPT = `
  SELECT block_number AS block FROM tidemark_total_changes WHERE watcher = ? AND table_name = 'managed_sums'
  ORDER BY block_number`

const creditOf = (name: string) => `
  INSERT INTO ${name}_balances (account, amount) VALUES (?, ?) ON CONFLICT (account) DO UPDATE SET amount = amount + excluded.amount`

export type RawWatcher = Omit<WatcherState, 'kind' | 'code' | 'above'> & {
  readonly name: string
  readonly reason: string | null
}

export function stateOf({ name, reason, ...row }: RawWatcher): WatcherState {
  const { code = '', values = {} } = (reason === null ? {} : JSON.parse(reason)) as {
    code?: string
    values?: { above?: number }
  }
  return { ...row, kind: name.slice(0, name.indexOf('/')) as WatcherKind, code, above: values.above ?? null }
}

/** Looks at the database from outside, on a connection of its own: only what is committed. */
export class Inspector implements Inspection {
  readonly #database: SqliteDatabaseLike
  readonly #statements = new Map<string, SqliteStatementLike>()
  #version = -1
  #ready = false

  constructor(file: string) {
    this.#database = openDefault(file)
    this.#database.exec('PRAGMA busy_timeout = 0; PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF')
  }

  refresh(): undefined {}

  /** Whether another connection has committed since the last call. */
  changed(): boolean {
    const version = Number(this.#one('PRAGMA data_version').get()?.data_version)
    const changed = version !== this.#version
    this.#version = version
    return changed
  }

  /** Whether Tidemark has made its tables yet. They stay: asked only as long as they are missing. */
  get #isReady(): boolean {
    this.#ready ||= this.#all("SELECT 1 AS n FROM sqlite_schema WHERE name = 'tidemark_watchers'").length > 0
    return this.#ready
  }

  /** Whether the hash of block 0 is kept: by it another chain is recognised. */
  get knowsChain(): boolean {
    return this.#isReady && this.#all('SELECT 1 AS n FROM tidemark_chains').length > 0
  }

  /** Where a watcher stands, by its whole name. */
  linesOf(watcher: string): { readonly cursor: number | null; readonly settled: number | null } | undefined {
    const row = this.#one('SELECT cursor_block AS cursor, settled FROM tidemark_watchers WHERE name = ?').get(watcher)
    return row as { cursor: number | null; settled: number | null } | undefined
  }

  /** What the last commit of a watcher wrote first: another one each time. */
  nonceOf({ id }: WatcherState): string {
    return String(this.#one('SELECT lower(hex(nonce)) AS nonce FROM tidemark_watchers WHERE id = ?').get(id)?.nonce)
  }

  /** There are none: the file has one lock. */
  leases(): ReadonlyMap<string, LeaseLine> {
    return new Map()
  }

  watchers(): WatcherState[] {
    return this.#isReady ? this.#all<RawWatcher>(WATCHERS).map(stateOf) : []
  }

  tables({ id, kind }: WatcherState): WatcherTables {
    const own = kind !== 'managed'
    const managed = kind === 'managed' || kind === 'undo'
    return {
      marks: this.#all<MarkLine>(MARKS, id),
      effects: own ? this.#all<EffectLine>(effectsOf(kind)) : [],
      balances: new Map(
        own
          ? this.#all<{ account: string; amount: number }>(balancesOf(kind)).map((row) => [row.account, row.amount])
          : [],
      ),
      finals: own ? this.#all<WatcherTables['finals'][number]>(finalsOf(kind)) : [],
      rows: managed ? this.#all<RowLine>(managedOf(`${kind}_rows`)) : [],
      paid: kind === 'managed' ? this.#all<RowLine>(managedOf('managed_paid')) : [],
      totals: kind === 'managed' ? { lines: this.#totals(), kept: this.#blocks(TOTALS_KEPT, id) } : null,
      kept: this.#blocks(KEPT, id),
      trail: new Map(this.#all<{ block: number; hash: string }>(TRAIL, id).map(({ block, hash }) => [block, hash])),
      commits: this.#all<CommitLine>(COMMITS, id),
    }
  }

  /** What a person does with a database shell. */
  moveCursor(watcher: Pick<WatcherState, 'id'>, block: number, hash: string): void {
    const update = this.#one('UPDATE tidemark_watchers SET cursor_block = ?, cursor_hash = ? WHERE id = ?')
    update.run(
      block,
      Uint8Array.from((hash.slice(2).match(/../g) ?? []).map((byte) => Number.parseInt(byte, 16))),
      watcher.id,
    )
  }

  /** Takes effects back, as a person does whose watcher cannot. */
  takeBack(name: string, effects: readonly EffectLine[]): void {
    const add = this.#one(creditOf(name))
    const clear = this.#one(`DELETE FROM ${name}_balances WHERE amount = 0`)
    const remove = this.#one(`DELETE FROM ${name}_ledger WHERE n = ?`)
    this.#database.exec('BEGIN IMMEDIATE')
    for (const { n, sender, receiver, amount } of effects) {
      add.run(sender, amount)
      add.run(receiver, -amount)
      remove.run(n)
    }
    clear.run()
    this.#database.exec('COMMIT')
  }

  exec(sql: string): void {
    this.#database.exec(sql)
  }

  close(): void {
    this.#database.close()
  }

  #blocks(sql: string, id: number): number[] {
    return this.#all<{ block: number }>(sql, id).map(({ block }) => block)
  }

  #totals(): TotalLine[] {
    const rows = this.#all<{ account: string; amount: string; additions: number }>(TOTALS)
    return rows.map(({ amount, ...line }) => ({ ...line, amount: Number(BigInt(amount) - AMOUNT_ZERO) }))
  }

  #one(sql: string): SqliteStatementLike {
    const known = this.#statements.get(sql) ?? this.#database.prepare(sql)
    this.#statements.set(sql, known)
    return known
  }

  #all<T = unknown>(sql: string, ...parameters: number[]): T[] {
    return this.#one(sql).all(...parameters) as unknown as T[]
  }
}
