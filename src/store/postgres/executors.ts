import { TidemarkError } from '../../errors.ts'
import type { PgClientLike, PgRow } from './driver.ts'
import { sqlState } from './pg-errors.ts'
import type { Place } from './place.ts'
import type { Session } from './session.ts'
import { OWN_TYPES } from './values.ts'

/** How statements reach an open transaction, whoever opened it. */
export interface Executor {
  execute(text: string, values: unknown[]): Promise<{ readonly rows: readonly PgRow[]; readonly rowCount: number }>
  /** The driver's word where it gives one; else whether nothing is known against it. */
  inTransaction(): boolean
}

/** An open transaction of Drizzle (node-postgres, postgres.js, PGlite), found by the client that its session holds. */
export interface DrizzleTransactionLike {
  readonly session: { readonly client: unknown }
}

/** An open transaction of Kysely. */
export interface KyselyTransactionLike {
  readonly isTransaction: true
  withoutPlugins(): { executeQuery(query: never): Promise<{ rows: unknown[]; numAffectedRows?: bigint }> }
}

/** An interactive transaction of Prisma. */
export interface PrismaTransactionLike {
  $queryRawUnsafe(text: string, ...values: never[]): PromiseLike<unknown>
  $executeRawUnsafe(text: string, ...values: never[]): PromiseLike<number>
}

/** Time after the server's own time-out at which an answer is no longer waited for, in ms. */
const GRACE_MS = 5_000

/** Names of prepared statements: the same text has the same name on every connection. */
const names = new Map<string, string>()

function nameOf(text: string): string {
  const known = names.get(text)
  if (known) return known
  const name = `tidemark_${names.size + 1}`
  names.set(text, name)
  return name
}

/** Tidemark's own transaction. */
export function sessionExecutor(session: Session, place: Place): Executor {
  const query_timeout = place.statementTimeoutMs + GRACE_MS
  return {
    execute: async (text, values) => {
      const named = place.prepared && values.length > 0 ? { name: nameOf(text) } : {}
      const { rows, rowCount } = await session.run({ text, values, types: OWN_TYPES, query_timeout, ...named })
      return { rows, rowCount: rowCount ?? 0 }
    },
    // Of a connection that is lost, the last word stands: the next statement says that it is lost.
    inTransaction: () => session.status !== 'I',
  }
}

/** Whether `code` says that no transaction is open where one must be. */
function saysNone(error: unknown): boolean {
  return sqlState(error) === '25P01'
}

/**
 * The caller's transaction, by any client: nothing may be written before it is known to be open, since a statement outside
 * one would commit by itself. SAVEPOINT tells: outside a transaction it fails with 25P01.
 */
class JoinedExecutor implements Executor {
  readonly #send: Executor['execute']
  readonly #status: (() => string | null) | undefined
  #known = false
  #gone = false

  constructor(send: Executor['execute'], status?: () => string | null) {
    this.#send = send
    this.#status = status
  }

  async execute(text: string, values: unknown[]) {
    if (!this.#known && !text.startsWith('SAVEPOINT ')) await this.#check()
    try {
      const answer = await this.#send(text, values)
      this.#known = true
      return answer
    } catch (error) {
      if (!saysNone(error)) throw error
      this.#gone = this.#known
      throw this.#known ? error : none(error)
    }
  }

  inTransaction(): boolean {
    const status = this.#status?.()
    return status ? status !== 'I' : !this.#gone
  }

  async #check(): Promise<void> {
    try {
      await this.#send('SAVEPOINT tidemark_check', [])
      await this.#send('RELEASE tidemark_check', [])
    } catch (error) {
      throw saysNone(error) ? none(error) : error
    }
    this.#known = true
  }
}

function none(cause?: unknown): TidemarkError {
  return new TidemarkError('NOT_IN_TRANSACTION', 'The client that was passed in has no open transaction', { cause })
}

const has = (value: object, name: string): boolean => typeof (value as Record<string, unknown>)[name] === 'function'

const isObject = (value: unknown): value is object =>
  (typeof value === 'object' || typeof value === 'function') && value !== null

