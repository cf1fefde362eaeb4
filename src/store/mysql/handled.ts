import type { BlockNumber, BlockRef } from '../../chain/block.ts'
import { sameBytes } from '../../util/bytes.ts'
import type { HandledKey, HandledPort, HandledState, ScopeState } from '../store.ts'
import type { Session } from './session.ts'
import {
  blob,
  key as keyBytes,
  type Row,
  readBlockOrNull,
  readBytesOrNull,
  readHash,
  readNumber,
  readNumberOrNull,
  readText,
} from './values.ts'

/**
 * The database's clock in milliseconds since the epoch. UTC_TIMESTAMP is taken when the statement starts, not the
 * transaction, and in UTC: SYSDATE, in the session's zone, is wrong for an hour each autumn.
 */
export const CLOCK = "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) DIV 1000)"

// A key that is there is counted up, so that a new one counts as one row and an old one as two, whatever flags the driver
// sets. It locks the row for writing at once: a failing INSERT would lock it for reading, and two deliveries of one event
// that both want more then would wait for each other.
const INSERT = `
  INSERT INTO {handled_events} (scope, chain_id, event_key, block_number, handled_at) VALUES (?, ?, ?, ?, ?)
  ON DUPLICATE KEY UPDATE repeats = repeats + 1, block_number = GREATEST(block_number, VALUES(block_number))`
// Both conditions read what no assignment before them has changed: the outcome is the same under every sql_mode.
const EXPIRED_NOW = `claim_token IS NOT NULL AND claimed_until <= ${CLOCK}`
const CLAIM = `
  INSERT INTO {handled_events} (scope, chain_id, event_key, block_number, handled_at, claim_token, claimed_until)
  VALUES (?, ?, ?, ?, ?, ?, ${CLOCK} + ?)
  ON DUPLICATE KEY UPDATE repeats = repeats + 1, block_number = GREATEST(block_number, VALUES(block_number)),
    claim_token = IF(${EXPIRED_NOW}, VALUES(claim_token), claim_token),
    claimed_until = IF(${EXPIRED_NOW}, VALUES(claimed_until), claimed_until)`
const KEY = 'scope = ? AND chain_id = ? AND event_key = ?'
const FIND = `SELECT claim_token FROM {handled_events} WHERE ${KEY}`
const OF_TOKEN = `${KEY} AND claim_token = ?`
const FINISH = `UPDATE {handled_events} SET claim_token = NULL, claimed_until = NULL WHERE ${OF_TOKEN}`
const UNCLAIM = `DELETE FROM {handled_events} WHERE ${OF_TOKEN}`
const EXPIRED = `
  SELECT chain_id, event_key FROM {handled_events}
  WHERE scope = ? AND claimed_until <= ${CLOCK} ORDER BY claimed_until LIMIT ?`
const COUNT = 'SELECT count(*) AS n FROM {handled_events} WHERE scope = ?'
// One row whatever there is. The low-water mark has a row of its own, apart from the cursor: two loops that have both read
// it under a lock would else wait for each other when they move the cursor.
const STATE = `
  SELECT marks.low_water,
    (SELECT cursor_block FROM {scopes} WHERE scope = ? AND chain_id = ?) AS cursor_block,
    (SELECT cursor_hash FROM {scopes} WHERE scope = ? AND chain_id = ?) AS cursor_hash,
    (SELECT updated_at FROM {scopes} WHERE scope = ? AND chain_id = ?) AS updated_at
  FROM (SELECT 1 AS one) AS always LEFT JOIN {low_waters} AS marks ON marks.scope = ? AND marks.chain_id = ?`
const LOCKED_STATE = `${STATE} LOCK IN SHARE MODE`
const CHAINS = `
  SELECT DISTINCT chain_id AS id FROM {handled_events} WHERE scope = ?
  UNION SELECT chain_id FROM {scopes} WHERE scope = ?
  UNION SELECT chain_id FROM {low_waters} WHERE scope = ?
  ORDER BY 1`
const SET_CURSOR = `
  INSERT INTO {scopes} (scope, chain_id, cursor_block, cursor_hash, updated_at) VALUES (?, ?, ?, ?, ?)
  ON DUPLICATE KEY UPDATE cursor_block = VALUES(cursor_block), cursor_hash = VALUES(cursor_hash),
    updated_at = VALUES(updated_at)`
const RAISE_LOW_WATER = `
  INSERT INTO {low_waters} (scope, chain_id, low_water) VALUES (?, ?, ?)
  ON DUPLICATE KEY UPDATE low_water = GREATEST(low_water, VALUES(low_water))`
