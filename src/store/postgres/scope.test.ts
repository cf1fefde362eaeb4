import { drizzle } from 'drizzle-orm/node-postgres'
import { integer, pgTable } from 'drizzle-orm/pg-core'
import { CamelCasePlugin, Kysely, PostgresDialect } from 'kysely'
import { expect, test } from 'vitest'
import { describePostgres, postgresBench } from '../../../test/support/postgres.ts'
import type { ErrorCode } from '../../errors.ts'
import { codeOf } from '../../testkit/store-cases/case.ts'
import { wait } from '../../util/op.ts'
import type { DbScope, ScopeRules, Tx } from '../store.ts'
import type { PgDb, PostgresOptions, PostgresStore } from './index.ts'

const RULES: ScopeRules = { mayWrite: true, values: { watcher: 'w' }, deadline: Number.POSITIVE_INFINITY }
const MAX = 2n ** 256n - 1n

const bench = postgresBench()

/** A store with a table of numbers that holds 1. */
async function prepared(options: Partial<PostgresOptions> = {}) {
  const made = await bench.migrated(options)
  await made.client.query('CREATE TABLE numbers (n integer PRIMARY KEY)')
  await made.client.query('INSERT INTO numbers VALUES (1)')
  const numbers = async () => (await made.client.query('SELECT n FROM numbers ORDER BY n')).rows.map((row) => row.n)
  return { ...made, numbers }
}

/** Runs a handler in a scope of its own, as the engine does. */
function handle<T>(
  store: PostgresStore,
  handler: (db: PgDb, scope: DbScope<PgDb>, tx: Tx<PgDb>) => T | Promise<T>,
  changed: Partial<ScopeRules> = {},
): Promise<T> {
  return store.transact(function* (tx) {
    const scope = tx.openScope({ ...RULES, ...changed })
    let result: T
    try {
      result = (yield* wait(handler(scope.db, scope, tx))) as T
    } catch (error) {
      yield* wait(scope.close('threw'))
      throw error
    }
    yield* wait(scope.close('returned'))
    return result
  })
}

const insert = (db: PgDb, n: number) => db.query('INSERT INTO numbers VALUES ($1)', [n])
const failing = async (db: PgDb) => {
  await insert(db, 1).catch(() => {})
}

const refusals: readonly (readonly [string, ErrorCode, (db: PgDb, scope: DbScope<PgDb>) => unknown])[] = [
  ['a statement that failed and was swallowed', 'HANDLER_SWALLOWED_ERROR', failing],
  ['the same one through raw', 'HANDLER_SWALLOWED_ERROR', (db) => failing(db.raw as unknown as PgDb)],
  ['a forgotten await', 'HANDLER_FORGOT_AWAIT', (db) => void insert(db, 2)],
  ['a forgotten await of a statement that fails', 'HANDLER_FORGOT_AWAIT', (db) => void insert(db, 1)],
  ['an async function given to forEach', 'HANDLER_FORGOT_AWAIT', (db) => [2, 3].forEach(async (n) => insert(db, n))],
  [
    'a forgotten await inside a savepoint',
    'HANDLER_FORGOT_AWAIT',
    (db, scope) => scope.savepoint(() => void insert(db, 2)),
  ],
  ['a savepoint that is not awaited', 'HANDLER_FORGOT_AWAIT', (db, scope) => void scope.savepoint(() => insert(db, 2))],
  [
    'two savepoints side by side',
    'HANDLER_FORGOT_AWAIT',
    (db, scope) => Promise.all([2, 3].map((n) => scope.savepoint(() => insert(db, n)))),
  ],
  ['COMMIT', 'TRANSACTION_CONTROL_REFUSED', (db) => db.query('COMMIT').catch(() => {})],
  ['COMMIT behind a statement', 'TRANSACTION_CONTROL_REFUSED', (db) => db.query('SELECT 1; COMMIT')],
  ['a BEGIN that is never ended', 'TRANSACTION_CONTROL_REFUSED', (db) => db.query('BEGIN')],
  ['the savepoint of the guard itself', 'TRANSACTION_CONTROL_REFUSED', (db) => db.query('SAVEPOINT tidemark_handler')],
  ['COPY', 'TRANSACTION_CONTROL_REFUSED', (db) => db.query('COPY numbers FROM STDIN')],
  ['a raw COMMIT', 'HANDLER_ENDED_TRANSACTION', (db) => db.raw.query('COMMIT')],
  ['a raw ROLLBACK that a new BEGIN hides', 'HANDLER_ENDED_TRANSACTION', (db) => db.raw.query('ROLLBACK; BEGIN')],
  [
    'a raw COMMIT that a new BEGIN hides, inside a savepoint',
    'HANDLER_ENDED_TRANSACTION',
    (db, scope) => scope.savepoint(() => db.raw.query('COMMIT; BEGIN')),
  ],
]

