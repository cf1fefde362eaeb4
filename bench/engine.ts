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
import { stopwatch, type Took } from './measure.ts'

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
  /** Runs on the chain `bench` and ends with `endBlock`. */
  readonly watcher: AnyWatcher
  readonly endBlock: number
  readonly config?: Partial<ConfigInput>
  onApplied?(event: TidemarkEvents['applied']): void
}

/**
 * The whole engine, as a daemon runs it, from an empty database until the watcher's end block is settled.
 * @returns what it took from its start to the last commit of events
 */
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
  const read = stopwatch()
  let took = read()
  tidemark.on('applied', ({ to }) => {
    if (to === run.endBlock) took = read()
  })
  await tidemark.start()
  while (!(await hasEnded(tidemark))) if (trouble) throw new Error(`the watcher stopped: ${trouble}`)
  await tidemark.stop()
  return took
}

/** Looks now and then, not at every turn: a look costs a transaction. */
async function hasEnded(tidemark: Tidemark): Promise<boolean> {
  await new Promise((resolve) => setTimeout(resolve, 100))
  return (await tidemark.status()).watchers.every((watcher) => watcher.health === 'ended')
}