const DELETE_THROUGH = `
  DELETE FROM {handled_events} WHERE scope = ? AND chain_id = ? AND block_number <= ? AND claim_token IS NULL
  ORDER BY block_number LIMIT ?`

function keyOf({ scope, chainId, key }: HandledKey): [Uint8Array, number, Uint8Array] {
  return [keyBytes(scope), chainId, keyBytes(key)]
}

function stateOf(row: Row): HandledState {
  return readBytesOrNull(row, 'claim_token') === null ? 'done' : 'claimed'
}

/** Rows of `handled_events`, `scopes` and `low_waters`: the marks of the parts used alone. */
export class MysqlHandled implements HandledPort {
  readonly #session: Session

  constructor(session: Session) {
    this.#session = session
  }

  async insert(key: HandledKey, block: BlockNumber, now: number): Promise<'new' | HandledState> {
    const touched = await this.#session.run(INSERT, ...keyOf(key), block, now)
    return touched === 1 ? 'new' : stateOf(await this.#mine(key))
  }

  async find(key: HandledKey): Promise<HandledState | null> {
    const row = await this.#session.get(FIND, ...keyOf(key))
    return row ? stateOf(row) : null
  }

  async claim(
    key: HandledKey,
    block: BlockNumber,
    token: Uint8Array,
    leaseMs: number,
    now: number,
  ): Promise<'new' | 'taken-over' | HandledState> {
    const touched = await this.#session.run(CLAIM, ...keyOf(key), block, now, token, leaseMs)
    if (touched === 1) return 'new'
    const row = await this.#mine(key)
    const found = readBytesOrNull(row, 'claim_token')
    return found !== null && sameBytes(found, token) ? 'taken-over' : stateOf(row)
  }

  async finish(key: HandledKey, token: Uint8Array): Promise<boolean> {
    return (await this.#session.run(FINISH, ...keyOf(key), token)) === 1
  }

  async unclaim(key: HandledKey, token: Uint8Array): Promise<boolean> {
    return (await this.#session.run(UNCLAIM, ...keyOf(key), token)) === 1
  }

  async expired(scope: string, limit: number): Promise<readonly { chainId: number; key: string }[]> {
    const rows = await this.#session.all(EXPIRED, keyBytes(scope), limit)
    return rows.map((row) => ({ chainId: readNumber(row, 'chain_id'), key: readText(row, 'event_key') }))
  }

  async count(scope: string): Promise<number> {
    return readNumber((await this.#session.get(COUNT, keyBytes(scope))) ?? {}, 'n')
  }

  /**
   * In a transaction that may write, the low-water mark is read under a lock. At REPEATABLE READ a plain SELECT reads the
   * snapshot of the transaction's first read: it would miss a mark raised since, while the INSERT before it does see that
   * the row was deleted, and the event would be new a second time (P7).
   */
  async state(scope: string, chainId: number): Promise<ScopeState> {
    const where = [keyBytes(scope), chainId] as const
    const text = this.#session.kind === 'read' ? STATE : LOCKED_STATE
    const row = (await this.#session.get(text, ...where, ...where, ...where, ...where)) ?? {}
    const number = readBlockOrNull(row, 'cursor_block')
    return {
      cursor: number === null ? null : { number, hash: readHash(row, 'cursor_hash') },
      lowWater: readBlockOrNull(row, 'low_water'),
      updatedAt: readNumberOrNull(row, 'updated_at'),
    }
  }

  async chains(scope: string): Promise<readonly number[]> {
    const bytes = keyBytes(scope)
    return (await this.#session.all(CHAINS, bytes, bytes, bytes)).map((row) => readNumber(row, 'id'))
  }

  async setCursor(scope: string, chainId: number, cursor: BlockRef, now: number): Promise<void> {
    await this.#session.run(SET_CURSOR, keyBytes(scope), chainId, cursor.number, blob(cursor.hash), now)
  }

  async raiseLowWater(scope: string, chainId: number, block: BlockNumber): Promise<void> {
    await this.#session.run(RAISE_LOW_WATER, keyBytes(scope), chainId, block)
  }

  deleteThrough(scope: string, chainId: number, block: BlockNumber, limit: number): Promise<number> {
    return this.#session.run(DELETE_THROUGH, keyBytes(scope), chainId, block, limit)
  }

  /** The row that this transaction has just touched, so a plain read sees it at every isolation level. */
  async #mine(key: HandledKey): Promise<Row> {
    return (await this.#session.get(FIND, ...keyOf(key))) ?? {}
  }
}
