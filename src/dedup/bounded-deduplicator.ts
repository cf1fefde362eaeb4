import { TidemarkError } from '../errors.ts'
import { invariant } from '../util/invariant.ts'
import { refuseOption, refuseUnknownOptions, wholeOption } from '../util/options.ts'
import { realWorld } from '../util/world.ts'

const OWNER = 'BoundedDeduplicator'
const OPTIONS = ['windowSeconds', 'maxKeys', 'clock'] as const
const DEFAULT_MAX_KEYS = 1_000_000
/** A JavaScript `Map` refuses its 2^24th entry; below that we refuse in our own words. */
const MOST_KEYS = 16_000_000
/** With `maxKeys` this bounds the memory: a key of 255 characters takes 255 to 510 bytes. */
const LONGEST_KEY = 255

export interface BoundedDeduplicatorOptions {
  /** How long a key stays a duplicate after it was first marked, in seconds. Above 0; fractions are fine. No default. */
  readonly windowSeconds: number
  /** Most keys remembered at one time, 1 to 16,000,000. Default 1,000,000: about 180 MB of memory with event ids. */
  readonly maxKeys?: number
  /** Milliseconds on a monotonic clock. Default: the runtime's own. A wall clock is never right here. */
  readonly clock?: () => number
}

/** One remembered key, in a list ordered by `expires`. */
interface Entry {
  readonly key: string
  readonly expires: number
  older: Entry | null
  newer: Entry | null
}

/**
 * A sliding window of keys in memory: tells whether a key was marked within the last `windowSeconds` (C62, C64).
 *
 * - **The edge.** A key marked at *t* is a duplicate while `now < t + window`; at exactly `t + window` it is new again.
 * - **The window counts from the first mark.** A repeat inside it, by `mark` or `claim`, does not extend it: a sender
 *   that repeats for ever gets through once a window.
 * - **Bounded** (P6). Each call first drops what has expired. With `maxKeys` live keys a new one is refused with
 *   `WINDOW_FULL`; a live key is never dropped early, which would make an old event new again.
 * - **The clock** may step back: no key becomes new by it. Time then stands still until the clock has caught up, one
 *   window at most; a longer step back is taken as a new zero. So it holds a key for one window longer at most.
 * - **A restart forgets everything**, so it loses at most one window. Where that is too much, the mark belongs in the
 *   database: `DeduplicationManager`.
 *
 * Memory is one process; nothing here waits, so calls cannot interleave.
 *
 * @example
 * const signals = new BoundedDeduplicator({ windowSeconds: 60 })
 * if (signals.claim(eventId(log))) trade(log)
 */
export class BoundedDeduplicator {
  // A Map alone would do, were it not for its front: a deleted slot stays until the next rehash, and `keys().next()`
  // walks over all of them again. Measured on Node 20 (bench/window.ts: medians of 5 turns, one expiry a claim), against
  // a Map that is told which key expires: this list 0.7 to 1.0 times as fast at each of 1,000 to 1,000,000 live keys;
  // deleting at the front of a Map 0.16 with 1,000 keys and 0.04 to 0.09 with more. A ring of arrays, tried once with
  // the same calls, was no faster than the list, and needs growing, shrinking, and compaction after `forget`.
  readonly #entries = new Map<string, Entry>()
  #oldest: Entry | null = null
  #newest: Entry | null = null

  readonly #windowMs: number
  readonly #maxKeys: number
  readonly #clock: () => number
  /** The latest time seen; it never goes back. */
  #latest: number
  /** Added to each reading after a step back of more than one window. */
  #offset = 0

