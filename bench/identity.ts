import { parseLogs } from '../src/chain/parse.ts'
import { stableId } from '../src/dedup/identity.ts'
import { sha256Hex } from '../src/util/digest.ts'
import { CHAIN_ID, logOf } from './chain.ts'
import { alone, type Bench, compared, type Figure, inTurns, rate, type Size } from './measure.ts'

/** Stable ids of ERC-20 transfers a second, against nothing but the hash over as many bytes: the floor. */

const CALLS: Readonly<Record<Size, number>> = { full: 300_000, tiny: 500 }
const LOGS = 1_000
const TURNS = 5
/** Chain id, transaction hash, address, topic count, 3 topics, data, n. */
const BYTES = 8 + 32 + 20 + 1 + 3 * 32 + 32 + 8

function* measure(size: Size): Generator<Figure> {
  const logs = parseLogs(Array.from({ length: LOGS }, (_, i) => logOf(1 + i, 0, 1))).map(({ log }) => log)
  const ours = (count: number) => {
    for (let i = 0; i < count; i++) stableId(CHAIN_ID, logs[i % LOGS] as (typeof logs)[number])
  }
  const bytes = new Uint8Array(BYTES)
  const hash = (count: number) => {
    for (let i = 0; i < count; i++) {
      bytes[i % BYTES] = i
      sha256Hex(bytes)
    }
  }
  const calls = CALLS[size]
  const [a = Number.NaN, b = Number.NaN] = inTurns(TURNS, [() => rate(calls, ours), () => rate(calls, hash)])
  yield compared('identity/stable-id', a, 'ids/s', 'identity/sha256', b)
  yield alone('identity/sha256', b, 'hashes/s')
}

export const identity: Bench = { name: 'identity', says: 'stable ids, against the hash alone', run: measure }
