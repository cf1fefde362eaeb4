import { createTidemark } from '../../app/tidemark.ts'
import type { RunOnceOptions, Tidemark } from '../../app/types.ts'
import { defineConfig } from '../../config.ts'
import { TidemarkError } from '../../errors.ts'
import type { Watcher } from '../../handle/watch.ts'
import type { Maybe } from '../../util/op.ts'
import type { World } from '../../util/world.ts'
import type { FakeRpc } from '../fake-rpc.ts'
import { Random } from '../random.ts'
import type { TestWorld } from '../test-world.ts'
import { CHAIN } from './application.ts'
import type { Backend, ProcessDriver } from './backend.ts'
import { type FailureKind, fail } from './failure.ts'
import type { SwarmOptions } from './options.ts'
import { CHAIN_ID } from './sim-chain.ts'
import type { Slips } from './slips.ts'
import { Gate, type Liar, ProcessTransport } from './transport.ts'

/** The clock is everyone's, the randomness a process's own: two with the same tokens would not fence each other. */
class ProcessWorld implements World {
  readonly simulated = true
  readonly #clock: TestWorld
  readonly #jitter: Random
  readonly #bytes: Random

  constructor(clock: TestWorld, random: Random) {
    this.#clock = clock
    this.#jitter = random.fork('jitter')
    this.#bytes = random.fork('bytes')
  }

  now(): number {
    return this.#clock.now()
  }

  monotonic(): number {
    return this.#clock.monotonic()
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return this.#clock.sleep(ms, signal)
  }

  random(): number {
    return this.#jitter.next()
  }

  randomBytes(length: number): Uint8Array {
    return this.#bytes.bytes(length)
  }
}

/** What all processes of a run stand on. */
export interface Ground {
  readonly seed: number | string
  readonly options: SwarmOptions
  readonly clock: TestWorld
  readonly backend: Backend
  readonly providers: readonly FakeRpc[]
  readonly liar: Liar
  readonly slips: Slips
  /** What a process that starts now is configured with. */
  readonly watchers: () => Readonly<Record<string, Watcher>>
  readonly tally: Tally
  readonly log: (line: string) => void
  /** Checks what a process says of a watcher, at the moment it says so. */
  /** What it calls the environment that the database belongs to; undefined: nothing. */
  readonly environment?: string | undefined
  readonly claimed: (watcher: string, line: 'cursor' | 'settled', block: number | null) => void
  /** Checks that a process which gave up blocks has those that come in their place. */
  readonly reorged: (watcher: string, to: number | null, blocks: ReadonlySet<string>) => void
  /** A transaction of some process begins, and is on the disk: the database is looked at before anything else happens. */
  readonly began: () => void
  readonly committed: (driver: ProcessDriver) => Maybe<void>
  /** Told of what a driver saw that must not be. */
  readonly saw: (kind: FailureKind, words: string) => void
}

/** What was counted over all processes. */
export interface Tally {
  events: number
  crashes: number
  /** Mishaps that struck, by name. */
  readonly mishaps: Record<string, number>
}

/** Whether a process ends by it; it lives through the others. */
export function isCrash(mishap: string): boolean {
  return mishap.startsWith('die') || mishap.startsWith('power')
}

/** One instance of Tidemark, from its start to its end; after a crash the next incarnation takes its place. */
export class SimProcess {
  readonly index: number
  readonly gate = new Gate()
  driver: ProcessDriver
  /** Hashes of the blocks whose logs came to this incarnation. */
  readonly blocks = new Set<string>()
  readonly #ground: Ground
  #tidemark: Tidemark
  #incarnation = 0
  #struck = 0
  /** Something else than a mishap was done to it, or to the one in whose way it stands: its store may refuse in passing. */
  disturbed = false

  constructor(ground: Ground, index: number) {
    this.#ground = ground
    this.index = index
    this.driver = this.#newDriver()
    this.#tidemark = this.#open()
  }

  /** Whether a mishap struck in its last run. */
  get struck(): boolean {
    return this.#struck > 0
  }

  get dead(): boolean {
    return this.driver.dead
  }

