import type { MysqlDb } from './scope.ts'

/** What a statement answers: rows, or how many there were. */
export type KyselyResult = Record<string, unknown>[] | { affectedRows: number; changedRows: number; insertId: number }

/** The part of a connection of `mysql2` that Kysely uses. */
export interface KyselyConnection {
  query(sql: string, parameters: unknown[]): { stream(): never }
  query(sql: string, parameters: unknown[], callback: (error: unknown, result: KyselyResult) => void): void
  release(): void
}

/** The part of a pool of `mysql2` that Kysely's `MysqlDialect` uses. */
export interface KyselyPool {
  getConnection(callback: (error: unknown, connection: KyselyConnection) => void): void
  end(callback: (error: unknown) => void): void
}

type Done = (error: unknown, result?: KyselyResult) => void

/**
 * A handler's `db` as the pool that Kysely asks for. Its transactions become savepoints; rows cannot be streamed.
 *
 * @example
 * const kysely = new Kysely<Tables>({ dialect: new MysqlDialect({ pool: kyselyPool(db) }) })
 */
export function kyselyPool(db: MysqlDb): KyselyPool {
  const query = (sql: string, parameters: unknown[], done?: Done) => {
    if (!done) return { stream: refuseStream }
    db.query(sql, parameters).then(
      ([result]) => done(null, result as unknown as KyselyResult),
      (error) => done(error),
    )
    return undefined
  }
  const connection = { query, release: () => {} } as KyselyConnection
  return { getConnection: (callback) => callback(null, connection), end: (callback) => callback(null) }
}

function refuseStream(): never {
  throw new TypeError('rows cannot be streamed inside a handler')
}
