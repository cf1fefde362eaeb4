import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { isPoison, POISON } from '../support/bad-bench.ts'
import { pay } from '../support/demo-ledger.ts'
import { type BadBenchOptions, harmful, makeBadTables, type Scope, StoreBadBench } from '../support/store-bad-bench.ts'
import { goodOn, type Moved, move } from '../support/store-ledger.ts'
import { application, type Backend, type Database, type Definition, servers } from '../support/stores.ts'

/**
 * A handler that does what it must not do at one event, on stores behind a connection: the watcher halts and says why, the
 * blocks before are in, nothing of the bad block is, the other watcher goes on (P11); and with a corrected handler
 * everything ends as the oracle says.
 */

type Harm = (scope: Scope, backend: Backend) => unknown

const db = (scope: Scope) => scope.db as { query(sql: string, values?: unknown[]): Promise<unknown>; raw: any }
const raw = (scope: Scope) => db(scope).raw as { query(sql: string): Promise<unknown> }
const quietly = (work: Promise<unknown>) => work.catch(() => {})
/** Breaks the primary key of the balances by itself. */
const TWICE = "INSERT INTO balances (account, amount) VALUES ('x', 1), ('x', 1)"
const ONCE = "INSERT INTO balances (account, amount) VALUES ('x', 1)"
/** Above the limit of 65,536 characters. */
const HUGE = { text: 'x'.repeat(70_000) }

const HALTS: readonly (readonly [what: string, code: string, harm: Harm])[] = [
  ['throws after its writes', 'HANDLER_FAILED', () => Promise.reject(new Error('no'))],
  ['fails at a statement', 'HANDLER_FAILED', (scope) => db(scope).query(TWICE)],
  ['swallows a failed statement', 'HANDLER_SWALLOWED_ERROR', (scope) => quietly(db(scope).query(TWICE))],
  ['swallows a text that does not parse', 'HANDLER_SWALLOWED_ERROR', (scope) => quietly(db(scope).query('SELEC'))],
  [
    'swallows a failed statement and goes on',
    'HANDLER_SWALLOWED_ERROR',
    async (scope) => {
      await quietly(db(scope).query(TWICE))
      await quietly(db(scope).query(ONCE))
    },
  ],
  ['forgets an await', 'HANDLER_FORGOT_AWAIT', (scope) => void db(scope).query(ONCE)],
  ['says COMMIT on db', 'TRANSACTION_CONTROL_REFUSED', (scope) => db(scope).query('COMMIT')],
  ['swallows the refusal of COMMIT', 'TRANSACTION_CONTROL_REFUSED', (scope) => quietly(db(scope).query('commit'))],
  ['says ROLLBACK on db', 'TRANSACTION_CONTROL_REFUSED', (scope) => db(scope).query('/* a */ ROLLBACK')],
  ['says BEGIN on db, and leaves it open', 'TRANSACTION_CONTROL_REFUSED', (scope) => db(scope).query('BEGIN')],
  ['rolls back on db.raw', 'HANDLER_ENDED_TRANSACTION', (scope) => raw(scope).query('ROLLBACK')],
  [
    'rolls back on db.raw, begins again and writes',
    'HANDLER_ENDED_TRANSACTION',
    async (scope) => {
      await raw(scope).query('ROLLBACK')
      await raw(scope).query('BEGIN')
      await raw(scope).query(ONCE)
    },
  ],
  ['returns a memo that is too long', 'MEMO_INVALID', async () => HUGE],
  ['returns a memo that is no value', 'MEMO_INVALID', async () => ({ undo: () => {} })],
  ['changes the session on db', 'TRANSACTION_CONTROL_REFUSED', (scope) => db(scope).query("SET time_zone = '+05:00'")],
]

/** A word that is not known is not sent to MariaDB, and the end of an XA transaction is refused by the server. */
const OTHERWISE = new Map([
  ['mysql that swallows a text that does not parse', 'TRANSACTION_CONTROL_REFUSED'],
  ['mysql that rolls back on db.raw', 'HANDLER_FAILED'],
  ['mysql that rolls back on db.raw, begins again and writes', 'HANDLER_FAILED'],
])

/** The code of an end of the transaction on `db.raw`: found out afterwards, or refused by the server before it happens. */
const ENDED: Readonly<Record<string, string>> = { postgres: 'HANDLER_ENDED_TRANSACTION', mysql: 'HANDLER_FAILED' }

/**
 * COMMIT on `db.raw`, with what a handler may do to hide it. PostgreSQL refuses it since the cursor row refers to nothing,
 * MariaDB since it is an XA transaction.
 */
