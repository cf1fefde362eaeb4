import { TidemarkError } from '../../errors.ts'
import { type Identity, isKnownDead, ownIdentity } from '../server/holder.ts'
import type { Holder, Lease } from '../store.ts'
import type { PgRow } from './driver.ts'
import { freeCursor } from './free-cursor.ts'
import { HeldLease, type LeaseCalls } from './lease.ts'
import { LostConnection, storeError } from './pg-errors.ts'
import type { Place } from './place.ts'
import type { Session } from './session.ts'
import { bytes, OWN_TYPES, readBytes, readNumber, readText, text } from './values.ts'
import { within } from './within.ts'

const TOKEN_BYTES = 16
const UNTIL = "clock_timestamp() + $7::bigint * interval '1 millisecond'"
// By the clock, not by the start of the transaction: a transaction may be as old as it likes. $8: a holder known dead.
const TAKE = `
  INSERT INTO tidemark.leases AS held (watcher, token, host, machine, pid, started, expires_at)
  VALUES ($1::text, $2::bytea, $3::text, $4::text, $5::bigint, $6::text, ${UNTIL})
  ON CONFLICT (watcher) DO UPDATE SET token = excluded.token, host = excluded.host, machine = excluded.machine,
    pid = excluded.pid, started = excluded.started, expires_at = ${UNTIL}
  WHERE held.expires_at <= clock_timestamp() OR held.token = $8::bytea`
const READ = `
  SELECT token, host, machine, pid, started,
    ceil(extract(epoch FROM expires_at - clock_timestamp()) * 1000)::bigint AS expires_in
  FROM tidemark.leases WHERE watcher = $1::text`
const RENEW = `
  UPDATE tidemark.leases SET expires_at = clock_timestamp() + $3::bigint * interval '1 millisecond'
  WHERE watcher = $1::text AND token = $2::bytea`
const REMOVE = 'DELETE FROM tidemark.leases WHERE watcher = $1::text AND token = $2::bytea'
const EXPIRE = `
  UPDATE tidemark.leases SET expires_at = clock_timestamp() WHERE watcher = $1::text AND token = $2::bytea`

/** How long a statement about a lease may take, in ms. */
const CALL_MS = 5_000

interface Row extends Identity {
  readonly token: Uint8Array
  readonly expiresInMs: number
}

function readRow(row: PgRow): Row {
  return {
    token: readBytes(row, 'token'),
    host: readText(row, 'host'),
    machine: readText(row, 'machine'),
    pid: readNumber(row, 'pid'),
    started: readText(row, 'started'),
    expiresInMs: readNumber(row, 'expires_in'),
  }
}

/**
 * The leases of one store. Each statement stands alone and is a transaction of its own, so they pass through a transaction
 * pooler. Renewals of all leases share one connection that is kept back from the pool while a lease is held: the pool may
 * be busy for longer than a lease lasts.
 */
export class Leases implements LeaseCalls {
  readonly #place: Place
  readonly #open: () => Promise<Session>
  readonly #held = new Set<HeldLease>()
  /** Calls of `acquire` that are under way: they use the kept connection as well. */
  #asking = 0
  #kept: Promise<Session> | undefined
  readonly #own: Identity = ownIdentity()

  constructor(place: Place, open: () => Promise<Session>) {
    this.#place = place
    this.#open = open
  }

  /** @throws {TidemarkError} `STORE_BUSY` when a watcher was taken over, but its cursor row could not be freed */
  async acquire(watcher: string): Promise<Lease | null> {
    this.#asking++
    try {
      return await this.#acquire(watcher)
    } finally {
      this.#asking--
      await this.#dropIfIdle()
    }
  }

