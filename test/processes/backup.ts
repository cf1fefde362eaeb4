import pg from 'pg'
import { serverUrl } from '../support/postgres.ts'
import type { Database } from './database.ts'

/** A backup of a whole PostgreSQL database, taken and put back while processes work on it. */
export interface Backup {
  /** Puts the database back to what it was: every session is ended, and whoever connects again finds the older state. */
  putBack(): Promise<void>
  drop(): Promise<void>
}

async function onServer(statements: readonly string[]): Promise<void> {
  const client = new pg.Client({ connectionString: serverUrl })
  await client.connect()
  try {
    for (const statement of statements) await client.query(statement)
  } finally {
    await client.end()
  }
}

/** Nobody connects, and nobody is connected. */
const close = (name: string) => [
  `ALTER DATABASE ${name} WITH ALLOW_CONNECTIONS false`,
  `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${name}'`,
]
const open = (name: string) => `ALTER DATABASE ${name} WITH ALLOW_CONNECTIONS true`

/** A copy of the files needs the database to itself for a moment; the processes connect again after it. */
export async function takeBackup(database: Database): Promise<Backup> {
  const [row] = await database.query('SELECT current_database() AS name')
  const name = String(row?.['name'])
  const [copy, gone] = [`${name}_copy`, `${name}_gone`]
  await onServer([...close(name), `CREATE DATABASE ${copy} TEMPLATE ${name}`, open(name)])
  return {
    putBack: () =>
      onServer([
        ...close(name),
        `ALTER DATABASE ${name} RENAME TO ${gone}`,
        `ALTER DATABASE ${copy} RENAME TO ${name}`,
        open(name),
      ]),
    drop: () => onServer([copy, gone].map((one) => `DROP DATABASE IF EXISTS ${one} WITH (FORCE)`)),
  }
}
