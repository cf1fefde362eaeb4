import { eq, sql } from 'drizzle-orm'
import { bigint, int, mysqlTable, varchar } from 'drizzle-orm/mysql-core'
import { drizzle } from 'drizzle-orm/mysql2'
import { Kysely, MysqlDialect } from 'kysely'
import { createPool as createCallbackPool } from 'mysql2'
import type { Connection } from 'mysql2/promise'
import { afterAll, afterEach, beforeAll, expect } from 'vitest'
import { describeMysql, makeDatabase, rowsOf, type TestDatabase } from '../../../test/support/mysql.ts'
import { codeOf, handle, writtenWith } from '../../../test/support/mysql-handler.ts'
import { wait } from '../../util/op.ts'
import { kyselyPool, type MysqlDb, type MysqlStore, mysql } from './index.ts'

const balances = mysqlTable('balances', {
  account: varchar({ length: 20 }).primaryKey(),
  amount: bigint({ mode: 'bigint' }).notNull(),
  nonce: int().notNull().default(0),
})

interface Tables {
  balances: { account: string; amount: string | number | bigint; nonce: number }
}

const onDrizzle = (db: MysqlDb) => drizzle(db as unknown as Connection)
const onKysely = (db: MysqlDb) => new Kysely<Tables>({ dialect: new MysqlDialect({ pool: kyselyPool(db) }) })

let database: TestDatabase
let store: MysqlStore

const add = (db: Pick<MysqlDb, 'query'>, account: string) =>
  db.query('INSERT INTO balances (account, amount) VALUES (?, 1)', [account])
const accounts = async () =>
  (await rowsOf(database.outside, 'SELECT account FROM balances ORDER BY 1')).map((row) => row.account)

