import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { DeduplicationManager } from '../../src/dedup/deduplication-manager.ts'
import { TidemarkError } from '../../src/errors.ts'
import type { Watcher } from '../../src/handle/watch.ts'
import type { HandledKey, Store } from '../../src/store/store.ts'
import { type FakeChain, fakeChain } from '../../src/testkit/index.ts'
import { type Op, wait } from '../../src/util/op.ts'
import { pay, TOKEN } from '../support/demo-ledger.ts'
import { JumpingWorld } from '../support/jumping-world.ts'
import { transactionPooler } from '../support/postgres.ts'
import { StoreHarness } from '../support/store-harness.ts'
import { differences, ledgerOn, makeLedgerTables } from '../support/store-ledger.ts'
import { differing, endState, expireLeases, follow } from '../support/store-run.ts'
import {
  type AnyDb,
  type Application,
  application,
  type Backend,
  backends,
  type Database,
  type Definition,
  onPostgres,
  servers,
} from '../support/stores.ts'

/** Cases about what happens between two connections to one database: C58, C59, C60, C61, C63 (its database part). */

const ends: (() => Promise<unknown>)[] = []
const later = (end: () => Promise<unknown>) => void ends.push(end)

/** A database of the backend for all tests of a block, emptied after each. */
function shared(backend: Backend): () => Database {
  const made: { database?: Database } = {}
  beforeAll(async () => {
    made.database = await backend.database()
    await makeLedgerTables(made.database)
    const store = made.database.open({ world: new JumpingWorld() })
    await store.migrate('auto')
    await store.close()
  })
  afterEach(async () => {
    for (const end of ends.splice(0).reverse()) await end()
    await made.database?.empty()
  })
  afterAll(() => made.database?.drop())
  return () => made.database as Database
}

async function app(database: Database): Promise<Application> {
  const made = await application(database)
  later(() => made.end())
  return made
}

function openStore(database: Database, more?: Readonly<Record<string, unknown>>): Store<AnyDb> {
  const store = database.open({ world: new JumpingWorld(), ...(more ? { more } : {}) })
  later(() => store.close())
  return store
}

const BUMP = (account: string) => `UPDATE balances SET amount = amount + 1 WHERE account = '${account}'`
const AMOUNTS = 'SELECT account, amount FROM balances ORDER BY account'

/** Two accounts that are there already. */
const twoAccounts = (database: Database) =>
  database.rows("INSERT INTO balances (account, amount) VALUES ('a', 0), ('b', 0)")
const bothAt = (amount: number) => ['a', 'b'].map((account) => ({ account, amount }))

function plainWatcher(backend: Backend, handle: (db: AnyDb) => unknown, startBlock = 1): Watcher {
  return backend.watch({
    on: { test: { address: TOKEN, startBlock, at: { confirmations: 1 } } },
    events: { Transfer: { event: 'event Transfer(address indexed from, address indexed to, uint256 value)' } },
    handle: ({ db }: { db: AnyDb }) => handle(db),
  } as unknown as Definition)
}

function oneEvent(): FakeChain {
  const chain = fakeChain({ chainId: 7, finalized: { depth: 6 } })
  chain.mine([pay(5)])
  return chain
}

function harness(database: Database, chain: FakeChain, watchers: Record<string, Watcher>, more?: object): StoreHarness {
  const h = new StoreHarness({ database, chain, watchers, ...(more ? { open: { more: more as never } } : {}) })
  later(() => h.close())
  return h
}

const READS = 'SELECT amount FROM balances WHERE account = '

onPostgres.describe('C58: a serialization failure', () => {
  const database = shared(onPostgres)

  /** What the handler does, and what another transaction does in the middle of its first call. */
  const MEETINGS = [
    ['repeatable read', 'at the write itself', `${READS}'a'`, 'b', BUMP('b')],
    ['serializable', 'at the write itself', `${READS}'a'`, 'b', BUMP('b')],
    [
      'serializable',
      'later, at COMMIT',
      `${READS}'b'`,
      'a',
      `BEGIN ISOLATION LEVEL SERIALIZABLE; ${READS}'a'; ${BUMP('b')}; COMMIT`,
    ],
  ] as const

  test.each(MEETINGS)(
    'at %s, %s: the whole commit is tried again with a fresh run, and the effect is there once',
    async (isolation, _where, first, account, meanwhile) => {
      await twoAccounts(database())
      const other = await app(database())
      let calls = 0
      const watcher = plainWatcher(onPostgres, async (db) => {
        await db.query(first)
        if (++calls === 1) await other.send(meanwhile)
        await db.query(BUMP(account))
      })
      const h = harness(database(), oneEvent(), { ledger: watcher }, { isolation })
      await h.tidemark.runOnce({ budgetMs: 60_000 })
      expect([h.codes(), calls]).toEqual([['STORE_BUSY'], 1])
      h.world.jump(60_000)
      await h.settle()
      expect(calls).toBe(2)
      const others = meanwhile.includes("account = 'b'") ? 1 : 0
      const total = (await database().rows(AMOUNTS)).reduce((sum, row) => sum + Number(row['amount']), 0)
      expect(total).toBe(1 + others)
      const [row] = await database().rows('SELECT applied, duplicates, state FROM tidemark.watchers')
      expect(row).toEqual({ applied: 1, duplicates: 0, state: 'running' })
    },
  )
})

