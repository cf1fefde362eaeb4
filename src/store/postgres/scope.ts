import type { World } from '../../util/world.ts'
import type { DbScope, ScopeRules } from '../store.ts'
import type { PgClientLike, PgQueryConfig, PgResult, PgRow, PgTypes } from './driver.ts'
import type { Executor } from './executors.ts'
import { Guard } from './guard.ts'
import type { Session } from './session.ts'
import { OWN_TYPES } from './values.ts'

/** A statement as an object: the fields of a `pg` query that a handler may use. */
export interface PgStatement {
  readonly text: string
  readonly values?: readonly unknown[] | undefined
  /** Prepares it under this name on the connection. */
  readonly name?: string | undefined
  readonly rowMode?: 'array' | undefined
  readonly types?: PgTypes | undefined
}

export type PgCallback<Row> = (error: Error | undefined, result?: PgResult<Row>) => void

/** What can be asked of a connection: the guarded `db`, and the driver's own clients, have it. */
export interface PgConnection {
  query<Row = PgRow>(statement: string | PgStatement, values?: readonly unknown[]): Promise<PgResult<Row>>
}

/** The driver's own client, with what streams in and out of it: COPY, cursors. */
export interface PgRaw extends PgClientLike {
  query(config: PgQueryConfig): Promise<PgResult>
  query(text: string, values?: unknown[]): Promise<PgResult>
  query<Stream extends { submit(connection: never): void }>(stream: Stream): Stream
}

/** What query builders ask of a client: the shape that Kysely gives it. Cursors are refused all the same. */
export interface PgBuilderClient {
  query<Row>(
    sql: string,
    parameters: readonly unknown[],
  ): Promise<{
    command: 'UPDATE' | 'DELETE' | 'INSERT' | 'SELECT' | 'MERGE' | 'COMMIT' | 'ROLLBACK'
    rowCount: number
    rows: Row[]
  }>
  query<Row>(cursor: PgBuilderCursor<Row>): PgBuilderCursor<Row>
  /** Does nothing: the connection is Tidemark's. */
  release(destroy?: boolean): void
}

export interface PgBuilderCursor<Row> {
  read(rows: number): Promise<Row[]>
  close(): Promise<void>
}

/**
 * What a handler works on: the shape of a `pg` client, inside Tidemark's transaction. Drizzle takes it as its client, and
 * Kysely as its pool (`new PostgresDialect({ pool: db })`).
 *
 * Statements are sent one after the other. Parameters may be whatever `pg` takes, bigint too; a text with a NUL or half a
 * surrogate pair is a RangeError, and so are more than 65,535 parameters.
 *
 * `BEGIN` and `COMMIT` as Drizzle and Kysely send them for a nested transaction become savepoints. Refused are other
 * transaction control, COPY, LISTEN, DISCARD, PREPARE and SET without LOCAL (`TRANSACTION_CONTROL_REFUSED`), streams and
 * cursors (TypeError), and any use after the callback (`SCOPE_DEAD`).
 */
export interface PgDb extends PgConnection {
  query<Row = PgRow>(statement: string | PgStatement, values?: readonly unknown[]): Promise<PgResult<Row>>
  query<Row = PgRow>(statement: string | PgStatement, callback: PgCallback<Row>): void
  query<Row = PgRow>(statement: string | PgStatement, values: readonly unknown[], callback: PgCallback<Row>): void
  /** The driver's own client, unguarded, behind a savepoint: what it does to the transaction is found out afterwards. */
  readonly raw: PgRaw
  /** Itself: query builders that ask a pool for a client get this transaction. */
  connect(): Promise<PgBuilderClient>
  /** Does nothing: the connection is Tidemark's. */
  end(): Promise<void>
}

function refuseStream(statement: unknown): void {
  if (typeof (statement as { submit?: unknown } | null)?.submit !== 'function') return
  throw new TypeError('cursors, query streams and COPY streams need the client itself: use db.raw')
}

function configOf(statement: string | PgStatement, values: readonly unknown[] | undefined): PgQueryConfig {
  refuseStream(statement)
  if (typeof statement === 'string') return { text: statement, ...(values ? { values: [...values] } : {}) }
  if (typeof statement?.text !== 'string') throw new TypeError('query takes a text, or an object with one')
  const { text, name, rowMode, types } = statement
  const all = values ?? statement.values
  return {
    text,
    ...(all ? { values: [...all] } : {}),
    ...(name === undefined ? {} : { name }),
    ...(rowMode === undefined ? {} : { rowMode }),
    ...(types === undefined ? {} : { types }),
  }
}

class GuardedDb {
  readonly #guard: Guard

  constructor(guard: Guard) {
    this.#guard = guard
  }

  /** A table of all handles would be work for the garbage collector at every event. */
  static guardOf(value: object): Guard | undefined {
    return #guard in value ? value.#guard : undefined
  }

  get raw(): PgClientLike {
    return this.#guard.raw
  }

  query(statement: string | PgStatement, second?: unknown, third?: unknown): Promise<PgResult> | undefined {
    const callback = typeof second === 'function' ? second : third
    const values = typeof second === 'function' ? undefined : (second as readonly unknown[] | undefined)
    const answer = this.#guard.query(() => configOf(statement, values))
    if (typeof callback !== 'function') return answer
    answer.then(
      (result) => callback(undefined, result),
      (error: unknown) => callback(error),
    )
    return undefined
  }

  connect(): Promise<this> {
    return Promise.resolve(this)
  }

  release(): void {}

  async end(): Promise<void> {}
}

/** How to reach the transaction behind a handler's `db`, when `db` is one. @throws `SCOPE_DEAD` after its callback */
export function guardedExecutor(db: object): Executor | undefined {
  const guard = GuardedDb.guardOf(db)
  if (!guard) return undefined
  guard.alive()
  return {
    execute: async (text, values) => {
      const { rows, rowCount } = await guard.joined({ text, values, types: OWN_TYPES })
      return { rows, rowCount: rowCount ?? 0 }
    },
    inTransaction: () => guard.inTransaction(),
  }
}

class Scope implements DbScope<PgDb> {
  readonly db: PgDb
  readonly #guard: Guard

  constructor(guard: Guard) {
    this.#guard = guard
    this.db = new GuardedDb(guard) as unknown as PgDb
  }

  savepoint<T>(fn: () => T): T {
    return this.#guard.savepoint(fn) as T
  }

  own<T>(work: () => T): T {
    return this.#guard.own(work) as T
  }

  close(outcome: 'returned' | 'threw'): Promise<void> | undefined {
    return this.#guard.close(outcome)
  }
}

export function openScope(session: Session, world: World, rules: ScopeRules): DbScope<PgDb> {
  return new Scope(new Guard(session, world, rules))
}
