import type { Address, BlockNumber, Hash, LogIndex } from '../../chain/block.ts'
import type { Log } from '../../chain/log.ts'
import type { StableId } from '../../dedup/identity.ts'
import { bytesToHex } from '../../util/bytes.ts'
import type { KeptEvent, KeptPort } from '../store.ts'
import { chunks, type SqlValue } from './literals.ts'
import type { Session } from './session.ts'
import {
  blob,
  type Row,
  readBlock,
  readBytes,
  readHash,
  readHex,
  readNumber,
  readText,
  readTextOrNull,
} from './values.ts'

const ADD = `
  INSERT INTO {kept_events} (watcher, block_number, sequence, block_hash, event_name, stable_id, address, topics,
    data, transaction_hash, transaction_index, log_index, order_key, memo)
  VALUES ?`
const ABOVE = `
  SELECT * FROM {kept_events} WHERE watcher = ? AND block_number > ?
  ORDER BY block_number DESC, sequence DESC`
const THROUGH = `
  SELECT * FROM {kept_events} WHERE watcher = ? AND block_number <= ?
  ORDER BY block_number, sequence LIMIT ?`
const DELETE_ABOVE = 'DELETE FROM {kept_events} WHERE watcher = ? AND block_number > ?'
const DELETE_THROUGH = 'DELETE FROM {kept_events} WHERE watcher = ? AND block_number <= ?'

const TOPIC_BYTES = 32

/** Topics one after the other: 0 to 128 bytes. */
function packTopics(topics: readonly Hash[]): Uint8Array {
  return blob(`0x${topics.map((topic) => topic.slice(2)).join('')}`)
}

function unpackTopics(bytes: Uint8Array): Hash[] {
  const count = bytes.length / TOPIC_BYTES
  return Array.from(
    { length: count },
    (_, i) => bytesToHex(bytes.subarray(i * TOPIC_BYTES, (i + 1) * TOPIC_BYTES)) as Hash,
  )
}

function readLog(row: Row): Log {
  return {
    address: readHex(row, 'address') as Address,
    topics: unpackTopics(readBytes(row, 'topics')),
    data: readHex(row, 'data'),
    blockNumber: readBlock(row, 'block_number'),
    blockHash: readHash(row, 'block_hash'),
    transactionHash: readHash(row, 'transaction_hash'),
    transactionIndex: readNumber(row, 'transaction_index'),
    logIndex: readNumber(row, 'log_index') as LogIndex,
  }
}

function readKept(row: Row): KeptEvent {
  return {
    eventName: readText(row, 'event_name'),
    log: readLog(row),
    stableId: readHex(row, 'stable_id') as StableId,
    sequence: readNumber(row, 'sequence'),
    key: readTextOrNull(row, 'order_key'),
    memo: readTextOrNull(row, 'memo'),
  }
}

function rowOf(watcher: number, event: KeptEvent): SqlValue[] {
  const { eventName, log, stableId, sequence, key, memo } = event
  const place = [watcher, log.blockNumber, sequence, blob(log.blockHash)]
  const content = [blob(log.address), packTopics(log.topics), blob(log.data)]
  const transaction = [blob(log.transactionHash), log.transactionIndex, log.logIndex]
  return [...place, eventName, blob(stableId), ...content, ...transaction, key, memo]
}

/** Rows of `kept_events`, in the order of P5 by their key (watcher, block, sequence). */
export class MysqlKept implements KeptPort {
  readonly #session: Session

  constructor(session: Session) {
    this.#session = session
  }

  async add(watcher: number, events: readonly KeptEvent[]): Promise<void> {
    for (const some of chunks(events.map((event) => rowOf(watcher, event)))) await this.#session.run(ADD, some)
  }

  async above(watcher: number, block: BlockNumber | -1): Promise<readonly KeptEvent[]> {
    return (await this.#session.all(ABOVE, watcher, block)).map(readKept)
  }

  async through(watcher: number, block: BlockNumber, limit: number): Promise<readonly KeptEvent[]> {
    return (await this.#session.all(THROUGH, watcher, block, limit)).map(readKept)
  }

  async deleteAbove(watcher: number, block: BlockNumber | -1): Promise<void> {
    await this.#session.run(DELETE_ABOVE, watcher, block)
  }

  async deleteThrough(watcher: number, block: BlockNumber): Promise<void> {
    await this.#session.run(DELETE_THROUGH, watcher, block)
  }
}
