import { TidemarkError } from '../../errors.ts'
import { realWorld, type World } from '../../util/world.ts'
import { makePool, type PgPoolLike } from './driver.ts'

/** Isolation of Tidemark's own transactions. Each is safe; above READ COMMITTED more of them meet and are tried again. */
export type PgIsolation = 'read committed' | 'repeatable read' | 'serializable'

export interface PostgresOptions {
  /** Connection string; the store makes a pool of its own. Undefined and '' are refused: `STORE_URL_UNDEFINED`. */
  readonly url?: string | undefined
  /** A `pg` pool of your own, instead of `url`: used as it is and never closed. It needs at least 4 connections. */
  readonly pool?: PgPoolLike
  /** Where Tidemark's own tables live. Two environments in one database need two. Default 'tidemark'. */
  readonly schema?: string
  /** How long a process that died elsewhere keeps its watchers, in ms; 1,000 to 3,600,000. Default 10,000. */
  readonly leaseMs?: number
  /** Default 'read committed'. */
  readonly isolation?: PgIsolation
  /** A statement that runs longer is cancelled by the server, in ms. At most `leaseMs`, which is the default. */
  readonly statementTimeoutMs?: number
  /** How long a statement waits for a lock, in ms. At most `leaseMs`; default half of it. */
  readonly lockTimeoutMs?: number
  /**
   * The longest transaction of the application that marks events, in ms: forgetting waits so long before it deletes. It is
   * a second fence: a transaction that is older than the forgetting is refused at each isolation level. Default 30,000.
   */
  readonly longestTransactionMs?: number
  /** Connections of the pool that `url` makes; at least 4. Default 10. */
  readonly maxConnections?: number
  /** How long to wait for a connection, in ms. Default 10,000. */
  readonly connectTimeoutMs?: number
  /** Name of the program in the server's list of sessions; for `url`. Default 'tidemark'. */
  readonly applicationName?: string
  /** Prepare Tidemark's own statements by name. Not through a transaction pooler that cannot follow them. Default false. */
  readonly preparedStatements?: boolean
  /** Clock and randomness, for tests. */
  readonly world?: World
}

/** The options with their defaults filled in, and the texts of statements for the schema. */
export interface Place {
  readonly schema: string
  readonly leaseMs: number
  readonly isolation: PgIsolation
  readonly statementTimeoutMs: number
  readonly lockTimeoutMs: number
  readonly longestTransactionMs: number
  readonly connectTimeoutMs: number
  readonly prepared: boolean
  readonly world: World
  /** The pool is made at the first use. */
  readonly pool: () => Promise<PgPoolLike>
  readonly ownsPool: boolean
  /** Statements are written for the schema `tidemark`; this puts in the one of the options. */
  readonly sql: (text: string) => string
  /** Managed tables with their schema, by name: a few dozen at most. */
  readonly managed: Map<string, string>
}

/** One for a transaction, one for renewals, two for taking a watcher over from a holder that blocks. */
const LEAST_CONNECTIONS = 4
const SCHEMA = /^[a-z_][a-z0-9_]{0,62}$/
const ISOLATIONS: readonly PgIsolation[] = ['read committed', 'repeatable read', 'serializable']

function refuse(option: string, expected: string): never {
  throw new TidemarkError('CONFIG_INVALID', `postgres() cannot use the option ${option}`, {
    values: { option, expected },
  })
}

function whole(option: string, value: number | undefined, standard: number, least: number, most: number): number {
  const given = value ?? standard
  if (Number.isSafeInteger(given) && given >= least && given <= most) return given
  return refuse(option, `a whole number from ${least} to ${most}`)
}

function schemaOf(schema = 'tidemark'): string {
  if (SCHEMA.test(schema) && !schema.startsWith('pg_')) return schema
  return refuse('schema', 'lower-case letters, digits and underscores, at most 63, not beginning with pg_')
}

function isolationOf(isolation: PgIsolation = 'read committed'): PgIsolation {
  return ISOLATIONS.includes(isolation) ? isolation : refuse('isolation', ISOLATIONS.join(' | '))
}

/** Statement texts for one schema, made once each: they are a fixed set, and three for each managed table. */
function sqlFor(schema: string): (text: string) => string {
  if (schema === 'tidemark') return (text) => text
  const texts = new Map<string, string>()
  return (text) => {
    const known = texts.get(text)
    if (known !== undefined) return known
    const made = text.replaceAll(/\btidemark\./g, `${schema}.`).replaceAll('SCHEMA tidemark;', `SCHEMA ${schema};`)
    texts.set(text, made)
    return made
  }
}

function poolOf(options: PostgresOptions): () => Promise<PgPoolLike> {
  const { pool, url } = options
  if (pool) {
    const { max } = pool.options ?? {}
    if (max !== undefined && max < LEAST_CONNECTIONS) refuse('pool', `a pool with max of at least ${LEAST_CONNECTIONS}`)
    return async () => pool
  }
  if (typeof url !== 'string' || url.trim() === '') {
    throw new TidemarkError('STORE_URL_UNDEFINED', 'The PostgreSQL store was given no url', {
      values: { expected: 'a connection string, or a pool' },
    })
  }
  return ownPool(url, options)
}

function ownPool(url: string, options: PostgresOptions): () => Promise<PgPoolLike> {
  const max = whole('maxConnections', options.maxConnections, 10, LEAST_CONNECTIONS, 10_000)
  const connectTimeoutMs = connectTimeout(options)
  const { applicationName = 'tidemark' } = options
  let made: Promise<PgPoolLike> | undefined
  return () => {
    made ??= makePool({ url, max, applicationName, connectTimeoutMs })
    return made
  }
}

function connectTimeout(options: PostgresOptions): number {
  return whole('connectTimeoutMs', options.connectTimeoutMs, 10_000, 1, 600_000)
}

/** @throws {TidemarkError} `STORE_URL_UNDEFINED`, `CONFIG_INVALID` */
export function placeOf(options: PostgresOptions): Place {
  const schema = schemaOf(options.schema)
  const leaseMs = whole('leaseMs', options.leaseMs, 10_000, 1_000, 3_600_000)
  const half = Math.floor(leaseMs / 2)
  return {
    schema,
    leaseMs,
    isolation: isolationOf(options.isolation),
    statementTimeoutMs: whole('statementTimeoutMs', options.statementTimeoutMs, leaseMs, 1, leaseMs),
    lockTimeoutMs: whole('lockTimeoutMs', options.lockTimeoutMs, half, 1, leaseMs),
    longestTransactionMs: whole('longestTransactionMs', options.longestTransactionMs, 30_000, 0, 604_800_000),
    connectTimeoutMs: connectTimeout(options),
    prepared: options.preparedStatements ?? false,
    world: options.world ?? realWorld,
    pool: poolOf(options),
    ownsPool: options.pool === undefined,
    sql: sqlFor(schema),
    managed: new Map(),
  }
}
