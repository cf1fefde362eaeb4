/**
 * The oracle: what the database must hold, worked out naively from the final chain. It shares no code with Tidemark
 * (this file imports nothing), so that one mistake cannot be made twice. Slow and simple on purpose.
 */

/** A log as the oracle reads it; any log of the fake chain or parsed answer of a node has this shape. */
export interface OracleLog {
  readonly address: string
  readonly topics: readonly string[]
  readonly data: string
  readonly transactionHash: string
  readonly transactionIndex: number
  readonly logIndex: number
}

export interface OracleBlock {
  readonly number: number
  readonly hash: string
  readonly logs: readonly OracleLog[]
}

/** What has a final chain: a fake chain, or blocks already in a list. */
export type OracleSource = readonly OracleBlock[] | { canonical(): readonly OracleBlock[] }

export interface OracleFilter {
  /** Contracts; any where left out. */
  readonly addresses?: readonly string[]
  /** First topic; any where left out. */
  readonly topic0?: string
  /** Number of topics; any where left out. */
  readonly topicCount?: number
  /** First block, inclusive. Default: the first there is. */
  readonly from?: number
  /** Last block, inclusive. Default: the last there is. */
  readonly to?: number
}

function same(a: string, b: string | undefined): boolean {
  return a.toLowerCase() === b?.toLowerCase()
}

function wanted(filter: OracleFilter, log: OracleLog): boolean {
  if (filter.addresses && !filter.addresses.some((one) => same(one, log.address))) return false
  if (filter.topic0 !== undefined && !same(filter.topic0, log.topics[0])) return false
  return filter.topicCount === undefined || log.topics.length === filter.topicCount
}

/** Matching logs of the final chain with their blocks, in order of block, transaction index and log index. */
export function eventsOf(source: OracleSource, filter: OracleFilter = {}): { block: OracleBlock; log: OracleLog }[] {
  const blocks = 'canonical' in source ? source.canonical() : source
  const found: { block: OracleBlock; log: OracleLog }[] = []
  for (const block of [...blocks].sort((a, b) => a.number - b.number)) {
    if (block.number < (filter.from ?? 0) || block.number > (filter.to ?? Number.POSITIVE_INFINITY)) continue
    const logs = [...block.logs].sort((a, b) => a.transactionIndex - b.transactionIndex || a.logIndex - b.logIndex)
    for (const log of logs) if (wanted(filter, log)) found.push({ block, log })
  }
  return found
}

/**
 * Replays the final chain: calls `fold` once for each matching log, in order.
 * @param fold returns the next state; it may be the one that it got, changed in place
 */
export function replay<S>(
  source: OracleSource,
  filter: OracleFilter,
  initial: S,
  fold: (state: S, log: OracleLog, block: OracleBlock) => S,
): S {
  let state = initial
  for (const { block, log } of eventsOf(source, filter)) state = fold(state, log, block)
  return state
}

const TRANSFER = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef'

export interface OracleTransfer {
  readonly token: string
  readonly from: string
  readonly to: string
  readonly value: bigint
}

/** An ERC-20 `Transfer`, read by cutting the hex text; null for any other log, ERC-721 transfers among them (C42). */
export function readTransfer(log: OracleLog): OracleTransfer | null {
  if (!same(TRANSFER, log.topics[0]) || log.topics.length !== 3 || log.data.length !== 66) return null
  const [, from = '', to = ''] = log.topics
  return {
    token: log.address.toLowerCase(),
    from: `0x${from.slice(26)}`.toLowerCase(),
    to: `0x${to.slice(26)}`.toLowerCase(),
    value: BigInt(log.data),
  }
}

/** Balances after all ERC-20 transfers of the final chain: what came in less what went out. Accounts at 0 are left out. */
export function transferBalances(source: OracleSource, filter: OracleFilter = {}): Map<string, bigint> {
  const balances = new Map<string, bigint>()
  for (const { log } of eventsOf(source, filter)) {
    const moved = readTransfer(log)
    if (!moved) continue
    balances.set(moved.from, (balances.get(moved.from) ?? 0n) - moved.value)
    balances.set(moved.to, (balances.get(moved.to) ?? 0n) + moved.value)
  }
  return new Map([...balances].filter(([, balance]) => balance !== 0n).sort(([a], [b]) => (a < b ? -1 : 1)))
}