const COMMITS: readonly (readonly [what: string, texts: readonly string[]])[] = [
  ['says COMMIT', ['COMMIT']],
  ['commits and begins again', ['COMMIT', 'BEGIN']],
  ['commits, begins again and makes up the savepoint', ['COMMIT', 'BEGIN', 'SAVEPOINT tidemark_handler']],
]

/**
 * What the stores do not keep yet. Each of these tests must fail: one that passes says that its line here has to go.
 *
 * - MariaDB: a handler's time-out waits until the server has answered its last statement.
 * - PostgreSQL: `set_config(…, false)` in a SELECT stays in the session, goes back to the pool with it, and whoever gets it
 *   next stumbles.
 * - A role without rights (PostgreSQL), another database (MariaDB), taken on for the transaction: Tidemark's own statements
 *   after it fail, and are tried for ever.
 */
const KNOWN: ReadonlySet<string> = new Set([
  'mysql a long statement',
  'mysql USE on raw',
  'postgres set_config',
  'postgres SET LOCAL ROLE',
  'postgres SET ROLE on raw',
])

function known(backend: Backend, what: string) {
  return KNOWN.has(`${backend.kind} ${what}`) ? test.fails : test
}

function insertInto(scope: Scope, account: string): Promise<unknown> {
  return db(scope).query(`INSERT INTO balances (account, amount) VALUES ('${account}', 1)`)
}

/** Tests on one backend, each with the database to itself. */
function onEmpty(backend: Backend) {
  let database: Database
  const ends: (() => Promise<unknown>)[] = []
  beforeAll(async () => {
    database = await backend.database()
    await makeBadTables(database)
  })
  afterEach(async () => {
    for (const end of ends.splice(0).reverse()) await end()
    await database.empty()
  })
  afterAll(() => database?.drop())
  const later = (end: () => Promise<unknown>) => void ends.push(end)
  const bench = (bad: Partial<Definition>, options?: BadBenchOptions) => {
    const made = new StoreBadBench(database, bad, options)
    later(() => made.h.close())
    return made
  }
  return { bench, later, database: () => database }
}

for (const backend of servers) {
  backend.describe('a bad handler', () => {
    const { bench } = onEmpty(backend)

    test.each(HALTS)('that %s: %s', async (what, code, harm) => {
      const b = bench(harmful(backend, (scope) => harm(scope, backend)))
      await b.meetPoison()
      await b.expectHalt(OTHERWISE.get(`${backend.kind} that ${what}`) ?? code)
      await b.repair()
    })

    for (const [what, texts] of COMMITS) {
      known(backend, what)(`that ${what} on db.raw: HANDLER_ENDED_TRANSACTION`, async () => {
        const say = async (scope: Scope) => {
          for (const text of texts) await raw(scope).query(text)
        }
        const b = bench(harmful(backend, say))
        await b.meetPoison()
        await b.expectHalt(ENDED[backend.kind] as string)
        await b.repair()
      })
    }

    test('that throws before its writes: HANDLER_FAILED', async () => {
      const { handle } = goodOn(backend)
      const b = bench({
        handle: (scope) => {
          if (isPoison(scope.event)) throw new Error('no')
          return handle(scope)
        },
      })
      await b.meetPoison()
      await b.expectHalt('HANDLER_FAILED')
      await b.repair()
    })

    test('that returns before its statements have: HANDLER_FORGOT_AWAIT', async () => {
      const { handle } = goodOn(backend)
      // Whoever drops a promise that may fail ends a Node process; here it is caught, so that only the guard is looked at.
      const drop = (work: unknown) => void quietly(work as Promise<unknown>)
      const b = bench({ handle: (scope) => (isPoison(scope.event) ? drop(handle(scope)) : handle(scope)) })
      await b.meetPoison()
      await b.expectHalt('HANDLER_FORGOT_AWAIT')
      await b.repair()
    })

    test('that never comes to an end: HANDLER_TIMEOUT, and the next event works after resume', async () => {
      const hang = () => {
        b.h.world.jump(5_000)
        return new Promise(() => {})
      }
      const b = bench(harmful(backend, hang, { handlerTimeout: 2_000 }))
      await b.meetPoison()
      await b.expectHalt('HANDLER_TIMEOUT')
      await b.repair()
    })

    known(backend, 'a long statement')(
      'whose statement is never answered: HANDLER_TIMEOUT, and its transaction is over',
      async () => {
        const sleep = backend.kind === 'mysql' ? 'SELECT SLEEP(9)' : 'SELECT pg_sleep(9)'
        const slow = (scope: Scope) => quietly(db(scope).query(sleep))
        const b = bench(harmful(backend, slow, { handlerTimeout: 500 }))
        const started = performance.now()
        await b.meetPoison()
        expect(performance.now() - started).toBeLessThan(5_000)
        await b.expectHalt('HANDLER_TIMEOUT')
        await b.repair()
      },
    )

    test('that keeps db for later: the later use is refused, and writes nothing', async () => {
      const kept: Scope[] = []
      const b = bench(harmful(backend, (scope) => void kept.push(scope)))
      await b.meetPoison()
      await expect((async () => insertInto(kept[0] as Scope, 'later'))()).rejects.toMatchObject({ code: 'SCOPE_DEAD' })
      expect(() => raw(kept[0] as Scope)).toThrow(expect.objectContaining({ code: 'SCOPE_DEAD' }))
      expect(b.codes()).toEqual([])
      await b.endsWell()
    })

    test("that writes through db with undo: 'managed': UNTRACKED_WRITE", async () => {
      const { tables, ...good } = goodOn(backend)
      const handle = (scope: Scope) => {
        const { from: sender, to: receiver, value: amount } = scope.event.args as unknown as Moved
        ;(scope.tables['transfers'] as { insert(row: object): void }).insert({ sender, receiver, amount })
        return isPoison(scope.event) ? insertInto(scope, 'untracked') : undefined
      }
      const changes = { ...good, tables, handle, undo: 'managed' as const }
      const b = bench(changes as never, { tables: ['transfers'] })
      await b.meetPoison()
      await b.expectHalt('UNTRACKED_WRITE')
      await b.repair({ ...changes, handle: (scope: Scope) => handle({ ...scope, db: { query: () => {} } }) } as never)
    })

    test('that expects a failure inside savepoint() is no bad handler', async () => {
      const b = bench(harmful(backend, (scope) => quietly(scope.savepoint(() => db(scope).query(TWICE)) as never)))
      await b.meetPoison()
      expect(b.codes()).toEqual([])
      await b.endsWell()
    })
  })
}

