import { DatabaseSync } from '@photostructure/sqlite'
import { describe, expect, test } from 'vitest'
import { TidemarkError } from '../../errors.ts'
import type { World } from '../../util/world.ts'
import { realWorld } from '../../util/world.ts'
import type { DbScope, ScopeRules, Tx } from '../store.ts'
import { USER_STATEMENTS } from './connection.ts'
import { openDefault, type SqliteDatabaseLike } from './driver.ts'
import { type SqliteDb, sqlite } from './index.ts'

const rules: ScopeRules = { mayWrite: true, values: { watcher: 'w', block: 7 }, deadline: Number.POSITIVE_INFINITY }

/** A store on a table of distinct numbers that holds 1, and a way to run a handler on it. */
async function makeHandler(world: World = realWorld) {
  let raw: SqliteDatabaseLike | undefined
  const open = (file: string) => {
    raw = openDefault(file)
    return raw
  }
  const store = sqlite({ file: ':memory:', open, world })
  await store.migrate('auto')
  raw?.exec('CREATE TABLE numbers (n INTEGER PRIMARY KEY, text TEXT); INSERT INTO numbers (n) VALUES (1)')
  const handle = <T>(work: (scope: DbScope<SqliteDb>, tx: Tx<SqliteDb>) => T, changed: Partial<ScopeRules> = {}) =>
    store.transact(function* (tx) {
      const scope = tx.openScope({ ...rules, ...changed })
      const result = work(scope, tx)
      expect(scope.close('returned')).toBeUndefined() // verbs of this store answer at once
      return result
    })
  const count = () => Number(raw?.prepare('SELECT count(*) AS n FROM numbers').get()?.n)
  return { store, handle, count, raw: raw }
}

async function codeOf(work: Promise<unknown>): Promise<string> {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  return TidemarkError.is(error) ? error.code : String(error)
}

function swallow(work: () => unknown): void {
  try {
    work()
  } catch {
    // as careless handlers do
  }
}

describe('a statement that ends the transaction from inside', () => {
  test('INSERT OR ROLLBACK, thrown on', async () => {
    const { handle, count } = await makeHandler()
    const work = handle(({ db }) =>
      db.exec('INSERT INTO numbers (n) VALUES (2); INSERT OR ROLLBACK INTO numbers (n) VALUES (1)'),
    )
    expect(await codeOf(work)).toBe('TRANSACTION_LOST')
    expect(count()).toBe(1)
  })

  test('INSERT OR ROLLBACK, swallowed, with writes after it that would commit by themselves', async () => {
    const { handle, count } = await makeHandler()
    const work = handle(({ db }) => {
      swallow(() => db.exec('INSERT OR ROLLBACK INTO numbers (n) VALUES (1)'))
      swallow(() => db.exec('INSERT INTO numbers (n) VALUES (2)'))
    })
    expect(await codeOf(work)).toBe('TRANSACTION_LOST')
    expect(count()).toBe(1)
  })

  test('RAISE(ROLLBACK) in a trigger, swallowed inside a savepoint', async () => {
    const { handle } = await makeHandler()
    const work = handle(({ db, savepoint }) => {
      db.exec("CREATE TRIGGER no BEFORE INSERT ON numbers WHEN new.n = 9 BEGIN SELECT RAISE(ROLLBACK, 'no'); END")
      swallow(() => savepoint(() => db.prepare('INSERT INTO numbers (n) VALUES (?)').run(9)))
    })
    expect(await codeOf(work)).toBe('TRANSACTION_LOST')
  })

  test('raw COMMIT is found when the scope closes', async () => {
    const { handle } = await makeHandler()
    expect(await codeOf(handle(({ db }) => (db.raw as SqliteDatabaseLike).exec('COMMIT')))).toBe(
      'HANDLER_ENDED_TRANSACTION',
    )
  })

  test('after raw ROLLBACK no statement runs, since it would commit by itself', async () => {
    const { handle, count } = await makeHandler()
    const work = handle(({ db }) => {
      ;(db.raw as SqliteDatabaseLike).exec('ROLLBACK')
      swallow(() => db.exec('INSERT INTO numbers (n) VALUES (2)'))
    })
    expect(await codeOf(work)).toBe('HANDLER_ENDED_TRANSACTION')
    expect(count()).toBe(1)
  })

  test.each(['ROLLBACK', 'COMMIT'])('raw %s, then a text that is only prepared, and one that is run', async (end) => {
    const { handle, count } = await makeHandler()
    const work = handle(({ db }) => {
      const raw = db.raw as SqliteDatabaseLike
      raw.exec(end)
      const insert = db.prepare('INSERT INTO numbers (n) VALUES (2)')
      swallow(() => insert.run())
    })
    expect(await codeOf(work)).toBe('HANDLER_ENDED_TRANSACTION')
    expect(count()).toBe(1)
  })

  test('raw that was kept from an earlier callback ends it in a later one that does not touch db', async () => {
    const { handle } = await makeHandler()
    const kept = await handle(({ db }) => db.raw as SqliteDatabaseLike)
    expect(await codeOf(handle(() => kept.exec('ROLLBACK; BEGIN')))).toBe('HANDLER_ENDED_TRANSACTION')
  })

  test('raw COMMIT and BEGIN are found by the savepoint around it', async () => {
    const { handle } = await makeHandler()
    const work = handle(({ db, savepoint }) => savepoint(() => (db.raw as SqliteDatabaseLike).exec('COMMIT; BEGIN')))
    expect(await codeOf(work)).toBe('HANDLER_ENDED_TRANSACTION')
  })
})

