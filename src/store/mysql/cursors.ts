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
import type { SqlValue } from './literals.ts'
import type { Session } from './session.ts'
import {
  blob,
  key,
  type Row,
  readBlock,
  readBlockOrNull,
  readBytesOrNull,
  readHash,
  readNumber,
  readNumberOrNull,
  readText,
  readTextOrNull,
} from './values.ts'

// A row that is there already stays as it is; the statement waits for another process that is just making it.
const CREATE = `
  INSERT INTO {watchers} (name, chain_id, fingerprint, start_block, updated_at) VALUES (?, ?, ?, ?, ?)
  ON DUPLICATE KEY UPDATE id = id`
// A locking read: at REPEATABLE READ a plain one would not see what another process has committed since.
const MADE = 'SELECT * FROM {watchers} WHERE name = ? LOCK IN SHARE MODE'
const LIST = 'SELECT * FROM {watchers} ORDER BY name'
const FIND = 'SELECT * FROM {watchers} WHERE name = ?'
const LOCK = 'SELECT * FROM {watchers} WHERE id = ? FOR UPDATE'
const WRITE_NONCE = 'UPDATE {watchers} SET nonce = ? WHERE id = ?'
const READ_NONCE = 'SELECT nonce FROM {watchers} WHERE id = ?'
const GENESIS = 'SELECT genesis_hash FROM {chains} WHERE chain_id = ?'
// The first one seen stays: it is what later ones are compared with (C20).
const SET_GENESIS = `
  INSERT INTO {chains} (chain_id, genesis_hash) VALUES (?, ?)
  ON DUPLICATE KEY UPDATE chain_id = chain_id`

function readCursor(row: Row): BlockRef | null {
  const number = readBlockOrNull(row, 'cursor_block')
  return number === null ? null : { number, hash: readHash(row, 'cursor_hash') }
}

function readCounters(row: Row): WatcherCounters {
  return {
    applied: readNumber(row, 'applied'),
    undone: readNumber(row, 'undone'),
    duplicates: readNumber(row, 'duplicates'),
    reorgs: readNumber(row, 'reorgs'),
  }
}

function readReason(row: Row): HaltReason | null {
  const stored = readTextOrNull(row, 'reason')
  return stored === null ? null : (decodeValue(stored) as HaltReason)
}

function readWatcher(row: Row): WatcherRow {
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

type Assignment = readonly [sql: string, ...values: SqlValue[]]

/** How each key of a change becomes an assignment. The low-water mark is raised, never lowered (P7). */
const ASSIGN: {
  readonly [K in keyof Required<CursorChange>]: (value: NonNullable<CursorChange[K]> | null) => Assignment[]
} = {
  cursor: (at) => [
    ['cursor_block = ?', at?.number ?? null],
    ['cursor_hash = ?', at && blob(at.hash)],
  ],
  epoch: (epoch) => [['epoch = ?', epoch]],
  settled: (block) => [['settled = ?', block]],
  finalized: (block) => [['finalized = ?', block]],
  lowWater: (block) => [['low_water = GREATEST(COALESCE(low_water, -1), ?)', block]],
  lowWaterAt: (at) => [['low_water_at = ?', at]],
  state: (state) => [['state = ?', state]],
  reason: (reason) => [['reason = ?', reason && encodeValue(reason)]],
  fingerprint: (fingerprint) => [['fingerprint = ?', fingerprint]],
  name: (name) => [['name = ?', name && key(name)]],
  token: (token) => [['token = ?', token]],
  add: (counters) => addCounters(counters ?? {}),
  updatedAt: (at) => [['updated_at = ?', at]],
}

const COUNTERS = ['applied', 'undone', 'duplicates', 'reorgs'] as const

function addCounters(add: Partial<WatcherCounters>): Assignment[] {
  return COUNTERS.filter((name) => add[name] !== undefined).map((name) => [
    `${name} = ${name} + ?`,
    add[name] as number,
  ])
}

function assignments(change: CursorChange): Assignment[] {
  const keys = Object.keys(ASSIGN) as (keyof CursorChange)[]
  return keys.filter((name) => change[name] !== undefined).flatMap((name) => ASSIGN[name](change[name] as never))
}

/** Rows of `watchers`. */
export class MysqlCursors implements CursorPort {
  readonly #session: Session

  constructor(session: Session) {
    this.#session = session
  }

  async create(watcher: NewWatcher, now: number): Promise<WatcherRow> {
    const { name, chainId, fingerprint, startBlock } = watcher
    await this.#session.run(CREATE, key(name), chainId, fingerprint, startBlock, now)
    const row = await this.#session.get(MADE, key(name))
    invariant(row, 'a watcher that was just made must be there')
    return readWatcher(row)
  }

  async list(): Promise<readonly WatcherRow[]> {
    return (await this.#session.all(LIST)).map(readWatcher)
  }

  async find(name: string): Promise<WatcherRow | undefined> {
    const row = await this.#session.get(FIND, key(name))
    return row && readWatcher(row)
  }

  async lock(id: number): Promise<WatcherRow | undefined> {
    const row = await this.#session.get(LOCK, id)
    return row && readWatcher(row)
  }

  async change(id: number, change: CursorChange): Promise<void> {
    const changed = await this.#change(change, 'id = ?', id)
    invariant(changed === 1, 'a change of a cursor must find its row', { id })
  }

  async open(id: number, nonce: Uint8Array): Promise<WatcherRow | undefined> {
    const row = await this.lock(id)
    if (row) invariant((await this.#session.run(WRITE_NONCE, nonce, id)) === 1, 'a locked row must be there', { id })
    return row
  }

  /** Asks the server first whether the transaction is open, where its last answer had rows and does not say it. */
  async close(id: number, nonce: Uint8Array, change: CursorChange): Promise<boolean> {
    // A connection that breaks at this very question is a passing failure, not the handler's.
    if (!(await this.#session.refresh())) throw this.#session.over()
    return (await this.#change(change, 'id = ? AND nonce = ?', id, nonce)) === 1
  }

  async readNonce(id: number): Promise<Uint8Array | null> {
    const row = await this.#session.get(READ_NONCE, id)
    return row ? readBytesOrNull(row, 'nonce') : null
  }

  async genesis(chainId: number): Promise<Hash | null> {
    const row = await this.#session.get(GENESIS, chainId)
    return row ? readHash(row, 'genesis_hash') : null
  }

  async setGenesis(chainId: number, hash: Hash): Promise<void> {
    await this.#session.run(SET_GENESIS, chainId, blob(hash))
  }

  /** The revision always changes, so the count of rows is that of the rows found, however the driver counts. */
  #change(change: CursorChange, where: string, ...which: readonly SqlValue[]): Promise<number> {
    const all = assignments(change)
    const sets = [...all.map(([one]) => one), 'revision = revision + 1'].join(', ')
    const values = all.flatMap(([, ...own]) => own)
    return this.#session.run(`UPDATE {watchers} SET ${sets} WHERE ${where}`, ...values, ...which)
  }
}
