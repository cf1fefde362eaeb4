import type { AbiParameter } from 'abitype'
import type { TopicFilter } from '../../chain/filter.ts'
import { isValueType, type ParsedEvent, parseEvent } from '../../handle/abi.ts'
import { eventTopics } from '../../handle/arguments.ts'
import { addressesOf } from '../../handle/compile.ts'
import type { Watcher } from '../../handle/watch.ts'
import type { Hex } from '../../util/bytes.ts'
import { type EventArgumentsInput, encodeEvent } from '../encode.ts'
import { type FakeLog, rawLog, testAddress } from '../fake-log.ts'
import type { Random } from '../random.ts'

/** Few values, so that rows collide: accounts meet themselves, ids come again. The zero address stands for mints and burns. */
const ADDRESSES = [...['ALICE', 'BOB', 'CAROL', 'DAVE'].map(testAddress), `0x${'0'.repeat(40)}`]
const TEXTS = ['alpha', 'beta', 'gamma', '']
const BYTES = ['0x', '0x01', '0xc0ffee']
/** Of a long list of wanted values so many are used. */
const FILTER_POOL = 4
/** The contract of a watcher that takes the events of any. */
const ANY_CONTRACT = testAddress('CONTRACT')

function integer(type: string, random: Random): number {
  const bits = Number(/\d+$/.exec(type)?.[0] ?? 256)
  const most = Math.min(1_000, 2 ** (type.startsWith('u') ? bits : bits - 1) - 1)
  const value = random.chance(0.6) ? random.int(0, 5) : random.int(0, most)
  return type.startsWith('u') || random.chance(0.7) ? value : -value
}

function fixedBytes(length: number, random: Random): Hex {
  return `0x${random.pick(['11', '22', '33']).repeat(length)}`
}

function elementary(type: string, random: Random): unknown {
  if (type === 'address') return random.pick(ADDRESSES)
  if (type === 'bool') return random.chance(0.5)
  if (type === 'string') return random.pick(TEXTS)
  if (type === 'bytes') return random.pick(BYTES)
  if (type === 'function') return fixedBytes(24, random)
  return type.includes('int') ? integer(type, random) : fixedBytes(Number(type.slice('bytes'.length)), random)
}

/** A value of an ABI type, from a small pool: integers from 0 to 1,000, four accounts and the zero address, short texts. */
export function makeValue(parameter: AbiParameter, random: Random): unknown {
  const array = /^(.*)\[(\d*)\]$/.exec(parameter.type)
  if (array) {
    const length = array[2] === '' ? random.int(0, 3) : Number(array[2])
    return Array.from({ length }, () => makeValue({ ...parameter, type: array[1] ?? '' } as AbiParameter, random))
  }
  if (parameter.type !== 'tuple') return elementary(parameter.type, random)
  const { components } = parameter as { components: readonly AbiParameter[] }
  return components.map((component) => makeValue(component, random))
}

/** Makes logs of one event of a watcher on one chain. */
export class EventMaker {
  /** The key in the configuration. */
  readonly watcher: string
  /** The key in the watcher's `events`. */
  readonly name: string
  readonly #event: ParsedEvent
  readonly #topics: readonly TopicFilter[]
  readonly #addresses: readonly Hex[]

  constructor(
    watcher: string,
    name: string,
    event: ParsedEvent,
    topics: readonly TopicFilter[],
    addresses: readonly Hex[],
  ) {
    this.watcher = watcher
    this.name = name
    this.#event = event
    this.#topics = topics
    this.#addresses = addresses
  }

  get address(): Hex {
    return this.#addresses[0] as Hex
  }

  /** @throws {TypeError} for arguments that the event does not have */
  encode(args: EventArgumentsInput, address?: string): FakeLog {
    const { topics, data } = encodeEvent(this.#event, args)
    return rawLog(address ?? this.address, topics, data)
  }

  /** A log that the watcher's filter lets through. */
  make(random: Random): FakeLog {
    const values = this.#event.inputs.map((input) =>
      input.indexed && !isValueType(input.type) ? this.#hashed(input, random) : makeValue(input, random),
    )
    const log = this.encode(values, random.pick(this.#addresses))
    return { ...log, topics: log.topics.map((topic, i) => this.#wanted(i, random) ?? topic) }
  }

  /** What `encodeEvent` takes for an indexed value that the chain keeps a hash of. */
  #hashed(input: AbiParameter, random: Random): unknown {
    return input.type === 'string' || input.type === 'bytes' ? makeValue(input, random) : fixedBytes(32, random)
  }

  #wanted(position: number, random: Random): Hex | undefined {
    const filter = this.#topics[position]
    if (typeof filter === 'string') return filter
    return filter ? random.pick(filter.slice(0, FILTER_POOL)) : undefined
  }
}

/** One maker for each event of a watcher on one of its chains. */
export function eventMakers(name: string, watcher: Watcher, chain: string): EventMaker[] {
  const { on, events } = watcher.definition
  const binding = on[chain]
  const addresses = (binding && addressesOf(binding)) ?? [ANY_CONTRACT]
  return Object.entries(events).map(([key, { event, args }]) => {
    const parsed = parseEvent(key, event)
    return new EventMaker(name, key, parsed, eventTopics(key, parsed, args), addresses.slice(0, FILTER_POOL))
  })
}
