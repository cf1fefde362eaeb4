import { type Connection, createPool } from 'mysql2/promise'
import { afterAll, afterEach, beforeAll, expect } from 'vitest'
import { connectToServer, describeMysql, makeDatabase, rowsOf, type TestDatabase } from '../../../test/support/mysql.ts'
import { codeOf, handle, writtenWith } from '../../../test/support/mysql-handler.ts'
import { mark } from '../../testkit/store-cases/case.ts'
import { wait } from '../../util/op.ts'
import { realWorld } from '../../util/world.ts'
import { type MysqlDb, type MysqlOptions, type MysqlStore, mysql } from './index.ts'

let database: TestDatabase
let store: MysqlStore
const stores: MysqlStore[] = []

function open(options: MysqlOptions): MysqlStore {
  const made = mysql(options)
  stores.push(made)
  return made
}

const numbers = async () => (await rowsOf(database.outside, 'SELECT n FROM numbers ORDER BY n')).map(({ n }) => n)
const insert = (db: Pick<Connection, 'query'>, n: number) => db.query('INSERT INTO numbers VALUES (?)', [n])
const touch = (db: Pick<Connection, 'query'>, id: number) => db.query('UPDATE pairs SET v = v + 1 WHERE id = ?', [id])

/** Another session, in a transaction of its own that has changed more rows: of two in a deadlock it is not the victim. */
async function rival(): Promise<Connection> {
  const connection = await connectToServer(database.url)
  await connection.beginTransaction()
  await touch(connection, 2)
  for (const n of [101, 102, 103, 104, 105, 106]) await insert(connection, n)
  return connection
}

/** Runs into a deadlock with the rival. Answers what the session that is the victim got to see. */
async function deadlock(victim: Pick<Connection, 'query'>, other: Connection): Promise<string> {
  await touch(victim, 1)
  const theirs = touch(other, 1)
  const code = await codeOf(touch(victim, 2))
  await theirs
  await other.rollback()
  await other.end()
  return code
}

/** The id of a session, as KILL takes it. */
async function idOf(db: Pick<Connection, 'query'>): Promise<number> {
  return Number((await rowsOf(db, 'SELECT CONNECTION_ID() AS id'))[0].id)
}

async function gone(id: number): Promise<void> {
  while ((await rowsOf(database.outside, 'SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = ?', [id])).length > 0)
    await realWorld.sleep(5)
}

