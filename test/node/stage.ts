import { setTimeout as sleep } from 'node:timers/promises'
import type { Tidemark, WatcherStatus } from '../../src/app/types.ts'
import { createTidemark, defineConfig, TidemarkError } from '../../src/index.ts'
import type { Random } from '../../src/testkit/random.ts'
import { realWorld } from '../../src/util/world.ts'
import { type Backend, type Database, onSqlite } from '../support/stores.ts'
import { Anvil, CHAIN_ID } from './anvil.ts'
import { differences, expectedTables, makeSchema, type Progress, readTables, type Tables } from './naive-fold.ts'
import { Story } from './story.ts'
import { type CompiledToken, TRANSFER_TOPIC } from './token.ts'
import { WatcherProcess } from './watcher-process.ts'

export const LEDGER = 'ledger/node'
export const CREDITS = 'credits/node'
export const PAYOUTS = 'payouts/node'
const CONFIRMATIONS = 12
/** For each wait. A second or two on a quiet machine; a busy one may take many times as long. */
const LIMIT_MS = 60_000

export type Standings = Readonly<Record<string, WatcherStatus>>

/** A node, a story on it, a database, and the watcher's process. */
export class Stage {
  readonly node: Anvil
  readonly story: Story
  readonly watcher: WatcherProcess
  private readonly database: Database

  private constructor(node: Anvil, story: Story, database: Database) {
    this.node = node
    this.story = story
    this.database = database
    const { backend, url } = database
    this.watcher = new WatcherProcess([node.url, String(CHAIN_ID), backend.kind, url, story.token])
  }

  static async open(program: string, code: CompiledToken, random: Random, backend: Backend = onSqlite): Promise<Stage> {
    const node = await Anvil.start(program)
    const database = await backend.database()
    await makeSchema(database)
    return new Stage(node, await Story.begin(node, code, random), database)
  }

  async close(): Promise<void> {
    await this.watcher.kill()
    await this.node.stop()
    await this.database.drop()
  }

  /** Some work on the database beside the running process, as the commands do it. */
  private async beside<T>(work: (reader: Tidemark) => Promise<T>): Promise<T> {
    const store = this.database.open({ world: realWorld })
    const reader = createTidemark(defineConfig({ store, chains: {}, watchers: {} }))
    try {
      return await work(reader)
    } finally {
      await reader.stop()
    }
  }

  /** Every watcher's row, as `tidemark status` reads it. */
  async status(): Promise<Standings> {
    try {
      const { watchers } = await this.beside((reader) => reader.status())
      return Object.fromEntries(watchers.map((watcher) => [watcher.name, watcher]))
    } catch (error) {
      // The process has only just started.
      if (TidemarkError.has(error, 'STORE_MIGRATION_NEEDED')) return {}
      throw error
    }
  }

  /** A watcher is set running again by an operator. */
  async resume(watcher: string): Promise<void> {
    await this.beside((reader) => reader.admin.resume(watcher, { actor: 'test', reason: 'the node is what it is' }))
  }

  /** Waits until the rows say so. @throws {Error} when the time is over, with what they say */
  async untilStatus(what: string, holds: (status: Standings) => boolean, expectHalts = false): Promise<Standings> {
    const until = performance.now() + LIMIT_MS
    for (;;) {
      const status = await this.status()
      if (holds(status)) return status
      const halted = expectHalts ? [] : Object.values(status).filter((watcher) => watcher.health === 'halted')
      if (halted.length > 0) throw new Error(`Halted while waiting for ${what}:\n${text(status)}`)
      const told = () => `${text(status)}\n${this.watcher.describe()}`
      if (performance.now() > until) throw new Error(`Waited ${LIMIT_MS} ms in vain for ${what}:\n${told()}`)
      await sleep(50)
    }
  }

  /** The chain stands still: waits until the watchers have applied all that they may. `names`: those that still run. */
  async caughtUp(names: readonly string[] = [LEDGER, CREDITS, PAYOUTS]): Promise<Standings> {
    const head = await this.node.headNumber()
    const targets = new Map([
      [LEDGER, head],
      [CREDITS, head - CONFIRMATIONS + 1],
      [PAYOUTS, head],
    ])
    const hashes = new Map<string, string>()
    for (const name of names) hashes.set(name, (await this.node.block(targets.get(name) as number)).hash)
    const reached = (status: Standings) => names.every((name) => status[name]?.cursor?.hash === hashes.get(name))
    return this.untilStatus(`cursors at head ${head}`, reached, names.length < targets.size)
  }

  /** The tables with how far each watcher had come when they were read. */
  async tables(): Promise<{ tables: Tables; progress: Progress }> {
    for (let tries = 1; tries <= 50; tries++) {
      const before = await this.status()
      const tables = await readTables(this.database)
      const after = await this.status()
      if (text(before) === text(after)) return { tables, progress: progressOf(after) }
    }
    throw new Error('The tables do not come to rest')
  }

  /** What differs between the tables and the node's own logs, folded naively; none means equal. */
  async differences(): Promise<string[]> {
    const { tables, progress } = await this.tables()
    const logs = await this.node.logs(this.story.token, TRANSFER_TOPIC, 0, await this.node.headNumber())
    return differences(expectedTables(logs, progress), tables)
  }
}

/** As text to read and to compare. Some counts are bigints, and the rest of a lease is another one each time. */
function text(status: Standings): string {
  const spell = (name: string, value: unknown) => {
    if (name === 'expiresInMs') return undefined
    return typeof value === 'bigint' ? String(value) : value
  }
  return JSON.stringify(status, spell)
}

function progressOf(status: Standings): Progress {
  const cursor = (name: string) => status[name]?.cursor?.number ?? 0
  return {
    ledger: cursor(LEDGER),
    credits: cursor(CREDITS),
    payouts: cursor(PAYOUTS),
    paid: status[PAYOUTS]?.settled ?? 0,
  }
}
