import type { Address, Hash } from './block.ts'
import type { Log } from './log.ts'

/** One topic position: a value, any of several values, or anything. */
export type TopicFilter = Hash | readonly Hash[] | null

/** The logs of one named event. `topics[0]` is null for an anonymous event. */
export interface EventFilter {
  /** The event's name in the watcher. */
  readonly name: string
  /** Contracts that may emit it; null means any. */
  readonly addresses: readonly Address[] | null
  readonly topics: readonly TopicFilter[]
  /** How many topics such a log has: tells an ERC-20 from an ERC-721 `Transfer` (C42). */
  readonly topicCount: number
}

function topicMatches(filter: TopicFilter | undefined, topic: Hash | undefined): boolean {
  if (filter === null || filter === undefined) return true
  if (topic === undefined) return false
  return typeof filter === 'string' ? filter === topic : filter.includes(topic)
}

/** Whether a log is one of the event's: contract, number of topics and each topic fit. */
export function matchesFilter(filter: EventFilter, log: Log): boolean {
  if (log.topics.length !== filter.topicCount) return false
  if (filter.addresses !== null && !filter.addresses.includes(log.address)) return false
  return filter.topics.every((topic, i) => topicMatches(topic, log.topics[i]))
}

/** What `eth_getLogs` is asked for: never narrower than the filters, often wider; the rest is matched here. */
export interface LogQuery {
  /** null: any contract. */
  readonly addresses: readonly Address[] | null
  /** Null positions match anything; no trailing nulls. */
  readonly topics: readonly TopicFilter[]
}

function unionAddresses(filters: readonly EventFilter[]): readonly Address[] | null {
  const all = new Set<Address>()
  for (const filter of filters) {
    if (filter.addresses === null) return null
    for (const one of filter.addresses) all.add(one)
  }
  return [...all].sort()
}

function values(topic: TopicFilter | undefined): readonly Hash[] | null {
  if (topic === null || topic === undefined) return null
  return typeof topic === 'string' ? [topic] : topic
}

function unionTopic(filters: readonly EventFilter[], position: number): readonly Hash[] | null {
  const all = new Set<Hash>()
  for (const filter of filters) {
    const wanted = values(filter.topics[position])
    if (wanted === null) return null
    for (const one of wanted) all.add(one)
  }
  return [...all].sort()
}

/** One query that covers every filter. Positions past the first are narrowed only when there is a single filter. */
export function unionQuery(filters: readonly EventFilter[]): LogQuery {
  const positions = filters.length === 1 ? 4 : 1
  const topics = Array.from({ length: positions }, (_, i) => unionTopic(filters, i))
  while (topics.length > 0 && topics.at(-1) === null) topics.pop()
  return { addresses: unionAddresses(filters), topics }
}
