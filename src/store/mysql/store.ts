import { TidemarkError } from '../../errors.ts'
import type { Op } from '../../util/op.ts'
import { refuseOption, refuseUnknownOptions, wholeOption } from '../../util/options.ts'
import { realWorld, type World } from '../../util/world.ts'
import type { Holder, Lease, MigrationReport, Store, StoreCapabilities, Tx } from '../store.ts'
import { asPromisePool, type MysqlPool, openPool } from './driver.ts'
import { executorOf, onClient } from './executors.ts'
import { acquire, type HeldLease, holderOf, type LeaseSetting } from './lease.ts'
import { applyPending, checkSchema, type Place, pendingText, schemaState } from './migrate.ts'
import { storeError } from './mysql-errors.ts'
import { Names } from './names.ts'
import { Connections, type Lent } from './pool.ts'
import { type MysqlDb, sessionOfGuarded } from './scope.ts'
import { Session } from './session.ts'
import type { Isolation, Limits } from './settings.ts'
import { MysqlTx, readTransaction, type Setting, writeTransaction } from './transaction.ts'

export interface MysqlOptions {
  /** `mysql://user:password@host:3306/database`. Undefined and '' are refused: `STORE_URL_UNDEFINED`. */
  readonly url?: string | undefined
  /**
   * The application's own pool, of `mysql2` or `mysql2/promise`, instead of a url. It is used as it is, with at least three
   * connections, and never closed. What a transaction of Tidemark changes in a session it puts back at its end.
   */
  readonly pool?: MysqlPool
  /** Begins the names of Tidemark's tables, so that two environments can share a database. Default `tidemark_`. */
  readonly prefix?: string
  /** How long a lease lasts without renewal, in milliseconds. 1,000 to 600,000, default 10,000. */
  readonly leaseMs?: number
  /** Of write transactions. Default READ COMMITTED: see `writeTransaction`. */
  readonly isolation?: Isolation
  /** How long one statement may run, in milliseconds. Default 30,000. On MySQL only a SELECT is ended by it. */
  readonly statementTimeoutMs?: number
  /** How long a statement waits for the lock of another transaction, in milliseconds, counted in whole seconds. Default 5,000. */
  readonly lockTimeoutMs?: number
  /**
   * How long any transaction that uses the store may be open, the application's own around `once` included. Forgetting
   * waits as long (P7), and Tidemark's own transactions are refused their COMMIT after it. Default 60,000.
   */
  readonly longestTransactionMs?: number
  /** Clock and randomness, for tests. */
  readonly world?: World
}

/**
 * A store in MariaDB or MySQL. Verified on MariaDB 10.11; what MySQL 8 does otherwise is said where it matters. Its parts
 * also take the application's own transaction: a connection of mysql2, or a transaction of Drizzle, Kysely or Prisma.
 */
export interface MysqlStore extends Store<MysqlDb> {
  readonly kind: 'mysql'
  readonly capabilities: StoreCapabilities & { readonly asyncHandlers: true }
  join(db: object): Tx<MysqlDb>
}

const OWNER = 'mysql'
const OPTIONS = [
  'url',
  'pool',
  'prefix',
  'leaseMs',
  'isolation',
  'statementTimeoutMs',
  'lockTimeoutMs',
  'longestTransactionMs',
  'world',
]
const ISOLATIONS: readonly string[] = ['READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE']
const LONGEST = 3_600_000
/** How long work waits for a connection of the pool. */
const CONNECTION_WAIT_MS = 30_000

function limitsOf(options: MysqlOptions, leaseMs: number): Limits {
  const isolation = options.isolation ?? 'READ COMMITTED'
  if (!ISOLATIONS.includes(isolation)) refuseOption(OWNER, 'isolation', isolation, ISOLATIONS.join(', '))
  const whole = (name: 'statementTimeoutMs' | 'lockTimeoutMs' | 'longestTransactionMs', preset: number) =>
    wholeOption(OWNER, name, options[name] ?? preset, 100, LONGEST)
  return {
    isolation,
    statementMs: whole('statementTimeoutMs', 30_000),
    lockMs: whole('lockTimeoutMs', 5_000),
    idleMs: leaseMs,
    transactionMs: whole('longestTransactionMs', 60_000),
  }
}

/** The url itself stays out of every message (P12). */
function checkedUrl(url: unknown): string {
  if (typeof url !== 'string' || url.trim() === '') {
    throw new TidemarkError('STORE_URL_UNDEFINED', 'The MySQL store was given no url', {
      values: { expected: 'mysql://user:password@host:3306/database' },
    })
  }
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  const fits = parsed && /^(mysql|mariadb):$/.test(parsed.protocol) && parsed.pathname.length > 1
  return fits ? url : refuseOption(OWNER, 'url', undefined, 'mysql://user:password@host:3306/database')
}

