import { createConnection } from 'mysql2/promise'
import pg from 'pg'
import type { Watcher } from '../src/handle/watch.ts'
import { mysql, watch as mysqlWatch } from '../src/store/mysql/index.ts'
import { postgres, watch as postgresWatch } from '../src/store/postgres/index.ts'
import { sqlite, watch as sqliteWatch } from '../src/store/sqlite/index.ts'
import { openConnection, placeOf } from '../src/store/sqlite/open.ts'
import type { Store } from '../src/store/store.ts'
import { realWorld } from '../src/util/world.ts'
import { TOKEN } from './chain.ts'
import { withFile } from './engine.ts'

/** Where one row goes for each event. */
const TABLE = 'bench_deposits (account VARCHAR(42) NOT NULL, amount VARCHAR(78) NOT NULL)'
const COLUMNS = 'bench_deposits (account, amount)'

/** The user's inserts alone: one transaction, rows one by one, as a careful handler would. */
export type Bare = (rows: readonly (readonly [string, string])[]) => Promise<void> | void

export interface Contender {
  readonly store: Store
  readonly watcher: Watcher
  readonly bare: Bare
}

export interface Server {
  readonly kind: string
  /** Runs `work` on an empty database. False: no server answers. */
  with(work: (contender: Contender) => Promise<void>): Promise<boolean>
}

const on = { bench: { address: TOKEN, startBlock: 1 } } as const
// No commit is cut off for time: a busy machine must not change what is compared.
const batch = { maxMs: 60_000 } as const
const events = {
  Transfer: { event: 'event Transfer(address indexed from, address indexed to, uint256 value)' },
} as const

const embedded: Server = {
  kind: 'sqlite',
  async with(work) {
    await withFile(async (file) => {
      const { database } = openConnection(placeOf({ file, world: realWorld }))
      database.exec(`CREATE TABLE ${TABLE}`)
      const sql = `INSERT INTO ${COLUMNS} VALUES (?, ?)`
      const watcher = sqliteWatch({
        on,
        batch,
        events,
        handle: ({ event, db }) => void db.prepare(sql).run(event.args.to, event.args.value.toString()),
      })
      const insert = database.prepare(sql)
      const bare: Bare = (rows) => {
        database.exec('BEGIN IMMEDIATE')
        for (const [account, amount] of rows) insert.run(account, amount)
        database.exec('COMMIT')
      }
      const store = sqlite({ file })
      await work({ store, watcher: watcher as Watcher, bare })
      await store.close()
      database.close()
    })
    return true
  },
}

function urlOf(variable: string, standard: string, database: string): { server: string; own: string } {
  const server = process.env[variable] || standard
  const own = new URL(server)
  own.pathname = `/${database}`
  return { server, own: own.href }
}

const nameOf = () => `tidemark_bench_${Buffer.from(realWorld.randomBytes(6)).toString('hex')}`

async function onPostgres(sql: string, url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query(sql)
  await client.end()
}

async function postgresContender(url: string, work: (contender: Contender) => Promise<void>): Promise<void> {
  const pool = new pg.Pool({ connectionString: url, max: 3 })
  const client = await pool.connect()
  await client.query(`CREATE TABLE ${TABLE}`)
  const sql = `INSERT INTO ${COLUMNS} VALUES ($1, $2)`
  const watcher = postgresWatch({
    on,
    batch,
    events,
    handle: async ({ event, db }) => void (await db.query(sql, [event.args.to, event.args.value.toString()])),
  })
  const bare: Bare = async (rows) => {
    await client.query('BEGIN')
    for (const row of rows) await client.query(sql, [...row])
    await client.query('COMMIT')
  }
  const store = postgres({ url })
  await work({ store: store as Store, watcher: watcher as Watcher, bare })
  await store.close()
  client.release()
  await pool.end()
}

const postgresql: Server = {
  kind: 'postgres',
  async with(work) {
    const name = nameOf()
    const { server, own } = urlOf('TIDEMARK_TEST_POSTGRES', 'postgres://postgres@127.0.0.1:5432/postgres', name)
    if (!(await succeeds(onPostgres(`CREATE DATABASE ${name}`, server)))) return false
    await postgresContender(own, work)
    await onPostgres(`DROP DATABASE ${name} WITH (FORCE)`, server)
    return true
  },
}

async function onMysql(sql: string, url: string): Promise<void> {
  const connection = await createConnection(url)
  await connection.query(sql)
  await connection.end()
}

async function mysqlContender(url: string, work: (contender: Contender) => Promise<void>): Promise<void> {
  const client = await createConnection(url)
  await client.query(`CREATE TABLE ${TABLE.replace('(', '(id BIGINT AUTO_INCREMENT PRIMARY KEY, ')}`)
  const sql = `INSERT INTO ${COLUMNS} VALUES (?, ?)`
  const watcher = mysqlWatch({
    on,
    batch,
    events,
    handle: async ({ event, db }) => void (await db.query(sql, [event.args.to, event.args.value.toString()])),
  })
  const bare: Bare = async (rows) => {
    await client.query('START TRANSACTION')
    for (const row of rows) await client.query(sql, [...row])
    await client.query('COMMIT')
  }
  const store = mysql({ url })
  await work({ store: store as Store, watcher: watcher as Watcher, bare })
  await store.close()
  await client.end()
}

const mariadb: Server = {
  kind: 'mysql',
  async with(work) {
    const name = nameOf()
    const { server, own } = urlOf('TIDEMARK_TEST_MYSQL', 'mysql://root@127.0.0.1:3306/test', name)
    if (!(await succeeds(onMysql(`CREATE DATABASE ${name}`, server)))) return false
    await mysqlContender(own, work)
    await onMysql(`DROP DATABASE ${name}`, server)
    return true
  },
}

function succeeds(work: Promise<void>): Promise<boolean> {
  return work.then(
    () => true,
    () => false,
  )
}

export const servers: readonly Server[] = [embedded, postgresql, mariadb]
