import type { Pool as CallbackPool } from 'mysql2'
import { createPool, type Pool, type PoolConnection, type QueryOptions } from 'mysql2/promise'

/** A pool of the user's: of `mysql2/promise`, or the callback one of `mysql2`. */
export type MysqlPool = Pool | CallbackPool

/** A connection of `mysql2/promise`, as far as it is used here. */
export type Client = Pick<PoolConnection, 'query' | 'execute' | 'release' | 'destroy' | 'threadId'>

/** What the driver answers to a statement without rows. */
export interface OkPacket {
  readonly affectedRows: number
  readonly serverStatus: number
}

/** Bits of the server's status (https://mariadb.com/kb/en/ok_packet/#server-status-flag). */
const IN_TRANSACTION = 1
const AUTOCOMMIT = 2

/** Whether the server says that a transaction is open. */
export function saysInTransaction(status: number): boolean {
  return (status & IN_TRANSACTION) !== 0
}

/** Whether each statement outside a transaction would commit by itself. */
export function saysAutocommit(status: number): boolean {
  return (status & AUTOCOMMIT) !== 0
}

export function isOkPacket(value: unknown): value is OkPacket {
  return typeof value === 'object' && value !== null && typeof (value as OkPacket).serverStatus === 'number'
}

/**
 * Options of each of Tidemark's own statements: the answer must not depend on how the user's pool is set up. Every value
 * arrives as bytes, or null, and is read by `values.ts`.
 */
export function ownStatement(sql: string): QueryOptions {
  return { sql, rowsAsArray: false, nestTables: false, namedPlaceholders: false, typeCast: (field) => field.buffer() }
}

export function asPromisePool(pool: MysqlPool): Pool {
  const callback = pool as CallbackPool
  return typeof callback.promise === 'function' ? callback.promise() : (pool as Pool)
}

/** Connections of a store that was given a URL. */
const CONNECTIONS = 10

/**
 * A pool of the store's own. Integers beyond 2^53 come as text and never rounded; dates are UTC, as the session is; a
 * `LOAD DATA LOCAL` that a server might ask for is not offered.
 */
export function openPool(url: string, connections = CONNECTIONS): Pool {
  return createPool({
    uri: url,
    connectionLimit: connections,
    supportBigNumbers: true,
    timezone: 'Z',
    flags: ['-LOCAL_FILES'],
    enableKeepAlive: true,
    connectAttributes: { program_name: 'tidemark' },
  })
}
