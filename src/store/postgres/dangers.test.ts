import pg from 'pg'
import { expect, test } from 'vitest'
import { describePostgres, postgresBench } from '../../../test/support/postgres.ts'
import { forwardAll, type TcpProxy, tcpProxy } from '../../../test/support/tcp-proxy.ts'
import { guardedCommit, type Run } from '../../handle/run.ts'
import { codeOf, hash, makeWatcher, mark, ref } from '../../testkit/store-cases/case.ts'
import { type Op, wait } from '../../util/op.ts'
import { realWorld } from '../../util/world.ts'
import type { ScopeRules, Tx } from '../store.ts'
import {
  type PgDb,
  type PgPoolClientLike,
  type PgPoolLike,
  type PostgresOptions,
  type PostgresStore,
  postgres,
} from './index.ts'

const bench = postgresBench()
const RULES: ScopeRules = { mayWrite: true, values: {}, deadline: Number.POSITIVE_INFINITY }

/** A migrated store that reaches its server through a proxy. */
async function proxied(options: Partial<PostgresOptions> = {}) {
  const made = await bench.migrated()
  const target = new URL(made.url)
  const proxy = await tcpProxy({ host: target.hostname, port: Number(target.port || 5432) })
  bench.later(() => proxy.close())
  target.port = String(proxy.port)
  return { proxy, client: made.client, store: bench.store({ url: target.href, ...options }) }
}

const setFact = (store: PostgresStore) => store.transact((tx) => wait(tx.meta.set('fact', 'here')))
const facts = async (client: pg.Client) =>
  (await client.query("SELECT value FROM tidemark.meta WHERE name = 'fact'")).rows.map((row) => row.value)

/** Runs `work` with a scope's `db`, without looking at how it ends. */
function* withDb(tx: Tx<PgDb>, work: (db: PgDb) => unknown): Op<unknown> {
  const scope = tx.openScope(RULES)
  const result = yield* wait(work(scope.db))
  yield* wait(scope.close('returned'))
  return result
}

const isCommit = (bytes: Buffer) => bytes.includes('COMMIT\0')

describePostgres('the answer to COMMIT is lost', () => {
  const cases: readonly (readonly [string, TcpProxy['rule'], string[]])[] = [
    ['before the server got it: nothing is there', (bytes) => (isCommit(bytes) ? 'cut' : 'forward'), []],
    ['after the server got it: all is there', (bytes) => (isCommit(bytes) ? 'cut answer' : 'forward'), ['here']],
  ]

  test.each(cases)('%s; either way it is COMMIT_UNKNOWN, and COMMIT is sent once', async (_name, rule, expected) => {
    const { proxy, client, store } = await proxied()
    let commits = 0
    proxy.rule = (bytes) => {
      if (isCommit(bytes)) commits++
      return rule(bytes)
    }
    expect(await codeOf(setFact(store))).toBe('COMMIT_UNKNOWN')
    expect([commits, proxy.cuts]).toEqual([1, 1])
    proxy.rule = forwardAll
    // The next transaction has a connection of its own and finds out.
    const found = await store.transact((tx) => wait(tx.meta.get('fact')))
    expect(found === null ? [] : [found]).toEqual(expected)
    expect(await facts(client)).toEqual(expected)
  })

  test.each(cases)(
    '%s; a guarded commit finds out by its nonce, and nothing is done twice',
    async (_name, rule, expected) => {
      const { proxy, client, store } = await proxied()
      const token = new Uint8Array(16).fill(7)
      const watcher = await store.transact(function* (tx) {
        const made = yield* makeWatcher(tx)
        yield* wait(tx.cursors.change(made, { token, updatedAt: 1 }))
        return made
      })
      const run = {
        watcher: { name: 'w' },
        id: watcher,
        token,
        store,
        world: realWorld,
        participants: [],
      } as never as Run
      proxy.rule = (bytes) => {
        const verdict = rule(bytes)
        if (verdict !== 'forward') proxy.rule = forwardAll // only the first COMMIT: the look at the nonce gets through
        return verdict
      }
      const commit = guardedCommit(run, { cursor: null, epoch: 0 }, function* (tx) {
        yield* wait(tx.meta.set('fact', 'here'))
        return { result: 'done', change: { cursor: ref(5), updatedAt: 2 } }
      })
      const outcome = await commit.catch((error) => error.code)
      expect([outcome, proxy.cuts]).toEqual([expected.length ? 'done' : 'COMMIT_UNKNOWN', 1])
      expect(await facts(client)).toEqual(expected)
      const { rows } = await client.query('SELECT cursor_block IS NOT NULL AS moved FROM tidemark.watchers')
      expect(rows).toEqual([{ moved: expected.length === 1 }])
    },
  )

  test('a statement before COMMIT whose connection breaks is no COMMIT_UNKNOWN (control)', async () => {
    const { proxy, client, store } = await proxied()
    proxy.rule = (bytes) => (bytes.includes('tidemark.meta') ? 'cut answer' : 'forward')
    expect(await codeOf(setFact(store))).toBe('STORE_FAILED')
    expect(await facts(client)).toEqual([])
  })

  test('a server that does not answer at all is a lost connection, in bounded time', async () => {
    const { proxy, client, store } = await proxied({ statementTimeoutMs: 100 })
    await setFact(store)
    const silent = store.transact(function* (tx) {
      yield* wait(tx.meta.set('fact', 'gone'))
      proxy.freeze()
      yield* wait(tx.meta.set('fact', 'gone too'))
    })
    expect(await codeOf(silent)).toBe('STORE_FAILED')
    proxy.thaw()
    expect(await facts(client)).toEqual(['here'])
  })
})

