import { type ErrorCode, TidemarkError } from '../../errors.ts'

/** The connection is gone, or the server did not answer in time: whatever was sent last may or may not have happened. */
export class LostConnection extends Error {
  override readonly name = 'LostConnection'

  constructor(cause: unknown) {
    super('the connection to the database was lost', { cause })
  }
}

const SQLSTATE = /^[0-9A-Z]{5}$/
/** Codes of Node for a socket or a name that could not be reached. */
const ERRNO =
  /^(E(CONN(REFUSED|RESET|ABORTED)|PIPE|TIMEDOUT|NOTFOUND|AI_AGAIN|HOST(UNREACH|DOWN)|NET(UNREACH|DOWN)|NOENT|ACCES)|ENOTFOUND|ENOENT|EACCES)$/

/** Codes of Prisma, which look alike: PostgreSQL's own class P0 has no digit but 0 there. */
const PRISMA = /^P[1-9]\d{3}$/

function codeOf(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null) return undefined
  const { code } = error as { code?: unknown }
  return typeof code === 'string' ? code : undefined
}

/** PostgreSQL's code of an error, also behind the errors that Drizzle, Kysely and Prisma wrap around it. */
export function sqlState(error: unknown, depth = 0): string | undefined {
  const code = codeOf(error)
  if (code !== undefined && SQLSTATE.test(code) && !ERRNO.test(code) && !PRISMA.test(code)) return code
  if (depth > 4 || typeof error !== 'object' || error === null) return undefined
  const { cause, meta, driverAdapterError, originalCode } = error as Record<string, unknown>
  if (typeof originalCode === 'string' && SQLSTATE.test(originalCode)) return originalCode
  // Prisma answers P2010 and puts the server's code into `meta`, with a driver adapter some levels deeper.
  for (const inner of [meta, driverAdapterError, cause]) {
    const found = sqlState(inner, depth + 1)
    if (found !== undefined) return found
  }
  return undefined
}

/** Whether the connection, not a statement, failed. */
export function isLost(error: unknown): boolean {
  const code = codeOf(error)
  return error instanceof LostConnection || (code !== undefined && ERRNO.test(code))
}

type Finding = readonly [code: ErrorCode, sentence: string]

const SESSION_ENDED: Finding = ['STORE_FAILED', 'The server ended the session']

/** Failures of the surroundings, which no statement can have caused (https://www.postgresql.org/docs/current/errcodes-appendix.html). */
const SURROUNDINGS: ReadonlyMap<string, Finding> = new Map([
  ['40001', ['STORE_BUSY', 'The transaction met another one (serialization failure)'] as const],
  ['40P01', ['STORE_BUSY', 'The transaction met another one (deadlock)'] as const],
  ['55P03', ['STORE_BUSY', 'A lock was not free in time'] as const],
  ['57014', ['STORE_BUSY', 'A statement ran out of time, or was cancelled'] as const],
  ['53100', ['STORE_FULL', 'The disk of the database is full'] as const],
  ['53200', ['STORE_FAILED', 'The server got no memory'] as const],
  ['53300', ['STORE_FAILED', 'The server takes no more connections'] as const],
  ['53400', ['STORE_FAILED', 'A limit of the server is reached'] as const],
  ['25006', ['STORE_READ_ONLY', 'The database cannot be written'] as const],
  ['25P03', ['STORE_FAILED', 'The server ended a session that was idle in a transaction'] as const],
  ['25P04', ['STORE_FAILED', 'The server ended a transaction that was too long'] as const],
  ['57P01', SESSION_ENDED],
  ['57P02', SESSION_ENDED],
  ['57P03', ['STORE_FAILED', 'The server starts or stops'] as const],
  ['57P04', SESSION_ENDED],
  ['57P05', SESSION_ENDED],
  ['XX001', ['STORE_FAILED', 'The database is damaged'] as const],
  ['XX002', ['STORE_FAILED', 'An index of the database is damaged'] as const],
])

function findingOf(state: string): Finding | undefined {
  const known = SURROUNDINGS.get(state)
  if (known) return known
  if (state.startsWith('08')) return ['STORE_FAILED', 'The connection to the database failed']
  return state.startsWith('58') ? ['STORE_FAILED', 'The server met an error of its system'] : undefined
}

/** A failure of the server, the connection or of locks, as its own code; undefined for the statement's own failure. */
export function surroundingsError(error: unknown): TidemarkError | undefined {
  const state = sqlState(error)
  const finding: Finding | undefined =
    state !== undefined
      ? findingOf(state)
      : isLost(error)
        ? ['STORE_FAILED', 'The database cannot be reached, or does not answer']
        : undefined
  return finding && new TidemarkError(finding[0], finding[1], { values: { sqlstate: state }, cause: error })
}

/**
 * Any error met at one of Tidemark's own statements, classified by SQLSTATE or errno, never by its English. Errors that
 * are not the database's come back unchanged.
 */
export function storeError(error: unknown): unknown {
  if (TidemarkError.is(error)) return error
  const state = sqlState(error)
  const surroundings = surroundingsError(error)
  if (surroundings || state === undefined) return surroundings ?? error
  const values = { sqlstate: state }
  if (state === '25P02' || state === '25P01') {
    const sentence = 'The transaction was aborted or over before Tidemark was done with it'
    return new TidemarkError('TRANSACTION_LOST', sentence, { values, cause: error })
  }
  return new TidemarkError('STORE_FAILED', 'The database refused a statement', { values, cause: error })
}

export function isConstraint(error: unknown): boolean {
  return sqlState(error)?.startsWith('23') ?? false
}

/**
 * Classes of errors that can come from COMMIT only before the commit record is written: the server rolled back and says
 * so. Everything else (a lost connection, a server that stops, 40003) leaves it open.
 */
const ROLLED_BACK = /^(22|23|25|2D|40|42|44|54|55|P0)/

/** Whether an error of COMMIT says for sure that nothing was committed. */
export function saysRolledBack(error: unknown): boolean {
  const state = sqlState(error)
  return state !== undefined && state !== '40003' && !isLost(error) && ROLLED_BACK.test(state)
}
