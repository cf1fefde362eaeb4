import { type Address, address, type BlockNumber, blockNumber } from '../chain/block.ts'
import type { EventFilter } from '../chain/filter.ts'
import type { At } from '../collect/source.ts'
import { TidemarkError } from '../errors.ts'
import { type ParsedEvent, parseEvent } from './abi.ts'
import { eventTopics } from './arguments.ts'
import { type CompiledEvent, compileDecoder } from './event.ts'
import { definitionOf } from './flaw.ts'
import type { ChainBinding, ErasedDefinition, ManagedDefinitions, Watcher } from './watch.ts'

/** One watcher on one chain: everything the engine needs. */
export interface CompiledWatcher<Db = never> {
  /** `deposits/ethereum`. */
  readonly name: string
  readonly chainName: string
  readonly chainId: number
  /** Events with a signature first, anonymous ones last. */
  readonly events: readonly CompiledEvent[]
  /** Those of `events`, in the same order. */
  readonly filters: readonly EventFilter[]
  /** Canonical text of addresses, signatures, wanted arguments and start block: a changed filter is refused by it. */
  readonly fingerprint: string
  readonly startBlock: BlockNumber | 'now'
  readonly endBlock: BlockNumber | null
  readonly at: At
  readonly prepare: ErasedDefinition<Db>['prepare'] | undefined
  readonly handle: ErasedDefinition<Db>['handle']
  readonly final: ErasedDefinition<Db>['final'] | undefined
  readonly undo: ErasedDefinition<Db>['undo'] | undefined
  readonly tables: ManagedDefinitions
  readonly key: ErasedDefinition<Db>['key'] | undefined
  readonly onFailure: 'halt'
  /** Milliseconds. */
  readonly handlerTimeout: number
  readonly batch: { readonly maxEvents: number; readonly maxMs: number }
}

const DEFAULT_TIMEOUT_MS = 10_000
const DEFAULT_MAX_EVENTS = 5_000
const DEFAULT_MAX_MS = 250

/** Lower case, sorted, none twice; null means any contract. @throws {TypeError} for text that is no address */
export function addressesOf(binding: ChainBinding): readonly Address[] | null {
  if (binding.address === undefined) return null
  const given = typeof binding.address === 'string' ? [binding.address] : binding.address
  return [...new Set(given.map((one) => address(one.replace(/^0X/, '0x'))))].sort()
}

function compileEvent(
  name: string,
  event: ParsedEvent,
  args: unknown,
  addresses: readonly Address[] | null,
): CompiledEvent {
  const topics = eventTopics(name, event, args)
  return {
    name,
    eventName: event.eventName,
    anonymous: event.anonymous,
    filter: { name, addresses, topics, topicCount: event.topicCount },
    decode: compileDecoder(event),
  }
}

interface Compiled {
  readonly parsed: ParsedEvent
  readonly event: CompiledEvent
}

function compileEvents(definition: ErasedDefinition<unknown>, addresses: readonly Address[] | null): Compiled[] {
  const all = Object.entries(definition.events).map(([name, { event, args }]) => {
    const parsed = parseEvent(name, event)
    return { parsed, event: compileEvent(name, parsed, args, addresses) }
  })
  // An anonymous event fits every log with its number of topics, so the others are asked first.
  return [...all.filter(({ parsed }) => !parsed.anonymous), ...all.filter(({ parsed }) => parsed.anonymous)]
}

/**
 * The same text for the same logs: the order and the keys of the events, and the spelling of values, do not matter.
 * The start block stands as written (`'now'` stays `'now'`), so that a restart finds the same text.
 */
function fingerprintOf(
  all: readonly Compiled[],
  addresses: readonly Address[] | null,
  start: ChainBinding['startBlock'],
): string {
  const events = all
    .map(({ parsed, event }) => ({ event: parsed.fullSignature, topics: event.filter.topics }))
    .map((one) => JSON.stringify(one))
    .sort()
  return `{"addresses":${JSON.stringify(addresses)},"events":[${events.join()}],"startBlock":${JSON.stringify(String(start))}}`
}

function checkName(what: string, name: string): void {
  if (/^[\w.-]{1,100}$/.test(name)) return
  throw new TidemarkError('WATCHER_INVALID', `This cannot be the name of a ${what}`, {
    values: { got: name.slice(0, 120), expected: '1 to 100 letters, digits, `_`, `-` or `.`' },
  })
}

/**
 * One watcher on one chain.
 *
 * @param name its key in the configuration
 * @param chainName the chain's key in the configuration, as under `on`
 * @param chainId its EIP-155 id
 * @throws {TidemarkError} `WATCHER_UNKNOWN_CHAIN` when the watcher does not run there; `WATCHER_INVALID` for a bad name; what is
 *   wrong with its definition (`definitionOf`)
 */
export function compileWatcher<Db = never>(
  name: string,
  watcher: Watcher<Db>,
  chainName: string,
  chainId: number,
): CompiledWatcher<Db> {
  checkName('watcher', name)
  checkName('chain', chainName)
  const definition = definitionOf(name, watcher)
  const binding = Object.hasOwn(definition.on, chainName) ? definition.on[chainName] : undefined
  if (!binding) {
    throw new TidemarkError('WATCHER_UNKNOWN_CHAIN', 'The watcher does not run on this chain', {
      values: { watcher: name, chain: chainName },
    })
  }
  const addresses = addressesOf(binding)
  const all = compileEvents(definition as ErasedDefinition<unknown>, addresses)
  const { startBlock, endBlock } = binding
  return {
    name: `${name}/${chainName}`,
    chainName,
    chainId,
    events: all.map(({ event }) => event),
    filters: all.map(({ event }) => event.filter),
    fingerprint: fingerprintOf(all, addresses, startBlock),
    startBlock: startBlock === 'now' ? 'now' : blockNumber(startBlock),
    endBlock: endBlock === undefined ? null : blockNumber(endBlock),
    at: binding.at ?? 'finalized',
    ...behaviour(definition),
  }
}

function behaviour<Db>(definition: ErasedDefinition<Db>) {
  const { prepare, handle, final, undo, key, tables, onFailure, handlerTimeout, batch } = definition
  return {
    prepare,
    handle,
    final,
    undo,
    key,
    tables: tables ?? {},
    onFailure: onFailure ?? 'halt',
    handlerTimeout: handlerTimeout ?? DEFAULT_TIMEOUT_MS,
    batch: { maxEvents: batch?.maxEvents ?? DEFAULT_MAX_EVENTS, maxMs: batch?.maxMs ?? DEFAULT_MAX_MS },
  }
}
