import { rows, watch } from '../src/store/sqlite/index.ts'
import { type ChainShape, GeneratedChain, TOKEN } from './chain.ts'
import { type AnyWatcher, runToEnd, withFile } from './engine.ts'
import { alone, type Bench, compared, type Figure, type Size } from './measure.ts'
import { type Sample, Sampler } from './sampler.ts'

/**
 * Memory and table sizes over 1,000,000 events in 100,000 blocks, through the whole engine into a `rows()` table (P6):
 * once at the head, with undo, a `final` stage and finality that moves along; once over final blocks.
 *
 * `heap` is taken after a collection, so it is what is really held; `rss` is what the system counts. The first tenth is
 * warm-up: caches fill up to their limits.
 */

type Mode = 'latest' | 'finalized'

interface Plan {
  readonly blocks: number
  readonly logsPerBlock: number
  readonly retentionBlocks: number
  /** Events a commit should not exceed. */
  readonly maxEvents: number
  /** Commits between two counts of the rows: counting 100,000 marks takes some milliseconds. */
  readonly countEvery: number
}

const PLANS: Readonly<Record<Size, Plan>> = {
  // Retention and batches are the defaults.
  full: { blocks: 100_000, logsPerBlock: 10, retentionBlocks: 10_000, maxEvents: 5_000, countEvery: 16 },
  tiny: { blocks: 600, logsPerBlock: 1, retentionBlocks: 100, maxEvents: 16, countEvery: 1 },
}
const SAMPLES = 10
/** The most that the second half may hold, in parts of the first. */
const FLAT = 1.2

/** Blocks by which the head moves between two looks at it. */
const STEP = 32
const FINALITY = { behind: 64, every: 32 }

function shapeOf(mode: Mode, { blocks, logsPerBlock }: Plan): ChainShape {
  if (mode === 'latest') return { logsPerBlock, head: 1, step: STEP, lastHead: blocks + 256, finality: FINALITY }
  const head = blocks + 2_048
  return { logsPerBlock, head, step: 0, lastHead: head, finality: FINALITY }
}

function watcherOf(mode: Mode, { blocks, maxEvents }: Plan): AnyWatcher {
  const transfers = rows({ table: 'transfers', columns: { sender: 'bytes', receiver: 'bytes', amount: 'uint256' } })
  return watch({
    on: { bench: { address: TOKEN, startBlock: 1, endBlock: blocks, at: mode } },
    events: { Transfer: { event: 'event Transfer(address indexed from, address indexed to, uint256 value)' } },
    tables: { transfers },
    undo: 'managed',
    batch: { maxEvents },
    handle({ event, tables }) {
      const { from, to, value } = event.args
      tables.transfers.insert({ sender: from, receiver: to, amount: value })
    },
    ...(mode === 'latest' ? { final: () => {} } : {}),
  })
}

/** `settle/prune.ts` forgets in steps of 256 blocks, and merges settled commits into spans of 10,000. */
const FORGET_STEP = 256
const COMMIT_SPAN = 10_000

/** What each table may hold at most, given the widest commit seen, in blocks. */
function limitsOf(plan: Plan, widest: number): Readonly<Record<string, number>> {
  const remembered = plan.retentionBlocks + FORGET_STEP + widest
  const unsettled = FINALITY.behind + FINALITY.every + STEP + widest
  return {
    tidemark_processed_events: remembered * plan.logsPerBlock,
    tidemark_commits: remembered + Math.ceil(plan.blocks / COMMIT_SPAN) + 1,
    tidemark_kept_events: unsettled * plan.logsPerBlock,
    tidemark_unfinalized_blocks: unsettled,
  }
}

function most(samples: readonly Sample[], of: 'heapMb' | 'rssMb'): number {
  return Math.max(...samples.map((sample) => sample[of]))
}

/** Each sample, and the second half against the first without its first sample. */
function* memoryFigures(name: string, samples: readonly Sample[]): Generator<Figure> {
  for (const { events, heapMb, rssMb } of samples) {
    yield alone(`${name}/heap/${events}`, heapMb, 'MB')
    yield alone(`${name}/rss/${events}`, rssMb, 'MB')
  }
  const middle = samples.length / 2
  for (const of of ['heapMb', 'rssMb'] as const) {
    const [first, last] = [most(samples.slice(1, middle), of), most(samples.slice(middle), of)]
    const what = `${name}/${of === 'heapMb' ? 'heap' : 'rss'}/second-half`
    yield { ...compared(what, last, 'MB', `${name}: first half`, first), atMost: FLAT * first }
  }
}

/** The database is closed before its file is measured: by then the log file is written back into it. */
function* tableFigures(name: string, sampler: Sampler, limits: Readonly<Record<string, number>>): Generator<Figure> {
  for (const [table, { peak, end }] of sampler.tables()) {
    yield alone(`${name}/rows/${table}/peak`, peak, 'rows', limits[table])
    yield alone(`${name}/rows/${table}/end`, end, 'rows')
  }
  sampler.close()
  yield alone(`${name}/file`, sampler.fileMb(), 'MB')
  yield alone(`${name}/log-file/peak`, sampler.logFilePeakMb, 'MB')
}

async function runMode(mode: Mode, plan: Plan): Promise<Figure[]> {
  return withFile(async (file) => {
    const chain = new GeneratedChain(shapeOf(mode, plan))
    const every = (plan.blocks * plan.logsPerBlock) / SAMPLES
    const sampler = new Sampler(file, { every, countEvery: plan.countEvery })
    const { wallMs, cpuMs } = await runToEnd({
      file,
      chain,
      watcher: watcherOf(mode, plan),
      endBlock: plan.blocks,
      config: { retentionBlocks: plan.retentionBlocks },
      onApplied: (event) => sampler.applied(event),
    })
    const name = `memory/${mode}`
    return [
      ...memoryFigures(name, sampler.samples),
      ...tableFigures(name, sampler, limitsOf(plan, sampler.widest)),
      alone(`${name}/seconds`, wallMs / 1000, 's'),
      alone(`${name}/cpu`, cpuMs / 1000, 's'),
    ]
  })
}

export const memory: Bench = {
  name: 'memory',
  says: 'memory and table sizes over 1,000,000 events, at the head and over final blocks',
  async *run(size) {
    yield* await runMode('latest', PLANS[size])
    yield* await runMode('finalized', PLANS[size])
  },
}
