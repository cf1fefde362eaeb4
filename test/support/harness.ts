import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createTidemark } from '../../src/app/tidemark.ts'
import type { RunOnceResult, Tidemark } from '../../src/app/types.ts'
import { type ChainInput, type ConfigInput, defineConfig } from '../../src/config.ts'
import type { Watcher } from '../../src/handle/watch.ts'
import { openDefault, type SqliteDatabaseLike, type SqliteRow } from '../../src/store/sqlite/driver.ts'
import { type SqliteOptions, sqlite } from '../../src/store/sqlite/index.ts'
import { type FakeChain, type FakeRpc, fakeRpc, type TestWorld, testWorld } from '../../src/testkit/index.ts'

export interface HarnessOptions {
  readonly chain: FakeChain
  readonly watchers: Readonly<Record<string, Watcher>>
  readonly rpc?: readonly FakeRpc[]
  readonly chainInput?: Partial<ChainInput>
  readonly config?: Partial<ConfigInput>
  readonly schema?: string
  readonly open?: SqliteOptions['open']
  /** Real milliseconds that the store waits for another connection's lock. */
  readonly busyTimeoutMs?: number
  readonly seed?: number
}

/** A real store in a file, a fake chain behind fake nodes, a clock of the test's own. */
export class Harness {
  readonly file: string
  readonly world: TestWorld
  readonly rpc: readonly FakeRpc[]
  readonly options: HarnessOptions
  readonly events: { type: string; event: Record<string, unknown> }[] = []
  tidemark: Tidemark
  private readonly folder: string

  constructor(options: HarnessOptions) {
    this.options = options
    this.folder = mkdtempSync(join(tmpdir(), 'tidemark-test-'))
    this.file = join(this.folder, 'test.db')
    this.world = testWorld({ seed: options.seed ?? 1, autoAdvance: true })
    this.rpc = options.rpc ?? [fakeRpc(options.chain)]
    if (options.schema) this.sql((db) => db.exec(options.schema as string))
    this.tidemark = this.open()
  }

  /** A new instance on the same file, as after a restart. */
  open(config: Partial<ConfigInput> = {}): Tidemark {
    const { watchers, chain, chainInput, open, busyTimeoutMs } = this.options
    const tidemark = createTidemark(
      defineConfig({
        store: sqlite({
          file: this.file,
          world: this.world,
          ...(open ? { open } : {}),
          ...(busyTimeoutMs ? { busyTimeoutMs } : {}),
        }),
        chains: { test: { id: chain.chainId, rpc: [...this.rpc], pollMs: 100, ...chainInput } },
        watchers,
        ...this.options.config,
        ...config,
      }),
      { world: this.world },
    )
    for (const type of ['applied', 'undone', 'settled', 'halted', 'failing', 'recovered'] as const) {
      tidemark.on(type, (event) => this.events.push({ type, event: event as unknown as Record<string, unknown> }))
    }
    return tidemark
  }

  async restart(config: Partial<ConfigInput> = {}): Promise<void> {
    await this.tidemark.stop()
    this.tidemark = this.open(config)
  }

  /** Steps until nothing is left to do, or a watcher halts or fails. Bounded. */
  async settle(rounds = 40): Promise<RunOnceResult> {
    let result = await this.tidemark.runOnce({ budgetMs: 60_000 })
    for (let i = 0; i < rounds && result.did !== 'idle'; i++) {
      await this.world.advance(150)
      result = await this.tidemark.runOnce({ budgetMs: 60_000 })
    }
    await this.world.advance(150)
    return result
  }

  sql<T>(work: (db: SqliteDatabaseLike) => T): T {
    const db = openDefault(this.file)
    try {
      db.exec('PRAGMA journal_mode = WAL; PRAGMA busy_timeout = 2000')
      return work(db)
    } finally {
      db.close()
    }
  }

  rows(query: string): SqliteRow[] {
    return this.sql((db) => db.prepare(query).all())
  }

  async close(): Promise<void> {
    await this.tidemark.stop()
    rmSync(this.folder, { recursive: true, force: true })
  }
}
