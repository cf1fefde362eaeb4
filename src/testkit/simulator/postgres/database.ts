import { makePool, type PgPoolLike } from '../../../store/postgres/driver.ts'
import { postgres } from '../../../store/postgres/index.ts'
import { bytesToHex } from '../../../util/bytes.ts'
import { wait } from '../../../util/op.ts'
import { realWorld } from '../../../util/world.ts'
import { Random } from '../../random.ts'
import type { TestWorld } from '../../test-world.ts'
import { SUMS } from '../application.ts'
import type { SimulatedDatabase } from '../backend.ts'
import type { SwarmOptions } from '../options.ts'
import type { PlannedAction } from '../plan.ts'
import { MANAGED, SCHEMA } from './application.ts'
import { PgBackend } from './backend.ts'
import type { Query } from './inspector.ts'
import { withFreezes } from './plan.ts'

/** Connections of one worker at most, for all the processes of its run. */
const CONNECTIONS = 24
const CONNECT_MS = 30_000

/** What others have left on the database, by a worker that was killed. */
const END_OTHERS = `
  SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`

/** Deletes rather than truncates: a table of a few rows is emptied faster so. What tells the version of the tables stays. */
const EMPTY = `
  DO $$ DECLARE found text; BEGIN
    FOR found IN
      SELECT schemaname || '.' || quote_ident(tablename) FROM pg_tables
      WHERE schemaname IN ('public', 'tidemark') AND tablename NOT IN ('simulator_once', 'meta', 'open_commits')
    LOOP
      EXECUTE 'DELETE FROM ' || found;
    END LOOP;
  END $$;
  DELETE FROM tidemark.meta WHERE name NOT IN ('schema_version', 'oldest_code')`

function queryOf(pool: PgPoolLike): Query {
  return async (text, values, name) => {
    const client = await pool.connect()
    try {
      return (await client.query({ text, ...(values ? { values } : {}), ...(name ? { name } : {}) })).rows
    } finally {
      client.release()
    }
  }
}

function poolOf(url: string, max: number): Promise<PgPoolLike> {
  return makePool({ url, max, applicationName: 'tidemark simulator', connectTimeoutMs: CONNECT_MS })
}

/** A PostgreSQL database for the runs of one worker, emptied between them. Nobody else may use it. */
export class PgDatabase implements SimulatedDatabase {
  readonly #pool: PgPoolLike
  /** The inspector's own connection. */
  readonly #outside: PgPoolLike
  readonly #query: Query

  private constructor(pool: PgPoolLike, outside: PgPoolLike) {
    this.#pool = pool
    this.#outside = outside
    this.#query = queryOf(outside)
    for (const one of [pool, outside]) one.on('error', () => {})
  }

  /** Makes the tables where they are missing. @throws the driver's error when the server cannot be reached */
  static async open(url: string): Promise<PgDatabase> {
    const made = new PgDatabase(await poolOf(url, CONNECTIONS), await poolOf(url, 2))
    await made.#query(END_OTHERS)
    const [found] = await made.#query("SELECT to_regclass('public.simulator_once') AS table")
    if (!found?.table) await made.#makeTables(url)
    return made
  }

  /** Managed tables are made as watchers make them. */
  async #makeTables(url: string): Promise<void> {
    const store = postgres({ url })
    try {
      await store.migrate('auto')
      await store.transact(function* (tx) {
        for (const table of MANAGED) yield* wait(tx.managed.ensureTable(table))
        yield* wait(tx.totals.ensureTable(SUMS))
      })
      await this.#query(SCHEMA)
    } finally {
      await store.close()
    }
  }

  async begin(): Promise<(options: SwarmOptions, clock: TestWorld) => PgBackend> {
    await this.#query(EMPTY)
    return (_, clock) => new PgBackend(this.#pool, this.#query, clock)
  }

  planOf(seed: number | string, options: SwarmOptions, plan: readonly PlannedAction[]): readonly PlannedAction[] {
    return withFreezes(new Random(seed).fork('freezes'), options, plan)
  }

  async close(): Promise<void> {
    await this.#pool.end()
    await this.#outside.end()
  }
}

/** A new database on a server, with a name of its own. */
export async function makeDatabase(serverUrl: string): Promise<{ readonly url: string; drop(): Promise<void> }> {
  const name = `tidemark_simulate_${bytesToHex(realWorld.randomBytes(6)).slice(2)}`
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  await onServer(serverUrl, `CREATE DATABASE ${name} TEMPLATE template0`)
  // The server does not crash in a run, so none of them needs to wait for its disk.
  await onServer(serverUrl, `ALTER DATABASE ${name} SET synchronous_commit = off`)
  return { url: url.href, drop: () => onServer(serverUrl, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`) }
}

async function onServer(url: string, sql: string): Promise<void> {
  const pool = await poolOf(url, 1)
  try {
    await queryOf(pool)(sql)
  } finally {
    await pool.end()
  }
}

const URL_VARIABLE = 'TIDEMARK_TEST_POSTGRES'

/** The server of the tests: the one that the environment names, else the standard one of this host. */
export function serverUrl(environment: Readonly<Record<string, string | undefined>>): string {
  return environment[URL_VARIABLE] || 'postgres://postgres@127.0.0.1:5432/postgres'
}
