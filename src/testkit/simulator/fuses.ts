import type { Mishap } from './plan.ts'

interface Armed {
  readonly mishap: Mishap
  readonly counts: (sql: string) => boolean
  left: number
}

/** Mishaps that wait at once; more is a mistake of the plan. */
const MAX_ARMED = 100

/** The mishaps that wait for a statement of one process. */
export class Fuses {
  readonly #countsFor: (mishap: Mishap) => (sql: string) => boolean
  #armed: Armed[] = []

  /** @param countsFor which statements count for a mishap, in the words of the database */
  constructor(countsFor: (mishap: Mishap) => (sql: string) => boolean) {
    this.#countsFor = countsFor
  }

  /** @param at strikes at the n-th statement that counts for this mishap, from 1 */
  arm(mishap: Mishap, at: number): void {
    if (this.#armed.length < MAX_ARMED) this.#armed.push({ mishap, counts: this.#countsFor(mishap), left: at })
  }

  disarm(): void {
    this.#armed = []
  }

  /** Counts a statement. Answers what strikes at it. */
  due(sql: string): Mishap | null {
    let due: Armed | undefined
    for (const armed of this.#armed) {
      if (!armed.counts(sql)) continue
      armed.left -= 1
      if (armed.left <= 0) due ??= armed
    }
    this.#armed = this.#armed.filter((armed) => armed !== due)
    return due?.mishap ?? null
  }
}
