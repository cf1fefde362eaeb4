import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'
import type pg from 'pg'
import { expect, test } from 'vitest'
import { describePostgres, postgresBench } from '../../../test/support/postgres.ts'
import { codeOf, makeWatcher } from '../../testkit/store-cases/case.ts'
import { wait } from '../../util/op.ts'
import type { PostgresOptions, PostgresStore } from './index.ts'

const bench = postgresBench()
const WATCHER = 'deposits/ethereum'
const FAR = { host: 'far', machine: 'far away', pid: 1, started: '1' }
const jiti = pathToFileURL(createRequire(import.meta.url).resolve('jiti')).href

/** A process of its own with a store on `url`; it says its lines one by one. */
function run(url: string, options: Partial<PostgresOptions>, body: string) {
  const code = `
    import jiti from ${JSON.stringify(jiti)}
    const load = (jiti.createJiti ?? jiti)(${JSON.stringify(import.meta.url)})
    const { postgres } = await load.import('./index.ts')
    const { wait } = await load.import('../../util/op.ts')
    const pgCopy = await load.import('pg-copy-streams')
    const say = (line) => new Promise((done) => process.stdout.write(line + '\\n', done))
    const store = postgres(${JSON.stringify({ url, ...options })})
    ${body}`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', code], { stdio: ['pipe', 'pipe', 'inherit'] })
  bench.later(() => end(child))
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream })[Symbol.asyncIterator]()
  return { child, next: async () => (await lines.next()).value as string | undefined }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const over = once(child, 'exit')
  child.kill('SIGKILL')
  await over
}

/** Puts a row of somebody else's there. */
async function leaseOf(client: pg.Client, holder: typeof FAR, ms: number): Promise<void> {
  await client.query(
    `INSERT INTO tidemark.leases VALUES ($1, '\\x01', $2, $3, $4, $5, clock_timestamp() + $6 * interval '1 ms')
     ON CONFLICT (watcher) DO UPDATE SET expires_at = excluded.expires_at`,
    [WATCHER, holder.host, holder.machine, holder.pid, holder.started, ms],
  )
}

/** Waits on the server's clock. */
const untilExpired = (client: pg.Client) =>
  client.query(
    'SELECT pg_sleep(greatest(0, extract(epoch FROM expires_at - clock_timestamp())) + 0.01) FROM tidemark.leases',
  )

const lockRow = (store: PostgresStore) =>
  store.transact(function* (tx) {
    const row = yield* wait(tx.cursors.find(WATCHER))
    yield* wait(tx.cursors.lock(row?.id ?? 0))
    yield* wait(tx.meta.set('by', 'successor'))
  })

/** What a holder does inside its transaction, with the cursor row locked, before it says that it stands there. */
const IN_COPY = `yield* wait((async () => {
    await db.raw.query('CREATE TABLE copied (n int)')
    const stream = db.raw.query(pgCopy.from('COPY copied FROM STDIN'))
    stream.on('error', () => {})
    await new Promise((done) => stream.write('1\\n', done))
    await say('inside')
    await new Promise((done) => process.stdin.once('data', done))
    await new Promise((done, fail) => { stream.on('finish', done); stream.on('error', fail); stream.end() })
  })())`
const IDLE = `yield* wait((async () => {
    await say('inside')
    await new Promise((done) => process.stdin.once('data', done))
  })())`

const holding = (inside: string) => `
  const lease = await store.acquire('${WATCHER}')
  const work = store.transact(function* (tx) {
    const row = yield* wait(tx.cursors.find('${WATCHER}'))
    yield* wait(tx.cursors.lock(row.id))
    yield* wait(tx.meta.set('by', 'old holder'))
    const { db } = tx.openScope({ mayWrite: true, values: {}, deadline: Infinity })
    ${inside}
  })
  await say(await work.then(() => 'committed', (error) => error.code ?? String(error)))
  await say(lease.lost.aborted ? 'lost' : 'held')
  process.exit(0)`

async function withHolder(leaseMs: number, inside: string) {
  const made = await bench.migrated({ leaseMs })
  await made.store.transact((tx) => makeWatcher(tx, WATCHER))
  const holder = run(made.url, { leaseMs }, holding(inside))
  expect(await holder.next()).toBe('inside')
  return { ...made, holder }
}

const by = async (client: pg.Client) =>
  (await client.query("SELECT value FROM tidemark.meta WHERE name = 'by'")).rows[0]?.value