for (const backend of servers) {
  backend.describe('two that do the same at once', () => {
    const database = shared(backend)
    const event = { chainId: 7, transactionHash: `0x${'ab'.repeat(32)}`, logIndex: 3, blockNumber: 9 } as never

    /** One delivery of the event in a transaction of the application, tried again as a whole when the database says so. */
    async function deliver(
      dedup: DeduplicationManager<AnyDb>,
      begin: readonly string[],
      met: () => Promise<void>,
    ): Promise<string[]> {
      const { client, send } = await app(database())
      const outcomes: string[] = []
      for (let tries = 0; tries < 5; tries++) {
        for (const text of begin) await send(text)
        try {
          const { outcome } = await dedup.once(client, event, async () => {
            await met()
            await send(BUMP('a'))
          })
          await send('COMMIT')
          return [...outcomes, outcome]
        } catch (error) {
          await send('ROLLBACK')
          if (!TidemarkError.is(error)) throw error
          outcomes.push(error.code)
        }
      }
      throw new Error(`it does not come to an end: ${outcomes.join()}`)
    }

    const LEVELS = [
      ['READ COMMITTED', []],
      ['REPEATABLE READ', backend.kind === 'postgres' ? ['STORE_BUSY'] : []],
      ['SERIALIZABLE', backend.kind === 'postgres' ? ['STORE_BUSY'] : []],
    ] as const

    test.each(LEVELS)('C58, C63: two deliveries of one event at %s: one does the work', async (level, fails) => {
      await twoAccounts(database())
      const dedup = new DeduplicationManager({ store: openStore(database()), chainId: 7 })
      const begin =
        backend.kind === 'postgres'
          ? [`BEGIN ISOLATION LEVEL ${level}`]
          : [`SET TRANSACTION ISOLATION LEVEL ${level}`, 'BEGIN']
      let second: Promise<string[]> | undefined
      const deliverBoth = async () => {
        const one = deliver(dedup, begin, async () => {
          second ??= deliver(dedup, begin, async () => {})
          await waiting(backend, database())
        })
        return [await one, await second]
      }
      expect(await deliverBoth()).toEqual([['done'], [...fails, 'duplicate']])
      expect(await database().rows(AMOUNTS)).toEqual([
        { account: 'a', amount: 1 },
        { account: 'b', amount: 0 },
      ])
    })

    test('C59: two watchers whose handlers touch the same rows in opposite order: each effect is there once', async () => {
      await twoAccounts(database())
      let arrived = 0
      let open: () => void = () => {}
      const both = new Promise<void>((resolve) => {
        open = resolve
      })
      // Two names with one filter would look like a renamed watcher.
      const crossing = (first: string, second: string, startBlock: number) => {
        let calls = 0
        const handle = async (db: AnyDb) => {
          await db.query(BUMP(first))
          if (++calls === 1) {
            if (++arrived === 2) open()
            await both
          }
          await db.query(BUMP(second))
        }
        return plainWatcher(backend, handle, startBlock)
      }
      const chain = oneEvent()
      const one = harness(database(), chain, { one: crossing('a', 'b', 0) })
      const two = harness(database(), chain, { two: crossing('b', 'a', 1) })
      const once = (h: StoreHarness) => h.tidemark.runOnce({ budgetMs: 60_000 })
      await Promise.all([once(one), once(two)])
      expect([...one.codes(), ...two.codes()]).toEqual(['STORE_BUSY'])
      for (const h of [one, two]) {
        h.world.jump(60_000)
        await h.settle()
      }
      expect(await database().rows(AMOUNTS)).toEqual(bothAt(2))
      const rows = await database().rows(`SELECT applied, duplicates FROM ${backend.own('watchers')}`)
      expect(rows).toEqual([1, 2].map(() => ({ applied: 1, duplicates: 0 })))
    })
  })
}

/** Until some session of the database waits for another one. */
async function waiting({ kind }: Backend, database: Database): Promise<void> {
  const sql =
    kind === 'postgres'
      ? "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
      : "SELECT 1 FROM information_schema.INNODB_TRX JOIN information_schema.PROCESSLIST ON ID = trx_mysql_thread_id WHERE trx_state = 'LOCK WAIT' AND DB = DATABASE()"
  for (let looks = 0; looks < 60; looks++) {
    if ((await database.rows(sql)).length > 0) return
    // MariaDB looks anew only when nobody has asked for a tenth of a second.
    await new Promise((resolve) => setTimeout(resolve, 150))
  }
  throw new Error('nobody waits')
}

