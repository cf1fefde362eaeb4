import * as AbiEvent from 'ox/AbiEvent'
import { parseLogs } from '../src/chain/parse.ts'
import { identify } from '../src/dedup/identity.ts'
import { decodeEvent } from '../src/handle/event.ts'
import { compileWatcher } from '../src/handle/watch.ts'
import { watch } from '../src/store/sqlite/index.ts'
import { CHAIN_ID, logOf, TOKEN } from './chain.ts'
import { alone, type Bench, compared, type Figure, inTurns, rate, type Size } from './measure.ts'

/**
 * How many ERC-20 transfers `decodeEvent` turns from logs into events a second (matched, arguments decoded, named),
 * against the decoding of the arguments alone by the general library, `ox`.
 */

const SIGNATURE = 'event Transfer(address indexed from, address indexed to, uint256 value)'
const CALLS: Readonly<Record<Size, number>> = { full: 500_000, tiny: 500 }
/** Several logs in turn, so that no result can be kept from the call before. */
const LOGS = 1_000
const TURNS = 5

function compiled() {
  const watcher = watch({
    on: { bench: { address: TOKEN, startBlock: 1 } },
    events: { Transfer: { event: SIGNATURE } },
    handle() {},
  })
  return compileWatcher('bench', watcher, 'bench', CHAIN_ID)
}

function* measure(size: Size): Generator<Figure> {
  const decoder = compiled()
  const logs = parseLogs(Array.from({ length: LOGS }, (_, i) => logOf(1 + i, 0, 1))).map(({ log }) => log)
  const identified = identify(CHAIN_ID, logs)
  const abi = AbiEvent.from(SIGNATURE)
  const ours = (count: number) => {
    for (let i = 0; i < count; i++) decodeEvent(decoder, identified[i % LOGS] as (typeof identified)[number])
  }
  const general = (count: number) => {
    for (let i = 0; i < count; i++) {
      const { topics, data } = logs[i % LOGS] as (typeof logs)[number]
      AbiEvent.decode(abi, { topics: topics as readonly [], data })
    }
  }
  const calls = CALLS[size]
  const [a = Number.NaN, b = Number.NaN] = inTurns(TURNS, [() => rate(calls, ours), () => rate(calls / 10, general)])
  yield compared('decode/transfer', a, 'events/s', 'decode/transfer/ox', b)
  yield alone('decode/transfer/ox', b, 'events/s')
}

export const decode: Bench = {
  name: 'decode',
  says: 'logs of ERC-20 transfers decoded to events, against the general library',
  run: measure,
}