// Each starts Node and compiles the sources: seconds on a busy machine.
describePostgres('a holder that does not come back', () => {
  test('killed: replaced within a second, long before its lease would end', async () => {
    const { store, client, holder } = await withHolder(60_000, IDLE)
    expect(await store.acquire(WATCHER)).toBeNull()
    await end(holder.child)
    const started = performance.now()
    expect(await store.acquire(WATCHER)).not.toBeNull()
    await lockRow(store)
    expect(performance.now() - started).toBeLessThan(1_000)
    expect(await by(client)).toBe('successor')
  })

  test.each([
    ['frozen in a transaction', IDLE],
    ['frozen inside COPY, where no time-out of the server ends it', IN_COPY],
  ])('%s: replaced after expiry, and its late commit is refused', async (_name, inside) => {
    const { store, client, holder } = await withHolder(1_000, inside)
    holder.child.kill('SIGSTOP')
    await untilExpired(client)
    if (inside === IN_COPY) {
      // Control: well past every time-out of the transaction the session is still there, and still holds the row.
      await client.query('SELECT pg_sleep(1.5)')
      const held = client.query('SELECT 1 FROM tidemark.watchers FOR UPDATE NOWAIT')
      await expect(held).rejects.toMatchObject({ code: '55P03' })
    }
    const lease = await store.acquire(WATCHER)
    expect(lease).not.toBeNull()
    await lockRow(store)
    holder.child.kill('SIGCONT')
    holder.child.stdin?.write('go on\n')
    expect(await holder.next()).not.toBe('committed')
    expect(await holder.next()).toBe('lost')
    expect(await by(client)).toBe('successor')
    expect(lease?.lost.aborted).toBe(false)
  })

  test('only the session that holds the row is ended: not one that waits for it, not one of another watcher', async () => {
    const { store, client, url } = await bench.migrated()
    await store.transact(function* (tx) {
      yield* makeWatcher(tx, WATCHER)
      yield* makeWatcher(tx, 'other/ethereum')
    })
    const [holder, other, waiter] = await Promise.all([bench.client(url), bench.client(url), bench.client(url)])
    const lock = (name: string) => `SELECT 1 FROM tidemark.watchers WHERE name = '${name}' FOR UPDATE`
    await holder.query(`BEGIN; ${lock(WATCHER)}`)
    await other.query(`BEGIN; ${lock('other/ethereum')}`)
    const waiting = waiter.query(lock(WATCHER))
    await leaseOf(client, FAR, 0)
    expect(await store.acquire(WATCHER)).not.toBeNull()
    await expect(holder.query('SELECT 1')).rejects.toThrow()
    expect((await waiting).rowCount).toBe(1)
    expect((await other.query('SELECT 1 AS alive')).rows).toEqual([{ alive: 1 }])
  })

  test('without the right to end its session: an error that says so, and the next one may try again', async () => {
    const { store, client, url } = await bench.migrated()
    await store.transact((tx) => makeWatcher(tx, WATCHER))
    const role = `tidemark_test_${randomBytes(6).toString('hex')}`
    await client.query(`CREATE ROLE ${role} LOGIN; GRANT USAGE ON SCHEMA tidemark TO ${role};
      GRANT ALL ON ALL TABLES IN SCHEMA tidemark TO ${role}`)
    bench.later(() => client.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`))
    const holder = await bench.client(url)
    await holder.query('BEGIN; SELECT 1 FROM tidemark.watchers FOR UPDATE')
    await leaseOf(client, FAR, 0)
    const poor = new URL(url)
    poor.username = role
    const poorStore = bench.store({ url: poor.href })
    expect(await codeOf(poorStore.acquire(WATCHER))).toBe('STORE_FAILED')
    expect(await store.holder(WATCHER)).toBeNull()
    await holder.query('ROLLBACK')
    expect(await poorStore.acquire(WATCHER)).not.toBeNull()
  })
})

describePostgres('processes', () => {
  test('that is given back leaves no timer and no connection: the process ends by itself', async () => {
    const { url } = await bench.migrated()
    const { child, next } = run(
      url,
      {},
      `const lease = await store.acquire('${WATCHER}')
       const timers = () => process.getActiveResourcesInfo().filter((one) => one === 'Timeout').length
       const held = timers()
       await lease.release()
       const left = timers()
       await store.close()
       await say(JSON.stringify({ held: held > left, lost: lease.lost.aborted }))`,
    )
    expect(JSON.parse((await next()) ?? '{}')).toEqual({ held: true, lost: false })
    if (child.exitCode === null) await once(child, 'exit')
    expect(child.exitCode).toBe(0)
  })

  test('that start at once migrate once: each step is applied by one of them', async () => {
    const { url } = await bench.database()
    const migrate = "await say(JSON.stringify((await store.migrate('auto')).applied)); await store.close()"
    const children = [1, 2].map(() =>
      run(url, {}, `await say('up'); await new Promise((go) => process.stdin.once('data', go)); ${migrate}`),
    )
    for (const { next } of children) expect(await next()).toBe('up')
    for (const { child } of children) child.stdin?.write('go\n')
    const applied = await Promise.all(children.map(async ({ next }) => JSON.parse((await next()) ?? 'null')))
    expect(applied.flat()).toEqual(['1 first tables (breaking)', '2 changes of totals (safe while running)'])
    expect(applied.map((steps) => steps.length).sort()).toEqual([0, 2])
    for (const { child } of children) child.stdin?.end()
  })
})