/**
 * A store in MariaDB or MySQL. Nothing is connected before the first use.
 * @throws {TidemarkError} `STORE_URL_UNDEFINED`, `CONFIG_INVALID`, `CONFIG_UNKNOWN_KEY`
 */
export function mysql(options: MysqlOptions): MysqlStore {
  refuseUnknownOptions(OWNER, options, OPTIONS)
  const leaseMs = wholeOption(OWNER, 'leaseMs', options.leaseMs ?? 10_000, 1_000, 600_000)
  const limits = limitsOf(options, leaseMs)
  const world = options.world ?? realWorld
  const names = new Names(options.prefix ?? 'tidemark_')
  const shared = { limits, world, waitMs: CONNECTION_WAIT_MS }
  if (options.pool) {
    const connections = new Connections({ ...shared, pool: asPromisePool(options.pool), owned: false })
    return new ServerStore({ main: connections, aside: connections, names, world, limits, leaseMs })
  }
  const url = checkedUrl(options.url)
  const main = new Connections({ ...shared, pool: openPool(url), owned: true })
  // Renewals must not wait behind the application's work.
  const aside = new Connections({ ...shared, pool: openPool(url, 3), owned: true })
  return new ServerStore({ main, aside, names, world, limits, leaseMs })
}

interface Parts {
  readonly main: Connections
  /** For leases, and for DDL while a transaction is open on the main one. */
  readonly aside: Connections
  readonly names: Names
  readonly world: World
  readonly limits: Limits
  readonly leaseMs: number
}

class ServerStore implements MysqlStore {
  readonly kind = 'mysql'
  readonly capabilities: MysqlStore['capabilities']
  readonly #parts: Parts
  readonly #leases = new Set<HeldLease>()
  #closed = false

  constructor(parts: Parts) {
    this.#parts = parts
    this.capabilities = {
      asyncHandlers: true,
      shared: true,
      // Of MariaDB's XA transactions. Nothing is marked before the first connection, and until then the answer is the careful one.
      get refusesForeignCommit() {
        return parts.main.dialect === 'mariadb'
      },
      longestTransactionMs: parts.limits.transactionMs,
    }
  }

  migrate(mode: 'auto' | 'check'): Promise<MigrationReport> {
    return this.#place(async (place) =>
      mode === 'check' ? checkSchema(await schemaState(place)) : applyPending(place),
    )
  }

  pendingSql(): Promise<string> {
    return this.#place(async (place) => pendingText(await schemaState(place), place.names))
  }

  async transact<T>(body: (tx: Tx<MysqlDb>) => Op<T>): Promise<T> {
    this.#refuseClosed()
    return this.#parts.main.use((lent) => writeTransaction(this.#setting(lent), body))
  }

  async read<T>(body: (tx: Tx<MysqlDb>) => Op<T>): Promise<T> {
    this.#refuseClosed()
    return this.#parts.main.use((lent) => readTransaction(this.#setting(lent), body))
  }

  join(db: object): Tx<MysqlDb> {
    const { names, world } = this.#parts
    const session = sessionOfGuarded(db) ?? new Session(executorOf(db), names, 'joined')
    return new MysqlTx(session, (sql) => this.#ddl(sql), world)
  }

  async acquire(watcher: string): Promise<Lease | null> {
    this.#refuseClosed()
    const lease = await acquire(this.#leaseSetting(), watcher)
    if (!lease) return null
    this.#leases.add(lease)
    lease.lost.addEventListener('abort', () => this.#leases.delete(lease), { once: true })
    return lease
  }

  async holder(watcher: string): Promise<Holder | null> {
    this.#refuseClosed()
    return holderOf(this.#leaseSetting(), watcher)
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    await Promise.all([...this.#leases].map((lease) => lease.release()))
    this.#leases.clear()
    await this.#parts.main.close()
    if (this.#parts.aside !== this.#parts.main) await this.#parts.aside.close()
  }

  #setting({ client, dialect, borrowed }: Lent): Setting {
    const { names, world, limits } = this.#parts
    return { client, names, world, limits, dialect, borrowed, ddl: (sql) => this.#ddl(sql) }
  }

  #leaseSetting(): LeaseSetting {
    const { aside, names, world, leaseMs } = this.#parts
    return { connections: aside, names, world, leaseMs }
  }

  async #place<T>(work: (place: Place) => Promise<T>): Promise<T> {
    this.#refuseClosed()
    return this.#parts.main.autocommit(({ client }) => work({ client, names: this.#parts.names }))
  }

  #ddl(sql: string): Promise<void> {
    return this.#parts.aside.autocommit(async ({ client }) => {
      try {
        await onClient(client).execute(sql)
      } catch (error) {
        throw storeError(error)
      }
    })
  }

  #refuseClosed(): void {
    if (this.#closed) throw new TidemarkError('STORE_CLOSED', 'The store was used after it was closed')
  }
}
