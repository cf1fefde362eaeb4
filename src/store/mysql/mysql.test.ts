import { createPool } from 'mysql2/promise'
import { afterAll } from 'vitest'
import { describeMysql, makeDatabase, type TestDatabase } from '../../../test/support/mysql.ts'
import { storeContract } from '../../testkit/store-contract.ts'
import { type MysqlDb, mysql } from './index.ts'

/** The table is made beforehand: a handler may not send DDL here. */
const TABLE = 'CREATE TABLE numbers (n INT PRIMARY KEY) ENGINE = InnoDB'

const probe = {
  makeTable: (db: MysqlDb) => db.query('DELETE FROM numbers'),
  insert: (db: MysqlDb, n: number) => db.query('INSERT INTO numbers (n) VALUES (?)', [n]),
  numbers: async (db: MysqlDb) => {
    const [rows] = await db.query('SELECT n FROM numbers ORDER BY n')
    return (rows as { n: number }[]).map(({ n }) => n)
  },
  commit: (db: MysqlDb) => db.query('COMMIT'),
}

/** One database for all cases of a run: making fourteen tables a case takes longer than the cases. */
async function makeShared(): Promise<TestDatabase> {
  const database = await makeDatabase()
  await database.outside.query(TABLE)
  return database
}

const shared: { database?: TestDatabase } = {}

async function database(): Promise<TestDatabase> {
  shared.database ??= await makeShared()
  return shared.database
}

async function byUrl() {
  const { url, empty } = await database()
  const store = mysql({ url })
  const close = async () => {
    await store.close()
    await empty(['numbers'])
  }
  return { store, close }
}

/** The least helpful pool: no autocommit, no strict mode, other quotes, values as bytes, other counts of rows. */
async function onPool() {
  const { url, empty } = await database()
  const pool = createPool({ uri: url, flags: ['-FOUND_ROWS'], typeCast: false, connectionLimit: 5 })
  pool.on('connection', (connection) => {
    connection.query("SET SESSION autocommit = 0, sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES'")
  })
  const store = mysql({ pool })
  const close = async () => {
    await store.close()
    await pool.end()
    await empty(['numbers'])
  }
  return { store, close }
}

const onPoolProbe = {
  ...probe,
  numbers: async (db: MysqlDb) => {
    const [rows] = await db.query({ sql: 'SELECT n FROM numbers ORDER BY n', typeCast: (_, next) => next() })
    return (rows as { n: number }[]).map(({ n }) => n)
  },
}

describeMysql('mysql', (test) => {
  afterAll(() => shared.database?.drop())

  storeContract('mysql by url', byUrl, { test, probe })
  storeContract("mysql on the application's pool", onPool, { test, probe: onPoolProbe })
})
