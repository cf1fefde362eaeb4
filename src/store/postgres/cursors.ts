import type { BlockRef, Hash } from '../../chain/block.ts'
import { invariant } from '../../util/invariant.ts'
import { decodeValue, encodeValue } from '../../util/json.ts'
import type {
  CursorChange,
  CursorPort,
  HaltReason,
  NewWatcher,
  WatcherCounters,
  WatcherRow,
  WatcherState,
} from '../store.ts'
import type { Connection } from './connection.ts'
import type { PgRow } from './driver.ts'
import {
  blob,
  bytes,
  int,
  intOrNull,
  readBlock,
  readBlockOrNull,
  readBytesOrNull,
  readHash,
  readNumber,
  readNumberOrNull,
  readText,
  readTextOrNull,
  text,
} from './values.ts'

const COLUMNS = `id, name, chain_id, fingerprint, start_block, cursor_block, cursor_hash, epoch, token, settled, finalized,
    low_water, low_water_at, state, reason, applied, undone, duplicates, reorgs, revision, updated_at`
const CREATE = `
  INSERT INTO tidemark.watchers (name, chain_id, fingerprint, start_block, updated_at)
  VALUES ($1::text, $2::bigint, $3::text, $4::bigint, $5::bigint)
  ON CONFLICT (name) DO NOTHING`
const LIST = `SELECT ${COLUMNS} FROM tidemark.watchers ORDER BY name`
const FIND = `SELECT ${COLUMNS} FROM tidemark.watchers WHERE name = $1::text`
const LOCK = `SELECT ${COLUMNS} FROM tidemark.watchers WHERE id = $1::int FOR UPDATE`
// From here until the row is changed PostgreSQL refuses to commit: see `open_commits` in migrations.ts.
const OPEN = `
  UPDATE tidemark.watchers SET nonce = $1::bytea, open_commit = 1 WHERE id = $2::int RETURNING ${COLUMNS}`
const READ_NONCE = 'SELECT nonce FROM tidemark.watchers WHERE id = $1::int'
const GENESIS = 'SELECT genesis_hash FROM tidemark.chains WHERE chain_id = $1::bigint'
// The first one seen stays: it is what later ones are compared with (C20).
const SET_GENESIS = `
  INSERT INTO tidemark.chains (chain_id, genesis_hash) VALUES ($1::bigint, $2::bytea)
  ON CONFLICT (chain_id) DO NOTHING`

function readCursor(row: PgRow): BlockRef | null {
  const number = readBlockOrNull(row, 'cursor_block')
  return number === null ? null : { number, hash: readHash(row, 'cursor_hash') }
}

function readCounters(row: PgRow): WatcherCounters {
  return {
    applied: readNumber(row, 'applied'),
    undone: readNumber(row, 'undone'),
    duplicates: readNumber(row, 'duplicates'),
    reorgs: readNumber(row, 'reorgs'),
  }
}

function readReason(row: PgRow): HaltReason | null {
  const stored = readTextOrNull(row, 'reason')
  return stored === null ? null : (decodeValue(stored) as HaltReason)
}

function readWatcher(row: PgRow): WatcherRow {
  return {
    id: readNumber(row, 'id'),
    name: readText(row, 'name'),
    chainId: readNumber(row, 'chain_id'),
    fingerprint: readText(row, 'fingerprint'),
    startBlock: readBlock(row, 'start_block'),
    cursor: readCursor(row),
    epoch: readNumber(row, 'epoch'),
    token: readBytesOrNull(row, 'token'),
    settled: readBlockOrNull(row, 'settled'),
    finalized: readBlockOrNull(row, 'finalized'),
    lowWater: readBlockOrNull(row, 'low_water'),
    lowWaterAt: readNumberOrNull(row, 'low_water_at'),
    state: readText(row, 'state') as WatcherState,
    reason: readReason(row),
    counters: readCounters(row),
    revision: readNumber(row, 'revision'),
    updatedAt: readNumber(row, 'updated_at'),
  }
}

/** `?` stands for the value; its number is known only when all are together. */
type Assignment = readonly [sql: string, value: unknown]