/** A pool whose clients do not know that a transaction was aborted. */
function blindPool(pool: pg.Pool): PgPoolLike {
  return {
    connect: async () => {
      const client = await pool.connect()
      const blind: PgPoolClientLike = {
        query: (config) => client.query(config),
        getTransactionStatus: () => (client.getTransactionStatus() === 'I' ? 'I' : 'T'),
        on: (event, listener) => client.on(event, listener),
        removeListener: (event, listener) => client.removeListener(event, listener),
        release: (destroy) => client.release(destroy),
      }
      return blind
    },
    on: () => {},
    removeListener: () => {},
    end: () => pool.end(),
  }
}

describePostgres('a COMMIT that commits nothing', () => {
  const swallow = (store: PostgresStore) =>
    store.transact(function* (tx) {
      yield* wait(tx.meta.set('fact', 'here'))
      const { db } = tx.openScope(RULES)
      yield* wait(db.raw.query('SELECT 1 / 0').catch(() => {}))
    })

  test('of an aborted transaction is not even sent', async () => {
    const { store, client } = await bench.migrated()
    expect(await codeOf(swallow(store))).toBe('TRANSACTION_LOST')
    expect(await facts(client)).toEqual([])
  })

  test('is known by its answer, ROLLBACK, where the driver did not say so before', async () => {
    const { url, client } = await bench.migrated()
    const pool = new pg.Pool({ connectionString: url })
    bench.later(() => pool.end())
    expect(await codeOf(swallow(bench.store({ pool: blindPool(pool) })))).toBe('TRANSACTION_LOST')
    expect(await facts(client)).toEqual([])
  })

  test('is known with an older driver too, which does not tell: its messages do', async () => {
    const { url, client } = await bench.migrated()
    const pool = new pg.Pool({ connectionString: url })
    bench.later(() => pool.end())
    pool.on('connect', (made) => Object.defineProperty(made, 'getTransactionStatus', { value: undefined }))
    const store = bench.store({ pool })
    expect(await codeOf(swallow(store))).toBe('TRANSACTION_LOST')
    expect(await facts(client)).toEqual([])
    await setFact(store)
    expect(await facts(client)).toEqual(['here'])
  })

  test('a deferred constraint is the handler’s failure, and nothing is there', async () => {
    const { store, client } = await bench.migrated()
    await client.query('CREATE TABLE a (id int PRIMARY KEY, b int REFERENCES a DEFERRABLE INITIALLY DEFERRED)')
    const broken = store.transact((tx) => withDb(tx, (db) => db.query('INSERT INTO a VALUES (1, 2)')))
    expect(await codeOf(broken)).toBe('HANDLER_FAILED')
    expect((await client.query('SELECT 1 FROM a')).rowCount).toBe(0)
  })
})