  /** @throws {TidemarkError} `CONFIG_INVALID`, or `CONFIG_UNKNOWN_KEY` for a misspelt option */
  constructor(options: BoundedDeduplicatorOptions) {
    refuseUnknownOptions(OWNER, options, OPTIONS)
    const { windowSeconds, maxKeys = DEFAULT_MAX_KEYS, clock = realWorld.monotonic } = options
    const windowMs = typeof windowSeconds === 'number' ? windowSeconds * 1000 : Number.NaN
    if (!(windowMs > 0 && Number.isFinite(windowMs))) {
      refuseOption(OWNER, 'windowSeconds', windowSeconds, 'a finite number of seconds above 0')
    }
    if (typeof clock !== 'function') refuseOption(OWNER, 'clock', clock, 'a function that returns milliseconds')
    this.#windowMs = windowMs
    this.#maxKeys = wholeOption(OWNER, 'maxKeys', maxKeys, 1, MOST_KEYS)
    this.#clock = clock
    this.#latest = clock()
    if (!Number.isFinite(this.#latest))
      refuseOption(OWNER, 'clock', this.#latest, 'a function that returns milliseconds')
  }

  /** How many keys are live now. */
  get size(): number {
    this.#advance()
    return this.#entries.size
  }

  /**
   * Whether the key was marked within the window. Marks nothing: two callers who both see `false` both go on, so use
   * `claim` unless the mark must wait for the work.
   * @throws {TidemarkError} `EVENT_KEY_INVALID`
   */
  seen(key: string): boolean {
    checkKey(key)
    this.#advance()
    return this.#entries.has(key)
  }

  /**
   * Remembers the key for one window from now. A key that is live keeps its first time.
   * @throws {TidemarkError} `WINDOW_FULL`, `EVENT_KEY_INVALID`
   */
  mark(key: string): void {
    this.claim(key)
  }

  /**
   * `seen` and `mark` in one: true when the key is new, and the caller goes on; false for a duplicate.
   * @throws {TidemarkError} `WINDOW_FULL` when the key is new and `maxKeys` keys are live: nothing is remembered and
   *   the caller must not go on; `EVENT_KEY_INVALID`
   */
  claim(key: string): boolean {
    checkKey(key)
    const now = this.#advance()
    if (this.#entries.has(key)) return false
    if (this.#entries.size >= this.#maxKeys) this.#refuseFull(now)
    this.#append({ key, expires: now + this.#windowMs, older: this.#newest, newer: null })
    return true
  }

  /**
   * Takes a mark back, so that the key is new: after the work failed (C56). Answers whether it was live.
   * @throws {TidemarkError} `EVENT_KEY_INVALID`
   */
  forget(key: string): boolean {
    checkKey(key)
    this.#advance()
    const entry = this.#entries.get(key)
    if (entry === undefined) return false
    this.#entries.delete(key)
    this.#unlink(entry)
    return true
  }

  /** Reads the clock and drops what has expired: the cost is the number of keys that expire, and one comparison. */
  #advance(): number {
    const now = this.#now()
    let entry = this.#oldest
    while (entry !== null && entry.expires <= now) {
      this.#entries.delete(entry.key)
      const newer: Entry | null = entry.newer
      // Cut loose: a dead entry that the collector has moved to its old space would keep its successors alive.
      entry.newer = null
      entry = newer
    }
    this.#oldest = entry
    if (entry === null) this.#newest = null
    else entry.older = null
    return now
  }

  /** The clock, held so that it never goes back. A reading that is no number does not move it. */
  #now(): number {
    const reading = this.#clock() + this.#offset
    if (!Number.isFinite(reading)) return this.#latest
    if (reading > this.#latest) this.#latest = reading
    else if (this.#latest - reading > this.#windowMs) this.#offset += this.#latest - reading
    return this.#latest
  }

  #append(entry: Entry): void {
    invariant(entry.older === null || entry.older.expires <= entry.expires, 'The window is not in order of time.')
    this.#entries.set(entry.key, entry)
    if (entry.older === null) this.#oldest = entry
    else entry.older.newer = entry
    this.#newest = entry
  }

  #unlink(entry: Entry): void {
    if (entry.older === null) this.#oldest = entry.newer
    else entry.older.newer = entry.newer
    if (entry.newer === null) this.#newest = entry.older
    else entry.newer.older = entry.older
    entry.older = null
    entry.newer = null
  }

  #refuseFull(now: number): never {
    const freeInMs = Math.ceil((this.#oldest?.expires ?? now) - now)
    throw new TidemarkError('WINDOW_FULL', 'The window holds as many keys as it may.', {
      values: { maxKeys: this.#maxKeys, freeInMs },
    })
  }
}

/** Two events without a key would be each other's duplicate, and the second one lost. */
function checkKey(key: string): void {
  if (typeof key === 'string' && key.length > 0 && key.length <= LONGEST_KEY) return
  throw new TidemarkError('EVENT_KEY_INVALID', 'The key of a window is a text of 1 to 255 characters.', {
    values: { got: typeof key, ...(typeof key === 'string' && { length: key.length }) },
  })
}
