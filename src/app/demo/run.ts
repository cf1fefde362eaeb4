import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openDefault } from '../../store/sqlite/driver.ts'
import { fakeNode } from '../../testkit/fake-node.ts'
import type { FaultSettings } from '../../testkit/fault-plan.ts'
import { Random } from '../../testkit/random.ts'
import { realWorld, type World } from '../../util/world.ts'
import type { Output } from '../terminal.ts'
import { CountingRpc } from './counting-rpc.ts'
import { Performance } from './performance.ts'
import { printReport, reportOf, total } from './report.ts'
import { Screen } from './screen.ts'
import { Story } from './story.ts'
import { SCHEMA } from './watchers.ts'

export interface DemoOptions {
  /** Undefined: a new one is drawn and printed. */
  readonly seed: string | undefined
  /** Undefined: 160. */
  readonly blocks: number | undefined
  /** The last line is one JSON object. */
  readonly json: boolean
  readonly out: Output
}

/** About 15 seconds. */
const BLOCKS = 160
/** Exit code when the databases differ, or the demo could not be finished. */
const DIFFERENT = 5

/**
 * What the node does. Everything here is to be survived at the default evidence; a log that is left out of a list that
 * is not empty is not among them, since only the second reading can find that.
 */
const FAULTS: FaultSettings = {
  lag: 0.08,
  sibling: 0.03,
  headZero: 0.005,
  emptyFresh: { chance: 0.3, attempts: 2 },
  removedLogs: 0.2,
  repeatedLogs: 0.25,
  unorderedLogs: 0.25,
  providerError: { chance: 0.015, attempts: 2 },
  behindError: { chance: 0.015, attempts: 2 },
  nullResult: { chance: 0.01, attempts: 2 },
  cut: { chance: 0.01, attempts: 2 },
  cutMidAnswer: { chance: 0.01, attempts: 2 },
  hang: { chance: 0.002, attempts: 1 },
  htmlPage: { chance: 0.005, attempts: 2 },
}

function newSeed(world: World): string {
  return String(Math.floor(world.random() * 1_000_000_000))
}

function readTables(file: string) {
  const database = openDefault(file)
  try {
    const all = (sql: string) => database.prepare(sql).all()
    return {
      transfers: all('SELECT sender, receiver, amount FROM transfers'),
      balances: all('SELECT account, amount FROM balances'),
      payouts: all('SELECT transaction_hash, receiver, amount FROM payouts'),
      counters: all('SELECT applied, duplicates, undone, reorgs FROM tidemark_watchers')[0] ?? {},
    }
  } finally {
    database.close()
  }
}

function makeSchema(file: string): void {
  const database = openDefault(file)
  database.exec('PRAGMA journal_mode = WAL')
  database.exec(SCHEMA)
  database.close()
}

async function play(folder: string, seed: string, options: DemoOptions, world: World): Promise<number> {
  const file = join(folder, 'demo.db')
  makeSchema(file)
  const story = new Story(seed)
  const rpc = new CountingRpc(story.chain, { seed, faults: FAULTS, refuses: 'erigon' })
  const node = fakeNode(rpc)
  const blocks = options.blocks ?? BLOCKS
  const screen = new Screen(options.out, blocks, process.env)
  const url = await node.listen()
  const started = world.monotonic()
  const performance = new Performance({
    story,
    node,
    url,
    file,
    blocks,
    screen,
    world,
    random: new Random(seed).fork('kills'),
  })
  try {
    const failure = await performance.run()
    const tables = readTables(file)
    const report = reportOf({
      seed,
      chain: story.chain,
      performance,
      tables,
      failure,
      deliveries: rpc.deliveries,
      requests: total(rpc.counters),
      faults: total(rpc.log.faults),
    })
    screen.clear()
    printReport(screen, report, world.monotonic() - started)
    if (options.json) options.out.write(`${JSON.stringify(report.summary)}\n`)
    return report.summary.verdict === 'equal' ? 0 : DIFFERENT
  } finally {
    await performance.end()
    await node.close()
  }
}

/**
 * `tidemark demo`: a seeded hostile chain over real HTTP, a watcher that is killed again and again, and the verdict of
 * an independent oracle.
 * @returns the exit code: 0 only if the databases are equal
 */
export async function runDemo(options: DemoOptions): Promise<number> {
  const world = realWorld
  const seed = options.seed ?? newSeed(world)
  const folder = mkdtempSync(join(tmpdir(), 'tidemark-demo-'))
  try {
    return await play(folder, seed, options, world)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