type SessionCase = readonly [what: string, change: (scope: Scope) => unknown, code?: string]

/** What stays in a session beyond its transaction, by each way that a handler has. */
const SESSIONS: Readonly<Record<string, readonly SessionCase[]>> = {
  postgres: [
    ['SET search_path', (scope) => db(scope).query('SET search_path = nowhere'), 'TRANSACTION_CONTROL_REFUSED'],
    ['SET ROLE', (scope) => db(scope).query('SET ROLE pg_monitor'), 'TRANSACTION_CONTROL_REFUSED'],
    ['RESET ALL', (scope) => db(scope).query('RESET ALL'), 'TRANSACTION_CONTROL_REFUSED'],
    ['set_config', (scope) => db(scope).query("SELECT set_config('search_path', 'nowhere', false)")],
    ['SET LOCAL search_path', (scope) => db(scope).query('SET LOCAL search_path = nowhere')],
    ['SET LOCAL ROLE', (scope) => db(scope).query('SET LOCAL ROLE pg_monitor')],
    ['SET search_path on raw', (scope) => raw(scope).query('SET search_path = nowhere')],
    ['SET ROLE on raw', (scope) => raw(scope).query('SET ROLE pg_monitor')],
    ['a prepared statement on raw', (scope) => raw(scope).query('PREPARE own AS SELECT 1')],
  ],
  mysql: [
    ['SET autocommit', (scope) => db(scope).query('SET autocommit = 0'), 'TRANSACTION_CONTROL_REFUSED'],
    ['SET sql_mode', (scope) => db(scope).query("SET SESSION sql_mode = ''"), 'TRANSACTION_CONTROL_REFUSED'],
    ['USE', (scope) => db(scope).query('USE information_schema'), 'TRANSACTION_CONTROL_REFUSED'],
    ['SET TRANSACTION', (scope) => db(scope).query('SET TRANSACTION READ ONLY'), 'TRANSACTION_CONTROL_REFUSED'],
    ['a user variable', (scope) => db(scope).query('SET @own = 5')],
    [
      'SET sql_mode on raw',
      (scope) => raw(scope).query("SET SESSION sql_mode = 'ANSI_QUOTES,PAD_CHAR_TO_FULL_LENGTH'"),
    ],
    ['SET autocommit on raw', (scope) => raw(scope).query('SET SESSION autocommit = 0')],
    ['USE on raw', (scope) => raw(scope).query('USE information_schema')],
  ],
}

