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
import type { SqliteRow, SqliteValue } from './driver.ts'
import {
  blob,
  int,
  intOrNull,
  readBlock,
  readBlockOrNull,
  readBytes,
  readHash,
  readNumber,
  readNumberOrNull,
  readText,
  readTextOrNull,
  text,
} from './values.ts'

const CREATE = `
  INSERT INTO tidemark_watchers (name, chain_id, fingerprint, start_block, updated_at)
  VALUES (?, ?, ?, ?, ?)
  ON CONFLICT (name) DO NOTHING`
const LIST = 'SELECT * FROM tidemark_watchers ORDER BY name'
const FIND = 'SELECT * FROM tidemark_watchers WHERE name = ?'
const LOCK = 'SELECT * FROM tidemark_watchers WHERE id = ?'
// From here until the row is changed SQLite refuses to commit: see `tidemark_open_commits` in migrations.ts.
const OPEN = 'UPDATE tidemark_watchers SET nonce = ?, open_commit = 1 WHERE id = ? RETURNING *'
const READ_NONCE = 'SELECT nonce FROM tidemark_watchers WHERE id = ?'
const GENESIS = 'SELECT genesis_hash FROM tidemark_chains WHERE chain_id = ?'
// The first one seen stays: it is what later ones are compared with (C20).
const SET_GENESIS = `
  INSERT INTO tidemark_chains (chain_id, genesis_hash) VALUES (?, ?)
  ON CONFLICT (chain_id) DO NOTHING`

function readCursor(row: SqliteRow): BlockRef | null {
  const number = readBlockOrNull(row, 'cursor_block')
  return number === null ? null : { number, hash: readHash(row, 'cursor_hash') }
}

function readCounters(row: SqliteRow): WatcherCounters {
  return {
    applied: readNumber(row, 'applied'),
    undone: readNumber(row, 'undone'),
    duplicates: readNumber(row, 'duplicates'),
    reorgs: readNumber(row, 'reorgs'),
  }
}

function readReason(row: SqliteRow): HaltReason | null {
  const stored = readTextOrNull(row, 'reason')
  return stored === null ? null : (decodeValue(stored) as HaltReason)
}

function readWatcher(row: SqliteRow): WatcherRow {
  return {
    id: readNumber(row, 'id'),
    name: readText(row, 'name'),
    chainId: readNumber(row, 'chain_id'),
    fingerprint: readText(row, 'fingerprint'),
    startBlock: readBlock(row, 'start_block'),
    cursor: readCursor(row),
    epoch: readNumber(row, 'epoch'),
    token: row.token === null ? null : readBytes(row, 'token'),
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

type Assignment = readonly [sql: string, ...values: SqliteValue[]]

/** How each key of a change becomes an assignment. The low-water mark is raised, never lowered (P7). */
const ASSIGN: {
  readonly [K in keyof Required<CursorChange>]: (value: NonNullable<CursorChange[K]> | null) => Assignment[]
} = {
  cursor: (at) => [
    ['cursor_block = ?', at && int(at.number)],
    ['cursor_hash = ?', at && blob(at.hash)],
  ],
  epoch: (epoch) => [['epoch = ?', intOrNull(epoch)]],
  settled: (block) => [['settled = ?', intOrNull(block)]],
  finalized: (block) => [['finalized = ?', intOrNull(block)]],
  lowWater: (block) => [['low_water = max(ifnull(low_water, -1), ?)', intOrNull(block)]],
  lowWaterAt: (at) => [['low_water_at = ?', intOrNull(at)]],
  state: (state) => [['state = ?', state]],
  reason: (reason) => [['reason = ?', reason && encodeValue(reason)]],
  fingerprint: (fingerprint) => [['fingerprint = ?', fingerprint && text(fingerprint)]],
  name: (name) => [['name = ?', name && text(name)]],
  token: (token) => [['token = ?', token]],
  add: (counters) => addCounters(counters ?? {}),
  updatedAt: (at) => [['updated_at = ?', intOrNull(at)]],
}

const COUNTERS = ['applied', 'undone', 'duplicates', 'reorgs'] as const

function addCounters(add: Partial<WatcherCounters>): Assignment[] {
  return COUNTERS.filter((name) => add[name] !== undefined).map((name) => [
    `${name} = ${name} + ?`,
    int(add[name] as number),
  ])
}

function assignments(change: CursorChange): Assignment[] {
  const keys = Object.keys(ASSIGN) as (keyof CursorChange)[]
  return keys.filter((key) => change[key] !== undefined).flatMap((key) => ASSIGN[key](change[key] as never))
}

/** With each change: the row is a new one, and SQLite may commit again. */
const ALWAYS = 'revision = revision + 1, open_commit = NULL'

/** Rows of `tidemark_watchers`. The write lock of SQLite covers the whole file, so `lock` has only to read. */
export class SqliteCursors implements CursorPort {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  create(watcher: NewWatcher, now: number): WatcherRow {
    const { name, chainId, fingerprint, startBlock } = watcher
    this.#connection.run(CREATE, text(name), int(chainId), text(fingerprint), int(startBlock), int(now))
    const row = this.find(name)
    invariant(row, 'a watcher that was just made must be there')
    return row
  }

  list(): readonly WatcherRow[] {
    return this.#connection.all(LIST).map(readWatcher)
  }

  find(name: string): WatcherRow | undefined {
    const row = this.#connection.get(FIND, text(name))
    return row && readWatcher(row)
  }

  lock(id: number): WatcherRow | undefined {
    const row = this.#connection.get(LOCK, int(id))
    return row && readWatcher(row)
  }

  change(id: number, change: CursorChange): void {
    invariant(this.#change(change, 'id = ?', int(id)) === 1, 'a change of a cursor must find its row', { id })
  }

  open(id: number, nonce: Uint8Array): WatcherRow | undefined {
    const row = this.#connection.get(OPEN, nonce, int(id))
    return row && readWatcher(row)
  }

  close(id: number, nonce: Uint8Array, change: CursorChange): boolean {
    return this.#change(change, 'id = ? AND nonce = ?', int(id), nonce) === 1
  }

  readNonce(id: number): Uint8Array | null {
    const row = this.#connection.get(READ_NONCE, int(id))
    return row && row.nonce !== null ? readBytes(row, 'nonce') : null
  }

  genesis(chainId: number): Hash | null {
    const row = this.#connection.get(GENESIS, int(chainId))
    return row ? readHash(row, 'genesis_hash') : null
  }

  setGenesis(chainId: number, hash: Hash): void {
    this.#connection.run(SET_GENESIS, int(chainId), blob(hash))
  }

  /** @returns how many rows were changed */
  #change(change: CursorChange, where: string, ...which: readonly SqliteValue[]): number {
    const all = assignments(change)
    const sql = `UPDATE tidemark_watchers SET ${all.map(([one]) => one).join(', ')}, ${ALWAYS} WHERE ${where}`
    return this.#connection.run(sql, ...all.flatMap(([, ...values]) => values), ...which)
  }
}
