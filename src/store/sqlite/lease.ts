import { TidemarkError } from '../../errors.ts'
import type { Lease } from '../store.ts'
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

/**
 * Takes the right to run watchers on a file: an exclusive transaction on an empty database beside it. The operating
 * system releases it when the process ends, by SIGKILL too, so a restart waits for nothing and no expiry is guessed.
 * The lock file stays behind, empty: deleting it would race with the next claimant.
 *
 * The lock is a POSIX lock on that file: opening and closing the file in this process by other means would drop it.
 * @returns null when another process, or another store in this one, has it
 */
export function acquireFile(place: Place): Lease | null {
  const database = openLock(place)
  try {
    // A journal in memory: nothing is ever written, and no second file is left behind.
    database.exec(`PRAGMA busy_timeout = ${CLAIM_WAIT_MS}; PRAGMA journal_mode = MEMORY`)
    database.exec('BEGIN EXCLUSIVE')
  } catch (error) {
    database.close()
    const known = storeError(error)
    if (TidemarkError.has(known, 'STORE_BUSY')) return null
    throw known
  }
  return leaseOn(place, () => database.close())
}

function openLock(place: Place): SqliteDatabaseLike {
  try {
    return adapt(place.open(`${canonicalFile(place)}-tidemark-lock`))
  } catch (error) {
    throw storeError(error)
  }
}

const held = new WeakSet<object>()

/** A database in memory belongs to one store of one process: its lease only keeps that store from two owners. */
export function acquireMemory(place: Place): Lease | null {
  if (held.has(place)) return null
  held.add(place)
  return leaseOn(place, () => held.delete(place))
}

export function acquire(place: Place): Lease | null {
  return place.file === MEMORY ? acquireMemory(place) : acquireFile(place)
}

function leaseOn(place: Place, free: () => unknown): Lease {
  let open = true
  return {
    token: place.world.randomBytes(TOKEN_BYTES),
    release: async () => {
      if (!open) return
      open = false
      free()
    },
  }
}
