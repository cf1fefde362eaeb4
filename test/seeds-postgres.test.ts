import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { PgPoolClientLike, PgPoolLike, PgQueryConfig } from '../src/store/postgres/driver.ts'
import { type SimulationReport, simulate } from '../src/testkit/index.ts'
import type { Backend, ProcessDriver, SimulatedDatabase } from '../src/testkit/simulator/backend.ts'
import type { PgCrashDriver } from '../src/testkit/simulator/postgres/crash-driver.ts'
import { makeDatabase, PgDatabase } from '../src/testkit/simulator/postgres/database.ts'
import type { World } from '../src/util/world.ts'
import { root } from './house/tree.ts'
import { describePostgres, serverUrl } from './support/postgres.ts'

/**
 * The simulator on PostgreSQL: several processes on one server, frozen for longer than their leases and woken up when others
 * have taken over, and the database put back under them. A seed takes seconds here, so few are played; the long run is
 * `npm run simulate -- --store postgres --seeds 200`.
 */

/** Runs that failed on PostgreSQL, shrunk, with their causes; those of `test/seeds` itself are replayed on SQLite. */
const FOLDER = join(root, 'test/seeds/postgres')
const SEEDS = [1, 3, 6, 7, 9, 12, 16, 21, 22, 23, 28, 30]

let made: Awaited<ReturnType<typeof makeDatabase>>
let database: PgDatabase

function onDatabaseOfItsOwn(): void {
  beforeAll(async () => {
    made = await makeDatabase(serverUrl)
    database = await PgDatabase.open(made.url)
  })
  afterAll(async () => {
    await database?.close()
    await made?.drop()
  })
}

describePostgres(
  'seeds on PostgreSQL',
  () => {
    onDatabaseOfItsOwn()
    const played = new Map<number, SimulationReport>()

    for (const seed of SEEDS) {
      test(`seed ${seed} keeps every promise`, async () => {
        const report = await simulate({ seed, database })
        expect(report.failure).toBeNull()
        played.set(seed, report)
      })
    }

    for (const name of readdirSync(FOLDER)) {
      test(`what failed once stays mended: ${name}`, async () => {
        const { seed, cause, options, plan } = JSON.parse(readFileSync(join(FOLDER, name), 'utf8'))
        expect(cause.length).toBeGreaterThan(40)
        expect((await simulate({ seed, options, plan, database })).failure).toBeNull()
      })
    }

    // What is only dangerous on a server must have happened, or the seeds prove no more than they do on SQLite.
    test.each([
      ['was frozen with a transaction open', /^ +frozen in a transaction;/],
      ['was taken over while it was frozen', /^ +frozen.*, which took over /],
      ['was fenced when it woke up', / failing: FENCED/],
      ['had its database put back under it', /; [1-9]\d* watchers are older than they were$/],
    ])('a process %s', (_, words) => {
      const seeds = [...played].filter(([, { story }]) => story.some((line) => words.test(line)))
      expect(seeds.length).toBeGreaterThan(0)
    })

    test('the same seed leaves the same trace twice, however fast the server answers', async () => {
      const seed = 12
      const fresh = await makeDatabase(serverUrl)
      const other = await PgDatabase.open(fresh.url)
      const again = await simulate({ seed, database: other })
      await other.close()
      await fresh.drop()
      expect(again.traceHash).toBe(played.get(seed)?.traceHash)
      expect(new Set([...played.values()].map(({ traceHash }) => traceHash)).size).toBe(SEEDS.length)
    })
  },
  60_000,
)

/** The object itself, but for what is given: its methods are called on it, since they reach what is private to it. */
function but<T extends object>(whole: T, given: Partial<T>): T {
  const get = (_: T, name: string | symbol) => {
    if (name in given) return Reflect.get(given, name)
    const value = Reflect.get(whole, name)
    return typeof value === 'function' ? value.bind(whole) : value
  }
  return new Proxy(whole, { get })
}

/** The pool of a process whose statements are changed on their way. */
function changing(pool: PgPoolLike, change: (sql: string) => string): PgPoolLike {
  const connect = async (): Promise<PgPoolClientLike> => {
    const client = await pool.connect()
    return but(client, { query: (config: PgQueryConfig) => client.query({ ...config, text: change(config.text) }) })
  }
  return but(pool, { connect })
}

function changed(sound: PgDatabase, change: (sql: string) => string): SimulatedDatabase {
  const begin: SimulatedDatabase['begin'] = async () => {
    const make = await sound.begin()
    return (options, clock) => {
      const backend = make(options, clock)
      const store = (driver: ProcessDriver, world: World) =>
        backend.store(but(driver as PgCrashDriver, { pool: changing((driver as PgCrashDriver).pool, change) }), world)
      return but<Backend>(backend, { store })
    }
  }
  return { begin, planOf: (...seed) => sound.planOf(...seed) }
}

describePostgres(
  'control: a store whose leases do not hold',
  () => {
    onDatabaseOfItsOwn()

    test('a lease that is given away before it has expired is found', async () => {
      let times = 0
      const change = (sql: string) =>
        sql.replace('held.expires_at <= clock_timestamp()', () => {
          times += 1
          return 'held.expires_at IS NOT NULL'
        })
      const { failure } = await simulate({ seed: 1, database: changed(database, change) })
      expect(times).toBeGreaterThan(0)
      expect(failure?.kind).toBe('fencing')
    })
  },
  60_000,
)
