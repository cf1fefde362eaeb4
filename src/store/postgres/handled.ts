import type { BlockNumber, BlockRef } from '../../chain/block.ts'
import { invariant } from '../../util/invariant.ts'
import type { HandledKey, HandledPort, HandledState, ScopeState } from '../store.ts'
import type { Connection } from './connection.ts'
import {
  blob,
  bytes,
  int,
  readBlockOrNull,
  readFlag,
  readHash,
  readNumber,
  readNumberOrNull,
  readText,
  text,
} from './values.ts'

const KEY = 'scope = $1::text AND chain_id = $2::bigint AND key = $3::text'
const INSERT = `
  INSERT INTO tidemark.handled_events (scope, chain_id, key, block_number, handled_at)
  VALUES ($1::text, $2::bigint, $3::text, $4::bigint, $5::bigint)
  ON CONFLICT (scope, chain_id, key) DO NOTHING`
const UNTIL = "clock_timestamp() + $7::bigint * interval '1 millisecond'"
const CLAIM = `
  INSERT INTO tidemark.handled_events (scope, chain_id, key, block_number, handled_at, claim_token, claimed_until)
  VALUES ($1::text, $2::bigint, $3::text, $4::bigint, $5::bigint, $6::bytea, ${UNTIL})
  ON CONFLICT (scope, chain_id, key) DO NOTHING`
const TAKE_OVER = `
  UPDATE tidemark.handled_events SET block_number = greatest(block_number, $4::bigint), handled_at = $5::bigint,
    claim_token = $6::bytea, claimed_until = ${UNTIL}
  WHERE ${KEY} AND claimed_until <= clock_timestamp()`
const FIND = `
  SELECT claim_token IS NOT NULL AS claimed, block_number FROM tidemark.handled_events WHERE ${KEY}`
const RAISE_BLOCK = `
  UPDATE tidemark.handled_events SET block_number = $4::bigint WHERE ${KEY} AND block_number < $4::bigint`
const FINISH = `
  UPDATE tidemark.handled_events SET claim_token = NULL, claimed_until = NULL
  WHERE ${KEY} AND claim_token = $4::bytea`
const UNCLAIM = `DELETE FROM tidemark.handled_events WHERE ${KEY} AND claim_token = $4::bytea`
const EXPIRED = `
  SELECT chain_id, key FROM tidemark.handled_events WHERE scope = $1::text AND claimed_until <= clock_timestamp()
  ORDER BY claimed_until, chain_id, key LIMIT $2::bigint`
const COUNT = 'SELECT count(*) AS n FROM tidemark.handled_events WHERE scope = $1::text'

const CURSOR = `
  SELECT cursor_block, cursor_hash, updated_at FROM tidemark.scopes WHERE scope = $1::text AND chain_id = $2::bigint`
const LOW_WATER = 'SELECT low_water FROM tidemark.low_waters WHERE scope = $1::text AND chain_id = $2::bigint'
const MAKE_LOW_WATER = `
  INSERT INTO tidemark.low_waters (scope, chain_id) VALUES ($1::text, $2::bigint)
  ON CONFLICT (scope, chain_id) DO NOTHING`
// From one chain to the next along the key, instead of over every row.
const CHAINS = `
  WITH RECURSIVE chain (id) AS (
    SELECT min(chain_id) FROM tidemark.handled_events WHERE scope = $1::text
    UNION ALL
    SELECT (SELECT min(chain_id) FROM tidemark.handled_events WHERE scope = $1::text AND chain_id > chain.id)
    FROM chain WHERE chain.id IS NOT NULL)
  SELECT id FROM chain WHERE id IS NOT NULL
  UNION SELECT chain_id FROM tidemark.scopes WHERE scope = $1::text
  UNION SELECT chain_id FROM tidemark.low_waters WHERE scope = $1::text AND low_water IS NOT NULL
  ORDER BY 1`
const SET_CURSOR = `
  INSERT INTO tidemark.scopes (scope, chain_id, cursor_block, cursor_hash, updated_at)
  VALUES ($1::text, $2::bigint, $3::bigint, $4::bytea, $5::bigint)
  ON CONFLICT (scope, chain_id) DO UPDATE SET
    cursor_block = excluded.cursor_block, cursor_hash = excluded.cursor_hash, updated_at = excluded.updated_at`
const RAISE_LOW_WATER = `
  INSERT INTO tidemark.low_waters AS known (scope, chain_id, low_water) VALUES ($1::text, $2::bigint, $3::bigint)
  ON CONFLICT (scope, chain_id) DO UPDATE SET low_water = greatest(known.low_water, excluded.low_water)`
// A claim that is still held is not forgotten: its owner may be about to finish it.
const DELETE_THROUGH = `
  DELETE FROM tidemark.handled_events WHERE (scope, chain_id, key) IN (
    SELECT scope, chain_id, key FROM tidemark.handled_events
    WHERE scope = $1::text AND chain_id = $2::bigint AND block_number <= $3::bigint
      AND claim_token IS NULL
    ORDER BY block_number LIMIT $4::bigint)`

/** A row may be deleted between the insert that met it and the look at it: tries before that is called a bug. */
const TRIES = 10

function key({ scope, chainId, key }: HandledKey) {
  return [text(scope), int(chainId), text(key)] as const
}