describe('a scope that is over', () => {
  test('statements and iterators made inside are dead, and no snapshot stays open', async () => {
    const { handle, store } = await makeHandler()
    const leaked = await handle(({ db }) => {
      const rows = db.prepare('SELECT n FROM numbers UNION SELECT 5').iterate()
      rows.next()
      return { db, rows, statement: db.prepare('SELECT 1') }
    })
    for (const use of [
      () => leaked.rows.next(),
      () => leaked.statement.get(),
      () => leaked.statement.setReadBigInts(true),
      () => leaked.db.prepare('SELECT 1'),
      () => leaked.db.exec('SELECT 1'),
      () => leaked.db.raw,
      () => store.join(leaked.db),
    ]) {
      expect(use).toThrow(expect.objectContaining({ code: 'SCOPE_DEAD' }))
    }
    expect(await codeOf(handle(({ db }) => db.exec('INSERT INTO numbers (n) VALUES (2)')))).toBe('undefined')
  })

  test('the parts used alone join a living scope', async () => {
    const { handle, store } = await makeHandler()
    const isNew = await handle(({ db }) =>
      store.join(db).handled.insert({ scope: 's', chainId: 1, key: 'k' }, 5 as never, 1),
    )
    expect(isNew).toBe('new')
    expect(
      await codeOf(
        store.transact(function* (tx) {
          return tx.handled.find({ scope: 's', chainId: 1, key: 'k' })
        }),
      ),
    ).toBe('undefined')
  })
})

describe('a failure that a handler swallowed', () => {
  test.each([
    ['a text that does not parse', (db: SqliteDb) => db.prepare('SELEC 1')],
    ['a table that is not there', (db: SqliteDb) => db.prepare('SELECT * FROM nowhere')],
    ['a value that cannot be bound', (db: SqliteDb) => db.prepare('SELECT ?').get(new Date(0) as never)],
    ['a number beyond 64 bits', (db: SqliteDb) => db.prepare('SELECT ?').get(2n ** 64n)],
    [
      'two statements in prepare, of which the driver would run one',
      (db: SqliteDb) => db.prepare('SELECT 1; DELETE FROM numbers'),
    ],
    ['a text that the driver would cut at its NUL', (db: SqliteDb) => db.prepare('SELECT ?').get('a\0b')],
    ['a named text that the driver would cut', (db: SqliteDb) => db.prepare('SELECT :t').get({ t: 'a\0b' })],
    ['half a surrogate pair, which the driver would replace', (db: SqliteDb) => db.prepare('SELECT ?').get('\ud800')],
    ['an integer that a number cannot hold', (db: SqliteDb) => db.prepare('SELECT 9007199254740993').get()],
    ['the second of two rows', (db: SqliteDb) => [...db.prepare('SELECT 1 UNION SELECT 9007199254740993').iterate()]],
  ])('%s', async (_name, work) => {
    const { handle } = await makeHandler()
    expect(await codeOf(handle(({ db }) => swallow(() => work(db))))).toBe('HANDLER_SWALLOWED_ERROR')
  })

  test('the driver does cut a text at its NUL (control)', () => {
    const db = new DatabaseSync(':memory:')
    expect(db.prepare('SELECT ? AS t').get('a\0b')?.t).not.toBe('a\0b')
    db.close()
  })
})

describe('the guarded db has the shape of DatabaseSync', () => {
  test('positions, names, bytes, bigints, rows one by one', async () => {
    const { handle } = await makeHandler()
    const found = await handle(({ db }) => {
      const big = db.prepare('SELECT ? AS n, ? AS b')
      big.setReadBigInts(true)
      return [
        big.get(2n ** 62n, Uint8Array.of(1)),
        db.prepare('SELECT :a AS a').get({ a: 'x' }),
        db.prepare('INSERT INTO numbers (n) VALUES (?) RETURNING n').all(3),
        [...db.prepare('SELECT n FROM numbers ORDER BY n').iterate()],
        db.prepare('SELECT n FROM numbers WHERE n = ?').get(99),
      ].map((one) => JSON.stringify(one, (_key, value) => (typeof value === 'bigint' ? `${value}n` : value)))
    })
    expect(found).toEqual([
      '{"n":"4611686018427387904n","b":{"0":1}}',
      '{"a":"x"}',
      '[{"n":3}]',
      '[{"n":1},{"n":3}]',
      undefined,
    ])
  })

  test('a statement used inside the iteration of the same text does not reset it', async () => {
    const { handle } = await makeHandler()
    const seen = await handle(({ db }) => {
      db.exec('INSERT INTO numbers (n) VALUES (2), (3)')
      const sql = 'SELECT n FROM numbers ORDER BY n'
      return (
        [...db.prepare(sql).iterate()].length +
        [...db.prepare(sql).iterate()].filter(() => db.prepare(sql).get()).length
      )
    })
    expect(seen).toBe(6)
  })

  test('statements that differ by event do not grow the memory (P6)', async () => {
    const { handle, count } = await makeHandler()
    await handle(({ db }) => {
      for (let n = 2; n < 2 + 3 * USER_STATEMENTS; n++) db.prepare(`INSERT INTO numbers (n) VALUES (${n})`).run()
    })
    expect(count()).toBe(1 + 3 * USER_STATEMENTS)
  })
})

