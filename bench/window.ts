/**
 * What the sliding window costs: claims a second of `BoundedDeduplicator` with 1,000 to 1,000,000 live keys, one key
 * expiring at each claim, against a bare Map that does the same three calls (has, set, delete) and is *told* which key
 * expires, so it pays for no order at all: the floor.
 *
 * The two take turns in one run, so that a busy machine slows both; each figure is the median of 5 turns, each turn
 * with a fresh structure, filled before the clock starts. Ratios compare across machines, the figures themselves do
 * not. `window/map-front` is the obvious way, deleting at the front of a Map: the reason for the list.
 *
 * Takes about a minute.
 */
import { BoundedDeduplicator } from '../src/dedup/bounded-deduplicator.ts'
import { alone, type Bench, compared, type Figure, inTurns, rate, type Size } from './measure.ts'

const LIVE: Readonly<Record<Size, readonly number[]>> = { full: [1_000, 10_000, 100_000, 1_000_000], tiny: [100] }
const TURNS = 5
const CLAIMS: Readonly<Record<Size, number>> = { full: 250_000, tiny: 500 }
/** The front of a Map is so slow that a fifth of the claims says it all. */
const FRONT_SHARE = 5

interface Contender {
  readonly name: string
  /** Part of the claims that it makes: 1 / share. */
  readonly share: number
  /** @returns a function that claims the i-th key at time i and answers whether it was new */
  make(keys: readonly string[], live: number): (i: number) => boolean
}

const ours: Contender = {
  name: 'window',
  share: 1,
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
  share: 1,
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
  share: FRONT_SHARE,
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
function turn(contender: Contender, keys: readonly string[], live: number, claims: number): number {
  const claim = contender.make(keys, live)
  for (let i = 0; i < live; i++) claim(i)
  let fresh = 0
  const perSecond = rate(claims, () => {
    for (let i = live; i < live + claims; i++) if (claim(i)) fresh++
  })
  if (fresh !== claims) throw new Error(`${contender.name} took ${claims - fresh} new keys for repeats`)
  return perSecond
}

function* measure(size: Size): Generator<Figure> {
  const claims = CLAIMS[size]
  for (const live of LIVE[size]) {
    const keys = eventIds(live + claims)
    const contenders = [bareMap, ours, mapFront].map((one) => () => turn(one, keys, live, claims / one.share))
    const [floor = Number.NaN, window = Number.NaN, front = Number.NaN] = inTurns(TURNS, contenders)
    yield alone(`window/map/${live}`, floor, 'claims/s')
    yield compared(`window/${live}`, window, 'claims/s', `window/map/${live}`, floor)
    yield compared(`window/map-front/${live}`, front, 'claims/s', `window/map/${live}`, floor)
  }
}

export const window: Bench = {
  name: 'window',
  says: 'claims of the sliding window, against a bare Map that is told what expires',
  run: measure,
}
