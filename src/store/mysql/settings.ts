/** How transactions of a store are run, with the defaults filled in. Milliseconds. */
export interface Limits {
  readonly isolation: Isolation
  /** One statement. */
  readonly statementMs: number
  /** Waiting for the lock of another transaction. Whole seconds on the server. */
  readonly lockMs: number
  /** A transaction that waits for its client: the session is ended, and its locks are free. */
  readonly idleMs: number
  /** A whole transaction. */
  readonly transactionMs: number
}

export type Isolation = 'READ COMMITTED' | 'REPEATABLE READ' | 'SERIALIZABLE'

/** MariaDB and MySQL differ in the names of three settings. */
export type Dialect = 'mariadb' | 'mysql'

export function dialectOf(version: string): Dialect {
  return /mariadb/i.test(version) ? 'mariadb' : 'mysql'
}

function seconds(ms: number): number {
  return Math.max(1, Math.floor(ms / 1000))
}

/** Without strict mode a value that is too long is cut, and one out of range bent, with nothing but a warning. */
const STRICT = "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'"

/**
 * What holds inside Tidemark's transactions: the time-outs, and strictness on top of the `sql_mode` that is there.
 *
 * A holder whose process is frozen, or whose network is gone, sends nothing: `idle_transaction_timeout` ends its session.
 * One that stopped in the middle of a statement or an answer is ended by the `net_` time-outs. MySQL has no time-out for
 * idle transactions, so there `wait_timeout` is set, for as long as the transaction lasts.
 */
function settings(dialect: Dialect, limits: Limits): readonly (readonly [name: string, value: string | number])[] {
  const { statementMs, lockMs, idleMs } = limits
  const own: readonly (readonly [string, string | number])[] =
    dialect === 'mariadb'
      ? [
          ['MAX_STATEMENT_TIME', statementMs / 1000],
          ['IDLE_TRANSACTION_TIMEOUT', seconds(idleMs)],
        ]
      : [
          ['MAX_EXECUTION_TIME', statementMs],
          ['WAIT_TIMEOUT', seconds(idleMs)],
        ]
  return [
    ['SQL_MODE', `CONCAT_WS(',', NULLIF(@@SESSION.sql_mode, ''), ${STRICT})`],
    ['INNODB_LOCK_WAIT_TIMEOUT', seconds(lockMs)],
    ['LOCK_WAIT_TIMEOUT', seconds(lockMs)],
    ['NET_READ_TIMEOUT', seconds(idleMs)],
    ['NET_WRITE_TIMEOUT', seconds(idleMs)],
    ...own,
  ]
}

/** Statements for a connection of the store's own pool, run once. */
export function setUp(dialect: Dialect, limits: Limits): readonly string[] {
  const all = settings(dialect, limits).map(([name, value]) => `SESSION ${name} = ${value}`)
  return [
    `SET time_zone = '+00:00', autocommit = 1, ${all.join(', ')}`,
    `SET SESSION TRANSACTION ISOLATION LEVEL ${limits.isolation}`,
  ]
}

/** The first statement inside a transaction on a connection of the user's: keeps what was set, and sets Tidemark's. */
export function borrow(dialect: Dialect, limits: Limits): string {
  const all = settings(dialect, limits)
  // Every right-hand side is worked out before the first setting is changed.
  const kept = all.map(([name]) => `@tidemark_${name} = @@SESSION.${name}`)
  return `SET ${[...kept, ...all.map(([name, value]) => `SESSION ${name} = ${value}`)].join(', ')}`
}

/** The last statement inside it: puts back what was set. */
export function giveBack(dialect: Dialect, limits: Limits): string {
  return `SET ${settings(dialect, limits)
    .map(([name]) => `SESSION ${name} = @tidemark_${name}`)
    .join(', ')}`
}

/** Lease statements must not wait for a COMMIT that a frozen process never sends. */
export const BORROW_AUTOCOMMIT = 'SET @tidemark_autocommit = @@SESSION.autocommit, SESSION autocommit = 1'
export const GIVE_BACK_AUTOCOMMIT = 'SET SESSION autocommit = @tidemark_autocommit'