describe("undo: 'managed' and writes through db", () => {
  test.each(['CREATE TABLE other (n)', 'DROP TABLE numbers', 'UPDATE numbers SET n = 5', 'DELETE FROM numbers'])(
    '%s',
    async (sql) => {
      const { handle, count } = await makeHandler()
      expect(await codeOf(handle(({ db }) => db.exec(sql), { mayWrite: false }))).toBe('UNTRACKED_WRITE')
      expect(count()).toBe(1)
    },
  )

  test('raw is no way around', async () => {
    const { handle } = await makeHandler()
    const work = handle(({ db }) => (db.raw as SqliteDatabaseLike).exec('DELETE FROM numbers'), { mayWrite: false })
    expect(await codeOf(work)).toBe('UNTRACKED_WRITE')
  })

  test('raw that was kept from an earlier callback is none, even when the later one does not touch db', async () => {
    const { handle, count } = await makeHandler()
    const kept = await handle(({ db }) => db.raw as SqliteDatabaseLike)
    expect(await codeOf(handle(() => kept.exec('DELETE FROM numbers'), { mayWrite: false }))).toBe('UNTRACKED_WRITE')
    expect(count()).toBe(1)
  })

  test('a change of the schema that another callback was allowed is read anew', async () => {
    const { handle } = await makeHandler()
    const change = ({ db }: DbScope<SqliteDb>) => db.prepare('CREATE TABLE IF NOT EXISTS other (n)').run()
    await handle(change)
    expect(await codeOf(handle(change, { mayWrite: false }))).toBe('UNTRACKED_WRITE')
  })
})

describe('a handler that does not end', () => {
  /** A clock that moves on by one millisecond at each look. */
  function ticking(): World {
    let now = 0
    return { ...realWorld, monotonic: () => ++now }
  }

  test('a loop over statements ends at its deadline', async () => {
    const { handle, count } = await makeHandler(ticking())
    const work = handle(
      ({ db }) => {
        for (let n = 2; ; n++) db.prepare('INSERT INTO numbers (n) VALUES (?)').run(n)
      },
      { deadline: 50 },
    )
    expect(await codeOf(work)).toBe('HANDLER_TIMEOUT')
    expect(count()).toBe(1)
  })

  test('a loop over the rows of one endless statement ends at its deadline', async () => {
    const { handle } = await makeHandler(ticking())
    const endless = 'WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n'
    const work = handle(
      ({ db }) => {
        for (const _row of db.prepare(endless).iterate());
      },
      { deadline: 50 },
    )
    expect(await codeOf(work)).toBe('HANDLER_TIMEOUT')
  })

  test('a loop that touches nothing ends at the hard limit, and the store goes on', async () => {
    const { store, count } = await makeHandler()
    const work = store.transact((tx) =>
      tx.interruptible(function* () {
        tx.cursors.setGenesis(1, `0x${'00'.repeat(32)}` as never)
        for (;;);
      }, 50),
    )
    expect(await codeOf(work)).toBe('HANDLER_TIMEOUT')
    expect(count()).toBe(1)
    const genesis = await store.read(function* (tx) {
      return tx.cursors.genesis(1)
    })
    expect(genesis).toBeNull()
  })

  test('a promise from savepoint is refused and undone', async () => {
    const { handle, count } = await makeHandler()
    const work = handle(({ db, savepoint }) =>
      savepoint(async () => {
        db.exec('INSERT INTO numbers (n) VALUES (2)')
        throw new Error('nobody waits for this')
      }),
    )
    expect(await codeOf(work)).toBe('HANDLER_RETURNED_PROMISE')
    expect(count()).toBe(1)
  })

  test('the store called inside its own transaction refuses at once, instead of waiting for itself', async () => {
    const { handle, store } = await makeHandler()
    const inside = [() => store.transact(function* () {}), () => store.read(function* () {})]
    for (const call of inside) expect(await codeOf(handle(call))).toBe('TRANSACTION_CONTROL_REFUSED')
  })
})