  async #acquire(watcher: string): Promise<Lease | null> {
    const token = this.#place.world.randomBytes(TOKEN_BYTES)
    const since = this.#place.world.monotonic()
    const taken = await this.#take(watcher, token)
    if (taken === 'held') return null
    if (taken === 'over') await this.#free(watcher, token)
    const held = { watcher, token, leaseMs: this.#place.leaseMs, since }
    const lease = new HeldLease(held, this.#place.world, this, (ended) => this.#forget(ended))
    this.#held.add(lease)
    return lease
  }

  async holder(session: Session, watcher: string): Promise<Holder | null> {
    const row = await this.#read(session, watcher)
    if (!row || row.expiresInMs <= 0) return null
    return { host: row.host, pid: row.pid, expiresInMs: row.expiresInMs }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#held].map((lease) => lease.release()))
    await this.#dropKept()
  }

  async renew(watcher: string, token: Uint8Array, withinMs: number): Promise<boolean> {
    const values = [text(watcher), bytes(token), this.#place.leaseMs]
    return (await this.#run(RENEW, values, Math.min(withinMs, CALL_MS))).rowCount === 1
  }

  async remove(watcher: string, token: Uint8Array): Promise<void> {
    await this.#run(REMOVE, [text(watcher), bytes(token)])
  }

  // ------------------------------------------------------------------------------------------------------ taking

  /** `over`: from a holder that expired or died, which may still block the cursor row. */
  async #take(watcher: string, token: Uint8Array): Promise<'new' | 'over' | 'held'> {
    const before = await this.#readKept(watcher)
    const dead = before && isKnownDead(before, this.#own) ? before.token : null
    const { host, machine, pid, started } = this.#own
    const own = [text(watcher), bytes(token), host, machine, pid, started, this.#place.leaseMs, dead && bytes(dead)]
    const taken = (await this.#run(TAKE, own)).rowCount === 1
    if (!taken) return 'held'
    // No row before: it is new, or its holder gave it back meanwhile, which ends its work first.
    return before ? 'over' : 'new'
  }

  /** The row is taken already, so nobody else works on this; a failure leaves it expired, for whoever comes next. */
  async #free(watcher: string, token: Uint8Array): Promise<void> {
    try {
      await freeCursor(this.#place, this.#open, watcher)
    } catch (error) {
      await this.#run(EXPIRE, [text(watcher), bytes(token)]).catch(() => {})
      throw storeError(error)
    }
  }

  // ------------------------------------------------------------------------------------------- the kept connection

  async #run(sql: string, values: unknown[], withinMs: number = CALL_MS) {
    const session = await this.#keptWithin(withinMs)
    try {
      const query_timeout = Math.max(1, Math.ceil(withinMs))
      return await session.run({ text: this.#place.sql(sql), values, types: OWN_TYPES, query_timeout })
    } catch (error) {
      if (error instanceof LostConnection) await this.#dropKept()
      throw storeError(error)
    }
  }

  async #readKept(watcher: string): Promise<Row | undefined> {
    const [row] = (await this.#run(READ, [text(watcher)])).rows
    return row && readRow(row)
  }

  async #read(session: Session, watcher: string): Promise<Row | undefined> {
    const values = [text(watcher)]
    try {
      const { rows } = await session.run({ text: this.#place.sql(READ), values, types: OWN_TYPES })
      return rows[0] && readRow(rows[0])
    } catch (error) {
      throw storeError(error)
    }
  }

  async #keptWithin(withinMs: number): Promise<Session> {
    if (!this.#kept) {
      const opening = this.#open()
      this.#kept = opening
      opening.catch(() => {
        if (this.#kept === opening) this.#kept = undefined
      })
    }
    const session = await within(this.#place.world, withinMs, this.#kept)
    if (session) return session
    throw new TidemarkError('STORE_BUSY', 'No connection was free for the lease in time', { values: { withinMs } })
  }

  async #dropKept(): Promise<void> {
    const kept = this.#kept
    this.#kept = undefined
    const session = await kept?.catch(() => undefined)
    session?.release()
  }

  #forget(lease: HeldLease): void {
    this.#held.delete(lease)
    void this.#dropIfIdle()
  }

  async #dropIfIdle(): Promise<void> {
    if (this.#held.size === 0 && this.#asking === 0) await this.#dropKept()
  }
}
