import { connectAdmin, createTidemark } from '../../app/tidemark.ts'
import type { Tidemark, TidemarkEvents, WatcherStatus } from '../../app/types.ts'
import { type ChainInput, defineConfig } from '../../config.ts'
import { TidemarkError } from '../../errors.ts'
import type { Watcher } from '../../handle/watch.ts'
import { sqlite } from '../../store/sqlite/index.ts'
import type { World } from '../../util/world.ts'
import type { FakeRpc } from '../fake-rpc.ts'
import type { Random } from '../random.ts'
import { CrashDriver } from '../simulator/crash-driver.ts'
import type { Mishap } from '../simulator/plan.ts'
import { Gate, type Liar, ProcessTransport } from '../simulator/transport.ts'
import type { TestWorld } from '../test-world.ts'

/** One chain as an instance reaches it. */
export interface Reachable {
  readonly id: number
  readonly finality: 'tag' | { readonly depth: number }
  readonly rpc: FakeRpc
  readonly liar: Liar | null
}

export interface InstanceOptions {
  readonly file: string
  readonly clock: TestWorld
  readonly random: Random
  readonly watchers: Readonly<Record<string, Watcher>>
  readonly chains: Readonly<Record<string, Reachable>>
  struck(mishap: Mishap, sql: string): void
}

/** Milliseconds that an answer takes. */
const LATENCY_MS = 1

/** Time is everyone's; two incarnations with the same random bytes would not fence each other. */
function worldOf(clock: TestWorld, random: Random): World {
  const bytes = random.fork('bytes')
  return {
    now: () => clock.now(),
    monotonic: () => clock.monotonic(),
    sleep: (ms, signal) => clock.sleep(ms, signal),
    random: () => random.next(),
    randomBytes: (length) => bytes.bytes(length),
  }
}

/** One process of Tidemark on the scratch database. After a crash the next incarnation takes its place. */
export class Instance {
  events = 0
  /** The last passing error of each watcher, by code. */
  readonly failing = new Map<string, string>()
  swept = 0
  readonly #options: InstanceOptions
  readonly #looker: Tidemark
  #driver: CrashDriver
  #tidemark: Tidemark
  #incarnation = 0

  constructor(options: InstanceOptions) {
    this.#options = options
    this.#looker = createTidemark(this.#config(sqlite({ file: options.file, world: options.clock })), {
      world: options.clock,
    })
    this.#driver = this.#newDriver()
    this.#tidemark = this.#open()
  }

  #newDriver(): CrashDriver {
    return new CrashDriver({ snapshot: () => {}, struck: (mishap, sql) => this.#options.struck(mishap, sql) })
  }

  #config(store: ReturnType<typeof sqlite>, transports = new Map<string, ProcessTransport>()) {
    const { chains, watchers } = this.#options
    const all = Object.entries(chains).map(([name, { id, finality, rpc }]): [string, ChainInput] => {
      return [name, { id, finality, pollMs: 100, rpc: [transports.get(name) ?? rpc] }]
    })
    return defineConfig({ store, chains: Object.fromEntries(all), watchers })
  }

  #open(): Tidemark {
    const { file, clock, chains, random } = this.#options
    const driver = this.#driver
    const transport = ({ rpc, liar }: Reachable) =>
      new ProcessTransport({ rpc, clock, gate: new Gate(), liar, latencyMs: LATENCY_MS, isDead: () => driver.dead })
    const transports = new Map(Object.entries(chains).map(([name, chain]) => [name, transport(chain)]))
    const world = worldOf(clock, random.fork(`process ${this.#incarnation}`))
    const store = sqlite({ file, open: driver.open, busyTimeoutMs: 0, world })
    const tidemark = createTidemark(this.#config(store, transports), { world })
    this.#listen(tidemark)
    return tidemark
  }

  #listen(tidemark: Tidemark): void {
    tidemark.on('applied', ({ events }) => {
      this.events += events
    })
    tidemark.on('failing', ({ watcher, code }) => this.failing.set(watcher, code))
    tidemark.on('recovered', ({ watcher }) => this.failing.delete(watcher))
    tidemark.on('undone', ({ why }) => {
      if (why === 'sweep') this.swept += 1
    })
  }

  /** The watchers that stand halted. Read from the database: a process may die, or lose the answer, while it writes a halt. */
  async halts(): Promise<TidemarkEvents['halted'][]> {
    return (await this.status()).flatMap(({ name, health, reason }) =>
      health === 'halted' && reason ? [{ watcher: name, reason }] : [],
    )
  }

  arm(mishap: Mishap, at: number): void {
    this.#driver.arm(mishap, at)
  }

  disarm(): void {
    this.#driver.disarm()
  }

  /** Another incarnation on the files of now, as a supervisor starts it. */
  start(): void {
    this.#driver.kill()
    this.failing.clear()
    this.#incarnation += 1
    this.#driver = this.#newDriver()
    this.#tidemark = this.#open()
  }

  /**
   * One `runOnce`; a dead process is started first.
   * @throws {TidemarkError} what does not pass by itself: the tables or the configuration are refused
   */
  async run(budgetMs: number): Promise<void> {
    if (this.#driver.dead) this.start()
    try {
      await this.#tidemark.runOnce({ budgetMs })
    } catch (error) {
      const passes = TidemarkError.is(error) && error.kind === 'retries'
      if (!this.#driver.dead && !passes) throw error
    }
  }

  /** Where the watchers stand, read on a connection of its own. */
  async status(): Promise<readonly WatcherStatus[]> {
    return (await this.#looker.status()).watchers
  }

  async resume(watcher: string): Promise<void> {
    const { file, clock } = this.#options
    const store = sqlite({ file, world: clock })
    await connectAdmin(store, { world: clock }).resume(watcher, {
      actor: 'simulation',
      reason: 'the fault was planned',
    })
    await store.close()
  }

  async close(): Promise<void> {
    this.#driver.kill()
    await this.#looker.stop()
  }
}
