import { type Connection, createConnection } from 'mysql2/promise'
import { describe, type TestAPI, test } from 'vitest'
import { realWorld } from '../../src/util/world.ts'

/** The server that tests run on: `TIDEMARK_TEST_MYSQL`, else a local one with root and no password. */
const URL_OF_SERVER = process.env['TIDEMARK_TEST_MYSQL'] ?? 'mysql://root@127.0.0.1:3306/test'

/** A connection that may make databases. Big integers arrive as text. */
export function connectToServer(url = URL_OF_SERVER): Promise<Connection> {
  return createConnection({ uri: url, supportBigNumbers: true })
}

async function answers(): Promise<boolean> {
  try {
    const connection = await connectToServer()
    await connection.end()
    return true
  } catch {
    return false
  }
}

const there = await answers()
const wanted = process.env['CI'] === 'true'

/**
 * `describe` for tests that need the server. Without one they are skipped, and a line says so; with `CI=true` they run all
 * the same, and fail.
 */
export function describeMysql(name: string, register: (test: TestAPI) => void): void {
  if (!there && !wanted) console.warn(`NOT RUN: ${name}: no MariaDB or MySQL answers (set TIDEMARK_TEST_MYSQL)`)
  describe.skipIf(!there && !wanted)(name, () => register(test))
}

export interface TestDatabase {
  readonly name: string
  readonly url: string
  /** A connection to it, outside of every store. */
  readonly outside: Connection
  /** Drops every table that is not Tidemark's nor in `keep`, and deletes all rows: much quicker than a new database. */
  empty(keep?: readonly string[]): Promise<void>
  drop(): Promise<void>
}

function urlOf(name: string): string {
  const url = new URL(URL_OF_SERVER)
  url.pathname = `/${name}`
  return url.href
}

async function emptyDatabase(outside: Connection, keep: readonly string[]): Promise<void> {
  const [rows] = await outside.query(
    "SELECT TABLE_NAME AS name FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_TYPE = 'BASE TABLE'",
  )
  const names = (rows as { name: string }[]).map(({ name }) => name)
  for (const name of names.filter((one) => one !== 'tidemark_meta')) {
    const stays = name.startsWith('tidemark_') || keep.includes(name)
    await outside.query(stays ? `DELETE FROM ${name}` : `DROP TABLE ${name}`)
  }
}

/** Makes an empty database under a random name. */
export async function makeDatabase(): Promise<TestDatabase> {
  const name = `tidemark_test_${Buffer.from(realWorld.randomBytes(8)).toString('hex')}`
  const admin = await connectToServer()
  await admin.query(`CREATE DATABASE ${name}`)
  await admin.end()
  const url = urlOf(name)
  const outside = await connectToServer(url)
  const drop = async () => {
    await outside.query(`DROP DATABASE ${name}`)
    await outside.end()
  }
  return { name, url, outside, empty: (keep = []) => emptyDatabase(outside, keep), drop }
}

/** Whatever kind of handle it is: the rows of a statement. */
export async function rowsOf(db: Pick<Connection, 'query'>, sql: string, values?: unknown): Promise<any[]> {
  const [rows] = await db.query(sql, values as never)
  return rows as any[]
}
