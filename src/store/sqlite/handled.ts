import type { BlockNumber, BlockRef } from '../../chain/block.ts'
import type { HandledKey, HandledPort, HandledState, ScopeState } from '../store.ts'
import type { Connection } from './connection.ts'
import { blob, int, readBlockOrNull, readHash, readNumber, readNumberOrNull, readText, text } from './values.ts'

const INSERT = `
  INSERT INTO tidemark_handled_events (scope, chain_id, key, block_number, handled_at) VALUES (?, ?, ?, ?, ?)
  ON CONFLICT (scope, chain_id, key) DO NOTHING`
// Apart from INSERT, so that its count of rows keeps saying whether the key was new.
const RAISE_BLOCK = `
  UPDATE tidemark_handled_events SET block_number = ?
  WHERE scope = ? AND chain_id = ? AND key = ? AND block_number < ?`
const KEY = 'scope = ? AND chain_id = ? AND key = ?'
const FIND = `SELECT claim_token, claimed_until FROM tidemark_handled_events WHERE ${KEY}`
const CLAIM = `UPDATE tidemark_handled_events SET claim_token = ?, claimed_until = ? WHERE ${KEY}`
const OF_TOKEN = `${KEY} AND claim_token = ?`
const FINISH = `UPDATE tidemark_handled_events SET claim_token = NULL, claimed_until = NULL WHERE ${OF_TOKEN}`
const UNCLAIM = `DELETE FROM tidemark_handled_events WHERE ${OF_TOKEN}`
const EXPIRED = `
  SELECT chain_id, key FROM tidemark_handled_events
  WHERE scope = ? AND claim_token IS NOT NULL AND claimed_until <= ? ORDER BY claimed_until LIMIT ?`
const COUNT = 'SELECT count(*) AS n FROM tidemark_handled_events WHERE scope = ?'
const STATE =
  'SELECT cursor_block, cursor_hash, low_water, updated_at FROM tidemark_scopes WHERE scope = ? AND chain_id = ?'
// From one chain to the next along the key, instead of over every row.
const CHAINS = `
  WITH RECURSIVE chain (id) AS (
    SELECT min(chain_id) FROM tidemark_handled_events WHERE scope = :scope
    UNION ALL
    SELECT (SELECT min(chain_id) FROM tidemark_handled_events WHERE scope = :scope AND chain_id > chain.id)
    FROM chain WHERE chain.id IS NOT NULL)
  SELECT id FROM chain WHERE id IS NOT NULL
  UNION SELECT chain_id FROM tidemark_scopes WHERE scope = :scope
  ORDER BY 1`
const SET_CURSOR = `
  INSERT INTO tidemark_scopes (scope, chain_id, cursor_block, cursor_hash, updated_at) VALUES (?, ?, ?, ?, ?)
  ON CONFLICT (scope, chain_id) DO UPDATE SET
    cursor_block = excluded.cursor_block, cursor_hash = excluded.cursor_hash, updated_at = excluded.updated_at`
const RAISE_LOW_WATER = `
  INSERT INTO tidemark_scopes (scope, chain_id, low_water) VALUES (?, ?, ?)
  ON CONFLICT (scope, chain_id) DO UPDATE SET low_water = max(ifnull(low_water, -1), excluded.low_water)`
const DELETE_THROUGH = `
  DELETE FROM tidemark_handled_events WHERE (scope, chain_id, key) IN (
    SELECT scope, chain_id, key FROM tidemark_handled_events
    WHERE scope = ? AND chain_id = ? AND block_number <= ? AND claim_token IS NULL
    ORDER BY block_number LIMIT ?)`

function keyOf({ scope, chainId, key }: HandledKey): [string, number | bigint, string] {
  return [text(scope), int(chainId), text(key)]
}

/** Rows of `tidemark_handled_events` and `tidemark_scopes`: the marks of the parts used alone. */
export class SqliteHandled implements HandledPort {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  insert(key: HandledKey, block: BlockNumber, now: number): 'new' | HandledState {
    const isNew = this.#connection.run(INSERT, ...keyOf(key), int(block), int(now)) === 1
    if (isNew) return 'new'
    this.#connection.run(RAISE_BLOCK, int(block), ...keyOf(key), int(block))
    return this.find(key) as HandledState
  }

  find(key: HandledKey): HandledState | null {
    const row = this.#connection.get(FIND, ...keyOf(key))
    if (!row) return null
    return row.claim_token === null ? 'done' : 'claimed'
  }

  claim(
    key: HandledKey,
    block: BlockNumber,
    token: Uint8Array,
    leaseMs: number,
    now: number,
  ): 'new' | 'taken-over' | HandledState {
    const found = this.insert(key, block, now)
    if (found === 'done' || (found === 'claimed' && !this.#hasExpired(key))) return found
    this.#connection.run(CLAIM, token, int(this.#now() + leaseMs), ...keyOf(key))
    return found === 'new' ? 'new' : 'taken-over'
  }

  finish(key: HandledKey, token: Uint8Array): boolean {
    return this.#connection.run(FINISH, ...keyOf(key), token) === 1
  }

  unclaim(key: HandledKey, token: Uint8Array): boolean {
    return this.#connection.run(UNCLAIM, ...keyOf(key), token) === 1
  }

  expired(scope: string, limit: number): readonly { readonly chainId: number; readonly key: string }[] {
    return this.#connection
      .all(EXPIRED, text(scope), int(this.#now()), int(limit))
      .map((row) => ({ chainId: readNumber(row, 'chain_id'), key: readText(row, 'key') }))
  }

  #hasExpired(key: HandledKey): boolean {
    const row = this.#connection.get(FIND, ...keyOf(key))
    return row !== undefined && readNumber(row, 'claimed_until') <= this.#now()
  }

  /** The database runs in this process and on this machine: its clock is the machine's. */
  #now(): number {
    return Math.trunc(this.#connection.world.now())
  }

  count(scope: string): number {
    return readNumber(this.#connection.get(COUNT, text(scope)) ?? {}, 'n')
  }

  state(scope: string, chainId: number): ScopeState {
    const row = this.#connection.get(STATE, text(scope), int(chainId))
    if (!row) return { cursor: null, lowWater: null, updatedAt: null }
    const number = readBlockOrNull(row, 'cursor_block')
    return {
      cursor: number === null ? null : { number, hash: readHash(row, 'cursor_hash') },
      lowWater: readBlockOrNull(row, 'low_water'),
      updatedAt: readNumberOrNull(row, 'updated_at'),
    }
  }

  chains(scope: string): readonly number[] {
    return this.#connection.all(CHAINS, { scope: text(scope) }).map((row) => readNumber(row, 'id'))
  }

  setCursor(scope: string, chainId: number, cursor: BlockRef, now: number): void {
    this.#connection.run(SET_CURSOR, text(scope), int(chainId), int(cursor.number), blob(cursor.hash), int(now))
  }

  raiseLowWater(scope: string, chainId: number, block: BlockNumber): void {
    this.#connection.run(RAISE_LOW_WATER, text(scope), int(chainId), int(block))
  }

  deleteThrough(scope: string, chainId: number, block: BlockNumber, limit: number): number {
    return this.#connection.run(DELETE_THROUGH, text(scope), int(chainId), int(block), int(limit))
  }
}
