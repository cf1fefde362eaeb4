import { type ErrorCode, TidemarkError } from '../../errors.ts'

/** Primary result codes of SQLite (https://sqlite.org/rescode.html): the low byte of the extended code. */
const PRIMARY = {
  SQLITE_BUSY: 5,
  SQLITE_LOCKED: 6,
  SQLITE_NOMEM: 7,
  SQLITE_READONLY: 8,
  SQLITE_IOERR: 10,
  SQLITE_CORRUPT: 11,
  SQLITE_FULL: 13,
  SQLITE_CANTOPEN: 14,
  SQLITE_CONSTRAINT: 19,
  SQLITE_NOTADB: 26,
} as const

const READONLY_DBMOVED = 8 | (4 << 8)
/** The shared-memory file of the log could not grow: the disk is full, says SQLite's list of codes. */
const IOERR_SHMSIZE = 10 | (19 << 8)

type Finding = readonly [code: ErrorCode, sentence: string]

const EXTENDED: ReadonlyMap<number, Finding> = new Map([
  [READONLY_DBMOVED, ['STORE_FAILED', 'The database file was moved or replaced while it was open'] as const],
  [IOERR_SHMSIZE, ['STORE_FULL', 'The disk is full'] as const],
])

/** Failures of the surroundings, which no handler can have caused or can put right. */
const SURROUNDINGS: ReadonlyMap<number, Finding> = new Map([
  [PRIMARY.SQLITE_BUSY, ['STORE_BUSY', 'Another connection holds the lock of the database'] as const],
  [PRIMARY.SQLITE_NOMEM, ['STORE_FAILED', 'SQLite got no memory'] as const],
  [PRIMARY.SQLITE_READONLY, ['STORE_READ_ONLY', 'The database cannot be written'] as const],
  [PRIMARY.SQLITE_IOERR, ['STORE_FAILED', 'The disk answered with an error'] as const],
  [PRIMARY.SQLITE_CORRUPT, ['STORE_FAILED', 'The database file is damaged'] as const],
  [PRIMARY.SQLITE_FULL, ['STORE_FULL', 'The disk is full'] as const],
  [PRIMARY.SQLITE_CANTOPEN, ['STORE_FAILED', 'The database file cannot be opened'] as const],
  [PRIMARY.SQLITE_NOTADB, ['STORE_FAILED', 'The file is not an SQLite database'] as const],
])

/** better-sqlite3 gives names (`SQLITE_BUSY_SNAPSHOT`); the others give numbers. */
function codeFromName(name: string): number | undefined {
  if (name === 'SQLITE_READONLY_DBMOVED') return READONLY_DBMOVED
  if (name === 'SQLITE_IOERR_SHMSIZE') return IOERR_SHMSIZE
  const known = Object.entries(PRIMARY).find(([primary]) => name === primary || name.startsWith(`${primary}_`))
  return known?.[1] ?? (name.startsWith('SQLITE_') ? 1 : undefined)
}

/** SQLite's extended result code of a driver's error, or undefined when it is no error of SQLite. */
export function resultCode(error: unknown): number | undefined {
  if (typeof error !== 'object' || error === null) return undefined
  const { errcode, code } = error as { errcode?: unknown; code?: unknown }
  if (typeof errcode === 'number') return errcode
  return typeof code === 'string' ? codeFromName(code) : undefined
}

/** A failure of the disk, the file or its lock, as its own code; undefined for the statement's own failure. */
export function surroundingsError(error: unknown): TidemarkError | undefined {
  const code = resultCode(error)
  if (code === undefined) return undefined
  const finding = EXTENDED.get(code) ?? SURROUNDINGS.get(code & 255)
  return finding && new TidemarkError(finding[0], finding[1], { values: { sqlite: code }, cause: error })
}

/**
 * Any error met at one of Tidemark's own statements, classified by SQLite's code, never by its English.
 * Errors that are not SQLite's come back unchanged.
 */
export function storeError(error: unknown): unknown {
  const code = resultCode(error)
  if (code === undefined) return error
  if ((code & 255) === PRIMARY.SQLITE_LOCKED) {
    return new TidemarkError('STORE_BUSY', 'Another statement holds the lock of a table', {
      values: { sqlite: code },
      cause: error,
    })
  }
  const values = { sqlite: code }
  return (
    surroundingsError(error) ??
    new TidemarkError('STORE_FAILED', 'SQLite refused a statement', { values, cause: error })
  )
}

/** A constraint that is checked at COMMIT (DEFERRABLE INITIALLY DEFERRED); none of Tidemark's own tables has one. */
export function isConstraint(error: unknown): boolean {
  const code = resultCode(error)
  return code !== undefined && (code & 255) === PRIMARY.SQLITE_CONSTRAINT
}
