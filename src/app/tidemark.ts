import type { BlockNumber } from '../chain/block.ts'
import type { EvmSource } from '../collect/evm.ts'
import { type Config, trackReads } from '../config.ts'
import { TidemarkError } from '../errors.ts'
import { type CompiledWatcher, compileWatcher } from '../handle/watch.ts'
import type { Lease, Store } from '../store/store.ts'
import { wait } from '../util/op.ts'
import { realWorld, type World } from '../util/world.ts'
import { createAdmin } from './admin.ts'
import { openChains } from './chains.ts'
import { Emitter } from './emitter.ts'
import { follow, runFor } from './loops.ts'
import { makeRunner } from './make-runner.ts'
import { registerWatchers } from './register.ts'
import type { WatcherRunner } from './runner.ts'
import { watcherStatus } from './status.ts'
import type { Admin, Logger, RunOnceOptions, RunOnceResult, Status, Tidemark, TidemarkEvents } from './types.ts'

export interface TidemarkOptions {
  readonly logger?: Logger
  readonly world?: World
}

const silent: Logger = { log: () => {} }

/** Each watcher of the configuration on each of its chains. */
export function compileAll(config: Config): CompiledWatcher[] {
  return Object.entries(config.watchers).flatMap(([name, watcher]) =>
    Object.keys(watcher.definition.on).map((chainName) => {
      const chain = config.chains[chainName]
      if (!chain) {
        throw new TidemarkError('WATCHER_UNKNOWN_CHAIN', 'A watcher names a chain that is not configured', {
          values: { watcher: name, chain: chainName, configured: Object.keys(config.chains) },
        })
      }
      return compileWatcher(name, watcher, chainName, chain.id)
    }),
  )
}

/** What is held while watchers may run: the lease, and a runner for each watcher. */
interface Session {
  readonly lease: Lease
  readonly runners: readonly WatcherRunner[]
  readonly stop: AbortController
}

class Engine implements Tidemark {
  readonly admin: Admin
  private readonly config: Config
  private readonly store: Store
  private readonly world: World
  private readonly logger: Logger
  private readonly unread: () => readonly string[]
  private readonly emitter: Emitter
  private readonly watchers: readonly CompiledWatcher[]
  private readonly chains: ReadonlyMap<string, EvmSource>
  private session: Session | null = null
  private loops: Promise<void> | null = null
  private opening = false

  constructor(config: Config, options: TidemarkOptions) {
    const tracked = trackReads(config)
    this.config = tracked.config
    this.unread = tracked.unread
    this.store = this.config.store
    this.world = options.world ?? realWorld
    this.logger = options.logger ?? silent
    this.emitter = new Emitter(this.logger)
    this.watchers = compileAll(this.config)
    this.chains = openChains(this.config, this.watchers, this.world, this.logger)
    this.admin = createAdmin(this.store, this.world)
  }

  on<K extends keyof TidemarkEvents>(type: K, listener: (event: TidemarkEvents[K]) => void): () => void {
    return this.emitter.on(type, listener)
  }

  async start(): Promise<void> {
    if (this.loops) return
    const session = await this.open(this.watchers)
    if (!session)
      throw new TidemarkError('STORE_LOCKED', 'Another process runs watchers on this store', {
        values: { store: this.store.kind },
      })
    this.warnOfUnread()
    this.loops = Promise.all(session.runners.map((runner) => follow(runner, this.world, session.stop.signal))).then(
      () => {},
    )
  }

  /** Resolves when every watcher has reached its end block, or after `stop`. */
  async ended(): Promise<void> {
    await this.loops
  }

  async stop(options: { timeoutMs?: number } = {}): Promise<void> {
    this.session?.stop.abort()
    const deadline = new AbortController()
    const limit = this.world.sleep(options.timeoutMs ?? 30_000, deadline.signal)
    await Promise.race([this.loops, limit])
    deadline.abort()
    await this.closeSession()
    await this.store.close()
  }