function answerOf(answer: unknown) {
  const { rows = answer, rowCount, count, affectedRows } = answer as Record<string, unknown>
  const list = Array.isArray(rows) ? (rows as PgRow[]) : []
  return { rows: list, rowCount: Number(rowCount ?? count ?? affectedRows ?? list.length) }
}

function pgExecutor(client: PgClientLike): Executor {
  const status = has(client, 'getTransactionStatus') ? () => client.getTransactionStatus?.() ?? null : undefined
  return new JoinedExecutor(
    async (text, values) => answerOf(await client.query({ text, values, types: OWN_TYPES })),
    status,
  )
}

/** postgres.js, and PGlite, as Drizzle carries them: a text and its values. */
function textExecutor(client: object, verb: 'unsafe' | 'query'): Executor {
  const call = (client as Record<string, (text: string, values: unknown[]) => Promise<unknown>>)[verb]
  return new JoinedExecutor(async (text, values) => answerOf(await call?.call(client, text, values)))
}

/** A compiled query as Kysely's executors take it: `CompiledQuery.raw` without loading Kysely. */
function rawQuery(sql: string, parameters: unknown[]): never {
  const query = { kind: 'RawNode', sqlFragments: [sql], parameters: [] }
  return { sql, parameters, query, queryId: { queryId: 'tidemark' } } as never
}

/** Without plugins: one that renames columns would rename Tidemark's. */
function kyselyExecutor(transaction: KyselyTransactionLike): Executor {
  const plain = transaction.withoutPlugins()
  return new JoinedExecutor(async (text, values) => {
    const { rows, numAffectedRows } = await plain.executeQuery(rawQuery(text, values))
    return { rows: rows as PgRow[], rowCount: Number(numAffectedRows ?? rows.length) }
  })
}

const ANSWERS_ROWS = /^\s*(SELECT|WITH)\b|\bRETURNING\b/

function prismaExecutor(transaction: PrismaTransactionLike): Executor {
  return new JoinedExecutor(async (text, values) => {
    if (!ANSWERS_ROWS.test(text)) {
      return { rows: [], rowCount: Number(await transaction.$executeRawUnsafe(text, ...(values as never[]))) }
    }
    return answerOf(await transaction.$queryRawUnsafe(text, ...(values as never[])))
  })
}

function refused(): TidemarkError {
  return new TidemarkError('NOT_IN_TRANSACTION', 'What was passed in is no transaction that is known', {
    values: { expected: 'a pg client with an open transaction, or a transaction of Drizzle, Kysely or Prisma' },
  })
}

/** Two statements of a pool may run on two connections, so a pool cannot hold a transaction. */
function isPool(value: object): boolean {
  return has(value, 'connect') && 'totalCount' in value
}

/**
 * How to reach the caller's open transaction, by the shape of what was passed in.
 * @param guarded looks whether it is the `db` of a handler
 * @throws {TidemarkError} `NOT_IN_TRANSACTION`
 */
export function executorOf(db: unknown, guarded: (db: object) => Executor | undefined): Executor {
  if (!isObject(db) || isPool(db)) throw refused()
  const own = guarded(db)
  if (own) return own
  if (has(db, '$queryRawUnsafe')) return prismaExecutor(db as PrismaTransactionLike)
  if (has(db, 'withoutPlugins')) {
    if ((db as KyselyTransactionLike).isTransaction !== true) throw none()
    return kyselyExecutor(db as KyselyTransactionLike)
  }
  const { session } = db as Partial<DrizzleTransactionLike>
  if (isObject(session)) return executorOf(session.client, guarded)
  return clientExecutor(db)
}

function clientExecutor(db: object): Executor {
  if (has(db, 'unsafe')) return textExecutor(db, 'unsafe')
  if (!has(db, 'query')) throw refused()
  if (!has(db, 'getTransactionStatus')) return textExecutor(db, 'query')
  const client = db as PgClientLike
  if (client.getTransactionStatus?.() === 'I') throw none()
  return pgExecutor(client)
}
