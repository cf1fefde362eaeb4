import type { BlockNumber, LogIndex } from '../../chain/block.ts'
import type { StableId } from '../../dedup/identity.ts'
import type { Mark, MarkPort } from '../store.ts'
import type { Connection } from './connection.ts'
import type { SqliteRow } from './driver.ts'
import { blob, int, readBlock, readHash, readHex, readNumber } from './values.ts'

// The conflict is named, so that any other constraint is an error and not "was there already".
const INSERT = `
  INSERT INTO tidemark_processed_events (watcher, block_number, block_hash, stable_id, transaction_hash, log_index)
  VALUES (?, ?, ?, ?, ?, ?)
  ON CONFLICT (watcher, block_number, block_hash, stable_id) DO NOTHING`
const BETWEEN = `
  SELECT block_number, block_hash, stable_id, transaction_hash, log_index FROM tidemark_processed_events
  WHERE watcher = ? AND block_number BETWEEN ? AND ?
  ORDER BY block_number, block_hash, stable_id`
const COUNT = 'SELECT count(*) AS n FROM tidemark_processed_events WHERE watcher = ?'
const DELETE_ABOVE = 'DELETE FROM tidemark_processed_events WHERE watcher = ? AND block_number > ?'
// Both halves go along the primary key: pruning is a range of it.
const DELETE_THROUGH = `
  DELETE FROM tidemark_processed_events WHERE (watcher, block_number, block_hash, stable_id) IN (
    SELECT watcher, block_number, block_hash, stable_id FROM tidemark_processed_events
    WHERE watcher = ? AND block_number <= ?
    ORDER BY block_number, block_hash, stable_id LIMIT ?)`

function readMark(row: SqliteRow): Mark {
  return {
    blockNumber: readBlock(row, 'block_number'),
    blockHash: readHash(row, 'block_hash'),
    stableId: readHex(row, 'stable_id') as StableId,
    transactionHash: readHash(row, 'transaction_hash'),
    logIndex: readNumber(row, 'log_index') as LogIndex,
  }
}

/** Rows of `tidemark_processed_events`. */
export class SqliteMarks implements MarkPort {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  insert(watcher: number, marks: readonly Mark[]): readonly boolean[] {
    const id = int(watcher)
    return marks.map((mark) => {
      const { blockNumber, blockHash, stableId, transactionHash, logIndex } = mark
      const key = [id, int(blockNumber), blob(blockHash), blob(stableId)] as const
      return this.#connection.run(INSERT, ...key, blob(transactionHash), int(logIndex)) === 1
    })
  }

  between(watcher: number, from: BlockNumber, to: BlockNumber): readonly Mark[] {
    return this.#connection.all(BETWEEN, int(watcher), int(from), int(to)).map(readMark)
  }

  count(watcher: number): number {
    return readNumber(this.#connection.get(COUNT, int(watcher)) ?? {}, 'n')
  }

  deleteAbove(watcher: number, block: BlockNumber | -1): number {
    return this.#connection.run(DELETE_ABOVE, int(watcher), int(block))
  }

  deleteThrough(watcher: number, block: BlockNumber, limit: number): number {
    return this.#connection.run(DELETE_THROUGH, int(watcher), int(block), int(limit))
  }
}
