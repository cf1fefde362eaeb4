import type { BlockNumber, LogIndex } from '../../chain/block.ts'
import type { StableId } from '../../dedup/identity.ts'
import type { Mark, MarkPort } from '../store.ts'
import type { Connection } from './connection.ts'
import type { SqliteRow, SqliteValue } from './driver.ts'
import { blob, int, readBlock, readHash, readHex, readNumber } from './values.ts'

// The conflict is named, so that any other constraint is an error and not "was there already".
function insertSql(count: number): string {
  return `
    INSERT INTO tidemark_processed_events (watcher, block_number, block_hash, stable_id, transaction_hash, log_index)
    VALUES ${Array.from({ length: count }, () => '(?, ?, ?, ?, ?, ?)').join(', ')}
    ON CONFLICT (watcher, block_number, block_hash, stable_id) DO NOTHING`
}
const INSERT = insertSql(1)
/** A statement of several rows costs half as much a row. More than this many bring nothing more. */
const TOGETHER = [16, 4].map((count) => ({ count, sql: insertSql(count) }))
const SAVEPOINT = {
  open: 'SAVEPOINT tidemark_marks',
  release: 'RELEASE tidemark_marks',
  rollbackTo: 'ROLLBACK TO tidemark_marks',
} as const
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

function bound(watcher: number, marks: readonly Mark[]): SqliteValue[] {
  const id = int(watcher)
  const values: SqliteValue[] = []
  for (const { blockNumber, blockHash, stableId, transactionHash, logIndex } of marks)
    values.push(id, int(blockNumber), blob(blockHash), blob(stableId), blob(transactionHash), int(logIndex))
  return values
}

/** Rows of `tidemark_processed_events`. */
export class SqliteMarks implements MarkPort {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  insert(watcher: number, marks: readonly Mark[]): readonly boolean[] {
    const fresh: boolean[] = []
    while (fresh.length < marks.length) {
      const left = marks.length - fresh.length
      const most = TOGETHER.find(({ count }) => count <= left)
      const some = marks.slice(fresh.length, fresh.length + (most?.count ?? 1))
      if (most && this.#allNew(most.sql, watcher, some)) for (const _ of some) fresh.push(true)
      else for (const mark of some) fresh.push(this.#connection.run(INSERT, ...bound(watcher, [mark])) === 1)
    }
    return fresh
  }

  /** Writes all of them, or none when any was there: the count of rows does not say which, so they are asked one by one. */
  #allNew(sql: string, watcher: number, marks: readonly Mark[]): boolean {
    this.#connection.openSavepoint(SAVEPOINT.open)
    const allNew = this.#connection.run(sql, ...bound(watcher, marks)) === marks.length
    if (!allNew) this.#connection.savepoint(SAVEPOINT.rollbackTo)
    this.#connection.savepoint(SAVEPOINT.release)
    return allNew
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