onPostgres.describe('C60: through a transaction pooler', () => {
  const database = shared(onPostgres)

  async function pooled(sessions: number) {
    const pool = await transactionPooler(database().url, sessions)
    later(() => pool.end())
    return pool
  }

  test('the whole run ends as it does without one, and leaves no lock behind', async () => {
    await follow(database(), {})
    const end = await endState(database())
    await database().empty(['transfers'])
    const pool = await pooled(4)
    const { codes } = await follow(database(), { pool })
    expect([codes, pool.seen.size]).toEqual([[], 4])
    expect(await differing(database(), end)).toEqual([])
    const locks = await database().rows(
      "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
    )
    expect([locks, end['leases']]).toEqual([[], []])
  })

  test('two processes that both believe to lead: one effect for each event', async () => {
    const pool = await pooled(6)
    const chain = fakeChain({ chainId: 7, finalized: { depth: 6 } })
    const open = { open: { pool } }
    const [one, two] = [1, 2].map(() => {
      const h = new StoreHarness({ database: database(), chain, watchers: { ledger: ledgerOn(onPostgres) }, ...open })
      later(() => h.close())
      return h
    }) as [StoreHarness, StoreHarness]
    for (let round = 0; round < 6; round++) {
      chain.mine([pay(10 + round), pay(100 + round)])
      if (round === 3) chain.reorg(2, { reinclude: 'lower-block', extraBlocks: 1 })
      // Each takes the lease from the other in the middle of its work.
      const runs = [
        one.tidemark.runOnce({ budgetMs: 60_000 }),
        expireLeases(database()),
        two.tidemark.runOnce({ budgetMs: 60_000 }),
      ]
      await Promise.allSettled(runs)
      for (const h of [one, two]) h.world.jump(61_000)
    }
    await expireLeases(database())
    chain.mineEmpty(8)
    await one.comeToRest()
    expect(await differences(database(), chain)).toEqual([])
    const [row] = await database().rows('SELECT state, duplicates FROM tidemark.watchers')
    expect(row).toEqual({ state: 'running', duplicates: 0 })
  })
})

for (const backend of backends) {
  backend.describe('a claim whose owner is gone, or late', () => {
    const database = shared(backend)
    const key: HandledKey = { scope: 's', chainId: 7, key: 'e1' }
    const token = (n: number) => new Uint8Array(16).fill(n)
    const claim = (store: Store<AnyDb>, n: number, leaseMs: number) =>
      store.transact((tx) => wait(tx.handled.claim(key, 9 as never, token(n), leaseMs, 1)))

    /** The database's clock has passed the claim's end: it says so itself. */
    async function untilExpired(store: Store<AnyDb>): Promise<void> {
      for (let looks = 0; looks < 1_000; looks++) {
        if ((await store.read((tx) => wait(tx.handled.expired(key.scope, 10)))).length > 0) return
      }
      throw new Error('the claim does not expire')
    }

    /** The work and the claim's end in one transaction: a claim that is another one's by now takes the work back. */
    const finish = (store: Store<AnyDb>, n: number) =>
      store.transact(function* (tx): Op<boolean> {
        const scope = tx.openScope({ mayWrite: true, values: {}, deadline: Number.POSITIVE_INFINITY })
        yield* wait(backend.send(scope.db, BUMP('a')))
        yield* wait(scope.close('returned'))
        if (!(yield* wait(tx.handled.finish(key, token(n))))) throw new Error('it is not mine any more')
        return true
      })

    test('C61: the worker is killed and comes back under another name: e1 is free when its claim has run out', async () => {
      await twoAccounts(database())
      const [first, again] = [openStore(database()), backend.kind === 'sqlite' ? undefined : openStore(database())]
      const second = again ?? first
      expect(await claim(first, 1, 60_000)).toBe('new')
      expect(await claim(second, 2, 60_000)).toBe('claimed')
      await first.transact((tx) => wait(tx.handled.unclaim(key, token(1))))
      // The claim of a worker that dies right after it.
      expect(await claim(first, 3, 1)).toBe('new')
      await untilExpired(second)
      expect(await claim(second, 4, 60_000)).toBe('taken-over')
      expect(await finish(second, 4)).toBe(true)
      expect(await claim(first, 5, 60_000)).toBe('done')
      expect(await database().rows(AMOUNTS)).toEqual([
        { account: 'a', amount: 1 },
        { account: 'b', amount: 0 },
      ])
    })

    test('C63: the work takes longer than the claim, and a second one starts: the late one leaves nothing', async () => {
      await twoAccounts(database())
      const store = openStore(database())
      expect(await claim(store, 1, 1)).toBe('new')
      await untilExpired(store)
      expect(await claim(store, 2, 60_000)).toBe('taken-over')
      await expect(finish(store, 1)).rejects.toThrow('not mine')
      expect(await database().rows(AMOUNTS)).toEqual(bothAt(0))
      expect(await store.transact((tx) => wait(tx.handled.unclaim(key, token(1))))).toBe(false)
      expect(await finish(store, 2)).toBe(true)
      await expect(finish(store, 1)).rejects.toThrow('not mine')
      expect(await database().rows("SELECT amount FROM balances WHERE account = 'a'")).toEqual([{ amount: 1 }])
    })
  })
}