describePostgres('what a handler may not do', () => {
  test.each(refusals)('%s is noticed (%s), and nothing is committed', async (_name, code, handler) => {
    const { store, numbers } = await prepared()
    expect(await codeOf(handle(store, handler))).toBe(code)
    expect(await numbers()).toEqual([1])
  })

  test('db is dead after its callback, also for who kept it', async () => {
    const { store, numbers } = await prepared()
    const kept = await handle(store, (db) => db)
    expect(await codeOf(insert(kept, 5))).toBe('SCOPE_DEAD')
    expect(() => kept.raw).toThrow(expect.objectContaining({ code: 'SCOPE_DEAD' }))
    expect(() => store.join(kept)).toThrow(expect.objectContaining({ code: 'SCOPE_DEAD' }))
    expect(await numbers()).toEqual([1])
  })

  test('a statement that outlives the deadline ends with HANDLER_TIMEOUT, and its connection with it', async () => {
    const { store, numbers } = await prepared()
    const started = performance.now()
    const slow = handle(
      store,
      async (db) => {
        await insert(db, 2)
        await db.query('SELECT pg_sleep(8)').catch(() => {})
      },
      { deadline: performance.now() + 300 },
    )
    expect(await codeOf(slow)).toBe('HANDLER_TIMEOUT')
    expect(performance.now() - started).toBeLessThan(4_000)
    expect(await numbers()).toEqual([1])
  })

  test('a stream is refused with a word on the way out, and works through raw', async () => {
    const { store } = await prepared()
    const stream = { submit: () => {} } as never
    await expect(handle(store, (db) => db.query(stream))).rejects.toThrow(/db\.raw/)
  })
})

describePostgres('what a handler may do', () => {
  test('raw, when the transaction is as it was', async () => {
    const { store, numbers } = await prepared()
    await handle(store, async (db, scope) => {
      await db.raw.query('INSERT INTO numbers VALUES (2)')
      await scope.savepoint(() => db.raw.query('INSERT INTO numbers VALUES (3)'))
      await insert(db, 4)
      await db.raw.query('INSERT INTO numbers VALUES (5)')
    })
    expect(await numbers()).toEqual([1, 2, 3, 4, 5])
  })

  test('callbacks, rows as arrays, statements as objects, many at once in their order', async () => {
    const { store } = await prepared()
    const found = await handle(store, async (db) => {
      const byCallback = await new Promise((resolve, reject) => {
        db.query('SELECT $1::int AS n', [7], (error, result) => (error ? reject(error) : resolve(result?.rows)))
      })
      const array = await db.query<number[]>({ text: 'SELECT 1, 2', rowMode: 'array' })
      const several = await Promise.all([insert(db, 2), insert(db, 3), db.query('SELECT max(n) AS n FROM numbers')])
      return [byCallback, array.rows, several[2].rows]
    })
    expect(found).toEqual([[{ n: 7 }], [[1, 2]], [{ n: 3 }]])
  })

  test('a nested transaction of Drizzle', async () => {
    const { store, numbers } = await prepared()
    const table = pgTable('numbers', { n: integer().primaryKey() })
    await handle(store, async (db) => {
      const orm = drizzle(db as never)
      await orm.insert(table).values({ n: 2 })
      await orm.transaction(async (tx) => {
        await tx.insert(table).values({ n: 3 })
        await tx.transaction((inner) => inner.insert(table).values({ n: 1 })).catch(() => {})
        await tx.insert(table).values({ n: 4 })
      })
      await orm.transaction((tx) => tx.insert(table).values({ n: 1 })).catch(() => {})
      expect(await orm.select().from(table)).toHaveLength(4)
    })
    expect(await numbers()).toEqual([1, 2, 3, 4])
  })

  test('a nested transaction of Kysely', async () => {
    const { store, numbers } = await prepared()
    await handle(store, async (db) => {
      const kysely = new Kysely<{ numbers: { n: number } }>({ dialect: new PostgresDialect({ pool: db }) })
      await kysely.insertInto('numbers').values({ n: 2 }).execute()
      await kysely.transaction().execute((tx) => tx.insertInto('numbers').values({ n: 3 }).execute())
      const failed = kysely.transaction().execute((tx) => tx.insertInto('numbers').values({ n: 1 }).execute())
      await failed.catch(() => {})
      const tx = await kysely.startTransaction().execute()
      const saved = await tx.savepoint('here').execute()
      await saved.insertInto('numbers').values({ n: 9 }).execute()
      await saved.rollbackToSavepoint('here').execute()
      await tx.commit().execute()
    })
    expect(await numbers()).toEqual([1, 2, 3])
  })

  test('ask for a lock without waiting, in a savepoint; outside one it is a passing failure', async () => {
    const { store, client, numbers } = await prepared()
    await client.query('BEGIN; SELECT 1 FROM numbers FOR UPDATE')
    const lock = (db: PgDb) => db.query('SELECT 1 FROM numbers WHERE n = 1 FOR UPDATE NOWAIT')
    await handle(store, async (db, scope) => {
      await expect(scope.savepoint(() => lock(db))).rejects.toMatchObject({ code: 'STORE_BUSY' })
      await insert(db, 2)
    })
    expect(await codeOf(handle(store, lock))).toBe('STORE_BUSY')
    expect(await codeOf(handle(store, (db) => lock(db).catch(() => {})))).toBe('STORE_BUSY')
    await client.query('COMMIT')
    expect(await numbers()).toEqual([1, 2])
  })

  test('a failure that a nested COMMIT would hide stays noticed', async () => {
    const { store, numbers } = await prepared()
    const hidden = handle(store, async (db) => {
      await db.query('BEGIN')
      await failing(db)
      expect((await db.query('COMMIT')).command).toBe('ROLLBACK')
    })
    expect(await codeOf(hidden)).toBe('HANDLER_SWALLOWED_ERROR')
    expect(await numbers()).toEqual([1])
  })
})

