import type { BlockNumber } from '../chain/block.ts'
import type { EvmSource } from '../collect/evm.ts'
import { type Config, trackReads } from '../config.ts'
import { TidemarkError } from '../errors.ts'
import { framesOf } from '../handle/failure.ts'
import { definitionOf } from '../handle/flaw.ts'
import { type CompiledWatcher, compileWatcher } from '../handle/watch.ts'
import type { Lease, Store } from '../store/store.ts'
import { wait } from '../util/op.ts'
import { realWorld, type World } from '../util/world.ts'
import { createAdmin } from './admin.ts'
import { openChains } from './chains.ts'
import { Emitter } from './emitter.ts'
import { checkEnvironment } from './environment.ts'
import { Keeper } from './keeper.ts'
import { runFor } from './loops.ts'
import { makeRunner } from './make-runner.ts'
import { unknownWatcher } from './names.ts'
import { checkWatchers, type Registration, takeOver } from './register.ts'
import type { Emit, OnError, WatcherRunner } from './runner.ts'
import { Seen } from './seen.ts'
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
    Object.keys(definitionOf(name, watcher).on).map((chainName) => {
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

/** What lives while watchers may run: a keeper for each, and the word to stop. */
interface Session {
  readonly keepers: readonly Keeper[]
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
  private readonly seen = new Map<string, Seen>()
  private session: Session | null = null
  private loops: Promise<void> | null = null
  private opening = false
  private readonly emit: Emit = (type, event) => this.emitter.emit(type, event)
  /** Where the user's code failed, for who looks for it: its message is in the event, without arguments (P12). */
  private readonly onError: OnError = (watcher, error) => {
    const stack = framesOf(error)
    if (stack.length > 0) this.logger.log('debug', 'where it failed', { watcher, code: error.code, stack })
  }

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
    if (!this.store.capabilities.shared) await this.reserveAll(session)
    this.warnOfUnread()
    const { signal } = session.stop
    this.loops = Promise.all(session.keepers.map((keeper) => keeper.keep(signal))).then(() => {})
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
    if (wanted.length === 0 && options.watcher !== undefined) {
      const known = this.watchers.map(({ name }) => name)
      throw unknownWatcher(options.watcher, known)
    }
    const session = await this.open(wanted)
    try {
      const runners = await takeAll(session)
      if (runners.length === 0) return held
      return await runFor(runners, this.world, options.budgetMs ?? 1_000, options.signal)
    } finally {
      await this.closeSession()
    }
  }

  async status(): Promise<Status> {
    await this.store.migrate('check')
    const rows = await this.store.read((tx) => wait(tx.cursors.list()))
    const runners = new Map(this.session?.keepers.map(({ name, runner }) => [name, runner]) ?? [])
    const watchers = rows.map(async (row) => {
      const chain = row.name.slice(row.name.lastIndexOf('/') + 1)
      const runner = runners.get(row.name)
      const live = runner ? { runner, head: this.chains.get(chain)?.lastHead ?? null } : undefined
      return watcherStatus(row, chain, live, await this.store.holder(row.name))
    })
    return { running: this.session !== null, store: this.store.kind, watchers: await Promise.all(watchers) }
  }

  /** A setting that nothing reads does nothing, and whoever wrote it believes that it does. */
  private warnOfUnread(): void {
    const unread = this.unread().filter((key) => key !== 'logLevel') // read by whoever makes the logger
    if (unread.length > 0) this.logger.log('warn', 'settings that nothing reads', { settings: unread })
  }

  /** Looks at all that can be refused before anything is taken. */
  private async open(watchers: readonly CompiledWatcher[]): Promise<Session> {
    this.opening = true
    try {
      await this.store.migrate(this.config.migrate)
      await checkEnvironment(this.store, this.config.environment)
      await checkWatchers(this.store, watchers, this.registration)
      this.session = { keepers: watchers.map((watcher) => this.keeperOf(watcher)), stop: new AbortController() }
      return this.session
    } finally {
      this.opening = false
    }
  }

  private get registration(): Registration {
    return { configured: new Set(this.watchers.map(({ name }) => name)), accept: this.config.accept }
  }

  private keeperOf(watcher: CompiledWatcher): Keeper {
    const { store, world } = this
    const seen = this.seenOf(watcher.name)
    const takeOver = (lease: Lease, signal: AbortSignal) => this.takeOver(watcher, lease, seen, signal)
    return new Keeper({ watcher, store, world, emit: this.emit, takeOver })
  }

  /** Kept between calls of `runOnce` as well: a process that runs now and then has seen what it has seen. */
  private seenOf(name: string): Seen {
    const seen = this.seen.get(name) ?? new Seen()
    this.seen.set(name, seen)
    return seen
  }

  private async takeOver(
    watcher: CompiledWatcher,
    lease: Lease,
    seen: Seen,
    signal: AbortSignal,
  ): Promise<WatcherRunner> {
    const { config, world, emit } = this
    const head = await this.headForNow(watcher)
    const { token } = lease
    const confirm = () => lease.confirm()
    const taker = { ...this.registration, token, confirm, head, seen, now: world.now() }
    const { row, halted } = await takeOver(this.store, watcher, taker)
    if (halted) emit('halted', { watcher: watcher.name, reason: halted })
    const chain = this.chains.get(watcher.chainName)
    return makeRunner({ watcher, row, chain, lease, config, world, signal, emit, seen, onError: this.onError })
  }

  /** Only a watcher that starts `now`, and was never started before, needs the head to begin with. */
  private async headForNow(watcher: CompiledWatcher): Promise<BlockNumber | null> {
    if (watcher.startBlock !== 'now') return null
    const known = await this.store.read((tx) => wait(tx.cursors.find(watcher.name)))
    const chain = this.chains.get(watcher.chainName)
    return known || !chain ? null : (await chain.look()).head.number
  }

  /** A store that one process has to itself is refused to a second one at once. */
  private async reserveAll(session: Session): Promise<void> {
    for (const keeper of session.keepers) {
      if (await keeper.reserve()) continue
      await this.closeSession()
      throw new TidemarkError('STORE_LOCKED', 'Another process runs watchers on this store', {
        values: { store: this.store.kind },
      })
    }
  }

  private async closeSession(): Promise<void> {
    const session = this.session
    this.session = null
    this.loops = null
    session?.stop.abort()
    for (const keeper of session?.keepers ?? []) await keeper.release()
  }
}

/**
 * The watchers that were to be had. One that cannot be taken now, since its chain is silent, holds up no other (P11); when
 * none can, the first error says why.
 */
async function takeAll({ keepers, stop }: Session): Promise<WatcherRunner[]> {
  const runners: WatcherRunner[] = []
  const failures: { readonly keeper: Keeper; readonly error: unknown }[] = []
  for (const keeper of keepers) {
    try {
      const runner = await keeper.take(stop.signal)
      if (runner) runners.push(runner)
    } catch (error) {
      failures.push({ keeper, error })
    }
  }
  const [first] = failures
  if (runners.length === 0 && first) throw first.error
  for (const { keeper, error } of failures) keeper.failed(error)
  return runners
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
