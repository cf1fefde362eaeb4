import type { BlockNumber, LogIndex } from '../../chain/block.ts'
import type { StableId } from '../../dedup/identity.ts'
import type { Mark, MarkPort } from '../store.ts'
import type { Connection } from './connection.ts'
import type { PgRow } from './driver.ts'
import { blob, int, readBlock, readHash, readHex, readNumber } from './values.ts'

// The conflict is named, so that any other constraint is an error and not "was there already".
const TARGET = `
  INSERT INTO tidemark.processed_events (watcher, block_number, block_hash, stable_id, transaction_hash, log_index)`
const QUIET = 'ON CONFLICT (watcher, block_number, block_hash, stable_id) DO NOTHING'
const INSERT_ONE = `${TARGET} VALUES ($1::int, $2::bigint, $3::bytea, $4::bytea, $5::bytea, $6::bigint) ${QUIET}`
// In the order of the key, so that two writers meet in one order and cannot wait for each other (C59).
const INSERT_MANY = `${TARGET}
  SELECT $1::int, * FROM unnest($2::bigint[], $3::bytea[], $4::bytea[], $5::bytea[], $6::bigint[])
    AS mark (block_number, block_hash, stable_id, transaction_hash, log_index)
  ORDER BY block_number, block_hash, stable_id
  ${QUIET} RETURNING block_number, block_hash, stable_id`
const BETWEEN = `
  SELECT block_number, block_hash, stable_id, transaction_hash, log_index FROM tidemark.processed_events
  WHERE watcher = $1::int AND block_number BETWEEN $2::bigint AND $3::bigint
  ORDER BY block_number, block_hash, stable_id`
const COUNT = 'SELECT count(*) AS n FROM tidemark.processed_events WHERE watcher = $1::int'
const DELETE_ABOVE = 'DELETE FROM tidemark.processed_events WHERE watcher = $1::int AND block_number > $2::bigint'
// Both halves go along the primary key: pruning is a range of it.
const DELETE_THROUGH = `
  DELETE FROM tidemark.processed_events WHERE (watcher, block_number, block_hash, stable_id) IN (
    SELECT watcher, block_number, block_hash, stable_id FROM tidemark.processed_events
    WHERE watcher = $1::int AND block_number <= $2::bigint
    ORDER BY block_number, block_hash, stable_id LIMIT $3::bigint)`

/** Marks of one statement: six parameters whatever their number, about 1 MB of text. */
const CHUNK = 5_000

function readMark(row: PgRow): Mark {
  return {
    blockNumber: readBlock(row, 'block_number'),
    blockHash: readHash(row, 'block_hash'),
    stableId: readHex(row, 'stable_id') as StableId,
    transactionHash: readHash(row, 'transaction_hash'),
    logIndex: readNumber(row, 'log_index') as LogIndex,
  }
}

function values({ blockNumber, blockHash, stableId, transactionHash, logIndex }: Mark) {
  return [int(blockNumber), blob(blockHash), blob(stableId), blob(transactionHash), int(logIndex)] as const
}

const keyOf = (block: number, hash: string, id: string): string => `${block} ${hash} ${id}`

/** Rows of `processed_events`. */
export class PgMarks implements MarkPort {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  async insert(watcher: number, marks: readonly Mark[]): Promise<readonly boolean[]> {
    const answers: boolean[] = []
    for (let at = 0; at < marks.length; at += CHUNK) {
      answers.push(...(await this.#insert(watcher, marks.slice(at, at + CHUNK))))
    }
    return answers
  }

  async between(watcher: number, from: BlockNumber, to: BlockNumber): Promise<readonly Mark[]> {
    return (await this.#connection.all(BETWEEN, int(watcher), int(from), int(to))).map(readMark)
  }

  async count(watcher: number): Promise<number> {
    return readNumber((await this.#connection.get(COUNT, int(watcher))) ?? {}, 'n')
  }

  async deleteAbove(watcher: number, block: BlockNumber | -1): Promise<number> {
    return this.#connection.run(DELETE_ABOVE, int(watcher), int(block))
  }

  async deleteThrough(watcher: number, block: BlockNumber, limit: number): Promise<number> {
    return this.#connection.run(DELETE_THROUGH, int(watcher), int(block), int(limit))
  }

  /** A row that was inserted comes back by its key; of two like marks in one call the first one is new. */
  async #insert(watcher: number, marks: readonly Mark[]): Promise<readonly boolean[]> {
    const [only] = marks
    if (only && marks.length === 1) {
      return [(await this.#connection.run(INSERT_ONE, int(watcher), ...values(only))) === 1]
    }
    const all = marks.map(values)
    const columns = ([0, 1, 2, 3, 4] as const).map((i) => all.map((mark) => mark[i]))
    const rows = await this.#connection.all(INSERT_MANY, int(watcher), ...columns)
    const fresh = new Set(
      rows.map((row) => keyOf(readBlock(row, 'block_number'), readHash(row, 'block_hash'), readHex(row, 'stable_id'))),
    )
    // Hashes are lower case everywhere in the engine; `delete` answers whether it was there.
    return marks.map((mark) => fresh.delete(keyOf(mark.blockNumber, mark.blockHash, mark.stableId)))
  }
}