  #newDriver(): ProcessDriver {
    const { backend, tally, log, began, committed, saw } = this.#ground
    const driver: ProcessDriver = backend.driver({
      began,
      committed: () => committed(driver),
      saw,
      struck: (mishap, sql) => {
        this.#struck += 1
        tally.mishaps[mishap] = (tally.mishaps[mishap] ?? 0) + 1
        if (isCrash(mishap)) tally.crashes += 1
        log(
          `   process ${this.index}: ${mishap} at statement ${driver.statements}, ${sql.trim().slice(0, 40).replace(/\s+/g, ' ')}`,
        )
      },
    })
    return driver
  }

  #transports(): ProcessTransport[] {
    const { providers, clock, liar, slips, options } = this.#ground
    const { driver, gate } = this
    return providers.map(
      (rpc, i) =>
        new ProcessTransport({
          rpc,
          clock,
          gate,
          liar: i === 0 ? liar : null,
          slips: i === 0 ? slips : null,
          latencyMs: options.latencyMs,
          gotBlock: (blockHash) => this.blocks.add(blockHash),
          isDead: () => driver.dead,
        }),
    )
  }

  #open(): Tidemark {
    const { seed, options, clock, backend, watchers, environment } = this.#ground
    const world = new ProcessWorld(clock, new Random(seed).fork(`process ${this.index} ${this.#incarnation}`))
    const { finality, finalDepth, minDepth, pollMs, maxRange, retentionBlocks, undoLimitBlocks } = options
    const chain = {
      id: CHAIN_ID,
      rpc: this.#transports(),
      finality: finality === 'tag' ? finality : { depth: finalDepth },
      minDepth,
      pollMs,
      maxRange,
    }
    const store = backend.store(this.driver, world)
    const config = defineConfig({
      store,
      chains: { [CHAIN]: chain },
      watchers: watchers(),
      retentionBlocks,
      undoLimitBlocks,
      build: `${this.index}.${this.#incarnation}`,
      ...(environment === undefined ? {} : { environment }),
    })
    const tidemark = createTidemark(config, { world })
    this.#listen(tidemark)
    return tidemark
  }

  #listen(tidemark: Tidemark): void {
    const { tally, log, claimed, reorged } = this.#ground
    const driver = this.driver
    const tell = (line: string) => driver.dead || log(`   process ${this.index}: ${line}`)
    tidemark.on('applied', ({ watcher, from, to, events, duplicates }) => {
      tally.events += events
      claimed(watcher, 'cursor', to)
      tell(`${watcher} applied ${from} to ${to}, ${events} events${duplicates > 0 ? `, ${duplicates} known` : ''}`)
    })
    tidemark.on('undone', ({ watcher, to, events, why }) => {
      if (why === 'reorg') reorged(watcher, to, this.blocks)
      tell(`${watcher} went back to ${to}, ${events} events undone (${why})`)
    })
    tidemark.on('settled', ({ watcher, through }) => {
      claimed(watcher, 'settled', through)
      tell(`${watcher} settled ${through}`)
    })
    tidemark.on('halted', ({ watcher, reason }) => tell(`${watcher} halted: ${reason.code}`))
    tidemark.on('failing', ({ watcher, code, tries }) => {
      tell(`${watcher} failing: ${code}, try ${tries}`)
      if (code === 'UNEXPECTED' && !driver.dead) this.#unexpected ??= `${watcher} failed with an error that has no code`
    })
  }

  #unexpected: string | null = null

  /** Starts anew, as a supervisor does: another incarnation on the files of now. */
  start(): void {
    this.driver.kill()
    this.gate.open()
    this.#incarnation += 1
    this.blocks.clear()
    this.driver = this.#newDriver()
    this.#tidemark = this.#open()
  }

  /** Ends in good order. */
  async restart(): Promise<void> {
    await this.#tidemark.stop()
    this.start()
  }

  /**
   * One `runOnce`. A dead process is started first.
   * @param watcher its whole name: no other one is run
   * @returns what came of it, in words
   */
  async run(budgetMs: number, watcher?: string): Promise<string> {
    if (this.dead) this.start()
    this.#struck = 0
    const outcome = await this.#once({ budgetMs, ...(watcher === undefined ? {} : { watcher }) })
    const unexpected = this.#unexpected
    this.#unexpected = null
    if (unexpected) fail('unexpected', unexpected)
    return this.dead ? 'died' : outcome
  }

  async #once(options: RunOnceOptions): Promise<string> {
    try {
      const { did, events } = await this.#tidemark.runOnce(options)
      return events > 0 ? `${did}, ${events} events` : did
    } catch (error) {
      return this.#refused(error)
    }
  }

  /** One `runOnce` that must be refused. @returns the code of its error; null: it ran */
  async refusal(): Promise<string | null> {
    try {
      await this.#tidemark.runOnce({ budgetMs: 1 })
      return null
    } catch (error) {
      return TidemarkError.is(error) ? error.code : String(error)
    }
  }

  /** Only a failing disk may make `runOnce` throw: anything else is written down or waited out. */
  #refused(error: unknown): string {
    if (this.dead) return 'died'
    if (TidemarkError.is(error) && error.kind === 'retries' && (this.#struck > 0 || this.disturbed))
      return `refused: ${error.code}`
    return fail(
      'unexpected',
      `runOnce of process ${this.index} threw: ${error instanceof Error ? error.message : String(error)}`,
    )
  }
}
