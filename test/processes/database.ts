import { randomBytes } from 'node:crypto'
import mysql from 'mysql2/promise'
import pg from 'pg'
import { mysql as openMysql } from '../../src/store/mysql/index.ts'
import { postgres as openPostgres } from '../../src/store/postgres/index.ts'
import type { Store } from '../../src/store/store.ts'
import { connectToServer, makeDatabase } from '../support/mysql.ts'
import { emptyDatabase } from '../support/postgres.ts'

export type Kind = 'postgres' | 'mysql'
export type Row = Record<string, unknown>

/** A database of the test's own on a real server, as the test sees it from outside. */
export interface Database {
  readonly kind: Kind
  /** How a process connects. Each has a name of its own, so that the server itself says who wrote. */
  urlFor(who: string): string
  /** A store of the test's process, for admin; closed with the database. */
  store(leaseMs?: number): Store
  /** Placeholders are `?`. Big numbers arrive as text. */
  query(text: string, ...values: unknown[]): Promise<Row[]>
  /** For `rememberRows`. */
  readonly rememberSql: string
  drop(): Promise<void>
}

/** Processes that may be on one database at a time. */
export const NAMES = ['w0', 'w1', 'w2', 'w3', 'w4', 'w5', 'w6', 'w7'] as const

/** The tables of the application. No unique keys but one: an effect that comes twice must be seen, not refused. */
const TABLES = (id: string, number: string) => `
  CREATE TABLE history (id ${id} PRIMARY KEY, at_ms bigint, kind varchar(10) NOT NULL, watcher varchar(100) NOT NULL,
    who varchar(100) NOT NULL, block bigint, token varchar(64), revision bigint, state varchar(20));
  CREATE TABLE balances (account varchar(42) PRIMARY KEY, amount ${number} NOT NULL);
  CREATE TABLE credits (block_hash varchar(66) NOT NULL, transaction_hash varchar(66) NOT NULL, log_index bigint NOT NULL,
    amount ${number} NOT NULL);
  CREATE TABLE payouts (block_hash varchar(66) NOT NULL, transaction_hash varchar(66) NOT NULL, log_index bigint NOT NULL,
    amount ${number} NOT NULL);
  CREATE TABLE copied (n bigint)`

// ------------------------------------------------------------------------------------------------------- PostgreSQL

const PG_HISTORY = `
  CREATE FUNCTION remember_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO public.history (at_ms, kind, watcher, who, block, token, revision, state)
    VALUES (extract(epoch FROM clock_timestamp()) * 1000, 'row', NEW.name, current_setting('application_name'),
      NEW.cursor_block, encode(NEW.token, 'hex'), NEW.revision, NEW.state);
    RETURN NULL;
  END $$;
  CREATE TRIGGER remember AFTER UPDATE ON tidemark.watchers FOR EACH ROW
    WHEN (NEW.revision <> OLD.revision) EXECUTE FUNCTION remember_row()`

export async function postgresDatabase(): Promise<Database> {
  const made = await emptyDatabase()
  const pool = new pg.Pool({ connectionString: made.url, max: 3, application_name: 'test' })
  // The database may be taken away under it.
  pool.on('error', () => {})
  const query = async (text: string, ...values: unknown[]) => {
    let n = 0
    return (await pool.query(values.length > 0 ? text.replaceAll('?', () => `$${++n}`) : text, values)).rows as Row[]
  }
  const stores: Store[] = []
  await query(TABLES('bigint GENERATED ALWAYS AS IDENTITY', 'numeric(78,0)'))
  return {
    kind: 'postgres',
    urlFor: () => made.url,
    store: (leaseMs = 2_000) => {
      const store = openPostgres({ url: made.url, leaseMs, applicationName: 'test', maxConnections: 4 })
      stores.push(store)
      return store
    },
    query,
    rememberSql: PG_HISTORY,
    drop: async () => {
      for (const store of stores) await store.close()
      await pool.end()
      await made.drop()
    },
  }
}

// ----------------------------------------------------------------------------------------------------------- MariaDB

const MYSQL_HISTORY = (prefix: string) => `
  CREATE TRIGGER remember AFTER UPDATE ON tidemark_watchers FOR EACH ROW
    IF NEW.revision <> OLD.revision THEN
      INSERT INTO history (at_ms, kind, watcher, who, block, token, revision, state)
      VALUES (ROUND(UNIX_TIMESTAMP(SYSDATE(3)) * 1000), 'row', CONVERT(NEW.name USING utf8mb4),
        IF(LEFT(USER(), ${prefix.length}) = '${prefix}', SUBSTRING(SUBSTRING_INDEX(USER(), '@', 1), ${prefix.length + 1}), 'test'),
        NEW.cursor_block, LOWER(HEX(NEW.token)), NEW.revision,
        NEW.state);
    END IF`

/** Users of their own: the name in USER() is the one thing that the server knows of a session by itself. */
async function makeUsers(prefix: string, database: string): Promise<void> {
  const admin = await connectToServer()
  for (const who of NAMES) {
    await admin.query(`CREATE USER '${prefix}${who}'@'%'`)
    await admin.query(`GRANT ALL ON ${database}.* TO '${prefix}${who}'@'%'`)
    // Those that `freeCursor` asks for: to see who blocks the cursor row, and to end its session.
    await admin.query(`GRANT PROCESS, CONNECTION ADMIN ON *.* TO '${prefix}${who}'@'%'`)
  }
  await admin.end()
}

async function dropUsers(prefix: string): Promise<void> {
  const admin = await connectToServer()
  for (const who of NAMES) await admin.query(`DROP USER IF EXISTS '${prefix}${who}'@'%'`)
  await admin.end()
}

export async function mysqlDatabase(): Promise<Database> {
  const made = await makeDatabase()
  const prefix = `tm_${randomBytes(4).toString('hex')}_`
  await makeUsers(prefix, made.name)
  const pool = mysql.createPool({ uri: made.url, connectionLimit: 3, supportBigNumbers: true, bigNumberStrings: true })
  const query = async (text: string, ...values: unknown[]) => (await pool.query(text, values))[0] as Row[]
  const stores: Store[] = []
  for (const statement of TABLES('bigint AUTO_INCREMENT', 'decimal(60,0)').split(';')) await query(statement)
  return {
    kind: 'mysql',
    urlFor: (who) => {
      const url = new URL(made.url)
      url.username = `${prefix}${who}`
      return url.href
    },
    store: (leaseMs = 2_000) => {
      const store = openMysql({ url: made.url, leaseMs })
      stores.push(store)
      return store
    },
    query,
    rememberSql: MYSQL_HISTORY(prefix),
    drop: async () => {
      for (const store of stores) await store.close()
      await pool.end()
      await made.drop()
      await dropUsers(prefix)
    },
  }
}

/**
 * Makes Tidemark's tables and has the database itself remember each change of a watcher's row: who, by which token, in the
 * order of the commits, since the row is locked when its change is remembered. From then on nothing is taken on the word
 * of the processes.
 */
export async function rememberRows(database: Database): Promise<void> {
  await database.store().migrate('auto')
  await database.query(database.rememberSql)
}

/** Sessions that stand inside a COPY. */
export async function inCopy(database: Database): Promise<number> {
  const rows = await database.query(
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' AND query LIKE 'COPY copied%'",
  )
  return rows.length
}