describePostgres("undo: 'managed'", () => {
  const managed = { mayWrite: false }
  const writes: readonly (readonly [string, (db: PgDb) => unknown])[] = [
    ['INSERT', (db) => insert(db, 2)],
    ['WITH … INSERT', (db) => db.query('WITH a AS (INSERT INTO numbers VALUES (2) RETURNING n) SELECT n FROM a')],
    ['a function that writes', (db) => db.query('SELECT write_two()')],
    ['DO', (db) => db.query('DO $$ BEGIN INSERT INTO numbers VALUES (2); END $$')],
    ['a sequence', (db) => db.query("SELECT nextval('steps')")],
    ['CREATE', (db) => db.query('CREATE TABLE other (n int)')],
    ['raw', (db) => db.raw.query('INSERT INTO numbers VALUES (2)')],
    ['raw, after a try to lift it', (db) => db.raw.query('SET transaction_read_only = off').catch(() => {})],
  ]

  test.each(writes)('%s is refused', async (_name, write) => {
    const { store, client, numbers } = await prepared()
    await client.query("CREATE FUNCTION write_two() RETURNS void LANGUAGE sql AS 'INSERT INTO numbers VALUES (2)'")
    await client.query('CREATE SEQUENCE steps')
    await expect(handle(store, async (db) => void (await write(db)), managed)).rejects.toThrow()
    expect(await numbers()).toEqual([1])
  })

  test('a function that writes is UNTRACKED_WRITE, also when that is swallowed', async () => {
    const { store, client } = await prepared()
    await client.query("CREATE FUNCTION write_two() RETURNS void LANGUAGE sql AS 'INSERT INTO numbers VALUES (2)'")
    const quiet = handle(store, (db) => db.query('SELECT write_two()').catch(() => {}), managed)
    expect(await codeOf(quiet)).toBe('UNTRACKED_WRITE')
  })

  test('Tidemark writes in the middle and afterwards, also in a savepoint of the user', async () => {
    const { store, numbers } = await prepared()
    const { marks } = { marks: [2, 3, 4, 5] }
    await store.transact(function* (tx) {
      const scope = tx.openScope({ ...RULES, ...managed })
      const own = (n: number) => scope.own(() => tx.meta.set(`fact_${n}`, String(n))) as Promise<void>
      const read = () => scope.db.query('SELECT n FROM numbers')
      yield* wait(read())
      yield* wait(own(marks[0] as number))
      yield* wait(
        scope.savepoint(async () => {
          await read()
          await own(3)
          await read()
        }),
      )
      yield* wait(read())
      yield* wait(scope.close('returned'))
      yield* wait(tx.meta.set('fact_4', '4'))
    })
    const facts = await store.read(function* (tx) {
      return [
        yield* wait(tx.meta.get('fact_2')),
        yield* wait(tx.meta.get('fact_3')),
        yield* wait(tx.meta.get('fact_4')),
      ]
    })
    expect(facts).toEqual(['2', '3', '4'])
    expect(await numbers()).toEqual([1])
  })
})

