import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe } from 'vitest'
import {
  type PgDb,
  type PgPoolLike,
  type PostgresOptions,
  type PostgresStore,
  postgres,
} from '../../src/store/postgres/index.ts'

const URL_VARIABLE = 'TIDEMARK_TEST_POSTGRES'
const STANDARD = 'postgres://postgres@127.0.0.1:5432/postgres'

/** The server of the tests: the one in the environment, else the standard one of this host. */
export const serverUrl = process.env[URL_VARIABLE] || STANDARD

async function answers(): Promise<boolean> {
  const client = new pg.Client({ connectionString: serverUrl, connectionTimeoutMillis: 3_000 })
  try {
    await client.connect()
    await client.end()
    return true
  } catch {
    return false
  }
}

const isThere = await answers()

/** `describe` where a server answers. Elsewhere it says what did not run; in CI it fails. */
export function describePostgres(name: string, tests: () => void, timeoutMs = 30_000): void {
  if (isThere) {
    describe(name, { timeout: timeoutMs }, tests)
    return
  }
  const what = `no PostgreSQL server answers (${URL_VARIABLE}): "${name}" did not run`
  if (process.env.CI) throw new Error(what)
  console.warn(what)
  describe.skip(name, tests)
}

async function onServer(sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: serverUrl })
  await client.connect()
  try {
    await client.query(sql)
  } finally {
    await client.end()
  }
}

export interface TestDatabase {
  readonly url: string
  readonly name: string
  drop(): Promise<void>
}

/** An empty database of its own. `drop` ends whoever is still connected. */
export async function emptyDatabase(): Promise<TestDatabase> {
  const name = `tidemark_test_${randomBytes(6).toString('hex')}`
  await onServer(`CREATE DATABASE ${name} TEMPLATE template0`)
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  return { url: url.href, name, drop: () => onServer(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`) }
}

/**
 * The url of an empty corner of a database: names without a schema are found and made there. Many cases share a database
 * this way, since making one takes longer than most of them.
 */
export async function emptyCorner({ url }: TestDatabase, name: string): Promise<string> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(`CREATE SCHEMA ${name}`)
  } finally {
    await client.end()
  }
  const corner = new URL(url)
  corner.searchParams.set('options', `-c search_path=${name}`)
  return corner.href
}

/** Stores for the contract: they share a database; each has a corner for the handler's tables and a schema of its own. */
export function cornersOfOneDatabase(
  name: string,
  make: (url: string, schema: string) => PostgresStore | Promise<PostgresStore>,
): () => Promise<{ store: PostgresStore; close(): Promise<void> }> {
  let database: TestDatabase
  let cases = 0
  beforeAll(async () => {
    database = await emptyDatabase()
  })
  afterAll(() => database.drop())
  return async () => {
    const corner = `${name}_${++cases}`
    const store = await make(await emptyCorner(database, corner), `tidemark_of_${corner}`)
    return { store, close: () => store.close() }
  }
}

/** What the contract does through a handler's `db`. */
export const numbersProbe = {
  makeTable: (db: PgDb) => db.query('CREATE TABLE numbers (n integer PRIMARY KEY)'),
  insert: (db: PgDb, n: number) => db.query('INSERT INTO numbers (n) VALUES ($1)', [n]),
  numbers: async (db: PgDb) => {
    const { rows } = await db.query<{ n: number }>('SELECT n FROM numbers ORDER BY n')
    return rows.map((row) => row.n)
  },
  commit: (db: PgDb) => db.query('COMMIT'),
}

const WIPE = `
  SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid();
  DO $$ DECLARE found text; BEGIN
    FOR found IN SELECT quote_ident(nspname) FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema$)' LOOP
      EXECUTE 'DROP SCHEMA ' || found || ' CASCADE';
    END LOOP;
    EXECUTE 'ALTER DATABASE ' || quote_ident(current_database()) || ' RESET ALL';
  END $$;
  CREATE SCHEMA public`

/** Empties a database; faster than another one, since dropping it makes the server write everything out. */
async function wipe({ url }: TestDatabase): Promise<void> {
  const client = new pg.Client({ connectionString: url, options: '-c default_transaction_read_only=off' })
  await client.connect()
  try {
    await client.query(WIPE)
  } finally {
    await client.end()
  }
}

/** A database, stores on it and plain clients, all of them gone, or empty again, after each test of the file. */
export function postgresBench() {
  const ends: (() => Promise<unknown>)[] = []
  const idle: TestDatabase[] = []
  const all: TestDatabase[] = []
  afterEach(async () => {
    for (const end of ends.splice(0).reverse()) await end()
  })
  afterAll(async () => {
    // All, also one whose test left it in a state that could not be wiped.
    for (const { drop } of all) await drop()
  })
  const later = (end: () => Promise<unknown>) => ends.push(end)
  const database = async (): Promise<TestDatabase> => {
    const known = idle.pop()
    const made = known ?? (await emptyDatabase())
    if (!known) all.push(made)
    later(async () => {
      await wipe(made)
      idle.push(made)
    })
    return made
  }
  const store = (options: PostgresOptions): PostgresStore => {
    const made = postgres(options)
    later(() => made.close())
    return made
  }
  const client = async (url: string): Promise<pg.Client> => {
    const made = new pg.Client({ connectionString: url })
    // The database is dropped under clients that a test has left behind.
    made.on('error', () => {})
    await made.connect()
    later(() => made.end().catch(() => {}))
    return made
  }
  /** A migrated store on an empty database of its own, and a client beside it. */
  const migrated = async (options: Partial<PostgresOptions> = {}) => {
    const { url } = await database()
    const made = store({ url, ...options })
    await made.migrate('auto')
    return { url, store: made, client: await client(url) }
  }
  return { database, store, client, migrated, later }
}

/**
 * A transaction pooler (C60): every transaction, and every statement outside one, runs on another server session than the
 * one before, and the session is wiped in between. What a client leaves in a session is gone, or somebody else's.
 */
export async function transactionPooler(url: string, sessions = 6): Promise<PgPoolLike & { seen: Set<number> }> {
  const all = await Promise.all(
    Array.from({ length: sessions }, async () => {
      const client = new pg.Client({ connectionString: url })
      client.on('error', () => {})
      await client.connect()
      return client
    }),
  )
  const free = [...all]
  const waiting: ((client: pg.Client) => void)[] = []
  const seen = new Set<number>()
  const take = () => {
    const next = free.shift()
    return next ? Promise.resolve(next) : new Promise<pg.Client>((resolve) => waiting.push(resolve))
  }
  const give = async (client: pg.Client) => {
    await client.query('DISCARD ALL')
    const next = waiting.shift()
    if (next) next(client)
    else free.push(client)
  }
  const connect = async () => {
    let current: pg.Client | undefined
    const query = async (config: pg.QueryConfig) => {
      current ??= await take()
      const client = current
      seen.add((client as unknown as { processID: number }).processID)
      try {
        return await client.query(config)
      } finally {
        if (client.getTransactionStatus() === 'I') {
          current = undefined
          await give(client)
        }
      }
    }
    const getTransactionStatus = () => current?.getTransactionStatus() ?? 'I'
    return { query, getTransactionStatus, on: () => {}, removeListener: () => {}, release: () => {} }
  }
  const end = async () => {
    await Promise.all(all.map((client) => client.end()))
  }
  return { connect, end, on: () => {}, removeListener: () => {}, seen } as never
}
