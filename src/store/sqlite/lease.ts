import { hostname } from 'node:os'
import { TidemarkError } from '../../errors.ts'
import type { Holder, Lease } from '../store.ts'
import { adapt, type SqliteDatabaseLike } from './driver.ts'
import { canonicalFile, MEMORY, type Place } from './open.ts'
import { storeError } from './sqlite-errors.ts'

/** Bytes of a fencing token. Random, so that a restored database never meets an old one again. */
const TOKEN_BYTES = 16

/**
 * How long a claimant waits for the lock. Two that come at the same moment would both be refused without any wait: each
 * holds a shared lock for an instant, which keeps the other from the exclusive one.
 */
const CLAIM_WAIT_MS = 100

type Free = () => void

/**
 * The right to run watchers on a file: an exclusive transaction on an empty database beside it. The operating system
 * releases it when the process ends, by SIGKILL too, so a restart waits for nothing and no expiry is guessed. The lock
 * file stays behind, empty: deleting it would race with the next claimant.
 *
 * The lock is a POSIX lock on that file: opening and closing the file in this process by other means would drop it.
 * @returns null when another process, or another store in this one, has it
 */
function lockFile(place: Place): Free | null {
  const database = tryLock(place, 'EXCLUSIVE')
  return database && (() => database.close())
}

/** A journal in memory: nothing is ever written, and no second file is left behind. */
function tryLock(place: Place, kind: 'EXCLUSIVE' | 'DEFERRED'): SqliteDatabaseLike | null {
  const database = openLock(place)
  try {
    database.exec(`PRAGMA busy_timeout = ${CLAIM_WAIT_MS}; PRAGMA journal_mode = MEMORY`)
    database.exec(`BEGIN ${kind}`)
    // A deferred transaction takes its shared lock with the first read. Not prepared: a statement would outlive `close`.
    database.exec('SELECT count(*) FROM sqlite_schema')
    return database
  } catch (error) {
    database.close()
    const known = storeError(error)
    if (TidemarkError.has(known, 'STORE_BUSY')) return null
    throw known
  }
}

function openLock(place: Place): SqliteDatabaseLike {
  try {
    return adapt(place.open(`${canonicalFile(place)}-tidemark-lock`))
  } catch (error) {
    throw storeError(error)
  }
}

const held = new WeakSet<object>()

/** A database in memory belongs to one store of one process: its lock only keeps that store from two owners. */
function lockMemory(place: Place): Free | null {
  if (held.has(place)) return null
  held.add(place)
  return () => void held.delete(place)
}

/** The lock of one store, taken with the first watcher and freed with the last. */
export class StoreLock {
  readonly #place: Place
  readonly #watchers = new Set<string>()
  #free: Free | null = null

  constructor(place: Place) {
    this.#place = place
  }

  take(watcher: string): Lease | null {
    if (this.#watchers.has(watcher)) return null
    this.#free ??= this.#place.file === MEMORY ? lockMemory(this.#place) : lockFile(this.#place)
    if (!this.#free) return null
    this.#watchers.add(watcher)
    return this.#leaseOf(watcher)
  }

  /** Reads the lock file: whoever holds it for writing keeps readers out. */
  holder(watcher: string): Holder | null {
    const here = this.#watchers.has(watcher)
    if (!here && (this.#free || this.#place.file === MEMORY)) return null
    const probe = here ? null : tryLock(this.#place, 'DEFERRED')
    probe?.close()
    return probe ? null : { host: hostname(), pid: here ? process.pid : null, expiresInMs: null }
  }

  freeAll(): void {
    this.#watchers.clear()
    this.#free?.()
    this.#free = null
  }

  #leaseOf(watcher: string): Lease {
    let open = true
    return {
      token: this.#place.world.randomBytes(TOKEN_BYTES),
      // Nothing can take it away from a process that lives.
      lost: new AbortController().signal,
      confirm: () => open,
      release: async () => {
        if (open && this.#watchers.delete(watcher) && this.#watchers.size === 0) this.freeAll()
        open = false
      },
    }
  }
}
