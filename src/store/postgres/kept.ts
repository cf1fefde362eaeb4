import type { Address, BlockNumber, Hash, LogIndex } from '../../chain/block.ts'
import type { Log } from '../../chain/log.ts'
import type { StableId } from '../../dedup/identity.ts'
import { bytesToHex } from '../../util/bytes.ts'
import type { KeptEvent, KeptPort } from '../store.ts'
import type { Connection } from './connection.ts'
import type { PgRow } from './driver.ts'
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
  textOrNull,
} from './values.ts'

const COLUMNS = `block_number, sequence, block_hash, event_name, stable_id, address, topics, data, transaction_hash,
    transaction_index, log_index, key, memo`
const ADD = `
  INSERT INTO tidemark.kept_events (watcher, ${COLUMNS})
  SELECT $1::int, * FROM unnest($2::bigint[], $3::bigint[], $4::bytea[], $5::text[], $6::bytea[], $7::bytea[],
    $8::bytea[], $9::bytea[], $10::bytea[], $11::bigint[], $12::bigint[], $13::text[], $14::text[])`
const ABOVE = `
  SELECT ${COLUMNS} FROM tidemark.kept_events WHERE watcher = $1::int AND block_number > $2::bigint
  ORDER BY block_number DESC, sequence DESC, stable_id DESC`
const THROUGH = `
  SELECT ${COLUMNS} FROM tidemark.kept_events WHERE watcher = $1::int AND block_number <= $2::bigint
  ORDER BY block_number, sequence, stable_id LIMIT $3::bigint`
const DELETE_ABOVE = 'DELETE FROM tidemark.kept_events WHERE watcher = $1::int AND block_number > $2::bigint'
const DELETE_THROUGH = 'DELETE FROM tidemark.kept_events WHERE watcher = $1::int AND block_number <= $2::bigint'

/** Events of one statement. A memo has at most 65,536 characters, so a statement stays far below the server's 1 GB. */
const CHUNK = 1_000
const TOPIC_BYTES = 32

/** Topics one after the other: 0 to 128 bytes. */
function packTopics(topics: readonly Hash[]): Buffer {
  return blob(`0x${topics.map((topic) => topic.slice(2)).join('')}`)
}

function unpackTopics(packed: Uint8Array): Hash[] {
  const count = packed.length / TOPIC_BYTES
  return Array.from(
    { length: count },
    (_, i) => bytesToHex(packed.subarray(i * TOPIC_BYTES, (i + 1) * TOPIC_BYTES)) as Hash,
  )
}

function values({ eventName, log, stableId, sequence, key, memo }: KeptEvent): unknown[] {
  const place = [int(log.blockNumber), int(sequence), blob(log.blockHash), text(eventName), blob(stableId)]
  const content = [blob(log.address), packTopics(log.topics), blob(log.data), blob(log.transactionHash)]
  return [...place, ...content, int(log.transactionIndex), int(log.logIndex), textOrNull(key), textOrNull(memo)]
}

function readLog(row: PgRow): Log {
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

function readKept(row: PgRow): KeptEvent {
  return {
    eventName: readText(row, 'event_name'),
    log: readLog(row),
    stableId: readHex(row, 'stable_id') as StableId,
    sequence: readNumber(row, 'sequence'),
    key: readTextOrNull(row, 'key'),
    memo: readTextOrNull(row, 'memo'),
  }
}

/** Rows of `kept_events`, in the order of P5 by their key (watcher, block, sequence). */
export class PgKept implements KeptPort {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  async add(watcher: number, events: readonly KeptEvent[]): Promise<void> {
    for (let at = 0; at < events.length; at += CHUNK) {
      const rows = events.slice(at, at + CHUNK).map(values)
      const columns = rows[0]?.map((_, i) => rows.map((row) => row[i])) ?? []
      await this.#connection.run(ADD, int(watcher), ...columns)
    }
  }

  async above(watcher: number, block: BlockNumber | -1): Promise<readonly KeptEvent[]> {
    return (await this.#connection.all(ABOVE, int(watcher), int(block))).map(readKept)
  }

  async through(watcher: number, block: BlockNumber, limit: number): Promise<readonly KeptEvent[]> {
    return (await this.#connection.all(THROUGH, int(watcher), int(block), int(limit))).map(readKept)
  }

  async deleteAbove(watcher: number, block: BlockNumber | -1): Promise<void> {
    await this.#connection.run(DELETE_ABOVE, int(watcher), int(block))
  }

  async deleteThrough(watcher: number, block: BlockNumber): Promise<void> {
    await this.#connection.run(DELETE_THROUGH, int(watcher), int(block))
  }
}
