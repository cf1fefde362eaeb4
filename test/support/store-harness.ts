import { createTidemark } from '../../src/app/tidemark.ts'
import type { RunOnceResult, Tidemark } from '../../src/app/types.ts'
import { type ConfigInput, defineConfig } from '../../src/config.ts'
import { TidemarkError } from '../../src/errors.ts'
import type { Watcher } from '../../src/handle/watch.ts'
import { type FakeChain, type FakeRpc, fakeRpc } from '../../src/testkit/index.ts'
import { JumpingWorld } from './jumping-world.ts'
import type { Database, OpenOptions } from './stores.ts'

export interface StoreHarnessOptions {
  readonly database: Database
  readonly chain: FakeChain
  readonly watchers: Readonly<Record<string, Watcher>>
  readonly world?: JumpingWorld
  readonly rpc?: readonly FakeRpc[]
  /** What the store is opened with. */
  readonly open?: Partial<OpenOptions>
  readonly config?: Partial<ConfigInput>
}

interface Told {
  readonly type: string
  readonly event: Readonly<Record<string, unknown>>
}

/** Sessions that a chain at rest may need. */
const MAX_ROUNDS = 40

/** The engine on a real store of any kind, and a fake chain. */
export class StoreHarness {
  readonly options: StoreHarnessOptions
  readonly world: JumpingWorld
  readonly told: Told[] = []
  tidemark: Tidemark

  constructor(options: StoreHarnessOptions) {
    this.options = options
    this.world = options.world ?? new JumpingWorld()
    this.tidemark = this.#open({})
  }

  #open(config: Partial<ConfigInput>): Tidemark {
    const { database, chain, watchers, open, rpc } = this.options
    const { world } = this
    const chains = { test: { id: chain.chainId, rpc: [...(rpc ?? [fakeRpc(chain)])], pollMs: 100, maxRange: 150 } }
    const store = database.open({ world, ...open })
    const input = { store, chains, watchers, ...this.options.config, ...config }
    const tidemark = createTidemark(defineConfig(input), { world })
    for (const type of ['applied', 'undone', 'settled', 'halted', 'failing', 'recovered'] as const) {
      tidemark.on(type, (event) => this.told.push({ type, event: event as unknown as Told['event'] }))
    }
    return tidemark
  }

  /** A new instance on the same database, as after a restart. */
  async restart(config: Partial<ConfigInput> = {}): Promise<void> {
    await this.tidemark.stop()
    this.tidemark = this.#open(config)
  }

  /** Sessions until nothing is left to do, or a watcher halts or fails. */
  async settle(rounds = MAX_ROUNDS): Promise<RunOnceResult> {
    let result = await this.tidemark.runOnce({ budgetMs: 60_000 })
    for (let i = 0; i < rounds && result.did !== 'idle'; i++) {
      this.world.jump(150)
      result = await this.tidemark.runOnce({ budgetMs: 60_000 })
    }
    this.world.jump(150)
    return result
  }

  /**
   * Sessions until one has nothing to complain of, a minute apart. What a session throws is what a cron job would see: it
   * comes again.
   * @param dead whether the process is gone: then nothing is tried again
   * @param held called when a lease that nobody keeps stands in the way; told as HELD
   * @returns the codes of what failed or halted on the way
   */
  async comeToRest(
    dead: () => boolean = () => false,
    held: () => Promise<void> = async () => {},
  ): Promise<readonly string[]> {
    const codes: string[] = []
    for (let rounds = 0; rounds < MAX_ROUNDS; rounds++) {
      const before = this.codes().length
      this.world.jump(61_000)
      try {
        const { did } = await this.tidemark.runOnce({ budgetMs: 60_000 })
        if (did === 'held') {
          codes.push('HELD')
          await held()
          continue
        }
      } catch (error) {
        if (!TidemarkError.is(error)) throw error
        codes.push(error.code)
        if (dead()) return codes
        continue
      }
      if (dead() || this.codes().length === before) return codes
      codes.push(...this.codes().slice(before))
    }
    throw new Error(`the run does not come to rest: ${codes.join()}`)
  }

  /** What a watcher, or any of them, failed or halted with, in order. */
  codes(watcher?: string): string[] {
    return this.told.flatMap(({ type, event }) => {
      if (watcher !== undefined && event['watcher'] !== watcher) return []
      if (type === 'failing') return [String(event['code'])]
      return type === 'halted' ? [(event['reason'] as { code: string }).code] : []
    })
  }

  async close(): Promise<void> {
    await this.tidemark.stop()
  }
}
