import { invariant } from '../util/invariant.ts'

interface Entry<V> {
  readonly value: V
  readonly weight: number
}

/**
 * A cache with a written limit: the least recently used entries go first. It only saves work: whatever is not in it is
 * asked for again.
 */
export class BoundedCache<K, V> {
  readonly #entries = new Map<K, Entry<V>>()
  readonly #maxCount: number
  readonly #maxWeight: number
  #weight = 0

  /**
   * @param maxCount most entries kept
   * @param maxWeight most weight kept, in the unit of `set`; a heavier entry is not kept at all
   */
  constructor(maxCount: number, maxWeight = Number.POSITIVE_INFINITY) {
    invariant(maxCount > 0, 'a cache holds at least one entry', { maxCount })
    this.#maxCount = maxCount
    this.#maxWeight = maxWeight
  }

  get size(): number {
    return this.#entries.size
  }

  get(key: K): V | undefined {
    const entry = this.#entries.get(key)
    if (!entry) return undefined
    // A Map keeps the order of insertion: putting it back makes it the newest.
    this.#entries.delete(key)
    this.#entries.set(key, entry)
    return entry.value
  }

  set(key: K, value: V, weight = 1): void {
    this.delete(key)
    if (weight > this.#maxWeight) return
    this.#entries.set(key, { value, weight })
    this.#weight += weight
    for (const oldest of this.#entries.keys()) {
      if (this.#entries.size <= this.#maxCount && this.#weight <= this.#maxWeight) break
      this.delete(oldest)
    }
  }

  delete(key: K): void {
    const entry = this.#entries.get(key)
    if (!entry) return
    this.#weight -= entry.weight
    this.#entries.delete(key)
  }

  clear(): void {
    this.#entries.clear()
    this.#weight = 0
  }
}
