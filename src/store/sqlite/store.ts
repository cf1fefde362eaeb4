import { TidemarkError } from '../../errors.ts'
import type { Op } from '../../util/op.ts'
import { realWorld, type World } from '../../util/world.ts'
import type { Holder, Lease, MigrationReport, Store, StoreCapabilities, Tx } from '../store.ts'
import { Connection } from './connection.ts'
import type { SqliteDriverDatabase } from './driver.ts'
import { StoreLock } from './lease.ts'
import { applyPending, checkSchema, pendingText, type SchemaState, schemaState } from './migrate.ts'
import { fileExists, MEMORY, openConnection, type Place, placeOf } from './open.ts'
import { connectionOfGuarded, type SqliteConnection, type SqliteDb } from './scope.ts'
import { readTransaction, SqliteTx, writeTransaction } from './transaction.ts'

export interface SqliteOptions {
  /** Path of the database file, or ':memory:'. Undefined and '' are refused: `STORE_URL_UNDEFINED`. */
  readonly file: string | undefined
  /**
   * Opens a database, for a driver of your own: better-sqlite3, or anything shaped like `DatabaseSync`. It is called
   * for the file and for the lock file beside it. Default: node:sqlite where Node has it, else @photostructure/sqlite.
   */
  readonly open?: (file: string) => SqliteDriverDatabase
  /** How long a statement waits for the lock of another connection. It blocks the event loop. Default 5,000. */
  readonly busyTimeoutMs?: number
  /** Clock and randomness, for tests. */
  readonly world?: World
}

/** A store in an SQLite file. Its parts also take a connection that the application opened with its own driver. */
export interface SqliteStore extends Store<SqliteDb> {
  readonly kind: 'sqlite'
  /** Absolute path, or `:memory:`. */
  readonly file: string
  readonly capabilities: StoreCapabilities & { readonly asyncHandlers: false }
  join(db: SqliteConnection | SqliteDriverDatabase): Tx<SqliteDb>
}

/**
 * A store in an SQLite file. Nothing is opened or made before the first use.
 * @throws {TidemarkError} `STORE_URL_UNDEFINED`
 */
export function sqlite(options: SqliteOptions): SqliteStore {
  const { file, open, busyTimeoutMs } = options
  return new EmbeddedStore(placeOf({ file, open, busyTimeoutMs, world: options.world ?? realWorld }))
}

interface Opened {
  readonly connection: Connection
  readonly tx: SqliteTx
}

/** Tries at opening a new file that another process sets up at the same moment: about 2 s together. */
const OPEN_TRIES = 40
const OPEN_WAIT_MS = 50

class EmbeddedStore implements SqliteStore {
  readonly kind = 'sqlite'
  readonly file: string
  // A single writer: once a commit holds the lock, no older write transaction can be open.
  readonly capabilities = {
    asyncHandlers: false,
    shared: false,
    refusesForeignCommit: true,
    longestTransactionMs: 0,
  } as const
  readonly #place: Place
  readonly #joined = new WeakMap<object, SqliteTx>()
  #opened: Opened | undefined
  readonly #lock: StoreLock
  #closed = false
  #running = false

  constructor(place: Place) {
    this.#place = place
    this.#lock = new StoreLock(place)
    this.file = place.file
  }

  async migrate(mode: 'auto' | 'check'): Promise<MigrationReport> {
    if (mode === 'check') return checkSchema(await this.#schemaState())
    const { connection } = await this.#openPatiently()
    return this.#alone(() => applyPending(connection))
  }

  async pendingSql(): Promise<string> {
    return pendingText(await this.#schemaState())
  }

  /** @throws {TidemarkError} at once, not as a rejection, when called inside a transaction of this store */
  transact<T>(body: (tx: Tx<SqliteDb>) => Op<T>): Promise<T> {
    this.#refuseNested()
    return this.#run((opened) => writeTransaction(opened.connection, opened.tx, body))
  }

  read<T>(body: (tx: Tx<SqliteDb>) => Op<T>): Promise<T> {
    this.#refuseNested()
    return this.#run((opened) => readTransaction(opened.connection, opened.tx, body))
  }

  join(db: SqliteConnection | SqliteDriverDatabase): Tx<SqliteDb> {
    const tx = this.#txOn(db)
    if (tx.inTransaction()) return tx
    throw new TidemarkError('NOT_IN_TRANSACTION', 'The connection that was passed in has no open transaction')
  }

  async acquire(watcher: string): Promise<Lease | null> {
    await this.#openPatiently()
    return this.#lock.take(watcher)
  }

  /** Looking at a database must not make one, nor its lock. */
  async holder(watcher: string): Promise<Holder | null> {
    return this.#place.file === MEMORY || fileExists(this.#place) ? this.#lock.holder(watcher) : null
  }

  async close(): Promise<void> {
    this.#refuseNested()
    this.#closed = true
    this.#lock.freeAll()
    this.#opened?.connection.close()
    this.#opened = undefined
  }

  /** The whole transaction runs inside this call; only its outcome is a promise. */
  async #run<T>(work: (opened: Opened) => T): Promise<T> {
    const opened = this.#open()
    try {
      return this.#alone(() => work(opened))
    } finally {
      if (opened.connection.inTransaction) this.#drop(opened)
    }
  }

  /** A connection whose ROLLBACK failed is closed, which rolls back; the next use opens the file anew. */
  #drop(opened: Opened): void {
    this.#opened = undefined
    opened.connection.close()
  }

  #alone<T>(work: () => T): T {
    this.#refuseNested()
    this.#running = true
    try {
      return work()
    } finally {
      this.#running = false
    }
  }

  /** Transactions run to their end in one call, so only code inside one can meet it open. */
  #refuseNested(): void {
    if (!this.#running) return
    throw new TidemarkError('TRANSACTION_CONTROL_REFUSED', 'The store was called inside one of its own transactions')
  }

  #open(): Opened {
    if (this.#closed) throw new TidemarkError('STORE_CLOSED', 'The store was used after it was closed')
    if (!this.#opened) {
      const connection = openConnection(this.#place)
      this.#opened = { connection, tx: new SqliteTx(connection) }
    }
    return this.#opened
  }

  /** Switching a new file to WAL needs it alone, and SQLite does not wait for that by itself. */
  async #openPatiently(): Promise<Opened> {
    for (let tries = 1; ; tries++) {
      try {
        return this.#open()
      } catch (error) {
        if (tries === OPEN_TRIES || !TidemarkError.has(error, 'STORE_BUSY')) throw error
        await this.#place.world.sleep(OPEN_WAIT_MS)
      }
    }
  }

  /** Looking at a database must not make one. */
  async #schemaState(): Promise<SchemaState> {
    if (this.#place.file !== MEMORY && !fileExists(this.#place)) return { version: 0, oldest: 0 }
    return schemaState((await this.#openPatiently()).connection)
  }

  #txOn(db: SqliteConnection | SqliteDriverDatabase): SqliteTx {
    const guarded = connectionOfGuarded(db)
    const key = guarded ?? db
    const known = this.#joined.get(key)
    if (known) return known
    const connection = guarded ?? new Connection(db as SqliteDriverDatabase, this.#place.world)
    const tx = new SqliteTx(connection)
    this.#joined.set(key, tx)
    return tx
  }
}
