import type { Connection, PoolConnection, QueryOptions } from 'mysql2/promise'
import type { DbScope, ScopeRules } from '../store.ts'
import { type Ground, Guard } from './guard.ts'
import { isStorableText } from './literals.ts'
import { Nested } from './nested.ts'
import type { Session } from './session.ts'
import { controlOf } from './statements.ts'

/**
 * What a handler works on: `query` and `execute` of mysql2/promise, inside Tidemark's transaction. Drizzle takes it as its
 * client, Kysely through `kyselyPool`.
 *
 * Integers beyond 2^53 arrive as text, never rounded, however the pool is set up. Amounts of 256 bits go as text
 * (`encodeUint256`): DECIMAL ends at 65 digits.
 *
 * `beginTransaction`, `commit`, `rollback`, and the same words sent as statements, work on a savepoint. Refused with
 * `TRANSACTION_CONTROL_REFUSED` are a COMMIT or ROLLBACK of the whole, DDL other than on temporary tables (it commits),
 * SET other than of user variables, LOCK TABLES, LOAD DATA, PREPARE, compound statements, executable comments, and what
 * else is not known to leave the transaction open. After the callback: `SCOPE_DEAD`.
 *
 * With undo: 'managed' a write is noticed by its first word. Not seen is what a function writes that a SELECT calls.
 */
export interface MysqlDb extends Pick<Connection, 'query' | 'execute' | 'beginTransaction' | 'commit' | 'rollback'> {
  /** The driver's own connection, unguarded: what it does to the transaction is found out only afterwards. */
  readonly raw: PoolConnection
}

/** Parameters of one prepared statement; the protocol counts them with 16 bits. */
const MOST_PARAMETERS = 65_535

function textsIn(value: unknown, depth: number): readonly string[] {
  if (typeof value === 'string') return [value]
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value) || depth === 0) return []
  return Object.values(value).flatMap((one) => textsIn(one, depth - 1))
}

/** What would be changed without a word, or fail only on the server. @throws {RangeError} */
function checkParameters(sql: string, values: unknown, prepared: boolean): void {
  if (prepared && Array.isArray(values) && values.length > MOST_PARAMETERS) {
    throw new RangeError(`a prepared statement takes at most ${MOST_PARAMETERS} parameters: use query, or several`)
  }
  if (isStorableText(sql) && textsIn(values, 4).every(isStorableText)) return
  throw new RangeError('a text holds half a surrogate pair, which the driver would replace')
}

/** Not in the driver's types for one statement, but read from it. */
const EXACT = { supportBigNumbers: true } as object

class GuardedDb {
  readonly #guard: Guard
  readonly #nested: Nested

  constructor(guard: Guard) {
    this.#guard = guard
    this.#nested = new Nested(guard)
  }

  get raw(): Ground['client'] {
    this.#guard.alive()
    this.#guard.watch()
    return this.#guard.ground.client
  }

  query(text: string | QueryOptions, values?: unknown): Promise<unknown> {
    return this.#send(text, values, false)
  }

  execute(text: string | QueryOptions, values?: unknown): Promise<unknown> {
    return this.#send(text, values, true)
  }

  beginTransaction(): Promise<unknown> {
    return this.#nested.run({ verb: 'begin' })
  }

  commit(): Promise<unknown> {
    return this.#nested.run({ verb: 'commit' })
  }

  rollback(): Promise<unknown> {
    return this.#nested.run({ verb: 'rollback' })
  }

  #send(text: string | QueryOptions, values: unknown, prepared: boolean): Promise<unknown> {
    const options = typeof text === 'string' ? { sql: text } : text
    const control = controlOf(options.sql)
    if (control) return this.#nested.run(control)
    const { client } = this.#guard.ground
    const given = values ?? options.values
    const whole: QueryOptions = { ...options, ...EXACT }
    return this.#guard.statement(
      options.sql,
      () => checkParameters(options.sql, given, prepared),
      () => (prepared ? client.execute(whole, given as never) : client.query(whole, given as never)),
    )
  }
}

const guards = new WeakMap<object, Guard>()

/** The session behind a handler's `db`, when `db` is one. @throws `SCOPE_DEAD` after its callback */
export function sessionOfGuarded(db: object): Session | undefined {
  const guard = guards.get(db)
  guard?.alive()
  return guard?.ground.session
}

export function openScope(ground: Ground, rules: ScopeRules): DbScope<MysqlDb> {
  const guard = new Guard(ground, rules)
  // The driver's type has an overload for each shape of row; the guard passes on whatever comes.
  const db = new GuardedDb(guard) as unknown as MysqlDb
  guards.set(db, guard)
  let savepoints = 0
  return {
    db,
    // The port's type is that of embedded stores as well; here `T` is a promise.
    savepoint: <T>(fn: () => T) => guard.savepoint(`tidemark_user_${++savepoints}`, fn) as unknown as T,
    // Tidemark's own statements go past the guard, straight to the session.
    own: (work) => work(),
    close: (outcome) => guard.close(outcome),
  }
}
