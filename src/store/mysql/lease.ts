import { TidemarkError } from '../../errors.ts'
import { sameBytes } from '../../util/bytes.ts'
import type { World } from '../../util/world.ts'
import { type Identity, isKnownDead, ownIdentity } from '../server/holder.ts'
import type { Holder, Lease } from '../store.ts'
import { onClient } from './executors.ts'
import { freeCursor } from './free-cursor.ts'
import { CLOCK } from './handled.ts'
import { bind, type SqlValue } from './literals.ts'
import { storeError } from './mysql-errors.ts'
import type { Names } from './names.ts'
import type { Connections } from './pool.ts'
import { key, type Row, readBytes, readNumber, readNumberOrNull, readText } from './values.ts'

/** Bytes of a fencing token. Random, so that a restored database never meets an old one again. */
const TOKEN_BYTES = 16

// The condition of each assignment reads `expires_at`, which is changed last. A row that stays is counted up, so that a new
// one counts as one row and an old one as two.
const EXPIRED = `expires_at <= ${CLOCK}`
const OF_HOLDER = ['token', 'host', 'machine', 'pid', 'started', 'lease_ms', 'expires_at'] as const
const TAKE = `
  INSERT INTO {leases} (watcher, token, host, machine, pid, started, lease_ms, expires_at)
  VALUES (?, ?, ?, ?, ?, ?, ?, ${CLOCK} + ?)
  ON DUPLICATE KEY UPDATE changes = changes + 1,
    ${OF_HOLDER.map((column) => `${column} = IF(${EXPIRED}, VALUES(${column}), ${column})`).join(', ')}`
const READ = `
  SELECT token, host, machine, pid, started, expires_at - ${CLOCK} AS left_ms FROM {leases} WHERE watcher = ?`
const TAKE_DEAD = `
  UPDATE {leases} SET token = ?, host = ?, machine = ?, pid = ?, started = ?, lease_ms = ?, expires_at = ${CLOCK} + ?,
    changes = changes + 1
  WHERE watcher = ? AND token = ?`
const RENEW = `
  UPDATE {leases} SET expires_at = ${CLOCK} + lease_ms, changes = changes + 1 WHERE watcher = ? AND token = ?`
const GIVE_BACK = 'DELETE FROM {leases} WHERE watcher = ? AND token = ?'

/** What leases of one store need. */
export interface LeaseSetting {
  readonly connections: Connections
  readonly names: Names
  readonly world: World
  readonly leaseMs: number
}

interface LeaseAnswer {
  readonly rows: readonly Row[]
  readonly affected: number
}

/** One statement that commits by itself: a process that is frozen between two statements holds no lock on the lease. */
function ask(setting: LeaseSetting, text: string, ...values: readonly SqlValue[]): Promise<LeaseAnswer> {
  const sql = bind(setting.names.parts(text), values)
  return setting.connections.autocommit(async ({ client }) => {
    try {
      return await onClient(client).execute(sql)
    } catch (error) {
      throw storeError(error)
    }
  })
}

/**
 * Takes the lease of a watcher: when nobody has it, when it has expired by the database's clock, or when its holder is
 * known to be dead on this machine. After a take-over the sessions that hold the lock of the cursor row are ended.
 * @returns null when another process has it
 */
export async function acquire(setting: LeaseSetting, watcher: string): Promise<HeldLease | null> {
  const { world, leaseMs } = setting
  const token = world.randomBytes(TOKEN_BYTES)
  const own = ownIdentity()
  const startedAt = world.monotonic()
  const holder = [token, own.host, own.machine, own.pid, own.started, leaseMs, leaseMs] as const
  const { affected } = await ask(setting, TAKE, key(watcher), ...holder)
  const taken = affected === 1 || (await takeOver(setting, watcher, token, own, holder))
  if (!taken) return null
  const lease = new HeldLease(setting, watcher, token, startedAt + leaseMs)
  if (affected === 1) return lease
  return freed(setting, watcher, lease)
}