describePostgres('a raw COMMIT in the middle of a commit (P1)', () => {
  test('is refused by the server: no mark gets in without its cursor', async () => {
    const { store, client } = await bench.migrated()
    const watcher = await store.transact((tx) => makeWatcher(tx))
    const early = store.transact(function* (tx) {
      yield* wait(tx.cursors.open(watcher, new Uint8Array(16)))
      yield* wait(tx.marks.insert(watcher, [mark(5, 1)]))
      return yield* withDb(tx, (db) => db.raw.query('COMMIT').catch((error) => expect(error.code).toBe('23503')))
    })
    expect(await codeOf(early)).toBe('HANDLER_ENDED_TRANSACTION')
    expect((await client.query('SELECT 1 FROM tidemark.processed_events')).rowCount).toBe(0)
  })

  test('the same commit with its cursor goes through (control)', async () => {
    const { store, client } = await bench.migrated()
    const watcher = await store.transact((tx) => makeWatcher(tx))
    await store.transact(function* (tx) {
      yield* wait(tx.cursors.open(watcher, new Uint8Array(16)))
      yield* wait(tx.marks.insert(watcher, [mark(5, 1)]))
      yield* wait(tx.cursors.change(watcher, { cursor: ref(5), updatedAt: 2 }))
    })
    const found = await client.query('SELECT event_id FROM tidemark.events')
    expect(found.rows).toEqual([{ event_id: `1-${hash(1)}-1` }])
  })
})

/** Two transactions that each hold what the other one wants next. */
async function crossing(store: PostgresStore, client: pg.Client, swallow: boolean) {
  await client.query('CREATE TABLE accounts (id int PRIMARY KEY, n int); INSERT INTO accounts VALUES (1, 0), (2, 0)')
  let arrived = 0
  let open: () => void = () => {}
  const both = new Promise<void>((resolve) => {
    open = resolve
  })
  const add = (db: PgDb, account: number) => db.query('UPDATE accounts SET n = n + 1 WHERE id = $1', [account])
  const one = (first: number, second: number) =>
    store.transact((tx) =>
      withDb(tx, async (db) => {
        await add(db, first)
        if (++arrived === 2) open()
        await both
        await add(db, second).catch((error) => {
          if (!swallow) throw error
        })
      }),
    )
  return Promise.allSettled([one(1, 2), one(2, 1)])
}

describePostgres('transactions that meet', () => {
  test.each([false, true])(
    'a deadlock is STORE_BUSY, and one of both goes through (swallowed: %s)',
    async (swallow) => {
      const { store, client } = await bench.migrated()
      const ends = await crossing(store, client, swallow)
      const failed = ends.filter((one) => one.status === 'rejected')
      expect(failed.map((one) => one.reason.code)).toEqual(['STORE_BUSY'])
      expect(failed[0]?.reason.values.sqlstate).toBe('40P01')
      expect((await client.query('SELECT n FROM accounts')).rows).toEqual([{ n: 1 }, { n: 1 }])
    },
  )

  test('a serialization failure is STORE_BUSY (C58)', async () => {
    const { store, client } = await bench.migrated({ isolation: 'repeatable read' })
    const late = store.transact(function* (tx) {
      yield* wait(tx.meta.get('fact'))
      yield* wait(client.query("INSERT INTO tidemark.meta VALUES ('fact', 'other')"))
      yield* wait(tx.meta.set('fact', 'mine'))
    })
    await expect(late).rejects.toMatchObject({ code: 'STORE_BUSY', values: { sqlstate: '40001' } })
  })

  test('a lock that is not free in time is STORE_BUSY, and its holder is left alone', async () => {
    const { store, client } = await bench.migrated({ lockTimeoutMs: 200 })
    const watcher = await store.transact((tx) => makeWatcher(tx))
    await client.query('BEGIN; SELECT 1 FROM tidemark.watchers FOR UPDATE')
    expect(await codeOf(store.transact((tx) => wait(tx.cursors.lock(watcher))))).toBe('STORE_BUSY')
    await client.query('COMMIT')
  })

  test('marks of two writers in opposite order do not wait for each other (C59)', async () => {
    const { store } = await bench.migrated()
    const marks = Array.from({ length: 300 }, (_, i) => mark(i % 7, i))
    const both = await Promise.all(
      [marks, [...marks].reverse()].map((list) => store.transact((tx) => wait(tx.marks.insert(1, list)))),
    )
    expect(both.flat().filter(Boolean)).toHaveLength(300)
  })
})

