import { TidemarkError } from '../../errors.ts'
import { type Client, isOkPacket, ownStatement } from './driver.ts'
import type { Row } from './values.ts'

/** What a statement answered. */
export interface Answer {
  readonly rows: readonly Row[]
  /** Rows that an INSERT, UPDATE or DELETE touched. */
  readonly affected: number
  /** The server's status after it; null where the answer does not carry it. */
  readonly status: number | null
}

/** Runs a whole statement, values included, on one connection. */
export interface Executor {
  execute(sql: string): Promise<Answer>
}

/** On a connection of the driver. */
export function onClient(client: Pick<Client, 'query'>): Executor {
  return {
    execute: async (sql) => {
      const [result] = await client.query(ownStatement(sql))
      if (isOkPacket(result)) return { rows: [], affected: result.affectedRows, status: result.serverStatus }
      return { rows: result as unknown as readonly Row[], affected: 0, status: null }
    },
  }
}

/** `Transaction` of Kysely. */
interface KyselyLike {
  withoutPlugins(): KyselyLike
  executeQuery(query: unknown): Promise<{ readonly rows: readonly Row[]; readonly numAffectedRows?: bigint }>
}

function onKysely(transaction: KyselyLike): Executor {
  // A plugin may rename columns.
  const plain = transaction.withoutPlugins()
  return {
    execute: async (sql) => {
      const query = { kind: 'RawNode', sqlFragments: [sql], parameters: [] }
      const compiled = { sql, query, parameters: [], queryId: { queryId: 'tidemark' } }
      const { rows, numAffectedRows } = await plain.executeQuery(compiled)
      return { rows, affected: Number(numAffectedRows ?? 0), status: null }
    },
  }
}

/** `TransactionClient` of Prisma. */
interface PrismaLike {
  $queryRawUnsafe(sql: string): Promise<unknown>
  $executeRawUnsafe(sql: string): Promise<number>
}

const ANSWERS_ROWS = /^\s*(SELECT|SHOW|WITH)\b/i

function onPrisma(transaction: PrismaLike): Executor {
  return {
    execute: async (sql) => {
      if (!ANSWERS_ROWS.test(sql)) {
        return { rows: [], affected: await transaction.$executeRawUnsafe(sql), status: null }
      }
      return { rows: (await transaction.$queryRawUnsafe(sql)) as readonly Row[], affected: 0, status: null }
    },
  }
}

/** Whether a value is an object with methods of these names. */
function has(value: unknown, ...names: readonly string[]): boolean {
  const object = value as Record<string, unknown> | null
  return typeof object === 'object' && object !== null && names.every((name) => typeof object[name] === 'function')
}

interface Callback {
  promise?(): Client
}

/** A connection of `mysql2/promise`, or the callback one of `mysql2`. A pool is neither: it has no transaction. */
function clientIn(value: unknown): Client | undefined {
  if (!has(value, 'query', 'execute') || has(value, 'getConnection')) return undefined
  const callback = value as Callback
  return typeof callback.promise === 'function' ? callback.promise() : (value as Client)
}

/** The transaction of Drizzle keeps the connection in its session. */
function clientOfDrizzle(value: unknown): Client | undefined {
  const session = (value as { readonly session?: { readonly client?: unknown } } | null)?.session
  return session && clientIn(session.client)
}

/**
 * Runs statements on a transaction that the application opened: on a connection of mysql2, or on the transaction object of
 * Drizzle, Kysely or Prisma, known by its shape.
 * @throws {TidemarkError} `NOT_IN_TRANSACTION` for anything else, a pool among them
 */
export function executorOf(db: object): Executor {
  const client = clientOfDrizzle(db) ?? clientIn(db)
  if (client) return onClient(client)
  if (has(db, 'executeQuery', 'withoutPlugins')) return onKysely(db as KyselyLike)
  if (has(db, '$queryRawUnsafe', '$executeRawUnsafe')) return onPrisma(db as unknown as PrismaLike)
  throw new TidemarkError('NOT_IN_TRANSACTION', 'What was passed in is no connection and no transaction', {
    values: { expected: 'a connection of mysql2, or a transaction of Drizzle, Kysely or Prisma' },
  })
}
