import { once } from 'node:events'
import { createPool } from 'mysql2/promise'
import { afterAll, afterEach, beforeAll, expect } from 'vitest'
import { describeMysql, makeDatabase, type TestDatabase } from '../../../test/support/mysql.ts'
import { endProcesses, startProcess } from '../../../test/support/mysql-process.ts'
import { testWorld } from '../../testkit/test-world.ts'
import { wait } from '../../util/op.ts'
import { realWorld } from '../../util/world.ts'
import { isKnownDead, ownIdentity } from '../server/holder.ts'
import type { Lease } from '../store.ts'
import { type MysqlOptions, type MysqlStore, mysql } from './index.ts'

const WATCHER = 'deposits/ethereum'

let database: TestDatabase
const stores: MysqlStore[] = []

function open(options: MysqlOptions = {}): MysqlStore {
  const store = mysql({ ...(options.pool ? {} : { url: database.url }), leaseMs: 1_000, ...options })
  stores.push(store)
  return store
}

async function row(): Promise<Record<string, any>> {
  const [rows] = await database.outside.query('SELECT * FROM tidemark_leases')
  return (rows as Record<string, any>[])[0] ?? {}
}

/** Asks again until it is answered otherwise, with a pause between the questions. Bounded by the test's own time-out. */
async function until<T>(ask: () => Promise<T | null | undefined | false>): Promise<T> {
  for (;;) {
    const answer = await ask()
    if (answer) return answer
    await realWorld.sleep(20)
  }
}

const take = (store: MysqlStore) => until(() => store.acquire(WATCHER))

/** Makes the watcher whose cursor row is fought over, and a table of the application. */
async function prepare(store: MysqlStore): Promise<void> {
  await store.transact(function* (tx) {
    yield* wait(tx.cursors.create({ name: WATCHER, chainId: 1, fingerprint: 'f', startBlock: 1 as never }, 1))
  })
}

/** Locks the cursor row as a commit does, and answers how long that took, in milliseconds. */
async function lockCursor(store: MysqlStore): Promise<number> {
  const startedAt = realWorld.monotonic()
  await store.transact(function* (tx) {
    const found = yield* wait(tx.cursors.find(WATCHER))
    yield* wait(tx.cursors.lock(found?.id as number))
  })
  return realWorld.monotonic() - startedAt
}

