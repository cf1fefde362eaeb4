import type { Abi, AbiEvent, AbiEventParameter, AbiParameterToPrimitiveType, ParseAbiItem } from 'abitype'
import type { Address, Hash } from '../chain/block.ts'
import { type EventFilter, matchesFilter } from '../chain/filter.ts'
import type { Log } from '../chain/log.ts'
import { eventId, type IdentifiedLog, type StableId } from '../dedup/identity.ts'
import { TidemarkError } from '../errors.ts'
import type { Hex } from '../util/bytes.ts'
import { invariant } from '../util/invariant.ts'
import type { ParsedEvent } from './abi.ts'
import { AbiInput, areNamed, type Codec, compileCodec, layOut, MalformedLog, readData } from './codec.ts'

// ------------------------------------------------------------------------------------- from the ABI to types

/** How an event is named in a watcher: a human-readable signature, one event of a JSON ABI, or a whole JSON ABI. */
export type EventSpec = string | AbiEvent | Abi

type ParseText<S extends string> = string extends S
  ? AbiEvent
  : Extract<S extends `${infer Head} anonymous` ? ParseAbiItem<Head> : ParseAbiItem<S>, AbiEvent>

/** The ABI event that a spec means; `Key` is its name in the watcher. */
export type ResolveEvent<S, Key> = S extends string
  ? ParseText<S>
  : S extends AbiEvent
    ? S
    : S extends Abi
      ? Extract<S[number], { type: 'event'; name: Key }>
      : never

type Inputs = readonly AbiEventParameter[]

/** Types whose topic is a hash when they are indexed. */
type Hashed = 'string' | 'bytes' | `tuple${string}` | `${string}]`

type ArgumentValue<P extends AbiEventParameter> = P extends { indexed: true }
  ? P['type'] extends Hashed
    ? Hex
    : AbiParameterToPrimitiveType<P>
  : AbiParameterToPrimitiveType<P>

type ArgumentList<I extends Inputs> = { readonly [K in keyof I]: ArgumentValue<I[K]> }

type AllNamed<I extends Inputs> = I[number]['name'] extends Exclude<I[number]['name'] & string, ''> ? true : false

/** Arguments of an event whose ABI is not known to the compiler. */
export type AnyArguments = Readonly<Record<string, unknown>> | readonly unknown[]

/**
 * The decoded arguments: by name; or an array, when an argument has no name. Integers of up to 48 bits are numbers,
 * wider ones bigints. An indexed string, bytes, array or tuple is its topic: the hash that the chain keeps of it.
 */
export type EventArguments<E extends AbiEvent> = Inputs extends E['inputs']
  ? AnyArguments
  : E['inputs'] extends readonly []
    ? Readonly<Record<string, never>>
    : AllNamed<E['inputs']> extends true
      ? { readonly [P in E['inputs'][number] as P['name'] & string]: ArgumentValue<P> }
      : ArgumentList<E['inputs']>

type FilterValue<P extends AbiEventParameter> = P['type'] extends 'string' | 'bytes'
  ? AbiParameterToPrimitiveType<P>
  : ArgumentValue<P>

/** Wanted values of one argument: a value, or a list of which any may come. */
type Wanted<P extends AbiEventParameter> = FilterValue<P> | readonly FilterValue<P>[]

type IndexedNames<I extends Inputs> = {
  readonly [P in Extract<I[number], { indexed: true }> as P['name'] & string]?: Wanted<P>
}

type IndexedPositions<I extends Inputs> = {
  readonly [K in Extract<keyof I, `${number}`> as I[K] extends { indexed: true }
    ? K
    : never]?: I[K] extends AbiEventParameter ? Wanted<I[K]> : never
}

/**
 * A filter by indexed arguments: by name, or by position (`{ 0: … }`) where an argument has no name. Text and bytes
 * are given as they are and hashed; an indexed array or tuple is given by its hash.
 */