/** A row was there. Whether its lease is ours now: it had expired, or its holder is dead. */
async function takeOver(
  setting: LeaseSetting,
  watcher: string,
  token: Uint8Array,
  own: Identity,
  holder: readonly SqlValue[],
): Promise<boolean> {
  const [row] = (await ask(setting, READ, key(watcher))).rows
  // Given back a moment ago; whoever asks again will have it.
  if (!row) return false
  const found = readBytes(row, 'token')
  if (sameBytes(found, token)) return true
  const other = {
    host: readText(row, 'host'),
    machine: readText(row, 'machine'),
    pid: readNumber(row, 'pid'),
    started: readText(row, 'started'),
  }
  if (!isKnownDead(other, own)) return false
  const { affected } = await ask(setting, TAKE_DEAD, ...holder, key(watcher), found)
  return affected === 1
}

async function freed(setting: LeaseSetting, watcher: string, lease: HeldLease): Promise<HeldLease> {
  try {
    await freeCursor(setting, watcher)
    return lease
  } catch (error) {
    await lease.release()
    throw error
  }
}

/** Who holds a watcher by the database's clock; null: nobody, or one whose lease has run out. */
export async function holderOf(setting: LeaseSetting, watcher: string): Promise<Holder | null> {
  const [row] = (await ask(setting, READ, key(watcher))).rows
  if (!row) return null
  const expiresInMs = readNumber(row, 'left_ms')
  if (expiresInMs <= 0) return null
  return { host: readText(row, 'host'), pid: readNumberOrNull(row, 'pid'), expiresInMs }
}

/** Renewals in the time of a lease; after a failed one a try comes sooner. */
const RENEWALS = 3
const TRIES = 10

/** A lease that renews itself until it is released or lost. */
export class HeldLease implements Lease {
  readonly token: Uint8Array
  readonly watcher: string
  readonly #setting: LeaseSetting
  readonly #lost = new AbortController()
  readonly #stop = new AbortController()
  /** On the monotonic clock: counted from before the request, so it never ends after the database's own. */
  #validUntil: number

  constructor(setting: LeaseSetting, watcher: string, token: Uint8Array, validUntil: number) {
    this.#setting = setting
    this.watcher = watcher
    this.token = token
    this.#validUntil = validUntil
    void this.#keep()
  }

  get lost(): AbortSignal {
    return this.#lost.signal
  }

  async confirm(): Promise<boolean> {
    return !this.lost.aborted && (await this.#renew()) === 'renewed'
  }

  async release(): Promise<void> {
    if (this.#stop.signal.aborted) return
    this.#stop.abort()
    try {
      await ask(this.#setting, GIVE_BACK, key(this.watcher), this.token)
    } catch {
      // It runs out by itself.
    }
  }

  async #keep(): Promise<void> {
    const { world, leaseMs } = this.#setting
    let wait = leaseMs / RENEWALS
    while (!this.#stop.signal.aborted) {
      await world.sleep(Math.min(wait, this.#left()), this.#stop.signal)
      if (this.#stop.signal.aborted) return
      const outcome = this.#left() > 0 ? await this.#renewInTime() : 'gone'
      if (outcome === 'gone') return this.#lose()
      wait = outcome === 'renewed' ? leaseMs / RENEWALS : leaseMs / TRIES
    }
  }

  #left(): number {
    return this.#validUntil - this.#setting.world.monotonic()
  }

  #lose(): void {
    if (this.#stop.signal.aborted) return
    this.#lost.abort(new TidemarkError('FENCED', 'The lease was lost', { values: { watcher: this.watcher } }))
    this.#stop.abort()
  }

  /** A request that hangs must not outlive the lease. */
  async #renewInTime(): Promise<'renewed' | 'gone' | 'failed'> {
    const answered = new AbortController()
    const signal = AbortSignal.any([answered.signal, this.#stop.signal])
    const late = this.#setting.world.sleep(this.#left(), signal).then(() => 'failed' as const)
    try {
      return await Promise.race([this.#renew(), late])
    } finally {
      answered.abort()
    }
  }

  async #renew(): Promise<'renewed' | 'gone' | 'failed'> {
    const { world, leaseMs } = this.#setting
    const startedAt = world.monotonic()
    try {
      const { affected } = await ask(this.#setting, RENEW, key(this.watcher), this.token)
      if (affected !== 1) return 'gone'
      this.#validUntil = startedAt + leaseMs
      return 'renewed'
    } catch {
      return 'failed'
    }
  }
}