/** How each key of a change becomes an assignment. The low-water mark is raised, never lowered (P7). */
const ASSIGN: {
  readonly [K in keyof Required<CursorChange>]: (value: NonNullable<CursorChange[K]> | null) => Assignment[]
} = {
  cursor: (at) => [
    ['cursor_block = ?::bigint', at && int(at.number)],
    ['cursor_hash = ?::bytea', at && blob(at.hash)],
  ],
  epoch: (epoch) => [['epoch = ?::bigint', intOrNull(epoch)]],
  settled: (block) => [['settled = ?::bigint', intOrNull(block)]],
  finalized: (block) => [['finalized = ?::bigint', intOrNull(block)]],
  lowWater: (block) => [['low_water = greatest(low_water, ?::bigint)', intOrNull(block)]],
  lowWaterAt: (at) => [['low_water_at = ?::bigint', intOrNull(at)]],
  state: (state) => [['state = ?::text', state]],
  reason: (reason) => [['reason = ?::text', reason && encodeReason(reason)]],
  fingerprint: (fingerprint) => [['fingerprint = ?::text', fingerprint && text(fingerprint)]],
  name: (name) => [['name = ?::text', name && text(name)]],
  token: (token) => [['token = ?::bytea', token && bytes(token)]],
  add: (counters) => addCounters(counters ?? {}),
  updatedAt: (at) => [['updated_at = ?::bigint', intOrNull(at)]],
}

/** JSON writes NUL and lone surrogates as escapes, so the text can always be kept. */
function encodeReason(reason: HaltReason): string {
  return text(encodeValue(reason))
}

const COUNTERS = ['applied', 'undone', 'duplicates', 'reorgs'] as const

function addCounters(add: Partial<WatcherCounters>): Assignment[] {
  return COUNTERS.filter((name) => add[name] !== undefined).map((name) => [
    `${name} = ${name} + ?::bigint`,
    int(add[name] as number),
  ])
}

function assignments(change: CursorChange): Assignment[] {
  const keys = Object.keys(ASSIGN) as (keyof CursorChange)[]
  return keys.filter((key) => change[key] !== undefined).flatMap((key) => ASSIGN[key](change[key] as never))
}

/** Rows of `watchers`. */
export class PgCursors implements CursorPort {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  async create(watcher: NewWatcher, now: number): Promise<WatcherRow> {
    const { name, chainId, fingerprint, startBlock } = watcher
    await this.#connection.run(CREATE, text(name), int(chainId), text(fingerprint), int(startBlock), int(now))
    const row = await this.find(name)
    invariant(row, 'a watcher that was just made must be there')
    return row
  }

  async list(): Promise<readonly WatcherRow[]> {
    return (await this.#connection.all(LIST)).map(readWatcher)
  }

  async find(name: string): Promise<WatcherRow | undefined> {
    const row = await this.#connection.get(FIND, text(name))
    return row && readWatcher(row)
  }

  async lock(id: number): Promise<WatcherRow | undefined> {
    const row = await this.#connection.get(LOCK, int(id))
    return row && readWatcher(row)
  }

  async change(id: number, change: CursorChange): Promise<void> {
    const changed = await this.#change(change, [['id = ?::int', int(id)]])
    invariant(changed === 1, 'a change of a cursor must find its row', { id })
  }

  async open(id: number, nonce: Uint8Array): Promise<WatcherRow | undefined> {
    const row = await this.#connection.get(OPEN, bytes(nonce), int(id))
    return row && readWatcher(row)
  }

  async close(id: number, nonce: Uint8Array, change: CursorChange): Promise<boolean> {
    const where: Assignment[] = [
      ['id = ?::int', int(id)],
      ['nonce = ?::bytea', bytes(nonce)],
    ]
    return (await this.#change(change, where)) === 1
  }

  async readNonce(id: number): Promise<Uint8Array | null> {
    const row = await this.#connection.get(READ_NONCE, int(id))
    return row ? readBytesOrNull(row, 'nonce') : null
  }

  async genesis(chainId: number): Promise<Hash | null> {
    const row = await this.#connection.get(GENESIS, int(chainId))
    return row ? readHash(row, 'genesis_hash') : null
  }

  async setGenesis(chainId: number, hash: Hash): Promise<void> {
    await this.#connection.run(SET_GENESIS, int(chainId), blob(hash))
  }

  /** @returns how many rows were changed */
  #change(change: CursorChange, where: readonly Assignment[]): Promise<number> {
    const all = assignments(change)
    const numbered = [...all, ...where].map(([one], i) => one.replace('?', `$${i + 1}`))
    const sets = [...numbered.slice(0, all.length), 'revision = revision + 1', 'open_commit = NULL']
    const sql = `
  UPDATE tidemark.watchers SET ${sets.join(', ')} WHERE ${numbered.slice(all.length).join(' AND ')}`
    return this.#connection.run(sql, ...[...all, ...where].map(([, value]) => value))
  }
}
