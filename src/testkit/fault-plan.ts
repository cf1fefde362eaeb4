import { type FaultName, faultNames } from './faults.ts'
import type { Random } from './random.ts'

/**
 * How often a fault hits: `true` always, a number from 0 to 1 by chance, or by chance but only in the first `attempts`
 * tries of a request, so that a client that keeps asking gets through.
 */
export type FaultSetting = boolean | number | { readonly chance: number; readonly attempts: number }

export type FaultSettings = Partial<Readonly<Record<FaultName, FaultSetting>>>

function parts(setting: FaultSetting): { chance: number; attempts: number } {
  if (typeof setting === 'object') return setting
  return { chance: Number(setting), attempts: Number.POSITIVE_INFINITY }
}

function check(settings: FaultSettings): void {
  for (const [name, setting] of Object.entries(settings)) {
    if (!(faultNames as readonly string[]).includes(name))
      throw new RangeError(`no fault is called ${name.slice(0, 40)}`)
    const { chance, attempts } = parts(setting)
    if (!(chance >= 0 && chance <= 1)) throw new RangeError(`the chance of ${name} must lie from 0 to 1, got ${chance}`)
    if (!(attempts >= 1)) throw new RangeError(`${name} needs at least 1 attempt, got ${attempts}`)
  }
}

/** Decides which faults hit which request. A decision is a function of seed, fault, request and attempt alone. */
export class FaultPlan {
  readonly #random: Random
  #settings: FaultSettings

  /** @throws {RangeError} for an unknown fault or a chance outside 0 … 1. */
  constructor(random: Random, settings: FaultSettings) {
    check(settings)
    this.#random = random
    this.#settings = settings
  }

  /** Adds to the settings; `false` switches a fault off. */
  set(settings: FaultSettings): void {
    check(settings)
    this.#settings = { ...this.#settings, ...settings }
  }

  /** Switches every fault off: from here on, whatever is asked must succeed in the end. */
  stop(): void {
    this.#settings = {}
  }

  /**
   * Whether a fault hits.
   * @param key the request, as text
   * @param attempt which try of that same request this is, from 1
   * @returns a stream for the fault's own choices, or null when it does not hit
   */
  hits(fault: FaultName, key: string, attempt: number): Random | null {
    const setting = this.#settings[fault]
    if (setting === undefined || setting === false) return null
    const { chance, attempts } = parts(setting)
    if (attempt > attempts) return null
    const random = this.#random.fork(`${fault} ${attempt} ${key}`)
    return random.chance(chance) ? random : null
  }
}

/**
 * Settings for one run of a swarm: each fault is off with one chance in two, else it hits 2 to 30 % of the requests.
 * Runs that differ in which faults exist at all find more than runs in which everything is possible.
 */
export function randomFaults(random: Random, among: readonly FaultName[] = faultNames): FaultSettings {
  const settings: Partial<Record<FaultName, FaultSetting>> = {}
  for (const fault of among) {
    const own = random.fork(`swarm ${fault}`)
    if (own.chance(0.5)) settings[fault] = own.int(2, 30) / 100
  }
  return settings
}

/** Counts kept at once; older ones are forgotten, which only starts their attempts anew. */
const MAX_COUNTED = 50_000

/** How often each request has come. Memory is bounded by two generations: the full one is dropped whole. */
export class Attempts {
  #young = new Map<string, number>()
  #old = new Map<string, number>()

  /** Counts one more try of a request and returns which one it is, from 1. */
  next(key: string): number {
    const attempt = (this.#young.get(key) ?? this.#old.get(key) ?? 0) + 1
    if (this.#young.size >= MAX_COUNTED && !this.#young.has(key)) {
      this.#old = this.#young
      this.#young = new Map()
    }
    this.#young.set(key, attempt)
    return attempt
  }
}
