import { existsSync, realpathSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { TidemarkError } from '../../errors.ts'
import type { World } from '../../util/world.ts'
import { Connection } from './connection.ts'
import { openDefault, type SqliteDatabaseLike, type SqliteDriverDatabase } from './driver.ts'
import { storeError } from './sqlite-errors.ts'

export const MEMORY = ':memory:'

/** Where the database is and how it is opened: the options with their defaults filled in. */
export interface Place {
  /** Absolute path, or `:memory:`. */
  readonly file: string
  readonly open: (file: string) => SqliteDriverDatabase
  readonly busyTimeoutMs: number
  readonly world: World
}

/** @throws {TidemarkError} `STORE_URL_UNDEFINED`: a forgotten variable must not become a new, empty database */
export function placeOf(options: {
  file: string | undefined
  open?: ((file: string) => SqliteDriverDatabase) | undefined
  busyTimeoutMs?: number | undefined
  world: World
}): Place {
  const { file, world } = options
  if (typeof file !== 'string' || file.trim() === '') {
    throw new TidemarkError('STORE_URL_UNDEFINED', 'The SQLite store was given no file', {
      values: { expected: 'a path or :memory:' },
    })
  }
  const path = file === MEMORY ? file : resolve(file.startsWith('file://') ? fileURLToPath(file) : file)
  return { file: path, open: options.open ?? openDefault, busyTimeoutMs: options.busyTimeoutMs ?? 5000, world }
}

export function fileExists(place: Place): boolean {
  return place.file !== MEMORY && existsSync(place.file)
}

/** One spelling for one file, whatever links lead to it. The file must exist. */
export function canonicalFile(place: Place): string {
  return realpathSync(place.file)
}

type Setting = readonly [pragma: string, wanted: number | string]

/**
 * What makes a commit survive a power cut, and what keeps foreign keys and triggers honest. Read back after they are
 * set: SQLite ignores a setting that it cannot take.
 *
 * `synchronous = FULL` (2): with NORMAL a power cut may take the last commits of a WAL database.
 * `wal_autocheckpoint` 10,000 pages (40 MB): random keys were written at 90,000 rows a second instead of 68,000 with the
 * default of 1,000, since a page changed by many commits is copied into the file once.
 * `journal_size_limit`: the log file shrinks back to 64 MB after a long transaction (P6).
 */
function settings(place: Place): readonly Setting[] {
  return [
    ['synchronous', 2],
    ['foreign_keys', 1],
    ['recursive_triggers', 1],
    ['wal_autocheckpoint', 10_000],
    ['journal_size_limit', 67_108_864],
    ['busy_timeout', place.busyTimeoutMs],
  ]
}

function readSetting(database: SqliteDatabaseLike, pragma: string): unknown {
  return Object.values(database.prepare(`PRAGMA ${pragma}`).get() ?? {})[0]
}

function checkSetting(database: SqliteDatabaseLike, pragma: string, wanted: number | string): void {
  const found = readSetting(database, pragma)
  if (found === wanted) return
  throw new TidemarkError('STORE_FAILED', `SQLite did not take the setting ${pragma}`, { values: { wanted, found } })
}

/** WAL is a property of the file; switching needs the file alone, so it is only asked for when it is not on yet. */
function useWriteAheadLog(database: SqliteDatabaseLike, place: Place): void {
  const wanted = place.file === MEMORY ? 'memory' : 'wal'
  if (readSetting(database, 'journal_mode') !== wanted) database.prepare('PRAGMA journal_mode = WAL').get()
  checkSetting(database, 'journal_mode', wanted)
}

function applySettings(database: SqliteDatabaseLike, place: Place): void {
  // First of all: the statements after it may have to wait.
  database.exec(`PRAGMA busy_timeout = ${place.busyTimeoutMs}`)
  useWriteAheadLog(database, place)
  for (const [pragma, value] of settings(place)) {
    database.exec(`PRAGMA ${pragma} = ${value}`)
    checkSetting(database, pragma, value)
  }
}

function checkFolder(place: Place): void {
  if (place.file === MEMORY || existsSync(dirname(place.file))) return
  throw new TidemarkError('STORE_FAILED', 'The folder of the database file does not exist', {
    values: { folder: dirname(place.file) },
  })
}

/**
 * Opens the database and sets it up. Makes the file when it is missing, never a folder.
 * @throws {TidemarkError} `STORE_FAILED`, `STORE_READ_ONLY`, `STORE_BUSY`
 */
export function openConnection(place: Place): Connection {
  checkFolder(place)
  let connection: Connection | undefined
  try {
    connection = new Connection(place.open(place.file), place.world)
    applySettings(connection.database, place)
    return connection
  } catch (error) {
    connection?.close()
    throw storeError(error)
  }
}
