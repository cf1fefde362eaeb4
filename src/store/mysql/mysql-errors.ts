import { type ErrorCode, TidemarkError } from '../../errors.ts'

/** Numbers of the server's errors that are told apart (https://mariadb.com/kb/en/mariadb-error-code-reference/). */
export const ERRNO = {
  DUPLICATE_ENTRY: 1062,
  LOCK_WAIT_TIMEOUT: 1205,
  DEADLOCK: 1213,
  /** MariaDB with `innodb_snapshot_isolation`: the row changed since the snapshot; the transaction is rolled back. */
  RECORD_CHANGED: 1020,
  NO_SUCH_SAVEPOINT: 1305,
  NO_SUCH_THREAD: 1094,
  QUERY_INTERRUPTED: 1317,
  READ_ONLY_TRANSACTION: 1792,
} as const

type Finding = readonly [code: ErrorCode, sentence: string]

const LOST: Finding = ['STORE_FAILED', 'The connection to the database was lost']
const CROWDED: Finding = ['STORE_FAILED', 'The database takes no more connections']
const REFUSED: Finding = ['STORE_FAILED', 'The database refused the user, the password or the database name']
const READ_ONLY: Finding = ['STORE_READ_ONLY', 'The database server takes no writes']
const FULL: Finding = ['STORE_FULL', 'The disk of the database is full']
const TOO_LONG: Finding = ['STORE_BUSY', 'A statement ran longer than its time-out']

/** Failures of the surroundings, which no handler can have caused or can put right. */
const SURROUNDINGS: ReadonlyMap<number, Finding> = new Map<number, Finding>([
  [ERRNO.DEADLOCK, ['STORE_BUSY', 'The database ended the transaction to resolve a deadlock']],
  [ERRNO.RECORD_CHANGED, ['STORE_BUSY', 'A row was changed by another transaction since this one began']],
  [ERRNO.LOCK_WAIT_TIMEOUT, ['STORE_BUSY', 'Another transaction holds a lock for too long']],
  [3572, ['STORE_BUSY', 'Another transaction holds a lock']],
  [1969, TOO_LONG],
  [3024, TOO_LONG],
  [ERRNO.QUERY_INTERRUPTED, ['STORE_BUSY', 'A statement was interrupted from outside']],
  [1290, READ_ONLY],
  [1836, READ_ONLY],
  [1021, FULL],
  [1114, FULL],
  [1040, CROWDED],
  [1203, CROWDED],
  [1226, CROWDED],
  [1044, REFUSED],
  [1045, REFUSED],
  [1049, REFUSED],
  [1698, REFUSED],
  [1053, LOST],
  [1077, LOST],
  [1079, LOST],
  [1080, LOST],
  [1152, LOST],
  [1158, LOST],
  [1159, LOST],
  [1160, LOST],
  [1161, LOST],
  [1184, LOST],
  [1927, LOST],
  [2006, LOST],
  [2013, LOST],
  [4031, LOST],
])

/** What Node and the driver say when there is no server to say anything. */
const NETWORK: ReadonlySet<string> = new Set([
  'PROTOCOL_CONNECTION_LOST',
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'ETIMEDOUT',
  'EPIPE',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOENT',
])

interface DriverError {
  readonly errno?: unknown
  readonly code?: unknown
  readonly sqlState?: unknown
  readonly fatal?: unknown
}

function driverError(error: unknown): DriverError | undefined {
  return error instanceof Error && !TidemarkError.is(error) ? (error as DriverError) : undefined
}

/** The number of the server's error, or undefined when it was not the server that said no. */
export function errnoOf(error: unknown): number | undefined {
  const found = driverError(error)
  return found && typeof found.sqlState === 'string' && typeof found.errno === 'number' ? found.errno : undefined
}

/** Whether nothing more can be said on this connection. */
export function isConnectionLost(error: unknown): boolean {
  const found = driverError(error)
  if (!found) return false
  const errno = errnoOf(error)
  if (errno !== undefined) return SURROUNDINGS.get(errno) === LOST
  return found.fatal === true || (typeof found.code === 'string' && NETWORK.has(found.code))
}

/** A constraint, or a value that a column does not take: permanent, and of whoever wrote the row. SQLSTATE 22 and 23. */
export function isConstraint(error: unknown): boolean {
  const state = driverError(error)?.sqlState
  return typeof state === 'string' && (state.startsWith('23') || state.startsWith('22'))
}

/** A failure of the server, the network or a lock, as its own code; undefined for the statement's own failure. */
export function surroundingsError(error: unknown): TidemarkError | undefined {
  if (isConnectionLost(error)) return make(LOST, error)
  const errno = errnoOf(error)
  const finding = errno === undefined ? undefined : SURROUNDINGS.get(errno)
  return finding && make(finding, error)
}

function make([code, sentence]: Finding, cause: unknown): TidemarkError {
  const errno = errnoOf(cause)
  return new TidemarkError(code, sentence, { values: errno === undefined ? {} : { mysql: errno }, cause: bare(cause) })
}

/** The driver hangs the whole statement with its values on its errors: that is not passed on (P12). */
function bare(error: unknown): unknown {
  if (error instanceof Error && 'sql' in error) delete error.sql
  return error
}

/** Any error met at one of Tidemark's own statements, by number. What is not the driver's comes back unchanged. */
export function storeError(error: unknown): unknown {
  const known = surroundingsError(error)
  if (known) return known
  const errno = errnoOf(error)
  if (errno === undefined) return error
  if (errno === ERRNO.READ_ONLY_TRANSACTION) return make(READ_ONLY, error)
  return make(['STORE_FAILED', 'The database refused a statement'], error)
}

/**
 * Errors after which a COMMIT has certainly not happened: the server rolled back, or refused the statement and the
 * transaction is still open. After any other error only the database can tell.
 */
const NOT_COMMITTED: ReadonlySet<number> = new Set([ERRNO.DEADLOCK, ERRNO.RECORD_CHANGED, 1290, 1836])

/** The error of a COMMIT. @returns `COMMIT_UNKNOWN` unless the server said clearly that nothing was committed */
export function commitError(error: unknown): unknown {
  const errno = errnoOf(error)
  if (errno !== undefined && NOT_COMMITTED.has(errno)) return storeError(error)
  return new TidemarkError('COMMIT_UNKNOWN', 'The answer to COMMIT was lost, or was an error', { cause: bare(error) })
}
