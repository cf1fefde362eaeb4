import type { BlockNumber, BlockRef } from '../../chain/block.ts'
import type { HandledPort, ScopeState } from '../store.ts'
import type { Connection } from './connection.ts'
import { blob, int, readBlockOrNull, readHash, readNumber, readNumberOrNull, text } from './values.ts'

const INSERT = `
  INSERT INTO tidemark_handled_events (scope, chain_id, key, block_number, handled_at) VALUES (?, ?, ?, ?, ?)
  ON CONFLICT (scope, chain_id, key) DO NOTHING`
// Apart from INSERT, so that its count of rows keeps saying whether the key was new.
const RAISE_BLOCK = `
  UPDATE tidemark_handled_events SET block_number = ?
  WHERE scope = ? AND chain_id = ? AND key = ? AND block_number < ?`
const HAS = 'SELECT 1 AS found FROM tidemark_handled_events WHERE scope = ? AND chain_id = ? AND key = ?'
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
    WHERE scope = ? AND chain_id = ? AND block_number <= ?
    ORDER BY block_number LIMIT ?)`

/** Rows of `tidemark_handled_events` and `tidemark_scopes`: the marks of the parts used alone. */
export class SqliteHandled implements HandledPort {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  insert(scope: string, chainId: number, key: string, block: BlockNumber, now: number): boolean {
    const isNew = this.#connection.run(INSERT, text(scope), int(chainId), text(key), int(block), int(now)) === 1
    if (!isNew) this.#connection.run(RAISE_BLOCK, int(block), text(scope), int(chainId), text(key), int(block))
    return isNew
  }

  has(scope: string, chainId: number, key: string): boolean {
    return this.#connection.get(HAS, text(scope), int(chainId), text(key)) !== undefined
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