describeMysql('leases on mysql', (test) => {
  beforeAll(async () => {
    database = await makeDatabase()
    await mysql({ url: database.url }).migrate('auto')
    await database.outside.query('CREATE TABLE numbers (n INT PRIMARY KEY) ENGINE = InnoDB')
  })
  afterEach(async () => {
    await endProcesses()
    for (const store of stores.splice(0)) await store.close()
    await database.empty(['numbers'])
  })
  afterAll(() => database.drop())

  test('of two stores that compete one gets it, and the other one after it was given back', async () => {
    const [a, b] = [open(), open()]
    const both = await Promise.all([a.acquire(WATCHER), b.acquire(WATCHER)])
    const held = both.filter((lease) => lease !== null) as Lease[]
    expect(held).toHaveLength(1)
    expect(await b.acquire('other/ethereum')).not.toBeNull()
    expect(await a.holder(WATCHER)).toMatchObject({ pid: process.pid })
    await held[0]?.release()
    expect(await a.holder(WATCHER)).toBeNull()
    expect(await b.acquire(WATCHER)).not.toBeNull()
  })

  test('it expires by the clock of the database, whatever the clocks of the processes say', async () => {
    // Its time stands still, so it never renews; its wall clock is years ahead.
    const world = testWorld()
    const frozen = await open({ world }).acquire(WATCHER)
    const [[before]] = (await database.outside.query('SELECT UTC_TIMESTAMP(6) + 0 AS t')) as any
    expect(await open().acquire(WATCHER)).toBeNull()
    const lease = await take(open())
    const [[after]] = (await database.outside.query('SELECT UTC_TIMESTAMP(6) + 0 AS t')) as any
    expect(Number(after.t) - Number(before.t)).toBeGreaterThan(0.8)
    expect(lease.token).not.toEqual(frozen?.token)
    // The old one finds out by its own clock, without asking.
    expect(frozen?.lost.aborted).toBe(false)
    await world.advance(1_000)
    await until(async () => frozen?.lost.aborted)
    await frozen?.release()
    expect(await open().acquire(WATCHER), "releasing a lost lease frees nobody else's").toBeNull()
  })

  test('it is renewed as long as it is held', async () => {
    const lease = await open().acquire(WATCHER)
    const first = await row()
    // Twice the length of a lease.
    await until(async () => (await row()).expires_at > first.expires_at + 2_000)
    expect(await open().acquire(WATCHER)).toBeNull()
    expect(lease?.lost.aborted).toBe(false)
  })

  test('a lease that another one took is noticed as lost at the next renewal', async () => {
    const lease = await open().acquire(WATCHER)
    const lost = once(lease?.lost as AbortSignal, 'abort')
    await database.outside.query("UPDATE tidemark_leases SET token = UNHEX('00112233445566778899AABBCCDDEEFF')")
    await lost
    expect(lease?.lost.reason).toMatchObject({ code: 'FENCED' })
    await lease?.release()
    expect(await row()).toMatchObject({ watcher: Buffer.from(WATCHER) })
  })

  test('a lease that cannot be renewed, since the pool is busy, is lost in time', async () => {
    const pool = createPool({ uri: database.url, connectionLimit: 1 })
    const store = open({ pool })
    const lease = await store.acquire(WATCHER)
    const busy = await pool.getConnection()
    const startedAt = realWorld.monotonic()
    await once(lease?.lost as AbortSignal, 'abort')
    expect(realWorld.monotonic() - startedAt).toBeLessThan(1_100)
    busy.release()
    await store.close()
    await pool.end()
  })

  test('after its release no timer is left, and the process ends by itself', async () => {
    const process = startProcess(
      { url: database.url },
      `const lease = await store.acquire('w/ethereum')
       await lease.release()
       print(process.getActiveResourcesInfo().filter((one) => one === 'Timeout').length)
       await store.acquire('x/ethereum')
       await store.close()`,
    )
    expect(await process.line()).toBe('0')
    expect(await process.ended()).toBe(0)
    expect(await row()).toEqual({})
  })

  test('a holder that was killed on this machine is replaced at once', async () => {
    const store = open()
    await prepare(store)
    const holder = startProcess(
      { url: database.url, leaseMs: 600_000 },
      `await store.acquire('${WATCHER}')
       await store.transact(function* (tx) {
         const row = yield* wait(tx.cursors.find('${WATCHER}'))
         yield* wait(tx.cursors.lock(row.id))
         print('locked')
         yield* wait(heard())
       })`,
    )
    expect(await holder.line()).toBe('locked')
    expect(await store.acquire(WATCHER), 'while it lives').toBeNull()
    holder.child.kill('SIGKILL')
    await holder.ended()
    const startedAt = realWorld.monotonic()
    expect(await store.acquire(WATCHER)).not.toBeNull()
    await lockCursor(store)
    expect(realWorld.monotonic() - startedAt).toBeLessThan(1_000)
  })

  test('a process of the same number that started later is not taken for the holder', async () => {
    const own = ownIdentity()
    expect(isKnownDead(own, own)).toBe(false)
    expect(isKnownDead({ ...own, started: '1' }, own)).toBe(own.started !== '')
    expect(isKnownDead({ ...own, started: '1', machine: 'another' }, own), 'nothing is known of another machine').toBe(
      false,
    )
  })

  const FROZEN = (before: string) => `
    await store.acquire('${WATCHER}')
    const outcome = store.transact(function* (tx) {
      const row = yield* wait(tx.cursors.find('${WATCHER}'))
      yield* wait(tx.cursors.lock(row.id))
      const scope = tx.openScope({ mayWrite: true, values: {}, deadline: Infinity })
      ${before}
      yield* wait(scope.db.query('INSERT INTO numbers VALUES (1)'))
      yield* wait(scope.close('returned'))
      print('locked')
      yield* wait(heard())
    })
    await outcome.then(() => print('committed'), (error) => print(error.code))
    process.exit(0)`

  /** A holder is frozen with the cursor row locked; the successor takes over, works, and the old one wakes. */
  async function replaceFrozen(successor: MysqlStore, before: string): Promise<{ lockMs: number; woken: string }> {
    await prepare(successor)
    const holder = startProcess({ url: database.url, leaseMs: 1_000 }, FROZEN(before))
    expect(await holder.line()).toBe('locked')
    holder.child.kill('SIGSTOP')
    await take(successor)
    const lockMs = await lockCursor(successor)
    holder.say('go on')
    holder.child.kill('SIGCONT')
    return { lockMs, woken: await holder.line() }
  }

  // Raw switches off the server's own time-out, so that only the successor can end the session.
  const NO_TIME_OUT = `yield* wait(scope.db.raw.query('SET SESSION idle_transaction_timeout = 0'))`

  test('a frozen holder with the cursor row locked is replaced, and its late commit is refused', async () => {
    const { lockMs, woken } = await replaceFrozen(open(), NO_TIME_OUT)
    expect(lockMs).toBeLessThan(1_000)
    expect(['STORE_FAILED', 'COMMIT_UNKNOWN', 'TRANSACTION_LOST']).toContain(woken)
    expect((await database.outside.query('SELECT * FROM numbers'))[0]).toEqual([])
  })

  test('without the privilege to look, the server ends the frozen session after the length of a lease', async () => {
    const user = `t${database.name.slice(-12)}`
    await database.outside.query(`CREATE USER ${user}@'%' IDENTIFIED BY 'x'`)
    await database.outside.query(`GRANT ALL ON ${database.name}.* TO ${user}@'%'`)
    const url = new URL(database.url)
    url.username = user
    url.password = 'x'
    try {
      const { woken } = await replaceFrozen(open({ url: url.href }), '')
      expect(['STORE_FAILED', 'COMMIT_UNKNOWN', 'TRANSACTION_LOST']).toContain(woken)
      expect((await database.outside.query('SELECT * FROM numbers'))[0]).toEqual([])
    } finally {
      await database.outside.query(`DROP USER ${user}@'%'`)
    }
  })

  test('only the session that holds the lock of the cursor row is ended', async () => {
    const store = open()
    await prepare(store)
    const other = open()
    const holder = startProcess({ url: database.url, leaseMs: 1_000 }, FROZEN(NO_TIME_OUT))
    expect(await holder.line()).toBe('locked')
    // It waits for the same row, behind the frozen one, and holds locks of its own.
    let marked = false
    const waiting = other.transact(function* (tx) {
      yield* wait(tx.meta.set('bystander', 'alive'))
      marked = true
      const found = yield* wait(tx.cursors.find(WATCHER))
      yield* wait(tx.cursors.lock(found?.id as number))
    })
    await until(async () => marked)
    holder.child.kill('SIGSTOP')
    await take(store)
    await waiting // control: with everyone in the queue ended, this one fails
    expect(await store.read((tx) => wait(tx.meta.get('bystander')))).toBe('alive')
    holder.child.kill('SIGCONT')
  })
})
