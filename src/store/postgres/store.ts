import { TidemarkError } from '../../errors.ts'
import type { Op } from '../../util/op.ts'
import type { Holder, Lease, MigrationReport, Store, StoreCapabilities, Tx } from '../store.ts'
import { Connection } from './connection.ts'
import type { PgClientLike, PgPoolLike } from './driver.ts'
import {
  type DrizzleTransactionLike,
  executorOf,
  type KyselyTransactionLike,
  type PrismaTransactionLike,
} from './executors.ts'
import { Leases } from './leases.ts'
import { applyPending, checkSchema, pendingText, schemaState } from './migrate.ts'
import { type Place, type PostgresOptions, placeOf } from './place.ts'
import { guardedExecutor, type PgConnection, type PgDb } from './scope.ts'
import { openSession, type Session } from './session.ts'
import { PgTx, readTransaction, writeTransaction } from './transaction.ts'

/** An open transaction of the application: a client that has one, or a query builder's own object for it. */
export type PgTransaction =
  | PgConnection
  | PgClientLike
  | DrizzleTransactionLike
  | KyselyTransactionLike
  | PrismaTransactionLike

/** A store in a PostgreSQL database. Its parts also take a transaction that the application opened itself. */
export interface PostgresStore extends Store<PgDb> {
  readonly kind: 'postgres'
  readonly schema: string
  readonly capabilities: StoreCapabilities & { readonly asyncHandlers: true; readonly shared: true }
  join(db: PgTransaction): Tx<PgDb>
}

/**
 * A store in a PostgreSQL database, version 12 or later. Nothing is connected before the first use.
 * @throws {TidemarkError} `STORE_URL_UNDEFINED`, `CONFIG_INVALID`
 */
export function postgres(options: PostgresOptions): PostgresStore {
  return new ServerStore(placeOf(options))
}

class ServerStore implements PostgresStore {
  readonly kind = 'postgres'
  readonly schema: string
  readonly capabilities: PostgresStore['capabilities']
  readonly #place: Place
  readonly #leases: Leases
  #pool: Promise<PgPoolLike> | undefined
  #closed = false
  // An idle connection that dies is no event for anybody: the pool drops it. Without a listener it ends the process.
  readonly #onIdleError = () => {}

  constructor(place: Place) {
    this.#place = place
    this.schema = place.schema
    this.capabilities = {
      asyncHandlers: true,
      shared: true,
      refusesForeignCommit: true,
      longestTransactionMs: place.longestTransactionMs,
    }
    this.#leases = new Leases(place, () => this.#open())
  }

  async migrate(mode: 'auto' | 'check'): Promise<MigrationReport> {
    return this.#with(async (session) => {
      if (mode === 'check') return checkSchema(await schemaState(session, this.#place))
      return applyPending(session, this.#place)
    })
  }

  async pendingSql(): Promise<string> {
    return this.#with(async (session) => pendingText(await schemaState(session, this.#place), this.#place))
  }

  async transact<T>(body: (tx: Tx<PgDb>) => Op<T>): Promise<T> {
    return this.#with((session) => writeTransaction(session, this.#place, body))
  }

  async read<T>(body: (tx: Tx<PgDb>) => Op<T>): Promise<T> {
    return this.#with((session) => readTransaction(session, this.#place, body))
  }

  join(db: PgTransaction): Tx<PgDb> {
    return new PgTx(new Connection(executorOf(db, guardedExecutor), this.#place, true))
  }

  async acquire(watcher: string): Promise<Lease | null> {
    this.#refuseClosed()
    return this.#leases.acquire(watcher)
  }

  async holder(watcher: string): Promise<Holder | null> {
    return this.#with((session) => this.#leases.holder(session, watcher))
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    await this.#leases.close()
    const pool = await this.#pool?.catch(() => undefined)
    if (!pool) return
    if (this.#place.ownsPool) await pool.end()
    else pool.removeListener('error', this.#onIdleError)
  }

  async #with<T>(work: (session: Session) => Promise<T>): Promise<T> {
    this.#refuseClosed()
    const session = await this.#open()
    try {
      return await work(session)
    } finally {
      session.release()
    }
  }

  async #open(): Promise<Session> {
    this.#pool ??= this.#place.pool().then((pool) => {
      pool.on('error', this.#onIdleError)
      return pool
    })
    return openSession(await this.#pool, this.#place.connectTimeoutMs, this.#place.world)
  }

  #refuseClosed(): void {
    if (this.#closed) throw new TidemarkError('STORE_CLOSED', 'The store was used after it was closed')
  }
}