describeMysql('dangers of mysql', (test) => {
  beforeAll(async () => {
    database = await makeDatabase()
    store = mysql({ url: database.url })
    await store.migrate('auto')
    await database.outside.query('CREATE TABLE numbers (n INT PRIMARY KEY) ENGINE = InnoDB')
    await database.outside.query('CREATE TABLE pairs (id INT PRIMARY KEY, v INT NOT NULL) ENGINE = InnoDB')
    await database.outside.query(
      'CREATE TABLE things (id INT PRIMARY KEY, short VARCHAR(3), big BIGINT, bytes BLOB, txt TEXT CHARACTER SET utf8mb4) ENGINE = InnoDB',
    )
  })
  afterEach(async () => {
    for (const one of stores.splice(0)) await one.close()
    await database.empty(['numbers', 'pairs', 'things'])
  })
  afterAll(async () => {
    await store.close()
    await database.drop()
  })

  const pairs = () => database.outside.query('INSERT INTO pairs VALUES (1, 0), (2, 0), (3, 0)')

  test('a deadlock that a handler swallows has rolled everything back: nothing is committed, and it is tried again', async () => {
    await pairs()
    const other = await rival()
    const seen: string[] = []
    const work = handle(store, async (db) => {
      await insert(db, 1)
      seen.push(await deadlock(db, other))
      seen.push(await codeOf(insert(db, 2)))
    })
    expect(await codeOf(work)).toBe('STORE_BUSY')
    expect(seen).toEqual(['STORE_BUSY', 'STORE_BUSY'])
    expect([await numbers(), await writtenWith(store)]).toEqual([[], null])
  })

  test('without a guard what follows a swallowed deadlock commits by itself (control of the one before)', async () => {
    await pairs()
    const other = await rival()
    const connection = await connectToServer(database.url)
    await connection.beginTransaction()
    await insert(connection, 1)
    expect(await deadlock(connection, other)).toBe('ER_LOCK_DEADLOCK')
    await insert(connection, 2)
    await connection.commit()
    await connection.end()
    expect(await numbers()).toEqual([2])
  })

  test('a deadlock swallowed on raw is noticed by the savepoint', async () => {
    await pairs()
    const other = await rival()
    const work = handle(store, async (db) => {
      await deadlock(db.raw, other)
      await insert(db.raw, 2)
    })
    expect(await codeOf(work)).toBe('HANDLER_ENDED_TRANSACTION')
    expect(await writtenWith(store)).toBeNull()
  })

  test("a deadlock of Tidemark's own that is swallowed: nothing further is sent, and the nonce is not there", async () => {
    await store.transact((tx) => wait(tx.meta.set('a', '0')))
    const connection = await connectToServer(database.url)
    await connection.beginTransaction()
    for (const n of [1, 2, 3, 4]) await insert(connection, n)
    await connection.query("UPDATE tidemark_facts SET value = 'x' WHERE name = 'a'")
    const codes: string[] = []
    const work = store.transact(function* (tx) {
      const { id } = yield* wait(
        tx.cursors.create({ name: 'w', chainId: 1, fingerprint: 'f', startBlock: 1 as never }, 1),
      )
      yield* wait(tx.cursors.open(id, Uint8Array.of(1)))
      const theirs = connection.query("UPDATE tidemark_watchers SET epoch = 1 WHERE name = 'w'")
      codes.push(yield* wait(codeOf(Promise.resolve(tx.meta.set('a', '1')))))
      yield* wait(theirs)
      expect(tx.inTransaction()).toBe(false)
      codes.push(yield* wait(codeOf((async () => tx.cursors.readNonce(id))())))
    })
    codes.push(await codeOf(work))
    expect(codes).toEqual(['STORE_BUSY', 'STORE_BUSY', 'STORE_BUSY'])
    await connection.rollback()
    await connection.end()
    expect(await store.read((tx) => wait(tx.cursors.list()))).toEqual([])
  })

  test('a lock that is not got in time takes back its statement alone: a savepoint forgives it, a shrug does not', async () => {
    const own = open({ url: database.url, lockTimeoutMs: 1_000 })
    await pairs()
    const other = await rival()
    const expected = handle(own, async (db, scope) => {
      await insert(db, 1)
      expect(await codeOf(Promise.resolve(scope.savepoint(() => touch(db, 2))))).toBe('STORE_BUSY')
      await insert(db, 2)
    })
    await expected
    const shrug = handle(own, async (db) => {
      await insert(db, 3)
      await touch(db, 2).catch(() => {})
    })
    expect(await codeOf(shrug)).toBe('STORE_BUSY')
    await other.rollback()
    await other.end()
    expect(await numbers()).toEqual([1, 2])
  })

  test('a record that changed since the snapshot ends the transaction, where the server checks that', async () => {
    await pairs()
    const pool = createPool({ uri: database.url })
    pool.on('connection', (one) => one.query('SET SESSION innodb_snapshot_isolation = 1'))
    const own = open({ pool, isolation: 'REPEATABLE READ' })
    const work = handle(own, async (db) => {
      await db.query('SELECT * FROM pairs')
      await touch(database.outside, 1)
      await touch(db, 1).catch(() => {})
    })
    expect(await codeOf(work)).toBe('STORE_BUSY')
    expect(await writtenWith(store)).toBeNull()
    await own.close()
    await pool.end()
  })

  test('a pool without strict mode: in a handler nothing is cut, and the pool gets its mode back', async () => {
    const pool = createPool({ uri: database.url, connectionLimit: 3 })
    pool.on('connection', (one) =>
      one.query("SET SESSION sql_mode = '', wait_timeout = 77, innodb_lock_wait_timeout = 7"),
    )
    const own = open({ pool })
    const long = "INSERT INTO things (id, short) VALUES (1, 'abcd')"
    expect(await codeOf(handle(own, (db) => db.query(long)))).toBe('ER_DATA_TOO_LONG')
    await handle(own, (db) => db.query("INSERT INTO things (id, short) VALUES (2, 'abc')"))
    await pool.query(long) // control: the pool itself cuts
    expect((await rowsOf(pool, 'SELECT id, short FROM things ORDER BY id')).map((row) => row.short)).toEqual([
      'abc',
      'abc',
    ])
    const [settings] = await rowsOf(
      pool,
      'SELECT @@sql_mode AS mode, @@innodb_lock_wait_timeout AS a, @@wait_timeout AS b, @@idle_transaction_timeout AS c',
    )
    expect(settings).toEqual({ mode: '', a: 7, b: 77, c: 0 })
    await own.close()
    await pool.end()
  })

  test('keys that differ only in case, accents, spaces at the end or NUL are different keys', async () => {
    const keys = ['a', 'A', 'á', 'a ', 'a  ', 'a\0', '\0a', 'ａ', '𝒶', '', ' ']
    const all = keys.map((key) => ({ scope: 's', chainId: 1, key }))
    const found = await store.transact(function* (tx) {
      const news: string[] = []
      for (const key of [...all, ...all]) news.push(yield* wait(tx.handled.insert(key, 1 as never, 1)))
      yield* wait(tx.cursors.create({ name: 'w', chainId: 1, fingerprint: 'f', startBlock: 1 as never }, 1))
      const other = yield* wait(
        tx.cursors.create({ name: 'w ', chainId: 1, fingerprint: 'g', startBlock: 1 as never }, 1),
      )
      return { news, fingerprint: other.fingerprint }
    })
    expect(found.news).toEqual([...keys.map(() => 'new'), ...keys.map(() => 'done')])
    expect(found.fingerprint).toBe('g')
  })

  test('a key that is too long is refused, never cut to one that is there', async () => {
    const work = store.transact((tx) =>
      wait(tx.handled.insert({ scope: 's', chainId: 1, key: 'x'.repeat(1_021) }, 1 as never, 1)),
    )
    expect(await codeOf(work)).toBe('RangeError')
  })

  test('two writers that mark the same events in opposite order do not end in a deadlock (C59)', async () => {
    const all = Array.from({ length: 300 }, (_, i) => mark(i % 7, i))
    const both = [all, [...all].reverse()].map((marks) => store.transact((tx) => wait(tx.marks.insert(1, marks))))
    const answers = await Promise.all(both)
    expect(answers.flat().filter((isNew) => isNew)).toHaveLength(300)
  })

  test('65,536 parameters: a prepared statement is refused with a clear error, query takes them', async () => {
    const values = Array.from({ length: 65_536 }, (_, i) => i)
    const places = values.map(() => '?').join(',')
    const prepared = handle(store, (db) => db.execute(`SELECT 1 FROM numbers WHERE n IN (${places})`, values))
    expect(await codeOf(prepared)).toBe('RangeError')
    await handle(store, (db) => db.query(`SELECT 1 FROM numbers WHERE n IN (${places})`, values))
    const marks = Array.from({ length: 20_000 }, (_, i) => mark(1, i))
    expect((await store.transact((tx) => wait(tx.marks.insert(1, marks)))).every((isNew) => isNew)).toBe(true)
  })

  test('2^256 − 1 in and out, in the order of the numbers, also in a table of the application', async () => {
    const table = { table: 'amounts', columns: { amount: 'uint256', change: 'int256' } } as const
    const values = [2n ** 256n - 1n, 0n, 2n ** 53n + 1n, 10n ** 65n]
    await store.transact(function* (tx) {
      yield* wait(tx.managed.ensureTable(table))
      const rows = values.map((amount, ordinal) => ({
        blockNumber: 1 as never,
        stableId: mark(1, 1).stableId,
        ordinal,
        values: { amount, change: -(amount / 2n) },
      }))
      yield* wait(tx.managed.insertRows(table, 1, rows))
    })
    const { decodeInt256, decodeUint256 } = await import('./index.ts')
    const rows = await rowsOf(database.outside, 'SELECT amount, `change` FROM amounts ORDER BY amount')
    const sorted = [...values].sort((a, b) => (a < b ? -1 : 1))
    expect(rows.map(({ amount }) => decodeUint256(amount))).toEqual(sorted)
    expect(rows.map(({ change }) => decodeInt256(change))).toEqual(sorted.map((amount) => -(amount / 2n)))
    const decimal = { ...table, table: 'decimals' }
    await database.outside.query(
      'CREATE TABLE decimals (tidemark_watcher BIGINT, tidemark_block BIGINT, tidemark_event BINARY(16), tidemark_ordinal BIGINT, amount DECIMAL(65), `change` DECIMAL(65)) ENGINE = InnoDB',
    )
    expect(await codeOf(store.transact((tx) => wait(tx.managed.ensureTable(decimal))))).toBe('STORE_TABLE_MISMATCH')
  })

  test('a managed table without transactions is refused, and a constraint of it names the block', async () => {
    const table = { table: 'loose', columns: { n: 'integer' } } as const
    const columns =
      'tidemark_watcher BIGINT, tidemark_block BIGINT, tidemark_event BINARY(16), tidemark_ordinal BIGINT, n BIGINT'
    await database.outside.query(`CREATE TABLE loose (${columns}) ENGINE = MyISAM`)
    expect(await codeOf(store.transact((tx) => wait(tx.managed.ensureTable(table))))).toBe('STORE_TABLE_MISMATCH')
    await database.outside.query(`CREATE TABLE tight (${columns}, CHECK (n > 0)) ENGINE = InnoDB`)
    const rows = [1, 2, 0].map((n, i) => ({
      blockNumber: (10 + i) as never,
      stableId: mark(1, 1).stableId,
      ordinal: i,
      values: { n },
    }))
    const work = store.transact((tx) => wait(tx.managed.insertRows({ ...table, table: 'tight' }, 1, rows)))
    await expect(work).rejects.toMatchObject({ code: 'MANAGED_REFUSED', values: { table: 'tight', block: 12 } })
  })

  test('integers beyond 2^53 come in and out exactly, also on a pool that would round them', async () => {
    const big = 2n ** 63n - 1n
    const pool = createPool({ uri: database.url, connectionLimit: 3 })
    const own = open({ pool })
    const read = await handle(own, async (db) => {
      await db.query('INSERT INTO things (id, big) VALUES (1, ?)', [big])
      await db.execute('INSERT INTO things (id, big) VALUES (2, ?)', [-big])
      const byQuery = await rowsOf(db, 'SELECT big FROM things ORDER BY id')
      const [byExecute] = await db.execute('SELECT big FROM things ORDER BY id')
      return [...byQuery, ...(byExecute as { big: string }[])].map((row) => row.big)
    })
    expect(read).toEqual([`${big}`, `${-big}`, `${big}`, `${-big}`])
    // Control: the pool itself rounds.
    expect((await rowsOf(pool, 'SELECT big FROM things WHERE id = 1'))[0].big).toBe(2 ** 63)
    await own.close()
    await pool.end()
  })

  test('NUL, bytes that are no UTF-8, and characters of four bytes are kept; half a pair is refused', async () => {
    const bytes = Buffer.from([0, 255, 254, 0x80, 0, 39, 92])
    const text = "a\0b'\\😀𝒶"
    const row = await handle(store, async (db) => {
      await db.query('INSERT INTO things (id, bytes, txt) VALUES (1, ?, ?)', [bytes, text])
      await db.execute('INSERT INTO things (id, bytes, txt) VALUES (2, ?, ?)', [bytes, text])
      return rowsOf(db, 'SELECT bytes, txt FROM things ORDER BY id')
    })
    expect(row).toEqual([
      { bytes, txt: text },
      { bytes, txt: text },
    ])
    for (const values of [['\ud800'], [{ nested: ['a\udc00'] }]]) {
      expect(await codeOf(handle(store, (db) => db.query('SELECT ?', values)))).toBe('RangeError')
    }
    await store.transact((tx) => wait(tx.meta.set("k\0'\\😀", text)))
    expect(await store.read((tx) => wait(tx.meta.get("k\0'\\😀")))).toBe(text)
    const half = store.transact((tx) => wait(tx.meta.set('k', '\ud800')))
    expect(await codeOf(half)).toBe('RangeError')
  })

  test('a session that is killed in the middle: nothing is committed, and the store goes on', async () => {
    const work = handle(store, async (db) => {
      await insert(db, 1)
      const id = await idOf(db)
      await database.outside.query(`KILL ${id}`)
      await gone(id)
      await insert(db, 2).catch(() => {})
    })
    expect(await codeOf(work)).toBe('STORE_FAILED')
    expect([await numbers(), await writtenWith(store)]).toEqual([[], null])
    await handle(store, (db) => insert(db, 3))
    expect(await numbers()).toEqual([3])
  })

  test('an idle connection of the pool that dies neither ends the process nor stops the store', async () => {
    const id = await handle(store, idOf)
    await database.outside.query(`KILL ${id}`)
    await gone(id)
    // Whether the pool has heard of it yet or not.
    expect(['nothing', 'STORE_FAILED']).toContain(await codeOf(handle(store, (db) => insert(db, 1))))
    await handle(store, (db) => insert(db, 2))
    expect(await numbers()).toContain(2)
  })

  test('a transaction that took longer than it was said to is not committed: forgetting relies on it (P7)', async () => {
    const own = open({ url: database.url, longestTransactionMs: 100 })
    expect(own.capabilities.longestTransactionMs).toBe(100)
    expect(await codeOf(handle(own, (db) => db.query('SELECT SLEEP(0.15)')))).toBe('STORE_FAILED')
    expect(await writtenWith(store)).toBeNull()
    await handle(own, (db) => insert(db, 1))
  })

  test('a statement that runs too long is ended by the server', async () => {
    const own = open({ url: database.url, statementTimeoutMs: 100 })
    expect(await codeOf(handle(own, (db) => db.query('SELECT SLEEP(5)')))).toBe('STORE_BUSY')
  })

  test('a handler that sends nothing for the length of a lease loses its session, and commits nothing', async () => {
    const own = open({ url: database.url, leaseMs: 1_000 })
    const work = handle(own, async (db) => {
      await insert(db, 1)
      await gone(await idOf(db))
    })
    expect(await codeOf(work)).toBe('STORE_FAILED')
    expect(await numbers()).toEqual([])
  })

  test('a snapshot writes nothing and does not move', async () => {
    const found = await store.read(function* (tx) {
      const before = yield* wait(tx.meta.get('moved'))
      yield* wait(store.transact((other) => wait(other.meta.set('moved', 'yes'))))
      const after = yield* wait(tx.meta.get('moved'))
      return [before, after, yield* wait(codeOf(Promise.resolve(tx.meta.set('moved', 'no'))))]
    })
    expect(found).toEqual([null, null, 'STORE_READ_ONLY'])
  })

  test('no password and no parameter is told in an error (P12)', async () => {
    const url = new URL(database.url)
    url.username = 'nobody_there'
    url.password = 'hunter2secret'
    const refused = await open({ url: url.href })
      .read((tx) => wait(tx.meta.get('a')))
      .catch((error) => error)
    expect(refused.code).toBe('STORE_FAILED')
    expect(JSON.stringify([refused, refused.message, refused.cause, refused.cause.message])).not.toContain(
      'hunter2secret',
    )
    const failed = await store
      .transact((tx) => wait(tx.trail.add(1, [{ number: 1.5 as never, hash: mark(1, 1).blockHash }])))
      .catch((error) => error)
    expect(failed).toBeInstanceOf(RangeError)
    await database.outside.query('RENAME TABLE tidemark_facts TO hidden')
    const missing = await store.transact((tx) => wait(tx.meta.set('a', 'an argument'))).catch((error) => error)
    await database.outside.query('RENAME TABLE hidden TO tidemark_facts')
    expect(missing).toMatchObject({ code: 'STORE_FAILED', values: { mysql: 1146 } })
    expect(missing.cause).not.toHaveProperty('sql')
    expect(() => mysql({ url: 'mysql://u:hunter2secret@h' })).toThrow(/'url' must be/)
    expect(() => mysql({ url: undefined })).toThrow(expect.objectContaining({ code: 'STORE_URL_UNDEFINED' }))
  })

  test('a server that is not there is a passing failure', async () => {
    const away = open({ url: 'mysql://root@127.0.0.1:9/test' })
    expect(await codeOf(away.read((tx) => wait(tx.meta.get('a'))))).toBe('STORE_FAILED')
  })

  test('nothing that a handler sends is seen before the commit, and its reads see the newest rows', async () => {
    const seen = await handle(store, async (db: MysqlDb) => {
      await rowsOf(db, 'SELECT * FROM numbers')
      await insert(database.outside, 1)
      await insert(db, 2)
      return [await numbers(), (await rowsOf(db, 'SELECT n FROM numbers ORDER BY n')).map(({ n }) => n)]
    })
    expect(seen).toEqual([[1], [1, 2]])
  })
})