/** The other side of a deadlock: it holds `b`, wants `a`, and is the one that the server lets live. */
async function crossed(
  database: Database,
): Promise<{ meet(): Promise<void>; over(): Promise<void>; end(): Promise<void> }> {
  const other = await application(database)
  const heavier = async () => {
    // InnoDB ends the transaction that changed fewer rows; PostgreSQL the one that looks first.
    if (database.backend.kind === 'mysql') await other.send('INSERT INTO seen (amount) SELECT seq FROM seq_1_to_2000')
    else await other.send("SET deadlock_timeout = '30s'")
  }
  let waiting: Promise<unknown> = Promise.resolve()
  const want = "UPDATE balances SET amount = amount + 1000 WHERE account = 'a'"
  return {
    meet: async () => {
      await other.send('BEGIN')
      await heavier()
      await other.send("UPDATE balances SET amount = amount + 1000 WHERE account = 'b'")
      waiting = other.send(want).then(() => other.send('ROLLBACK'))
    },
    over: async () => void (await waiting),
    end: () => other.end(),
  }
}

for (const backend of servers) {
  backend.describe('two transactions that lock the same rows crosswise', () => {
    const { bench, later, database } = onEmpty(backend)
    const touch = (scope: Scope, account: string) =>
      db(scope).query(`UPDATE balances SET amount = amount + 1 WHERE account = '${account}'`)

    test.each([
      ['swallows the deadlock', quietly],
      ['lets the deadlock through', (work: Promise<unknown>) => work],
    ])('a handler that %s: nothing of it is committed, and it is tried again', async (_what, meet) => {
      const other = await crossed(database())
      later(() => other.end())
      await database().rows("INSERT INTO balances (account, amount) VALUES ('a', 0), ('b', 0)")
      let first = true
      let after = ''
      const harm = async (scope: Scope) => {
        await touch(scope, 'a')
        if (!first) return void (await touch(scope, 'b'))
        first = false
        await other.meet()
        await meet(touch(scope, 'b'))
        // As a careless handler does that has noticed nothing.
        await quietly(insertInto(scope, 'after'))
        after = 'tried'
      }
      const b = bench(harmful(backend, harm))
      await b.meetPoison(pay(POISON), true)
      await other.over()
      expect(b.codes()).toEqual(['STORE_BUSY'])
      expect(after).toBe(meet === quietly ? 'tried' : '')
      const left = "SELECT account, amount FROM balances WHERE account IN ('a', 'b', 'after') ORDER BY account"
      const rows = (amount: number) => [
        { account: 'a', amount },
        { account: 'b', amount },
      ]
      expect([await b.marks(), await database().rows(left)]).toEqual([[1, 1, 2], rows(0)])
      // It heals by itself: passing, not permanent.
      b.h.world.jump(60_000)
      await b.h.settle()
      expect(await database().rows(left)).toEqual(rows(1))
      await database().rows("DELETE FROM balances WHERE account IN ('a', 'b')")
      await b.endsWell()
    })
  })

  backend.describe('what a handler does to the schema and the session', () => {
    const { bench, database } = onEmpty(backend)
    const exists = (table: string) =>
      database()
        .rows(`SELECT 1 FROM ${table}`)
        .then(
          () => true,
          () => false,
        )

    test('CREATE TABLE on db is part of the commit, or refused where it would commit', async () => {
      const b = bench(
        harmful(backend, async (scope) => {
          await db(scope).query('CREATE TABLE made_by_handler (n INT)')
          throw new Error('no')
        }),
      )
      await b.meetPoison()
      await b.expectHalt(backend.kind === 'mysql' ? 'TRANSACTION_CONTROL_REFUSED' : 'HANDLER_FAILED')
      expect(await exists('made_by_handler')).toBe(false)
      await b.repair()
    })

    for (const [what, change, code] of SESSIONS[backend.kind] ?? [])
      known(backend, what)(`${what}: the next events and the other watcher do not feel it`, async () => {
        // Without managed rows nothing of Tidemark's own stumbles over it before the commit.
        const handle = async (scope: Scope) => {
          const { from, to, value } = scope.event.args as unknown as Moved
          await backend.drive(move(backend, scope.db, from, to, Number(value)))
          if (isPoison(scope.event)) await change(scope)
        }
        const b = bench({ handle }, { tables: ['balances', 'payouts'] })
        // The last event of its transaction: what follows comes in transactions of their own, of both watchers.
        b.chain.mine([pay(501), pay(502)])
        b.chain.mine([pay(503), pay(POISON)])
        await b.h.settle()
        for (let i = 0; i < 2; i++) {
          b.chain.mine([pay(600 + i)])
          await b.h.settle()
        }
        if (code) {
          await b.expectHalt(code, 2)
          await b.repair()
        } else {
          expect(b.h.codes()).toEqual([])
          await b.endsWell()
        }
      })
  })
}
