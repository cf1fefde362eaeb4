import type { Pool, PoolConnection } from 'mysql2/promise'
import { TidemarkError } from '../../errors.ts'
import type { World } from '../../util/world.ts'
import { onClient } from './executors.ts'
import { storeError } from './mysql-errors.ts'
import { BORROW_AUTOCOMMIT, type Dialect, dialectOf, GIVE_BACK_AUTOCOMMIT, type Limits, setUp } from './settings.ts'
import { readText } from './values.ts'

/** A connection for the length of one piece of work. */
export interface Lent {
  readonly client: PoolConnection
  readonly dialect: Dialect
  /** Whether the settings of the session belong to somebody else, and are put back after each transaction. */
  readonly borrowed: boolean
}

export interface PoolSetting {
  readonly pool: Pool
  /** The store made it: it is set up as it likes, and closed with the store. */
  readonly owned: boolean
  readonly limits: Limits
  readonly world: World
  /** How long to wait for a connection, in milliseconds. */
  readonly waitMs: number
}

const ignore = () => {}

/** Connections of a pool, each set up, and each put back or thrown away. */
export class Connections {
  readonly #setting: PoolSetting
  readonly #ready = new WeakSet<object>()
  #dialect: Dialect | undefined

  constructor(setting: PoolSetting) {
    this.#setting = setting
  }

  /** Known from the first connection on. */
  get dialect(): Dialect | undefined {
    return this.#dialect
  }

  /** @throws {TidemarkError} `STORE_BUSY` when no connection became free in time, `STORE_FAILED` */
  async use<T>(work: (lent: Lent) => Promise<T>): Promise<T> {
    const client = await this.#take()
    try {
      return await work(await this.#prepared(client))
    } finally {
      client.release()
    }
  }

  /** For single statements that commit by themselves, whatever `autocommit` the user's pool has. */
  async autocommit<T>(work: (lent: Lent) => Promise<T>): Promise<T> {
    return this.use(async (lent) => {
      if (this.#setting.owned) return work(lent)
      await run(lent.client, BORROW_AUTOCOMMIT)
      try {
        return await work(lent)
      } finally {
        await run(lent.client, GIVE_BACK_AUTOCOMMIT).catch(() => lent.client.destroy())
      }
    })
  }

  async close(): Promise<void> {
    if (this.#setting.owned) await this.#setting.pool.end()
  }

  async #take(): Promise<PoolConnection> {
    const { pool, world, waitMs } = this.#setting
    const taken = new AbortController()
    const asked = pool.getConnection()
    const late = world.sleep(waitMs, taken.signal).then(() => undefined)
    try {
      const client = await Promise.race([asked, late])
      if (client) return client
    } catch (error) {
      throw storeError(error)
    } finally {
      taken.abort()
    }
    // It may still come, and must go back then.
    asked.then((client) => client.release(), ignore)
    throw new TidemarkError('STORE_BUSY', 'No connection of the pool became free', { values: { waitedMs: waitMs } })
  }

  async #prepared(client: PoolConnection): Promise<Lent> {
    const { owned, limits } = this.#setting
    const dialect = await this.#dialectOn(client)
    // The promise connection is a new wrapper each time.
    const core = (client as { readonly connection?: object }).connection ?? client
    if (owned && !this.#ready.has(core)) {
      for (const sql of setUp(dialect, limits)) await run(client, sql)
      this.#ready.add(core)
    }
    return { client, dialect, borrowed: !owned || dialect === 'mysql' }
  }

  async #dialectOn(client: PoolConnection): Promise<Dialect> {
    this.#dialect ??= dialectOf(readText((await run(client, 'SELECT VERSION() AS version'))[0] ?? {}, 'version'))
    return this.#dialect
  }
}

async function run(client: PoolConnection, sql: string) {
  try {
    return (await onClient(client).execute(sql)).rows
  } catch (error) {
    throw storeError(error)
  }
}