export type ArgumentsFilter<E extends AbiEvent> = Inputs extends E['inputs']
  ? Readonly<Record<string, unknown>>
  : AllNamed<E['inputs']> extends true
    ? IndexedNames<E['inputs']>
    : IndexedPositions<E['inputs']>

/** A decoded event, as handlers receive it. Hex is in lower case, addresses too. */
export interface TidemarkEvent<Name extends string = string, AbiName extends string = string, Args = AnyArguments> {
  /** The key in the watcher's `events`. */
  readonly name: Name
  /** The name in the ABI. */
  readonly eventName: AbiName
  readonly args: Args
  readonly address: Address
  readonly blockNumber: bigint
  readonly blockHash: Hash
  readonly transactionHash: Hash
  readonly transactionIndex: number
  readonly logIndex: number
  readonly chainId: number
  /** `chainId-txHash-logIndex`: how people name the event. Changes when a reorg moves it. */
  readonly id: string
  /** The same across reorgs: the Idempotency-Key for an outside API. */
  readonly stableId: StableId
  /** As the chain keeps it: 0 to 4 topics. */
  readonly topics: readonly Hash[]
  /** As the chain keeps it, with the bytes of a string that were not UTF-8 (C48). */
  readonly data: Hex
}

type TypedEvent<Name extends string, E extends AbiEvent> = TidemarkEvent<Name, E['name'], EventArguments<E>>

/** The specs of a watcher by key. */
export type EventSpecs = Readonly<Record<string, EventSpec>>

/** The union of a watcher's events, told apart by `name`. */
export type EventOf<E extends EventSpecs> = {
  [K in keyof E & string]: TypedEvent<K, ResolveEvent<E[K], K>>
}[keyof E & string]

// ---------------------------------------------------------------------------------------- from logs to events

/** One event of a watcher on one chain, ready to recognise and decode its logs. */
export interface CompiledEvent {
  /** The key in the watcher. */
  readonly name: string
  /** The name in the ABI. */
  readonly eventName: string
  readonly anonymous: boolean
  readonly filter: EventFilter
  /** The arguments of a log that fits the filter. @throws {MalformedLog} */
  decode(log: Log): AnyArguments
}

/** What `decodeEvent` must know of a compiled watcher. */
export interface EventDecoder {
  readonly name: string
  readonly chainId: number
  /** Events with a signature first, anonymous ones last. */
  readonly events: readonly CompiledEvent[]
}

type Reader = (log: Log, data: AbiInput) => unknown

function topicReader(codec: Codec, position: number): Reader {
  return (log) => {
    const topic = log.topics[position]
    invariant(topic !== undefined, 'a log that fits the filter must have all topics')
    return codec.word === null ? topic : codec.word(topic.slice(2))
  }
}

function readersOf(event: ParsedEvent): Reader[] {
  const members = layOut(event.inputs.filter(({ indexed }) => !indexed))[Symbol.iterator]()
  let topic = event.anonymous ? 0 : 1
  return event.inputs.map((input) => {
    if (input.indexed) return topicReader(compileCodec(input), topic++)
    const member = members.next().value
    invariant(member, 'each input without a topic must have a place in the data')
    return (_log, data) => readData(member, data)
  })
}

/**
 * Compiles the decoder of an event. Bytes after the arguments are tolerated, as the contracts of the chain have them;
 * too few bytes, or bits outside of a type, are not.
 *
 * @returns a function from a log of that event to its arguments; it throws `MalformedLog`
 */
export function compileDecoder(event: ParsedEvent): (log: Log) => AnyArguments {
  const readers = readersOf(event)
  if (!areNamed(event.inputs)) {
    return (log) => {
      const data = new AbiInput(log.data)
      return readers.map((read) => read(log, data))
    }
  }
  const fields = readers.map((read, i) => ({ name: event.inputs[i]?.name as string, read }))
  return (log) => {
    const data = new AbiInput(log.data)
    const args: Record<string, unknown> = {}
    for (const { name, read } of fields) args[name] = read(log, data)
    return args
  }
}

