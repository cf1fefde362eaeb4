import type { Address, BlockNumber, Hash, LogIndex } from '../../chain/block.ts'
import type { Log } from '../../chain/log.ts'
import type { StableId } from '../../dedup/identity.ts'
import { bytesToHex } from '../../util/bytes.ts'
import type { KeptEvent, KeptPort } from '../store.ts'
import type { Connection } from './connection.ts'
import type { SqliteRow } from './driver.ts'
import {
  blob,
  int,
  readBlock,
  readBytes,
  readHash,
  readHex,
  readNumber,
  readText,
  readTextOrNull,
  text,
} from './values.ts'

const ADD = `
  INSERT INTO tidemark_kept_events (watcher, block_number, sequence, block_hash, event_name, stable_id, address, topics,
    data, transaction_hash, transaction_index, log_index, key, memo)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
const ABOVE = `
  SELECT * FROM tidemark_kept_events WHERE watcher = ? AND block_number > ?
  ORDER BY block_number DESC, sequence DESC`
const THROUGH = `
  SELECT * FROM tidemark_kept_events WHERE watcher = ? AND block_number <= ?
  ORDER BY block_number, sequence LIMIT ?`
const DELETE_ABOVE = 'DELETE FROM tidemark_kept_events WHERE watcher = ? AND block_number > ?'
const DELETE_THROUGH = 'DELETE FROM tidemark_kept_events WHERE watcher = ? AND block_number <= ?'

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

function readLog(row: SqliteRow): Log {
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

function readKept(row: SqliteRow): KeptEvent {
  return {
    eventName: readText(row, 'event_name'),
    log: readLog(row),
    stableId: readHex(row, 'stable_id') as StableId,
    sequence: readNumber(row, 'sequence'),
    key: readTextOrNull(row, 'key'),
    memo: readTextOrNull(row, 'memo'),
  }
}

function textOrNull(value: string | null): string | null {
  return value === null ? null : text(value)
}

/** Rows of `tidemark_kept_events`, in the order of P5 by their key (watcher, block, sequence). */
export class SqliteKept implements KeptPort {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  add(watcher: number, events: readonly KeptEvent[]): void {
    for (const { eventName, log, stableId, sequence, key, memo } of events) {
      const place = [int(watcher), int(log.blockNumber), int(sequence), blob(log.blockHash)] as const
      const content = [blob(log.address), packTopics(log.topics), blob(log.data)] as const
      const transaction = [blob(log.transactionHash), int(log.transactionIndex), int(log.logIndex)] as const
      const own = [textOrNull(key), textOrNull(memo)] as const
      this.#connection.run(ADD, ...place, text(eventName), blob(stableId), ...content, ...transaction, ...own)
    }
  }

  above(watcher: number, block: BlockNumber | -1): readonly KeptEvent[] {
    return this.#connection.all(ABOVE, int(watcher), int(block)).map(readKept)
  }

  through(watcher: number, block: BlockNumber, limit: number): readonly KeptEvent[] {
    return this.#connection.all(THROUGH, int(watcher), int(block), int(limit)).map(readKept)
  }

  deleteAbove(watcher: number, block: BlockNumber | -1): void {
    this.#connection.run(DELETE_ABOVE, int(watcher), int(block))
  }

  deleteThrough(watcher: number, block: BlockNumber): void {
    this.#connection.run(DELETE_THROUGH, int(watcher), int(block))
  }
}
