import type { Connection, PoolConnection, QueryOptions } from 'mysql2/promise'
import type { Maybe } from '../../util/op.ts'
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

/** Whether each text in a parameter can be stored, down to some depth. */
function isStorable(value: unknown, depth: number): boolean {
  if (typeof value === 'string') return isStorableText(value)
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value) || depth === 0) return true
  for (const one of Array.isArray(value) ? value : Object.values(value)) if (!isStorable(one, depth - 1)) return false
  return true
}

/** What would be changed without a word, or fail only on the server. @throws {RangeError} */
function checkParameters(sql: string, values: unknown, prepared: boolean): void {
  if (prepared && Array.isArray(values) && values.length > MOST_PARAMETERS) {
    throw new RangeError(`a prepared statement takes at most ${MOST_PARAMETERS} parameters: use query, or several`)
  }
  if (isStorableText(sql) && isStorable(values, 4)) return
  throw new RangeError('a text holds half a surrogate pair, which the driver would replace')
}

/** Not in the driver's types for one statement, but read from it. */
const EXACT = { supportBigNumbers: true } as object

function exactly(sql: string): QueryOptions {
  const whole: QueryOptions & { supportBigNumbers: true } = { sql, supportBigNumbers: true }
  return whole
}

class GuardedDb {
  readonly #guard: Guard
  #transactions: Nested | undefined

  constructor(guard: Guard) {
    this.#guard = guard
  }

  /** The guard of a handler's `db`, when it is one. */
  static guardOf(db: object): Guard | undefined {
    return #guard in db ? db.#guard : undefined
  }

  get #nested(): Nested {
    this.#transactions ??= new Nested(this.#guard)
    return this.#transactions
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
    const whole = typeof text === 'string' ? exactly(text) : { ...text, ...EXACT }
    const { sql } = whole
    const control = controlOf(sql)
    if (control) return this.#nested.run(control)
    const { client } = this.#guard.ground
    const given = values ?? whole.values
    return this.#guard.statement(
      sql,
      () => checkParameters(sql, given, prepared),
      () => (prepared ? client.execute(whole, given as never) : client.query(whole, given as never)),
    )
  }
}

/** The session behind a handler's `db`, when `db` is one. @throws `SCOPE_DEAD` after its callback */
export function sessionOfGuarded(db: object): Session | undefined {
  const guard = GuardedDb.guardOf(db)
  guard?.alive()
  return guard?.ground.session
}

class Scope implements DbScope<MysqlDb> {
  readonly db: MysqlDb
  readonly #guard: Guard
  #savepoints = 0

  constructor(guard: Guard) {
    this.#guard = guard
    // The driver's type has an overload for each shape of row; the guard passes on whatever comes.
    this.db = new GuardedDb(guard) as unknown as MysqlDb
  }

  savepoint<T>(fn: () => T): T {
    // The port's type is that of embedded stores as well; here `T` is a promise.
    return this.#guard.savepoint(`tidemark_user_${++this.#savepoints}`, fn) as unknown as T
  }

  /** Tidemark's own statements go past the guard, straight to the session. */
  own<T>(work: () => T): T {
    return work()
  }

  close(outcome: 'returned' | 'threw'): Maybe<void> {
    return this.#guard.close(outcome)
  }
}

export function openScope(ground: Ground, rules: ScopeRules): DbScope<MysqlDb> {
  return new Scope(new Guard(ground, rules))
}