/** A handler may run again on the same event: what it could change in it must not be there the second time. */
function frozen<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value
  for (const inner of Object.values(value)) frozen(inner)
  return Object.freeze(value)
}

function toEvent(decoder: EventDecoder, compiled: CompiledEvent, { log, stableId }: IdentifiedLog): TidemarkEvent {
  const { chainId } = decoder
  return frozen({
    name: compiled.name,
    eventName: compiled.eventName,
    args: compiled.decode(log),
    address: log.address,
    blockNumber: BigInt(log.blockNumber),
    blockHash: log.blockHash,
    transactionHash: log.transactionHash,
    transactionIndex: log.transactionIndex,
    logIndex: log.logIndex,
    chainId,
    id: eventId({ chainId, transactionHash: log.transactionHash, logIndex: log.logIndex }),
    stableId,
    topics: log.topics,
    data: log.data,
  })
}

function decodeFailed(decoder: EventDecoder, compiled: CompiledEvent, log: Log, cause: MalformedLog): TidemarkError {
  const { blockNumber: block, transactionHash: transaction, logIndex } = log
  return new TidemarkError('DECODE_FAILED', `A log has the shape of ${compiled.name} but does not decode`, {
    values: { watcher: decoder.name, event: compiled.name, block, transaction, logIndex, reason: cause.message },
    cause,
  })
}

/**
 * The event of the watcher that a log is. One log is one event: where it fits several, the first that decodes counts,
 * events with a signature before anonymous ones, else in the order of the watcher.
 *
 * An anonymous event has no signature to be recognised by: a log that has its number of topics and does not decode is
 * some other event of the contract, and is passed over.
 *
 * @returns null when no event fits: the log is passed over, and the caller counts it (C42, C43)
 * @throws {TidemarkError} `DECODE_FAILED` when it has the shape of an event and does not decode; public values only
 */
export function decodeEvent(decoder: EventDecoder, identified: IdentifiedLog): TidemarkEvent | null {
  let failure: TidemarkError | null = null
  for (const compiled of decoder.events) {
    if (!matchesFilter(compiled.filter, identified.log)) continue
    try {
      return toEvent(decoder, compiled, identified)
    } catch (error) {
      if (!(error instanceof MalformedLog)) throw error
      if (!compiled.anonymous) failure ??= decodeFailed(decoder, compiled, identified.log, error)
    }
  }
  if (failure) throw failure
  return null
}

/** Whether signature and number of topics are those of the event, whatever else its filter asks for. */
function hasShape({ filter, anonymous }: CompiledEvent, log: Log): boolean {
  return log.topics.length === filter.topicCount && (anonymous || log.topics[0] === filter.topics[0])
}

/**
 * The event of a log that was applied under the key `name` before: for its undo and its `final` stage. The filter is
 * not asked again, since it may have been changed with `--accept` meanwhile.
 *
 * @throws {TidemarkError} `DECODE_FAILED` when the watcher has no such event any more
 */
export function eventOf(decoder: EventDecoder, name: string, identified: IdentifiedLog): TidemarkEvent {
  const { log } = identified
  const compiled = decoder.events.find((one) => one.name === name && hasShape(one, log))
  try {
    const event = compiled ? toEvent(decoder, compiled, identified) : decodeEvent(decoder, identified)
    if (event) return event
  } catch (error) {
    if (error instanceof MalformedLog && compiled) throw decodeFailed(decoder, compiled, log, error)
    throw error
  }
  const { blockNumber: block, transactionHash: transaction, logIndex } = log
  throw new TidemarkError(
    'DECODE_FAILED',
    'An applied event is none of the watcher any more: its key or signature was changed',
    {
      values: { watcher: decoder.name, event: name, block, transaction, logIndex },
    },
  )
}