describePostgres('parameters', () => {
  test('2^256 − 1 goes in and comes out to the digit, as text; a bigint is a parameter', async () => {
    const { store } = await prepared()
    const rows = await handle(store, async (db) => {
      await db.query('CREATE TABLE amounts (a numeric(78,0), b bigint, c bytea)')
      await db.query('INSERT INTO amounts VALUES ($1, $2, $3)', [MAX, 2n ** 63n - 1n, Uint8Array.of(0, 255)])
      return (await db.query('SELECT a, b, c FROM amounts')).rows
    })
    expect(rows).toEqual([{ a: MAX.toString(), b: '9223372036854775807', c: Buffer.from([0, 255]) }])
  })

  test.each([
    ['NUL', 'a\0b'],
    ['half a surrogate pair', 'a\ud800'],
    ['NUL in an array', ['fine', 'a\0b']],
  ])('%s is a RangeError before it is sent, and the transaction lives', async (_name, value) => {
    const { store } = await prepared()
    await handle(store, async (db, scope) => {
      const sent = scope.savepoint(() => db.query('SELECT $1', [value]))
      await expect(sent).rejects.toThrow(RangeError)
      await insert(db, 2)
    })
  })

  test('65,535 parameters pass; one more is a RangeError, not a statement with none', async () => {
    const { store } = await prepared()
    const statement = (count: number) => ({
      text: `SELECT 1 WHERE 0 IN (${Array.from({ length: count }, (_, i) => `$${i + 1}::int`).join(',')})`,
      values: Array.from({ length: count }, () => 0),
    })
    await handle(store, async (db, scope) => {
      expect((await db.query(statement(65_535))).rowCount).toBe(1)
      await expect(scope.savepoint(() => db.query(statement(65_536)))).rejects.toThrow(/65535/)
    })
  })
})

describePostgres('the own transaction of an application', () => {
  const key = { scope: 'a', chainId: 1, key: 'k' }
  const mark = (tx: Tx<PgDb>) => tx.handled.insert(key, 5 as never, 1)

  test('by a pg client: refused without a transaction, before anything is written', async () => {
    const { store, client, url } = await prepared()
    expect(() => store.join(client)).toThrow(expect.objectContaining({ code: 'NOT_IN_TRANSACTION' }))
    await client.query('BEGIN')
    expect(await mark(store.join(client))).toBe('new')
    await client.query('ROLLBACK')
    const other = await bench.client(url)
    expect((await other.query('SELECT 1 FROM tidemark.handled_events')).rowCount).toBe(0)
  })

  test('by Drizzle, Kysely, and the guarded db', async () => {
    const { store, client, url } = await prepared()
    const orm = drizzle(client)
    expect(await orm.transaction(async (tx) => mark(store.join(tx as never)))).toBe('new')
    await expect(async () => mark(store.join(orm as never))).rejects.toMatchObject({ code: 'NOT_IN_TRANSACTION' })
    const { Pool } = (await import('pg')).default
    const pool = new Pool({ connectionString: url })
    bench.later(() => pool.end())
    const kysely = new Kysely({ dialect: new PostgresDialect({ pool }), plugins: [new CamelCasePlugin()] })
    expect(await kysely.transaction().execute(async (tx) => mark(store.join(tx)))).toBe('done')
    expect(() => store.join(kysely as never)).toThrow(expect.objectContaining({ code: 'NOT_IN_TRANSACTION' }))
    expect(() => store.join(pool as never)).toThrow(expect.objectContaining({ code: 'NOT_IN_TRANSACTION' }))
    expect(await handle(store, async (db) => mark(store.join(db)))).toBe('done')
  })

  test('a client that does not tell is asked by a savepoint', async () => {
    const { store, client } = await prepared()
    const silent = { query: (text: string, values?: unknown[]) => client.query(text, values) }
    await expect(mark(store.join(silent as never))).rejects.toMatchObject({ code: 'NOT_IN_TRANSACTION' })
    await expect(store.join(silent as never).savepoint('a')).rejects.toMatchObject({ code: 'NOT_IN_TRANSACTION' })
    expect((await client.query('SELECT 1 FROM tidemark.handled_events')).rowCount).toBe(0)
    await client.query('BEGIN')
    expect(await mark(store.join(silent as never))).toBe('new')
    await client.query('COMMIT')
  })
})