/** Rows of `handled_events`, `scopes` and `low_waters`: the marks of the parts used alone. */
export class PgHandled implements HandledPort {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  async insert(which: HandledKey, block: BlockNumber, now: number): Promise<'new' | HandledState> {
    for (let tries = 0; tries < TRIES; tries++) {
      if ((await this.#connection.run(INSERT, ...key(which), int(block), int(now))) === 1) return 'new'
      const state = await this.#raise(which, block)
      if (state) return state
    }
    return lostRace(which)
  }

  async find(which: HandledKey): Promise<HandledState | null> {
    const row = await this.#connection.get(FIND, ...key(which))
    return row ? stateOf(readFlag(row, 'claimed')) : null
  }

  async claim(
    which: HandledKey,
    block: BlockNumber,
    token: Uint8Array,
    leaseMs: number,
    now: number,
  ): Promise<'new' | 'taken-over' | HandledState> {
    const values = [...key(which), int(block), int(now), bytes(token), int(leaseMs)] as const
    for (let tries = 0; tries < TRIES; tries++) {
      if ((await this.#connection.run(CLAIM, ...values)) === 1) return 'new'
      if ((await this.#connection.run(TAKE_OVER, ...values)) === 1) return 'taken-over'
      const state = await this.#raise(which, block)
      if (state) return state
    }
    return lostRace(which)
  }

  async finish(which: HandledKey, token: Uint8Array): Promise<boolean> {
    return (await this.#connection.run(FINISH, ...key(which), bytes(token))) === 1
  }

  async unclaim(which: HandledKey, token: Uint8Array): Promise<boolean> {
    return (await this.#connection.run(UNCLAIM, ...key(which), bytes(token))) === 1
  }

  async expired(scope: string, limit: number): Promise<readonly { chainId: number; key: string }[]> {
    const rows = await this.#connection.all(EXPIRED, text(scope), int(limit))
    return rows.map((row) => ({ chainId: readNumber(row, 'chain_id'), key: readText(row, 'key') }))
  }

  async count(scope: string): Promise<number> {
    return readNumber((await this.#connection.get(COUNT, text(scope))) ?? {}, 'n')
  }

  async state(scope: string, chainId: number): Promise<ScopeState> {
    const lowWater = await this.#lowWater(text(scope), int(chainId))
    const row = await this.#connection.get(CURSOR, text(scope), int(chainId))
    if (!row) return { cursor: null, lowWater, updatedAt: null }
    const number = readBlockOrNull(row, 'cursor_block')
    return {
      cursor: number === null ? null : { number, hash: readHash(row, 'cursor_hash') },
      lowWater,
      updatedAt: readNumberOrNull(row, 'updated_at'),
    }
  }

  async chains(scope: string): Promise<readonly number[]> {
    return (await this.#connection.all(CHAINS, text(scope))).map((row) => readNumber(row, 'id'))
  }

  async setCursor(scope: string, chainId: number, cursor: BlockRef, now: number): Promise<void> {
    await this.#connection.run(SET_CURSOR, text(scope), int(chainId), int(cursor.number), blob(cursor.hash), int(now))
  }

  async raiseLowWater(scope: string, chainId: number, block: BlockNumber): Promise<void> {
    await this.#connection.run(RAISE_LOW_WATER, text(scope), int(chainId), int(block))
  }

  async deleteThrough(scope: string, chainId: number, block: BlockNumber, limit: number): Promise<number> {
    return this.#connection.run(DELETE_THROUGH, text(scope), int(chainId), int(block), int(limit))
  }

  /**
   * In a transaction that writes, under a shared lock that `raiseLowWater` waits for (P7). On an older snapshot
   * (REPEATABLE READ, SERIALIZABLE) the lock fails with 40001 when the row was changed since, and the insert does when it
   * was made since: a snapshot that cannot see the low-water mark never answers that there is none.
   */
  async #lowWater(scope: string, chainId: number): Promise<ScopeState['lowWater']> {
    if (!this.#connection.writes) {
      const row = await this.#connection.get(LOW_WATER, scope, chainId)
      return row ? readBlockOrNull(row, 'low_water') : null
    }
    const locked = await this.#connection.get(`${LOW_WATER} FOR SHARE`, scope, chainId)
    if (locked) return readBlockOrNull(locked, 'low_water')
    await this.#connection.run(MAKE_LOW_WATER, scope, chainId)
    const made = await this.#connection.get(`${LOW_WATER} FOR SHARE`, scope, chainId)
    invariant(made, 'a low-water row that was just made must be there')
    return readBlockOrNull(made, 'low_water')
  }

  /** What a key that is there is; its block is raised. Null: it was deleted meanwhile. */
  async #raise(which: HandledKey, block: BlockNumber): Promise<HandledState | null> {
    const row = await this.#connection.get(FIND, ...key(which))
    if (!row) return null
    if (readNumber(row, 'block_number') < block) await this.#connection.run(RAISE_BLOCK, ...key(which), int(block))
    return stateOf(readFlag(row, 'claimed'))
  }
}

function stateOf(claimed: boolean): HandledState {
  return claimed ? 'claimed' : 'done'
}

function lostRace({ chainId }: HandledKey): never {
  invariant(false, 'a key came and went each time it was looked at', { chainId, tries: TRIES })
}