  async runOnce(options: RunOnceOptions = {}): Promise<RunOnceResult> {
    const held: RunOnceResult = { did: 'held', events: 0, nextAt: new Date(this.world.now() + 1_000) }
    if (this.session || this.opening) return held
    const wanted = this.watchers.filter((watcher) => options.watcher === undefined || watcher.name === options.watcher)
    if (wanted.length === 0)
      throw new TidemarkError('WATCHER_UNKNOWN', 'There is no such watcher', { values: { watcher: options.watcher } })
    const session = await this.open(wanted)
    if (!session) return held
    try {
      return await runFor(session.runners, this.world, options.budgetMs ?? 1_000, options.signal)
    } finally {
      await this.closeSession()
    }
  }

  async status(): Promise<Status> {
    await this.store.migrate('check')
    const rows = await this.store.read((tx) => wait(tx.cursors.list()))
    const runners = new Map(this.session?.runners.map((runner) => [runner.name, runner]) ?? [])
    const watchers = rows.map((row) => {
      const chain = row.name.slice(row.name.lastIndexOf('/') + 1)
      const runner = runners.get(row.name)
      return watcherStatus(row, chain, runner && { runner, head: this.chains.get(chain)?.lastHead ?? null })
    })
    return { running: this.session !== null, store: this.store.kind, watchers }
  }

  /** A setting that nothing reads does nothing, and whoever wrote it believes that it does. */
  private warnOfUnread(): void {
    const unread = this.unread().filter((key) => key !== 'logLevel') // read by whoever makes the logger
    if (unread.length > 0) this.logger.log('warn', 'settings that nothing reads', { settings: unread })
  }

  private async open(watchers: readonly CompiledWatcher[]): Promise<Session | null> {
    this.opening = true
    try {
      await this.store.migrate(this.config.migrate)
      const lease = await this.store.acquire()
      if (!lease) return null
      return await this.openWith(lease, watchers)
    } finally {
      this.opening = false
    }
  }

  private async openWith(lease: Lease, watchers: readonly CompiledWatcher[]): Promise<Session> {
    try {
      const stop = new AbortController()
      const heads = await this.headsForNow(watchers)
      const now = this.world.now()
      const accept = this.config.accept
      const configured = new Set(this.watchers.map((watcher) => watcher.name))
      const rows = await registerWatchers(this.store, { watchers, configured, token: lease.token, accept, heads, now })
      const runners = watchers.map((watcher) =>
        makeRunner({
          watcher,
          row: rows.get(watcher.name),
          chain: this.chains.get(watcher.chainName),
          lease,
          config: this.config,
          world: this.world,
          signal: stop.signal,
          emit: (type, event) => this.emitter.emit(type, event),
        }),
      )
      this.session = { lease, runners, stop }
      return this.session
    } catch (error) {
      await lease.release()
      throw error
    }
  }

  /** Only a watcher that starts `now`, and was never started before, needs the head to begin with. */
  private async headsForNow(watchers: readonly CompiledWatcher[]): Promise<Map<string, BlockNumber>> {
    const heads = new Map<string, BlockNumber>()
    for (const watcher of watchers) {
      if (watcher.startBlock !== 'now') continue
      const known = await this.store.read((tx) => wait(tx.cursors.find(watcher.name)))
      const chain = this.chains.get(watcher.chainName)
      if (!known && chain) heads.set(watcher.name, (await chain.look()).head.number)
    }
    return heads
  }

  private async closeSession(): Promise<void> {
    const session = this.session
    this.session = null
    this.loops = null
    await session?.lease.release()
  }
}

/**
 * Tidemark in your own process: no signal handlers, no `process.exit`, nothing listens. Nothing is opened before
 * `start` or `runOnce`.
 * @throws {TidemarkError} `WATCHER_UNKNOWN_CHAIN`, or a code of the watchers' definitions
 */
export function createTidemark(config: Config, options: TidemarkOptions = {}): Tidemark {
  return new Engine(config, options)
}

/** What an operator does, with nothing but a store: no chains, no watchers, no lease. */
export function connectAdmin(store: Store, options: { readonly world?: World } = {}): Admin {
  return createAdmin(store, options.world ?? realWorld)
}
