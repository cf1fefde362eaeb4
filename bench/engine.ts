import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createTidemark } from '../src/app/tidemark.ts'
import type { Tidemark, TidemarkEvents } from '../src/app/types.ts'
import { type ConfigInput, defineConfig } from '../src/config.ts'
import type { Watcher } from '../src/handle/watch.ts'
import { type SqliteDb, sqlite } from '../src/store/sqlite/index.ts'
import { realWorld, type World } from '../src/util/world.ts'
import { CHAIN_ID, type GeneratedChain } from './chain.ts'
import { cpuMs } from './measure.ts'

/** Real clocks, but nobody waits: a sleep moves them on instead. So only work is measured, never polling. */
export function hurryingWorld(): World {
  let skipped = 0
  return {
    ...realWorld,
    now: () => realWorld.now() + Math.floor(skipped),
    monotonic: () => realWorld.monotonic() + skipped,
    sleep: async (ms) => {
      skipped += ms
      await nextTurn()
    },
  }
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

/** Runs `work` with the path of a database file that does not exist yet, in a folder of its own. */
export async function withFile<T>(work: (file: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'tidemark-bench-'))
  try {
    return await work(join(folder, 'bench.db'))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

export type AnyWatcher = Watcher<SqliteDb>

export interface EngineRun {
  readonly file: string
  readonly chain: GeneratedChain
  /** Has an end block on the chain `bench`. */
  readonly watcher: AnyWatcher
  readonly config?: Partial<ConfigInput>
  onApplied?(event: TidemarkEvents['applied']): void
}

/** What a run took from the start of the watcher to its last commit of events, without making the answers. */
export interface Took {
  readonly wallMs: number
  readonly cpuMs: number
}

/** The whole engine, as a daemon runs it, from an empty database until the watcher's end block is settled. */
export async function runToEnd(run: EngineRun): Promise<Took> {
  const world = hurryingWorld()
  const tidemark = createTidemark(
    defineConfig({
      store: sqlite({ file: run.file, world }),
      chains: { bench: { id: CHAIN_ID, rpc: [run.chain] } },
      watchers: { bench: run.watcher as Watcher },
      ...run.config,
    }),
    { world },
  )
  let trouble: string | null = null
  tidemark.on('halted', ({ reason }) => (trouble = reason.code))
  tidemark.on('failing', ({ code }) => (trouble = code))
  if (run.onApplied) tidemark.on('applied', run.onApplied)
  await tidemark.start()
  const stopwatch = new Stopwatch(run.chain)
  tidemark.on('applied', () => stopwatch.read())
  while (!(await hasEnded(tidemark))) if (trouble) throw new Error(`the watcher stopped: ${trouble}`)
  await tidemark.stop()
  return stopwatch.took
}

class Stopwatch {
  took: Took = { wallMs: 0, cpuMs: 0 }
  readonly #chain: GeneratedChain
  readonly #wall = realWorld.monotonic()
  readonly #cpu = cpuMs()

  constructor(chain: GeneratedChain) {
    this.#chain = chain
  }

  read(): void {
    const { wallMs, cpuMs: cpu } = this.#chain.took
    this.took = { wallMs: realWorld.monotonic() - this.#wall - wallMs, cpuMs: cpuMs() - this.#cpu - cpu }
  }
}

/** Looks now and then, not at every turn: a look costs a transaction. */
async function hasEnded(tidemark: Tidemark): Promise<boolean> {
  await new Promise((resolve) => setTimeout(resolve, 100))
  return (await tidemark.status()).watchers.every((watcher) => watcher.health === 'ended')
}
