import type { BlockNumber, LogIndex } from '../../chain/block.ts'
import type { StableId } from '../../dedup/identity.ts'
import type { Mark, MarkPort } from '../store.ts'
import type { Connection } from './connection.ts'
import type { PgRow } from './driver.ts'
import { blob, hexDigits, int, readBlock, readHash, readHex, readNumber, readText } from './values.ts'

// The conflict is named, so that any other constraint is an error and not "was there already".
const TARGET = `
  INSERT INTO tidemark.processed_events (watcher, block_number, block_hash, stable_id, transaction_hash, log_index)`
const QUIET = 'ON CONFLICT (watcher, block_number, block_hash, stable_id) DO NOTHING'
const INSERT_ONE = `${TARGET} VALUES ($1::int, $2::bigint, $3::bytea, $4::bytea, $5::bytea, $6::bigint) ${QUIET}`
// In the order of the key, so that two writers meet in one order and cannot wait for each other (C59). What was there already
// is seldom any, so that is what is answered.
const INSERT_MANY = `
  WITH given AS (
    SELECT * FROM unnest($2::bigint[], $3::bytea[], $4::bytea[], $5::bytea[], $6::bigint[])
      WITH ORDINALITY AS mark (block_number, block_hash, stable_id, transaction_hash, log_index, nth)
  ), made AS (${TARGET}
    SELECT $1::int, block_number, block_hash, stable_id, transaction_hash, log_index FROM given
    ORDER BY block_number, block_hash, stable_id
    ${QUIET} RETURNING block_number, block_hash, stable_id
  )
  SELECT (SELECT count(*) FROM made) AS made, array_to_string(array(
    SELECT nth FROM given
    WHERE (block_number, block_hash, stable_id) NOT IN (SELECT block_number, block_hash, stable_id FROM made)
  ), ',') AS known`
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

/** An array as PostgreSQL reads it; the driver would make buffers of the hashes, and texts of the buffers. */
const arrayOf = (values: readonly (number | string)[]): string => `{${values.join(',')}}`
const hexArray = (values: readonly string[]): string => arrayOf(values.map((hex) => `"\\\\x${hexDigits(hex)}"`))

const keyOf = ({ blockNumber, blockHash, stableId }: Mark): string => `${blockNumber} ${blockHash} ${stableId}`

/** Of like marks in one call only the first one is new. */
function isRepeat(seen: Set<string>, mark: Mark): boolean {
  const key = keyOf(mark)
  return seen.has(key) || !seen.add(key)
}

function columns(marks: readonly Mark[]): string[] {
  return [
    arrayOf(marks.map((mark) => int(mark.blockNumber))),
    hexArray(marks.map((mark) => mark.blockHash)),
    hexArray(marks.map((mark) => mark.stableId)),
    hexArray(marks.map((mark) => mark.transactionHash)),
    arrayOf(marks.map((mark) => int(mark.logIndex))),
  ]
}

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
    const row = (await this.#connection.get(INSERT_MANY, int(watcher), ...columns(marks))) ?? {}
    const text = readText(row, 'known')
    const known = new Set(text === '' ? [] : text.split(',').map(Number))
    const fresh = marks.map((_, i) => !known.has(i + 1))
    if (readNumber(row, 'made') + known.size === marks.length) return fresh
    const seen = new Set<string>()
    return marks.map((mark, i) => !isRepeat(seen, mark) && fresh[i] === true)
  }
}
