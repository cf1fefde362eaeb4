import type { Hash } from '../chain/block.ts'
import type { EventFilter, LogQuery, TopicFilter } from '../chain/filter.ts'
import { matchesFilter } from '../chain/filter.ts'
import { compareLogs, type Log } from '../chain/log.ts'
import { invalidAnswer, type NodeLog } from '../chain/parse.ts'

/**
 * How an answer of `eth_getLogs` is read, in this order: drop `removed`, sort, drop repeats, one hash per height, ranges
 * and filters fit. What does not fit is an error of the whole answer, not of one log: a node that mixes up one entry
 * may have left out another (P4).
 */

/** What was asked for. */
export interface Asked {
  readonly query: LogQuery
  readonly from: number
  readonly to: number
}

function sameLog(a: Log, b: Log): boolean {
  return a.blockHash === b.blockHash && a.transactionHash === b.transactionHash && a.logIndex === b.logIndex
}

function sameContent(a: Log, b: Log): boolean {
  return a.address === b.address && a.data === b.data && a.topics.join() === b.topics.join()
}

/**
 * Repeats of one log: same block, transaction and index. Two logs of the same content at two indexes are two logs (C07);
 * an index that two transactions share is no repeat (C32).
 * @param logs sorted, so that repeats are neighbours
 */
function dropRepeats(logs: readonly Log[]): Log[] {
  const kept: Log[] = []
  for (const log of logs) {
    const last = kept.at(-1)
    if (!last || !sameLog(last, log)) kept.push(log)
    else if (!sameContent(last, log)) {
      const values = { block: log.blockNumber, transaction: log.transactionHash, logIndex: log.logIndex }
      throw invalidAnswer('The node sent two different logs for one place.', values)
    }
  }
  return kept
}

function topicFits(wanted: TopicFilter | undefined, topic: Hash | undefined): boolean {
  if (wanted === null || wanted === undefined) return true
  if (topic === undefined) return false
  return typeof wanted === 'string' ? wanted === topic : wanted.includes(topic)
}

function fitsQuery(query: LogQuery, addresses: ReadonlySet<string> | null, log: Log): boolean {
  if (addresses !== null && !addresses.has(log.address)) return false
  return query.topics.every((wanted, i) => topicFits(wanted, log.topics[i]))
}

function checkFits(asked: Asked, logs: readonly Log[]): void {
  const addresses = asked.query.addresses === null ? null : new Set<string>(asked.query.addresses)
  for (const log of logs) {
    const values = { block: log.blockNumber, from: asked.from, to: asked.to }
    if (log.blockNumber < asked.from || log.blockNumber > asked.to) {
      throw invalidAnswer('The node sent a log from outside the range.', values)
    }
    if (!fitsQuery(asked.query, addresses, log))
      throw invalidAnswer('The node sent a log that was not asked for.', values)
  }
}

function checkOneHash(logs: readonly Log[]): void {
  let last: Log | undefined
  for (const log of logs) {
    if (last && last.blockNumber === log.blockNumber && last.blockHash !== log.blockHash) {
      const values = { block: log.blockNumber, hash: last.blockHash, other: log.blockHash }
      throw invalidAnswer('The node sent logs of two blocks for one height.', values)
    }
    last = log
  }
}

/** Sorts by P5; logs of one place stand together, whatever their hashes. */
function sorted(answer: readonly NodeLog[]): Log[] {
  return answer
    .filter((one) => !one.removed)
    .map((one) => one.log)
    .sort(
      (a, b) =>
        compareLogs(a, b) || compareText(a.transactionHash, b.transactionHash) || compareText(a.blockHash, b.blockHash),
    )
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

/**
 * The logs of an answer, sound and in the order of P5.
 * @throws {TidemarkError} `RPC_ANSWER_INVALID` naming what does not fit
 */
export function readAnswer(asked: Asked, answer: readonly NodeLog[]): Log[] {
  const logs = dropRepeats(sorted(answer))
  checkOneHash(logs)
  checkFits(asked, logs)
  return logs
}

/**
 * The logs that are a watcher's events. A query is wider than its filters: an ERC-721 `Transfer` comes with the ERC-20
 * ones and is passed over here, by its number of topics (C42); so is a log without topics (C43).
 */
export function matching(filters: readonly EventFilter[], logs: readonly Log[]): Log[] {
  return logs.filter((log) => filters.some((filter) => matchesFilter(filter, log)))
}
