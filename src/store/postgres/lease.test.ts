import { once } from 'node:events'
import type pg from 'pg'
import { expect, test } from 'vitest'
import { describePostgres, postgresBench } from '../../../test/support/postgres.ts'
import { tcpProxy } from '../../../test/support/tcp-proxy.ts'
import { ownIdentity } from '../server/holder.ts'

const bench = postgresBench()
const WATCHER = 'deposits/ethereum'
const FAR = { host: 'far', machine: 'far away', pid: 1, started: '1' }
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

const aborted = async (signal: AbortSignal) => {
  if (!signal.aborted) await once(signal, 'abort')
}

describePostgres('a lease', () => {
  test('of many that ask at once, one gets it', async () => {
    const { store, url } = await bench.migrated()
    const stores = [store, bench.store({ url }), bench.store({ url })]
    const leases = await Promise.all([...stores, ...stores].map((one) => one.acquire(WATCHER)))
    expect(leases.filter(Boolean)).toHaveLength(1)
    const { pid, host } = ownIdentity()
    expect(await store.holder(WATCHER)).toMatchObject({ host, pid, expiresInMs: expect.any(Number) })
    expect(await store.holder('other/ethereum')).toBeNull()
    await leases.find(Boolean)?.release()
    expect(await store.holder(WATCHER)).toBeNull()
  })

  test('given back while another one is asked for does not take the connection away under it', async () => {
    const { store, client } = await bench.migrated()
    let last = await store.acquire('w/0')
    for (let i = 1; i <= 20; i++) {
      const [next] = await Promise.all([store.acquire(`w/${i}`), last?.release()])
      expect(next).not.toBeNull()
      last = next
    }
    await last?.release()
    const left = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'"
    expect((await client.query(left)).rowCount).toBe(0)
    expect((await client.query('SELECT 1 FROM tidemark.leases')).rowCount).toBe(0)
  })

  test("expires by the database's clock, whatever the process believes the time to be", async () => {
    const { url, client } = await bench.migrated()
    const { realWorld } = await import('../../util/world.ts')
    const wrong = { ...realWorld, now: () => 4_000_000_000_000 }
    const store = bench.store({ url, world: wrong })
    await leaseOf(client, FAR, 800)
    expect(await store.acquire(WATCHER)).toBeNull()
    await untilExpired(client)
    expect(await store.holder(WATCHER)).toBeNull()
    expect(await store.acquire(WATCHER)).not.toBeNull()
  })

  test('of a dead process of this host is taken at once, by id and start time; of a living one it is not (control)', async () => {
    const { store, client } = await bench.migrated()
    await leaseOf(client, ownIdentity(), 60_000)
    expect(await store.acquire(WATCHER)).toBeNull()
    await client.query("UPDATE tidemark.leases SET machine = 'another boot', started = '1'")
    expect(await store.acquire(WATCHER)).toBeNull()
    await client.query('UPDATE tidemark.leases SET machine = $1', [ownIdentity().machine])
    expect(await store.acquire(WATCHER)).not.toBeNull()
  })

  test('is renewed as long as it is held, and lost when another token stands in its row', async () => {
    const { store, client, url } = await bench.migrated({ leaseMs: 1_000 })
    const lease = await store.acquire(WATCHER)
    const expiry = async () => (await client.query('SELECT expires_at FROM tidemark.leases')).rows[0].expires_at as Date
    const first = await expiry()
    while ((await expiry()).getTime() < first.getTime() + 2_000) await client.query('SELECT pg_sleep(0.1)')
    expect(lease?.lost.aborted).toBe(false)
    expect(await bench.store({ url }).acquire(WATCHER)).toBeNull()
    await client.query("UPDATE tidemark.leases SET token = '\\x02'")
    await aborted(lease?.lost as AbortSignal)
    await lease?.release()
    expect((await client.query('SELECT 1 FROM tidemark.leases')).rowCount).toBe(1)
  })

  test('is lost by the own clock when the database does not answer, and the watcher stands down', async () => {
    const { url } = await bench.migrated()
    const target = new URL(url)
    const proxy = await tcpProxy({ host: target.hostname, port: Number(target.port || 5432) })
    bench.later(() => proxy.close())
    target.port = String(proxy.port)
    const store = bench.store({ url: target.href, leaseMs: 1_000 })
    const lease = await store.acquire(WATCHER)
    const started = performance.now()
    proxy.freeze()
    await aborted(lease?.lost as AbortSignal)
    expect(performance.now() - started).toBeLessThan(1_400)
    proxy.thaw()
  })
})