describeMysql("a handler's db on mysql", (test) => {
  beforeAll(async () => {
    database = await makeDatabase()
    store = mysql({ url: database.url })
    await store.migrate('auto')
    await database.outside.query(
      'CREATE TABLE balances (account VARCHAR(20) PRIMARY KEY, amount BIGINT NOT NULL, nonce INT NOT NULL DEFAULT 0) ENGINE = InnoDB',
    )
  })
  afterEach(() => database.empty(['balances']))
  afterAll(async () => {
    await store.close()
    await database.drop()
  })

  test('query and execute answer as those of the driver', async () => {
    const found = await handle(store, async (db) => {
      await db.execute('INSERT INTO balances (account, amount) VALUES (?, ?)', ['a', 5])
      const [header] = await db.query({ sql: 'UPDATE balances SET nonce = ?', values: [7] })
      const [rows] = await db.query({ sql: 'SELECT account, nonce FROM balances', rowsAsArray: true })
      return [(header as { affectedRows: number }).affectedRows, rows]
    })
    expect(found).toEqual([1, [['a', 7]]])
    expect(await accounts()).toEqual(['a'])
  })

  test('Drizzle works on it, its transactions become savepoints', async () => {
    const found = await handle(store, async (db) => {
      const orm = onDrizzle(db)
      await orm.insert(balances).values({ account: 'a', amount: 2n ** 62n + 1n })
      await orm.transaction(async (tx) => {
        await tx.insert(balances).values({ account: 'b', amount: 1n })
        await tx
          .transaction(async (inner) => {
            await inner.insert(balances).values({ account: 'c', amount: 1n })
            inner.rollback()
          })
          .catch(() => {})
      })
      const failing = orm.transaction(async (tx) => {
        await tx.insert(balances).values({ account: 'd', amount: 1n })
        await tx.insert(balances).values({ account: 'a', amount: 1n })
      })
      expect(await codeOf(failing)).not.toBe('nothing')
      return orm.select().from(balances).where(eq(balances.account, 'a'))
    })
    expect(found).toEqual([{ account: 'a', amount: 2n ** 62n + 1n, nonce: 0 }])
    expect(await accounts()).toEqual(['a', 'b'])
  })

  test('Kysely works on it, its transactions become savepoints', async () => {
    const found = await handle(store, async (db) => {
      const orm = onKysely(db)
      await orm
        .insertInto('balances')
        .values({ account: 'a', amount: 2n ** 62n + 1n, nonce: 0 })
        .execute()
      await orm
        .transaction()
        .execute((tx) => tx.insertInto('balances').values({ account: 'b', amount: 1, nonce: 0 }).execute())
      const failing = orm.transaction().execute(async (tx) => {
        await tx.insertInto('balances').values({ account: 'c', amount: 1, nonce: 0 }).execute()
        await tx.insertInto('balances').values({ account: 'a', amount: 1, nonce: 0 }).execute()
      })
      expect(await codeOf(failing)).toBe('ER_DUP_ENTRY')
      return orm.selectFrom('balances').selectAll().where('account', '=', 'a').executeTakeFirst()
    })
    expect(found).toEqual({ account: 'a', amount: (2n ** 62n + 1n).toString(), nonce: 0 })
    expect(await accounts()).toEqual(['a', 'b'])
  })

  test('a statement that failed inside a nested transaction that was kept is noticed (control of the two before)', async () => {
    const work = handle(store, (db) =>
      onDrizzle(db).transaction(async (tx) => {
        await tx.insert(balances).values({ account: 'a', amount: 1n })
        await tx
          .insert(balances)
          .values({ account: 'a', amount: 1n })
          .catch(() => {})
      }),
    )
    expect(await codeOf(work)).toBe('HANDLER_SWALLOWED_ERROR')
    expect([await accounts(), await writtenWith(store)]).toEqual([[], null])
  })

  test("mysql2's own beginTransaction, commit and rollback work on savepoints", async () => {
    await handle(store, async (db) => {
      await db.beginTransaction()
      await add(db, 'a')
      await db.commit()
      await db.beginTransaction()
      await add(db, 'b')
      await db.rollback()
    })
    expect(await accounts()).toEqual(['a'])
  })

  test.for([
    'COMMIT',
    'rollback',
    'RELEASE SAVEPOINT a',
    'ROLLBACK TO a',
    'CREATE TABLE a (b INT)',
    'SET autocommit = 1',
    'SELECT 1; COMMIT',
    '/*! COMMIT */',
    'BEGIN NOT ATOMIC COMMIT; END',
  ])('refused, and again at the end when that was swallowed: %s', async (text) => {
    const seen: string[] = []
    const work = handle(store, async (db) => {
      await add(db, 'a')
      seen.push(await codeOf(db.query(text)))
    })
    expect(await codeOf(work)).toBe('TRANSACTION_CONTROL_REFUSED')
    expect(seen).toEqual(['TRANSACTION_CONTROL_REFUSED'])
    expect([await accounts(), await writtenWith(store)]).toEqual([[], null])
  })

  test('a transaction that was begun inside and left open is refused', async () => {
    expect(await codeOf(handle(store, (db) => db.query('BEGIN')))).toBe('TRANSACTION_CONTROL_REFUSED')
  })

  test('several statements in one text are looked at one by one, and answered by a pool that allows them', async () => {
    const pool = createCallbackPool({ uri: database.url, multipleStatements: true })
    const own = mysql({ pool })
    try {
      await handle(own, (db) =>
        db.query("INSERT INTO balances VALUES ('a', 1, 1); INSERT INTO balances VALUES ('b', 1, 1)"),
      )
      const work = handle(own, (db) => db.query("INSERT INTO balances VALUES ('c', 1, 1); COMMIT"))
      expect(await codeOf(work)).toBe('TRANSACTION_CONTROL_REFUSED')
      expect(await accounts()).toEqual(['a', 'b'])
    } finally {
      await own.close()
      await new Promise((resolve) => pool.end(resolve))
    }
  })

  test('a statement that was not awaited stops the commit, and its failure does not end the process', async () => {
    const forgot = handle(store, (db) => {
      db.query('SELECT SLEEP(0.05)')
      db.query('SELECT nonsense')
      add(db, 'a')
    })
    expect(await codeOf(forgot)).toBe('HANDLER_FORGOT_AWAIT')
    const savepoint = handle(store, (db, scope) => {
      scope.savepoint(() => add(db, 'a'))
    })
    expect(await codeOf(savepoint)).toBe('HANDLER_FORGOT_AWAIT')
    expect([await accounts(), await writtenWith(store)]).toEqual([[], null])
  })

  test('statements that were started together are awaited together: no finding (control of the one before)', async () => {
    await handle(store, (db) => Promise.all([add(db, 'a'), add(db, 'b'), db.query('SELECT SLEEP(0.01)')]))
    expect(await accounts()).toEqual(['a', 'b'])
  })

  test('raw: what leaves the transaction open is fine', async () => {
    await handle(store, async (db, scope) => {
      await add(db.raw, 'a')
      await scope.savepoint(() => add(db.raw, 'b'))
      await Promise.resolve(
        scope.savepoint(async () => {
          await add(db.raw, 'c')
          throw new Error('taken back')
        }),
      ).catch(() => {})
      await add(db.raw, 'd')
    })
    expect(await accounts()).toEqual(['a', 'b', 'd'])
  })

  test.for([
    ['COMMIT'],
    ['ROLLBACK'],
    ['COMMIT', 'START TRANSACTION'],
    ['ROLLBACK', 'START TRANSACTION'],
    ['CREATE TABLE made (a INT)'],
    ['SET autocommit = 0', 'COMMIT', 'SELECT * FROM balances'],
  ])('raw: the server refuses to end the transaction: %s', async (texts) => {
    const work = handle(store, async (db) => {
      const { raw } = db
      await add(raw, 'a')
      for (const text of texts) await raw.query(text)
    })
    expect(await codeOf(work)).toBe('ER_XAER_RMFAIL')
    // The next transaction is a clean one.
    await handle(store, (db) => add(db, 'z'))
    expect(await accounts()).toEqual(['z'])
  })

  test('a procedure that commits is refused, and one that does not is fine', async () => {
    await database.outside.query("CREATE PROCEDURE quiet() INSERT INTO balances VALUES ('q', 1, 1)")
    await database.outside.query('CREATE PROCEDURE loud() BEGIN COMMIT; START TRANSACTION; END')
    await handle(store, (db) => db.query('CALL quiet()'))
    expect(await accounts()).toEqual(['q'])
    expect(await codeOf(handle(store, (db) => db.query('CALL loud()')))).toBe('ER_XAER_RMFAIL')
  })

  test("with undo: 'managed' each kind of write is noticed, unless it was taken back", async () => {
    const only = { mayWrite: false }
    await database.outside.query('CREATE OR REPLACE PROCEDURE quiet() DELETE FROM balances')
    for (const text of [
      "INSERT INTO balances VALUES ('a', 1, 1)",
      'UPDATE balances SET nonce = 1',
      'CALL quiet()',
      'CREATE TEMPORARY TABLE t (a INT)',
    ]) {
      expect(await codeOf(handle(store, (db) => db.query(text), only)), text).toBe('UNTRACKED_WRITE')
    }
    await handle(store, (db) => db.query('SELECT * FROM balances'), only)
    const nested = handle(
      store,
      (db) => onDrizzle(db).transaction((tx) => tx.insert(balances).values({ account: 'a', amount: 1n })),
      only,
    )
    expect(await codeOf(nested)).toBe('UNTRACKED_WRITE')
    const undone = (db: MysqlDb) =>
      onDrizzle(db).transaction(async (tx) => {
        await tx.insert(balances).values({ account: 'a', amount: 1n })
        tx.rollback()
      })
    await handle(store, (db) => undone(db).catch(() => {}), only)
    expect(await accounts()).toEqual([])
  })

  test("a transaction of the application: Tidemark's ports join the connection, Drizzle's and Kysely's", async () => {
    const mark = (tx: object, key: string) =>
      store.join(tx).drive(wait(store.join(tx).handled.insert({ scope: 's', chainId: 1, key }, 1 as never, 1)))
    const pool = createCallbackPool({ uri: database.url })
    const promised = pool.promise()
    const orm = drizzle(promised)
    const kysely = new Kysely<Tables>({ dialect: new MysqlDialect({ pool }) })
    await orm.transaction(async (tx) => expect(await mark(tx, 'drizzle')).toBe('new'))
    await orm.transaction(async (tx) => {
      await tx.execute(sql`DO 1`)
      expect(await mark(tx, 'drizzle')).toBe('done')
    })
    await kysely.transaction().execute(async (tx) => expect(await mark(tx, 'kysely')).toBe('new'))
    await kysely.transaction().execute(async (tx) => expect(await mark(tx, 'kysely')).toBe('done'))
    const connection = await promised.getConnection()
    await connection.beginTransaction()
    expect(await mark(connection, 'promise')).toBe('new')
    expect(await mark((connection as any).connection, 'callback')).toBe('new')
    await connection.rollback()
    connection.release()
    await handle(store, async (db) => expect(await mark(db, 'guarded')).toBe('new'))
    expect(await store.read((tx) => wait(tx.handled.count('s')))).toBe(3)
    await kysely.destroy()
  })

  test('without an open transaction nothing is written', async () => {
    const pool = createCallbackPool({ uri: database.url })
    const kysely = new Kysely<Tables>({ dialect: new MysqlDialect({ pool }) })
    const insert = (tx: object) =>
      (async () => store.join(tx).handled.insert({ scope: 's', chainId: 1, key: 'k' }, 1 as never, 1))()
    const savepoint = (tx: object) => (async () => store.join(tx).savepoint('tidemark_once'))()
    for (const one of [database.outside, drizzle(database.outside), pool, pool.promise(), {}]) {
      expect(await codeOf(insert(one))).toBe('NOT_IN_TRANSACTION')
      expect(await codeOf(savepoint(one))).toBe('NOT_IN_TRANSACTION')
    }
    await kysely.connection().execute(async (connection) => {
      expect(await codeOf(insert(connection))).toBe('NOT_IN_TRANSACTION')
    })
    expect(await store.read((tx) => wait(tx.handled.count('s')))).toBe(0)
    await kysely.destroy()
  })

  test('a connection without autocommit is always in a transaction of the application', async () => {
    await database.outside.query('SET autocommit = 0')
    const tx = store.join(database.outside)
    await tx.savepoint('tidemark_once')
    await tx.handled.insert({ scope: 's', chainId: 1, key: 'k' }, 1 as never, 1)
    await tx.release('tidemark_once')
    await database.outside.query('ROLLBACK')
    await database.outside.query('SET autocommit = 1')
    expect(await store.read((read) => wait(read.handled.count('s')))).toBe(0)
  })
})
