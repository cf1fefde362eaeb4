import { describe, expect, test } from 'vitest'
import { storeContract } from '../../testkit/store-contract.ts'
import { adaptBetterSqlite3, type BetterSqlite3Like, isBetterSqlite3 } from './better-sqlite3.ts'
import { openDefault, type SqliteRow, type SqliteValue } from './driver.ts'
import { type SqliteDb, sqlite } from './index.ts'

/**
 * The manners of better-sqlite3 on the driver that is installed: that package takes a minute to compile, so the suite
 * does not depend on it. Kept are the differences that the adapter is there for: `run` refuses statements with rows and
 * `get` those without, integers are rounded unless safe, bytes come as Buffer.
 */
function likeBetterSqlite3(file: string): BetterSqlite3Like {
  const database = openDefault(file)
  const rounded = (value: SqliteValue, safe: boolean) => (typeof value === 'bigint' && !safe ? Number(value) : value)
  return {
    get inTransaction() {
      return database.isTransaction
    },
    exec: (sql) => database.exec(sql),
    close: () => database.close(),
    prepare: (sql) => {
      const statement = database.prepare(sql)
      statement.setReadBigInts(true)
      const reader = /^\s*(SELECT|PRAGMA|WITH|EXPLAIN)|RETURNING/i.test(sql)
      let safe = false
      const convert = (row: SqliteRow | undefined) => {
        const entries = Object.entries(row ?? {}).map(([column, value]) => [
          column,
          value instanceof Uint8Array ? Buffer.from(value) : rounded(value, safe),
        ])
        return row && Object.fromEntries(entries)
      }
      const need = (wanted: boolean) => {
        if (reader !== wanted)
          throw new TypeError(wanted ? 'This statement does not return data' : 'This statement returns data')
      }
      return {
        reader,
        run: (...parameters) => {
          need(false)
          const { changes, lastInsertRowid } = statement.run(...parameters)
          return { changes: Number(changes), lastInsertRowid }
        },
        get: (...parameters) => {
          need(true)
          return convert(statement.get(...parameters) ?? undefined)
        },
        all: (...parameters) => {
          need(true)
          return statement.all(...parameters).map(convert)
        },
        *iterate(...parameters) {
          need(true)
          for (const row of statement.iterate(...parameters)) yield convert(row)
        },
        safeIntegers: (on = true) => {
          safe = on
        },
        raw: () => undefined,
      }
    },
  }
}

const probe = {
  makeTable: (db: SqliteDb) => db.exec('CREATE TABLE numbers (n INTEGER PRIMARY KEY)'),
  insert: (db: SqliteDb, n: number) => db.prepare('INSERT INTO numbers (n) VALUES (?)').run(n),
  numbers: (db: SqliteDb) =>
    db
      .prepare('SELECT n FROM numbers ORDER BY n')
      .all()
      .map((row) => Number(row.n)),
  commit: (db: SqliteDb) => db.exec('COMMIT'),
}

async function makeStore() {
  const store = sqlite({ file: ':memory:', open: likeBetterSqlite3 })
  return { store, close: () => store.close() }
}

storeContract('a database shaped like better-sqlite3', makeStore, { test, probe })

describe('where the two drivers differ', () => {
  const adapted = () => adaptBetterSqlite3(likeBetterSqlite3(':memory:'))

  test('an integer beyond 2^53 throws instead of being rounded', () => {
    const statement = adapted().prepare('SELECT 9007199254740993 AS n')
    expect(() => statement.get()).toThrow(RangeError)
    expect(() => statement.all()).toThrow(RangeError)
    expect(() => [...statement.iterate()]).toThrow(RangeError)
    statement.setReadBigInts(true)
    expect(statement.get()).toEqual({ n: 9007199254740993n })
  })

  test('it rounds without the adapter (control)', () => {
    expect(likeBetterSqlite3(':memory:').prepare('SELECT 9007199254740993 AS n').get()).toEqual({ n: 9007199254740992 })
  })

  test('run takes a statement with rows, get and all take one without', () => {
    const database = adapted()
    database.exec('CREATE TABLE t (n INTEGER)')
    expect(Number(database.prepare('INSERT INTO t VALUES (1), (2) RETURNING n').run().changes)).toBe(2)
    expect(database.prepare('DELETE FROM t WHERE n = 1').get()).toBeUndefined()
    expect(database.prepare('DELETE FROM t').all()).toEqual([])
    expect(database.prepare('SELECT count(*) AS n FROM t').get()).toEqual({ n: 0 })
  })

  test('its errors are known by their names', async () => {
    const { store } = await makeStore()
    const failing = (code: string) => {
      const open = () => {
        throw Object.assign(new Error('any words'), { code })
      }
      return sqlite({ file: ':memory:', open }).migrate('auto')
    }
    await expect(failing('SQLITE_FULL')).rejects.toMatchObject({ code: 'STORE_FULL' })
    await expect(failing('SQLITE_READONLY_DIRECTORY')).rejects.toMatchObject({ code: 'STORE_READ_ONLY' })
    await expect(failing('SQLITE_NOTADB')).rejects.toMatchObject({ code: 'STORE_FAILED' })
    await expect(failing('SQLITE_ERROR')).rejects.toMatchObject({ code: 'STORE_FAILED' })
    await store.close()
  })

  test('the right driver is recognised', () => {
    expect(isBetterSqlite3(likeBetterSqlite3(':memory:'))).toBe(true)
    expect(isBetterSqlite3(openDefault(':memory:'))).toBe(false)
  })
})
