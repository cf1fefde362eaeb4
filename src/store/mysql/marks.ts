import type { BlockNumber, LogIndex } from '../../chain/block.ts'
import type { StableId } from '../../dedup/identity.ts'
import { invariant } from '../../util/invariant.ts'
import type { Mark, MarkPort } from '../store.ts'
import { chunks, type SqlRows } from './literals.ts'
import type { Session } from './session.ts'
import { blob, type Row, readBlock, readHash, readHex, readNumber } from './values.ts'

// Never INSERT IGNORE, which turns every other failure into a warning. A mark that is there already is counted up, so it
// is told from a new one, which has 0: by the count of rows (1 for a new one, 2 for a changed one, whatever flags the
// driver sets), and where that says that some were there, by reading which.
const INSERT = `
  INSERT INTO {processed_events} (watcher, block_number, block_hash, stable_id, transaction_hash, log_index) VALUES ?
  ON DUPLICATE KEY UPDATE repeats = repeats + 1`
const FRESH = `
  SELECT block_number, block_hash, stable_id FROM {processed_events}
  WHERE (watcher, block_number, block_hash, stable_id) IN (?) AND repeats = 0`
const BETWEEN = `
  SELECT block_number, block_hash, stable_id, transaction_hash, log_index FROM {processed_events}
  WHERE watcher = ? AND block_number BETWEEN ? AND ?
  ORDER BY block_number, block_hash, stable_id`
const COUNT = 'SELECT count(*) AS n FROM {processed_events} WHERE watcher = ?'
const DELETE_ABOVE = 'DELETE FROM {processed_events} WHERE watcher = ? AND block_number > ?'
// Along the primary key: pruning is a range of it.
const DELETE_THROUGH = `
  DELETE FROM {processed_events} WHERE watcher = ? AND block_number <= ?
  ORDER BY watcher, block_number, block_hash, stable_id LIMIT ?`

function readMark(row: Row): Mark {
  return {
    blockNumber: readBlock(row, 'block_number'),
    blockHash: readHash(row, 'block_hash'),
    stableId: readHex(row, 'stable_id') as StableId,
    transactionHash: readHash(row, 'transaction_hash'),
    logIndex: readNumber(row, 'log_index') as LogIndex,
  }
}

/** Text that sorts as the key does. */
function keyOf(mark: Pick<Mark, 'blockNumber' | 'blockHash' | 'stableId'>): string {
  return `${mark.blockNumber.toString().padStart(16, '0')}${mark.blockHash}${mark.stableId}`
}

/** Rows of `processed_events`. */
export class MysqlMarks implements MarkPort {
  readonly #session: Session

  constructor(session: Session) {
    this.#session = session
  }

  /** In the order of the key, whatever order they came in, so that two writers cannot wait for each other (C59). */
  async insert(watcher: number, marks: readonly Mark[]): Promise<readonly boolean[]> {
    const keys = marks.map(keyOf)
    const first = new Map<string, number>()
    for (const [i, key] of keys.entries()) if (!first.has(key)) first.set(key, i)
    const sorted = [...first.keys()].sort()
    const rows = sorted.map((key) => this.#row(watcher, marks[first.get(key) as number] as Mark))
    const fresh = new Set<string>()
    let at = 0
    for (const some of chunks(rows)) {
      for (const key of await this.#insertSome(some, sorted.slice(at, at + some.length))) fresh.add(key)
      at += some.length
    }
    // The second of two equal marks is not new.
    return keys.map((key, i) => first.get(key) === i && fresh.has(key))
  }

  async between(watcher: number, from: BlockNumber, to: BlockNumber): Promise<readonly Mark[]> {
    return (await this.#session.all(BETWEEN, watcher, from, to)).map(readMark)
  }

  async count(watcher: number): Promise<number> {
    return readNumber((await this.#session.get(COUNT, watcher)) ?? {}, 'n')
  }

  deleteAbove(watcher: number, block: BlockNumber | -1): Promise<number> {
    return this.#session.run(DELETE_ABOVE, watcher, block)
  }

  deleteThrough(watcher: number, block: BlockNumber, limit: number): Promise<number> {
    return this.#session.run(DELETE_THROUGH, watcher, block, limit)
  }

  #row(watcher: number, mark: Mark): SqlRows[number] {
    const { blockNumber, blockHash, stableId, transactionHash, logIndex } = mark
    return [watcher, blockNumber, blob(blockHash), blob(stableId), blob(transactionHash), logIndex]
  }

  /** Answers the keys that were not there. */
  async #insertSome(rows: SqlRows, keys: readonly string[]): Promise<readonly string[]> {
    const touched = await this.#session.run(INSERT, rows)
    invariant(touched >= rows.length && touched <= 2 * rows.length, 'each mark counts as one row or as two', {
      rows: rows.length,
      touched,
    })
    if (touched === rows.length) return keys
    const found = await this.#session.all(
      FRESH,
      rows.map((row) => row.slice(0, 4)),
    )
    const fresh = found.map((row) =>
      keyOf({
        blockNumber: readBlock(row, 'block_number'),
        blockHash: readHash(row, 'block_hash'),
        stableId: readHex(row, 'stable_id') as StableId,
      }),
    )
    invariant(fresh.length === 2 * rows.length - touched, 'new marks are as many as the count of rows says', {
      fresh: fresh.length,
      touched,
    })
    return fresh
  }
}
