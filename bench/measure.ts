import { realWorld } from '../src/util/world.ts'

/** One measured number, and what it is held against. */
export interface Figure {
  /** `bench/what/size`. */
  readonly name: string
  readonly value: number
  readonly unit: string
  /** Name of the other contender, or of the limit; null: stands alone. */
  readonly against: string | null
  /** value / that of `against`; null: stands alone. */
  readonly ratio: number | null
  /** `--check` fails when the value is above it. */
  readonly atMost?: number
}

/** `tiny` is for the test that keeps the benches from rotting: all of them in a few seconds, the numbers mean nothing. */
export type Size = 'full' | 'tiny'

export interface Bench {
  readonly name: string
  /** One line for the human table. */
  readonly says: string
  /** Figures as they are found. */
  run(size: Size): AsyncIterable<Figure> | Iterable<Figure>
}

/** Lets pass first what many digits would hide. */
export function rounded(value: number): number {
  if (Math.abs(value) >= 100) return Math.round(value)
  return Number(value.toPrecision(3))
}

export function alone(name: string, value: number, unit: string, atMost?: number): Figure {
  const limit = atMost === undefined ? {} : { atMost }
  return { name, value: rounded(value), unit, against: null, ratio: null, ...limit }
}

export function compared(name: string, value: number, unit: string, against: string, other: number): Figure {
  return { name, value: rounded(value), unit, against, ratio: Number((value / other).toFixed(3)) }
}

export function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
}

/** Calls a second of one turn. */
export function rate(count: number, work: (count: number) => void): number {
  const start = realWorld.monotonic()
  work(count)
  return (count / Math.max(realWorld.monotonic() - start, 1e-6)) * 1000
}

/**
 * Two or more contenders take turns in one run, so that a busy machine slows all of them alike; of each the median
 * counts. Ratios compare across machines, the figures themselves do not.
 */
export function inTurns(turns: number, contenders: readonly (() => number)[]): number[] {
  const found = contenders.map((): number[] => [])
  for (let turn = 0; turn < turns; turn++) {
    for (const [i, contender] of contenders.entries()) found[i]?.push(contender())
  }
  return found.map(median)
}

/** What some work took. CPU time is that of the whole process, all threads together. */
export interface Took {
  readonly wallMs: number
  readonly cpuMs: number
}

/** Starts a stopwatch. @returns a function that reads it */
export function stopwatch(): () => Took {
  const wall = realWorld.monotonic()
  const { user, system } = process.cpuUsage()
  return () => {
    const cpu = process.cpuUsage({ user, system })
    return { wallMs: realWorld.monotonic() - wall, cpuMs: (cpu.user + cpu.system) / 1000 }
  }
}
