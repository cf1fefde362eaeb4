import { takeOver } from '../src/app/register.ts'
import { Seen } from '../src/app/seen.ts'
import type { BlockNumber, BlockRef, Hash } from '../src/chain/block.ts'
import type { Log } from '../src/chain/log.ts'
import type { Batch } from '../src/handle/batch.ts'
import { decodeAll } from '../src/handle/ready.ts'
import type { Run } from '../src/handle/run.ts'
import { runBatch } from '../src/handle/run-batch.ts'
import { type CompiledWatcher, compileWatcher } from '../src/handle/watch.ts'
import { Alarm } from '../src/util/alarm.ts'
import { realWorld } from '../src/util/world.ts'
import { CHAIN_ID, logOf } from './chain.ts'
import { alone, type Bench, compared, type Figure, median, type Size, stopwatch, type Took } from './measure.ts'
import { type Contender, type Server, servers } from './servers.ts'

/**
 * What the protocol of a commit costs on each store: lease token, cursor lock, nonce, marks, guard, handler, trail, commit row
 * and cursor, against the same user inserts alone, one by one in transactions of the same sizes on the same driver. Reading
 * the chain and decoding are no part of it. The two take turns; of each the median of the turns counts.
 *
 * `backfill`: 500 events a commit, final at once. `block`: one block of 20 events a commit, as at the head.
 */
interface Work {
  readonly name: 'backfill' | 'block'
  readonly commits: number
  readonly blocksACommit: number
  readonly logsPerBlock: number
}

const WORK: Readonly<Record<Size, readonly Work[]>> = {
  full: [
    { name: 'backfill', commits: 30, blocksACommit: 25, logsPerBlock: 20 },
    { name: 'block', commits: 250, blocksACommit: 1, logsPerBlock: 20 },
  ],
  tiny: [
    { name: 'backfill', commits: 2, blocksACommit: 5, logsPerBlock: 4 },
    { name: 'block', commits: 3, blocksACommit: 1, logsPerBlock: 4 },
  ],
}
const TURNS: Readonly<Record<Size, number>> = { full: 5, tiny: 1 }
const WORKS = ['backfill/bench', 'block/bench']

function toLog(raw: unknown): Log {
  const { blockNumber, logIndex, transactionIndex, ...rest } = raw as Record<string, string>
  const numbers = { blockNumber: Number(blockNumber), logIndex: Number(logIndex) }
  return { ...rest, ...numbers, transactionIndex: Number(transactionIndex) } as unknown as Log
}

/** The batches of a turn, from block `start` on. */
function batchesOf(work: Work, watcher: CompiledWatcher, start: number): Batch[] {
  const refOf = (number: number): BlockRef => ({
    number: number as BlockNumber,
    hash: (logOf(number, 0, 1) as { blockHash: Hash }).blockHash,
  })
  return Array.from({ length: work.commits }, (_, i) => {
    const from = start + i * work.blocksACommit
    const to = refOf(from + work.blocksACommit - 1)
    const numbers = Array.from({ length: work.blocksACommit }, (_, n) => from + n)
    const logs = numbers.flatMap((n) =>
      Array.from({ length: work.logsPerBlock }, (_, nth) => toLog(logOf(n, nth, work.logsPerBlock))),
    )
    const { events } = decodeAll(watcher, logs)
    const final = work.name === 'backfill'
    const finalized = final ? to.number : null
    const trail = final ? [] : [to]
    return {
      phase: final ? 'backfill' : 'live',
      from: from as BlockNumber,
      to,
      events,
      trail,
      finalized,
      head: to,
      attempt: 1,
    }
  })
}

/** One watcher in one database, over all turns of one kind of work. */
class Protocol {
  private readonly watcher: CompiledWatcher
  private readonly contender: Contender
  private run: Run | null = null
  private cursor: BlockRef | null = null

  constructor(contender: Contender, name: string) {
    this.contender = contender
    this.watcher = compileWatcher(name, contender.watcher, 'bench', CHAIN_ID)
  }

  async open(): Promise<() => Promise<void>> {
    const { store } = this.contender
    const { watcher } = this
    const lease = await store.acquire(watcher.name)
    if (!lease) throw new Error('the watcher is held by another process')
    const { token } = lease
    const taker = {
      token,
      confirm: () => true,
      head: null,
      seen: new Seen(),
      now: 0,
      configured: new Set(WORKS),
      accept: undefined,
    }
    const { row } = await takeOver(store, watcher, taker)
    const stop = new AbortController()
    const { signal } = stop
    this.run = {
      watcher,
      id: row.id,
      token,
      store,
      world: realWorld,
      alarm: new Alarm(realWorld, signal),
      tables: {},
      participants: [],
      build: '',
      signal,
    }
    return async () => {
      stop.abort()
      await lease.release()
    }
  }

  async turn(work: Work): Promise<{ protocol: Took; bare: Took }> {
    const batches = batchesOf(work, this.watcher, (this.cursor?.number ?? 0) + 1)
    const read = stopwatch()
    for (const batch of batches) {
      await runBatch(this.run as Run, { cursor: this.cursor, epoch: 0 }, batch)
      this.cursor = batch.to
    }
    const protocol = read()
    const rows = batches.map(({ events }) =>
      events.map(({ event }) => {
        const { to, value } = event.args as { to: string; value: bigint }
        return [to, value.toString()] as const
      }),
    )
    const again = stopwatch()
    for (const some of rows) await this.contender.bare(some)
    return { protocol, bare: again() }
  }
}

async function measure(work: Work, kind: string, contender: Contender, turns: number): Promise<Figure[]> {
  const protocol = new Protocol(contender, work.name)
  const release = await protocol.open()
  await protocol.turn({ ...work, commits: Math.ceil(work.commits / 5) }) // nothing is compiled at first
  const took: Awaited<ReturnType<Protocol['turn']>>[] = []
  for (let turn = 0; turn < turns; turn++) took.push(await protocol.turn(work))
  await release()
  const events = work.commits * work.blocksACommit * work.logsPerBlock
  const rate = (of: 'protocol' | 'bare') => (events / median(took.map((one) => one[of].wallMs))) * 1_000
  const cpu = (of: 'protocol' | 'bare') => (median(took.map((one) => one[of].cpuMs)) * 1_000) / events
  const name = `protocol/${kind}/${work.name}`
  return [
    compared(`${name}/rate`, rate('protocol'), 'events/s', `${name}/bare/rate`, rate('bare')),
    alone(`${name}/bare/rate`, rate('bare'), 'events/s'),
    compared(`${name}/cpu`, cpu('protocol'), 'µs/event', `${name}/bare/cpu`, cpu('bare')),
    alone(`${name}/bare/cpu`, cpu('bare'), 'µs/event'),
  ]
}

async function measureServer(server: Server, size: Size): Promise<Figure[]> {
  const figures: Figure[] = []
  const there = await server.with(async (contender) => {
    await contender.store.migrate('auto')
    for (const work of WORK[size]) figures.push(...(await measure(work, server.kind, contender, TURNS[size])))
  })
  if (!there) console.warn(`NOT MEASURED: no ${server.kind} server answers`)
  return figures
}

export const protocol: Bench = {
  name: 'protocol',
  says: 'what a commit costs on each store, against the same inserts alone',
  async *run(size) {
    for (const server of servers) yield* await measureServer(server, size)
  },
}
