import { type SqliteDb, watch } from '../src/store/sqlite/index.ts'
import { openConnection, placeOf } from '../src/store/sqlite/open.ts'
import { realWorld } from '../src/util/world.ts'
import { type ChainShape, GeneratedChain, TOKEN } from './chain.ts'
import { type AnyWatcher, runToEnd, withFile } from './engine.ts'
import { alone, type Bench, compared, type Figure, median, type Size, stopwatch, type Took } from './measure.ts'

/**
 * What exactly-once costs: the whole engine (reading, decoding, marks, guards, the handler, undo, cursor) against a bare
 * loop that makes the same inserts in the same table, in transactions of the same sizes, on the same driver with the
 * same settings, and nothing else. The two take turns; of each the median of 3 turns counts. Making the node's answers
 * is taken off, by wall and by CPU time.
 *
 * `backfill`: final blocks in batches, as far as one commit goes by default. `block`: at the head, one block a commit,
 * with an undo function; finality moves by 32 blocks.
 */

interface Work {
  readonly name: 'backfill' | 'block'
  readonly blocks: number
  readonly logsPerBlock: number
}

const WORK: Readonly<Record<Size, readonly Work[]>> = {
  full: [
    { name: 'backfill', blocks: 10_000, logsPerBlock: 10 },
    { name: 'block', blocks: 2_000, logsPerBlock: 10 },
  ],
  tiny: [
    { name: 'backfill', blocks: 50, logsPerBlock: 10 },
    { name: 'block', blocks: 40, logsPerBlock: 2 },
  ],
}
const TURNS: Readonly<Record<Size, number>> = { full: 3, tiny: 1 }

const SCHEMA = 'CREATE TABLE deposits (id INTEGER PRIMARY KEY, account TEXT NOT NULL, amount TEXT NOT NULL)'
const INSERT = 'INSERT INTO deposits (account, amount) VALUES (?, ?)'
const FINALITY = { behind: 64, every: 32 }

function shapeOf({ name, blocks, logsPerBlock }: Work): ChainShape {
  if (name === 'block') return { logsPerBlock, head: 1, step: 1, lastHead: blocks + 256, finality: FINALITY }
  const head = blocks + 2_048
  return { logsPerBlock, head, step: 0, lastHead: head, finality: FINALITY }
}

function watcherOf({ name, blocks }: Work): AnyWatcher {
  const live = name === 'block'
  const undo = ({ db }: { db: SqliteDb }) => db.exec('DELETE FROM deposits WHERE id = (SELECT max(id) FROM deposits)')
  return watch({
    on: { bench: { address: TOKEN, startBlock: 1, endBlock: blocks, at: live ? 'latest' : 'finalized' } },
    events: { Transfer: { event: 'event Transfer(address indexed from, address indexed to, uint256 value)' } },
    handle({ event, db }) {
      db.prepare(INSERT).run(event.args.to, event.args.value.toString())
    },
    ...(live ? { undo } : {}),
  })
}

/** A new database with the user's table, and with the settings that Tidemark gives it. */
function prepared(file: string) {
  const connection = openConnection(placeOf({ file, world: realWorld }))
  connection.database.exec(SCHEMA)
  return connection.database
}

interface EngineTurn extends Took {
  /** Events of each commit. */
  readonly sizes: readonly number[]
}

async function engineTurn(work: Work): Promise<EngineTurn> {
  return withFile(async (file) => {
    prepared(file).close()
    const sizes: number[] = []
    const chain = new GeneratedChain(shapeOf(work), { keepCalls: true })
    const onApplied = ({ events }: { events: number }) => void sizes.push(events)
    const took = await runToEnd({ file, chain, watcher: watcherOf(work), endBlock: work.blocks, onApplied })
    const read = stopwatch()
    chain.replay()
    const node = read()
    return { wallMs: took.wallMs - node.wallMs, cpuMs: took.cpuMs - node.cpuMs, sizes }
  })
}

/** The same rows in transactions of the same sizes, from values that are there already. */
async function bareTurn(sizes: readonly number[]): Promise<Took> {
  return withFile(async (file) => {
    const database = prepared(file)
    const insert = database.prepare(INSERT)
    const read = stopwatch()
    let nth = 0
    for (const size of sizes) {
      database.exec('BEGIN IMMEDIATE')
      for (let i = 0; i < size; i++) insert.run(accountOf(nth), String(nth++ * 1_003))
      database.exec('COMMIT')
    }
    const took = read()
    database.close()
    return took
  })
}

const ACCOUNTS = Array.from({ length: 10_007 }, (_, i) => `0x${i.toString(16).padStart(40, '0')}`)

function accountOf(nth: number): string {
  return ACCOUNTS[(nth * 17 + 5) % ACCOUNTS.length] ?? ''
}

async function measure(work: Work, turns: number): Promise<Figure[]> {
  const engine: EngineTurn[] = []
  const bare: Took[] = []
  for (let turn = 0; turn < turns; turn++) {
    const took = await engineTurn(work)
    engine.push(took)
    bare.push(await bareTurn(took.sizes))
  }
  return figuresOf(work, engine, bare)
}

function figuresOf(work: Work, engine: readonly EngineTurn[], bare: readonly Took[]): Figure[] {
  const events = work.blocks * work.logsPerBlock
  const rateOf = (turns: readonly Took[]) => events / (median(turns.map((turn) => turn.wallMs)) / 1000)
  const cpuOf = (turns: readonly Took[]) => (median(turns.map((turn) => turn.cpuMs)) * 1000) / events
  const name = `commit/${work.name}`
  const commits = median(engine.map((turn) => turn.sizes.length))
  return [
    compared(`${name}/rate`, rateOf(engine), 'events/s', `${name}/bare/rate`, rateOf(bare)),
    alone(`${name}/bare/rate`, rateOf(bare), 'events/s'),
    compared(`${name}/cpu`, cpuOf(engine), 'µs/event', `${name}/bare/cpu`, cpuOf(bare)),
    alone(`${name}/bare/cpu`, cpuOf(bare), 'µs/event'),
    alone(`${name}/events-a-commit`, events / commits, 'events'),
  ]
}

export const commit: Bench = {
  name: 'commit',
  says: 'the whole engine against the same inserts alone, on the same driver',
  async *run(size) {
    for (const work of WORK[size]) yield* await measure(work, TURNS[size])
  },
}
