/**
 * Where a finality tag points:
 *
 * - `{ depth }`: that many blocks below the head, never back (the highest value ever reached counts)
 * - a number: exactly there, until it is set again; it may lag, step back or lie above the head
 * - `null`: the chain cannot resolve the tag (C40)
 */
export type FinalitySetting = { readonly depth: number } | number | null

/** One tag, `safe` or `finalized`. */
export class FinalityPointer {
  #setting: FinalitySetting
  #highest = 0

  constructor(setting: FinalitySetting) {
    this.#setting = checked(setting)
  }

  set(setting: FinalitySetting): void {
    this.#setting = checked(setting)
    this.#highest = 0
  }

  /** Tells it the height of a new head, so that an automatic pointer moves up. */
  moved(head: number): void {
    if (typeof this.#setting === 'object' && this.#setting !== null) {
      this.#highest = Math.max(this.#highest, head - this.#setting.depth)
    }
  }

  /** The block number it points at; null while the tag does not resolve. */
  get number(): number | null {
    return typeof this.#setting === 'object' && this.#setting !== null ? this.#highest : this.#setting
  }
}

function checked(setting: FinalitySetting): FinalitySetting {
  const value = typeof setting === 'object' ? (setting?.depth ?? 0) : setting
  if (!Number.isSafeInteger(value) || value < 0)
    throw new RangeError(`finality needs a whole number from 0, got ${value}`)
  return setting
}