describePostgres('a session that the server ends', () => {
  const endAll = (client: pg.Client) =>
    client.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid()`)
  const noneLeft = async (client: pg.Client) => {
    const others = 'SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()'
    while ((await client.query(others)).rowCount) await client.query('SELECT pg_sleep(0.02)')
  }

  test('in the middle of a transaction: a passing failure, nothing is there, and the next one works', async () => {
    const { store, client } = await bench.migrated()
    const ended = store.transact(function* (tx) {
      yield* wait(tx.meta.set('fact', 'lost'))
      yield* wait(endAll(client))
      yield* wait(tx.meta.set('fact', 'lost too'))
    })
    await expect(ended).rejects.toMatchObject({ code: 'STORE_FAILED', kind: 'retries' })
    await setFact(store)
    expect(await facts(client)).toEqual(['here'])
  })

  test('in a handler that swallows it: still a passing failure, not the handler’s', async () => {
    const { store, client } = await bench.migrated()
    const swallowed = store.transact((tx) =>
      withDb(tx, async (db) => {
        await endAll(client)
        await db.query('SELECT 1').catch(() => {})
      }),
    )
    expect(await codeOf(swallowed)).toBe('STORE_FAILED')
  })

  test('idle in the pool, the store’s own and the user’s: no process ends of it', async () => {
    const { store, client, url } = await bench.migrated()
    const pool = new pg.Pool({ connectionString: url, max: 4 })
    bench.later(() => pool.end())
    const second = bench.store({ pool })
    await Promise.all([setFact(second), setFact(store)])
    expect(pool.idleCount).toBe(1)
    await endAll(client)
    await noneLeft(client)
    await Promise.all([setFact(second), setFact(store)])
    await second.close()
    expect(pool.listenerCount('error')).toBe(0)
    expect((await pool.query('SELECT 1')).rowCount).toBe(1) // not closed: it is the user's
  })

  test('because the handler left the transaction idle: its own fault, HANDLER_TIMEOUT', async () => {
    const { store, client } = await bench.migrated({ leaseMs: 1_000 })
    const idle = store.transact((tx) =>
      withDb(tx, async (db) => {
        await db.query('SELECT 1')
        await client.query('SELECT pg_sleep(1.3)')
        await db.query('SELECT 1')
      }),
    )
    expect(await codeOf(idle)).toBe('HANDLER_TIMEOUT')
  })
})

describePostgres('a server that cannot be used', () => {
  test('unreachable, another password, no such database: a passing failure without the url in it (P12)', async () => {
    const { url } = await bench.database()
    const closed = new URL(url)
    closed.port = '1'
    closed.password = 'hunter2'
    const missing = new URL(url)
    missing.pathname = '/tidemark_test_none'
    for (const bad of [closed.href, missing.href]) {
      const error = await bench
        .store({ url: bad })
        .migrate('auto')
        .catch((one) => one)
      expect(error).toMatchObject({ code: 'STORE_FAILED', kind: 'retries' })
      expect(error.message).not.toMatch(/hunter2|127\.0\.0\.1/)
    }
  })

  test('read-only: STORE_READ_ONLY, and reading goes on', async () => {
    const { store, client, url } = await bench.migrated()
    await client.query(`ALTER DATABASE ${new URL(url).pathname.slice(1)} SET default_transaction_read_only = on`)
    const fresh = bench.store({ url })
    expect(await codeOf(setFact(fresh))).toBe('STORE_READ_ONLY')
    expect(await fresh.read((tx) => wait(tx.meta.get('fact')))).toBeNull()
    await setFact(store) // its connection is older than the setting
  })

  test('no free connection: STORE_BUSY in bounded time', async () => {
    const { url } = await bench.migrated()
    const store = bench.store({ url, maxConnections: 4, connectTimeoutMs: 300 })
    let release: () => void = () => {}
    const held = new Promise<void>((resolve) => {
      release = resolve
    })
    const busy = [1, 2, 3, 4].map(() => store.transact(() => wait(held)))
    const late = codeOf(setFact(store))
    expect(['STORE_BUSY', 'STORE_FAILED']).toContain(await late)
    release()
    await Promise.all(busy)
    await setFact(store)
  })

  test.each([
    [{ url: undefined }, 'STORE_URL_UNDEFINED'],
    [{ url: ' ' }, 'STORE_URL_UNDEFINED'],
    [{ url: 'postgres://x', schema: 'a"b' }, 'CONFIG_INVALID'],
    [{ url: 'postgres://x', leaseMs: 5 }, 'CONFIG_INVALID'],
    [{ url: 'postgres://x', statementTimeoutMs: 20_000 }, 'CONFIG_INVALID'],
    [{ url: 'postgres://x', isolation: 'chaos' as never }, 'CONFIG_INVALID'],
    [{ pool: { options: { max: 1 } } as never }, 'CONFIG_INVALID'],
  ] satisfies [PostgresOptions, string][])('options that cannot be meant are refused: %j', (options, code) => {
    expect(() => postgres(options)).toThrow(expect.objectContaining({ code }))
  })
})
