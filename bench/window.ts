/**
 * What the sliding window costs: claims a second of `BoundedDeduplicator` with 1,000 to 1,000,000 live keys, one key
 * expiring at each claim, against a bare Map that does the same three calls (has, set, delete) and is *told* which key
 * expires, so it pays for no order at all: the floor.
 *
 * The two take turns in one run, so that a busy machine slows both; each figure is the median of 5 turns, each turn
 * with a fresh structure, filled before the clock starts. Ratios compare across machines, the figures themselves do
 * not. `window/map-front` is the obvious way, deleting at the front of a Map: the reason for the list.
 *
 * Prints one JSON line a figure: { name, value, unit, against, ratio }. Takes about a minute.
 */
import { BoundedDeduplicator } from '../src/dedup/bounded-deduplicator.ts'
import { realWorld } from '../src/util/world.ts'

const LIVE = [1_000, 10_000, 100_000, 1_000_000]
const TURNS = 5
const CLAIMS = 250_000
/** The front of a Map is so slow that fewer claims say it all. */
const FRONT_CLAIMS = 50_000

interface Contender {
  readonly name: string
  readonly claims: number
  /** @returns a function that claims the i-th key at time i and answers whether it was new */
  make(keys: readonly string[], live: number): (i: number) => boolean
}

const ours: Contender = {
  name: 'window',
  claims: CLAIMS,
  make(keys, live) {
    let now = 0
    const dedup = new BoundedDeduplicator({ windowSeconds: live / 1000, maxKeys: live + 1, clock: () => now })
    return (i) => {
      now = i
      return dedup.claim(keys[i] ?? '')
    }
  },
}

const bareMap: Contender = {
  name: 'window/map',
  claims: CLAIMS,
  make(keys, live) {
    const map = new Map<string, number>()
    return (i) => {
      if (i >= live) map.delete(keys[i - live] ?? '')
      const key = keys[i] ?? ''
      if (map.has(key)) return false
      map.set(key, i + live)
      return true
    }
  },
}

const mapFront: Contender = {
  name: 'window/map-front',
  claims: FRONT_CLAIMS,
  make(keys, live) {
    const map = new Map<string, number>()
    return (i) => {
      for (let first = map.entries().next(); !first.done && first.value[1] <= i; first = map.entries().next()) {
        map.delete(first.value[0])
      }
      const key = keys[i] ?? ''
      if (map.has(key)) return false
      map.set(key, i + live)
      return true
    }
  },
}

/** Event ids: 70 characters that differ near the end. */
function eventIds(count: number): string[] {
  return Array.from({ length: count }, (_, i) => `1-0x${i.toString(16).padStart(64, '0')}-3`)
}

/** Claims a second in one turn. */
function turn(contender: Contender, keys: readonly string[], live: number): number {
  const claim = contender.make(keys, live)
  for (let i = 0; i < live; i++) claim(i)
  const start = realWorld.monotonic()
  let fresh = 0
  for (let i = live; i < live + contender.claims; i++) if (claim(i)) fresh++
  const seconds = (realWorld.monotonic() - start) / 1000
  if (fresh !== contender.claims)
    throw new Error(`${contender.name} took ${contender.claims - fresh} new keys for repeats`)
  return contender.claims / seconds
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
}

function print(name: string, value: number, against: string, floor: number): void {
  const ratio = Number((value / floor).toFixed(3))
  console.log(JSON.stringify({ name, value: Math.round(value), unit: 'claims/s', against, ratio }))
}

function compare(live: number): void {
  const keys = eventIds(live + CLAIMS)
  const contenders = [bareMap, ours, mapFront]
  const figures = contenders.map((): number[] => [])
  for (let t = 0; t < TURNS; t++) {
    for (const [c, one] of contenders.entries()) figures[c]?.push(turn(one, keys, live))
  }
  const [floor = Number.NaN, ...others] = figures.map(median)
  for (const [c, value] of others.entries()) {
    print(`${contenders[c + 1]?.name}/${live}`, value, `${bareMap.name}/${live}`, floor)
  }
}

for (const live of LIVE) compare(live)
