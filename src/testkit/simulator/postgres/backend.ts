import type { PgPoolLike } from '../../../store/postgres/driver.ts'
import { type PostgresStore, postgres } from '../../../store/postgres/index.ts'
import { realWorld, type World } from '../../../util/world.ts'
import type { TestWorld } from '../../test-world.ts'
import type { Backend, Copies, DriverEvents, LeaseLine } from '../backend.ts'
import { must } from '../failure.ts'
import { LEASE_MS } from '../freezes.ts'
import { application } from './application.ts'
import { PgCrashDriver } from './crash-driver.ts'
import { PgInspector, type Query } from './inspector.ts'
import { processesOf } from './plan.ts'
import { RealWork } from './real-work.ts'

/** The clock of the server begins where the clocks of the processes do, and never jumps. */
const START = Date.UTC(2030, 0, 1)
/** How often a session is looked at that may wait for a lock, in real milliseconds, and how often at most. */
const LOOK_MS = 2
const LOOKS = 2_000
/** Locks that a frozen process holds are not worth waiting for, in real milliseconds. */
const LOCK_MS = 500

const LEASE = `
  SELECT encode(token, 'hex') AS token, expires_at <= to_timestamp(0) + $2::bigint * interval '1 millisecond' AS expired
  FROM tidemark.leases WHERE watcher = $1`
const EXPIRE = "UPDATE tidemark.leases SET expires_at = to_timestamp(0) WHERE encode(token, 'hex') = ANY ($1)"
const ALIVE = 'SELECT pid FROM pg_stat_activity WHERE pid = ANY ($1::integer[])'
const BLOCKED = "SELECT 1 AS found FROM pg_stat_activity WHERE pid = $1 AND wait_event_type = 'Lock'"

/** Tables that a copy holds: not those that name processes, persons or the chain. */
const COPIED = `
  SELECT schemaname, tablename, schemaname || '_' || tablename AS copy FROM pg_tables
  WHERE schemaname IN ('public', 'tidemark')
    AND tablename NOT IN ('simulator_once', 'meta', 'open_commits', 'leases', 'chains', 'audit')`
const KEEP = `
  DO $$ DECLARE found record; BEGIN
    DROP SCHEMA IF EXISTS copies CASCADE;
    CREATE SCHEMA copies;
    FOR found IN ${COPIED} LOOP
      EXECUTE format('CREATE TABLE copies.%I AS TABLE %I.%I', found.copy, found.schemaname, found.tablename);
    END LOOP;
  END $$`
const PUT_BACK = `
  DO $$ DECLARE found record; BEGIN
    FOR found IN ${COPIED} LOOP
      EXECUTE format('DELETE FROM %I.%I', found.schemaname, found.tablename);
      EXECUTE format('INSERT INTO %I.%I OVERRIDING SYSTEM VALUE TABLE copies.%I', found.schemaname, found.tablename, found.copy);
    END LOOP;
  END $$`

/** One run on a PostgreSQL database that it has to itself. */
export class PgBackend implements Backend {
  readonly shared = true
  readonly copies: Copies = {
    keep: async () => void (await this.#query(KEEP)),
    putBack: async () => void (await this.#query(PUT_BACK)),
  }
  readonly application = application
  readonly processes = processesOf
  readonly #pool: PgPoolLike
  readonly #query: Query
  readonly #clock: TestWorld
  readonly #work: RealWork
  readonly #inspector: PgInspector
  readonly #drivers: PgCrashDriver[] = []
  readonly #blocked = new Set<Promise<void>>()

  constructor(pool: PgPoolLike, query: Query, clock: TestWorld) {
    this.#pool = pool
    this.#clock = clock
    this.#work = new RealWork(clock)
    this.#query = (...what) => this.#work.of(() => query(...what))
    this.#inspector = new PgInspector(this.#query, () => this.#now)
  }

  inspect(): PgInspector {
    return this.#inspector
  }

  get #now(): number {
    return START + this.#clock.monotonic()
  }

  driver(events: DriverEvents): PgCrashDriver {
    const driver = new PgCrashDriver({
      ...events,
      pool: this.#pool,
      work: this.#work,
      now: () => this.#now,
      leases: { leaseOf: (watcher) => this.#leaseOf(watcher), saw: events.saw ?? (() => {}) },
      alive: (pids) => this.#alive(pids),
      untilBlocked: (pid, over) => this.#untilBlocked(pid, over),
      blocked: this.#blocked,
      isInTheWay: () => this.#drivers.some((one) => one.frozenInside),
      expire: async (tokens) => void (await this.#query(EXPIRE, [tokens])),
    })
    this.#drivers.push(driver)
    return driver
  }

  async #leaseOf(watcher: string): Promise<LeaseLine | null> {
    const [row] = await this.#query(LEASE, [watcher, Math.floor(this.#now)])
    return row ? { token: String(row.token), expired: row.expired === true } : null
  }

  async #alive(pids: readonly number[]): Promise<ReadonlySet<number>> {
    return new Set((await this.#query(ALIVE, [pids])).map((row) => Number(row.pid)))
  }

  async #untilBlocked(pid: number, over: () => boolean): Promise<void> {
    for (let look = 0; look < LOOKS && !over(); look++) {
      if ((await this.#query(BLOCKED, [pid])).length > 0) return
      await realWorld.sleep(LOOK_MS)
    }
  }

  store(driver: PgCrashDriver, world: World): PostgresStore {
    return postgres({ pool: driver.pool, leaseMs: LEASE_MS, lockTimeoutMs: LOCK_MS, world })
  }

  personStore(world: World): PostgresStore {
    const driver = this.driver({ struck: () => {} })
    return this.store(driver, world)
  }

  /**
   * A commit changes rows that hold a token of the process, and that no other one has a lease for (P9). A lease that expired, and
   * whose next holder gave up before it wrote its own token, is nobody's.
   */
  checkCommit({ tokens }: PgCrashDriver): void {
    for (const { name, token } of this.#inspector.changedRows()) {
      must(tokens.has(token), 'fencing', () => `a process committed to ${name}, which another one holds`)
      const lease = this.#inspector.leases().get(name)
      must(
        lease === undefined || lease.expired || lease.token === token,
        'fencing',
        () => `a process committed to ${name} after another one had taken its lease over`,
      )
    }
  }

  goOn(): void {}

  close(): void {
    for (const driver of this.#drivers) driver.kill()
  }
}
