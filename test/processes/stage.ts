import { setTimeout as sleep } from 'node:timers/promises'
import { Random } from '../../src/testkit/index.ts'
import { type Database, type Kind, mysqlDatabase, NAMES, postgresDatabase, type Row, rememberRows } from './database.ts'
import { CHAIN_ID, FINALITY, LiveChain, TOKEN } from './live-chain.ts'
import { Member, type WorkerSettings } from './member.ts'
import { differences, expectedTables, readTables } from './oracle.ts'
import { type Duty, readDuties, readHistory } from './writers.ts'

export const WATCHERS = ['ledger/node', 'shown/node', 'credits/node'] as const
export const LEASE_MS = 2_000
/** For each wait; a second or two on a quiet machine. */
const LIMIT_MS = 30_000

/** The seed of chain and acts; PROCESSES_SEED repeats it. The moments of a run are never the same twice. */
export const seed = process.env['PROCESSES_SEED'] ?? String(Math.floor(Math.random() * 1_000_000_000))

/** A database, a chain that lives, and processes on them. */
export class Stage {
  readonly database: Database
  readonly live: LiveChain
  readonly random: Random
  readonly members: Member[] = []

  private constructor(database: Database, live: LiveChain, random: Random) {
    this.database = database
    this.live = live
    this.random = random
  }

  static async open(kind: Kind, label: string, options: { remember?: boolean } = {}): Promise<Stage> {
    const random = new Random(seed).fork(`${kind} ${label}`)
    const database = kind === 'postgres' ? await postgresDatabase() : await mysqlDatabase()
    const stage = new Stage(database, new LiveChain(random.fork('chain')), random.fork('acts'))
    if (options.remember !== false) await rememberRows(database)
    await stage.live.open()
    return stage
  }

  async close(): Promise<void> {
    for (const member of this.members) await member.kill()
    await this.live.close()
    await this.database.drop()
  }

  member(changed: Partial<WorkerSettings> = {}): Member {
    const who = NAMES[this.members.length % NAMES.length] as string
    const member = new Member({
      kind: this.database.kind,
      who,
      url: this.database.urlFor(who),
      node: this.live.url,
      token: TOKEN,
      chainId: CHAIN_ID,
      finality: FINALITY,
      leaseMs: LEASE_MS,
      ...changed,
    })
    this.members.push(member)
    return member
  }

  /** Starts a process and waits until it runs, or stands by. */
  async start(changed: Partial<WorkerSettings> = {}): Promise<Member> {
    const member = this.member(changed).start()
    await started(member)
    return member
  }

  async until<T>(what: string, look: () => Promise<T | null | undefined | false>): Promise<T> {
    const until = performance.now() + LIMIT_MS
    for (;;) {
      const found = await look()
      if (found) return found
      if (performance.now() > until) throw new Error(`Waited in vain for ${what}.\n${await this.describe()}`)
      await sleep(15)
    }
  }

  async describe(): Promise<string> {
    const members = this.members.map((one) => `${one.who} (${one.works ? 'works' : 'is out'}): ${one.describe()}`)
    const rows = (await this.rows()).map((row) => JSON.stringify(row))
    return [...members, ...rows].join('\n')
  }

  /** The watchers' rows, as they are. */
  async rows(): Promise<Row[]> {
    const table = this.database.kind === 'postgres' ? 'tidemark.watchers' : 'tidemark_watchers'
    const rows = await this.database.query(
      `SELECT name, cursor_block, settled, epoch, state, reason, revision FROM ${table} ORDER BY name`,
    )
    return rows.map((row) => ({ ...row, name: String(row['name']) }))
  }

  /** The last time on duty of each watcher. */
  async duties(): Promise<Map<string, Duty>> {
    const { duties } = readDuties(await readHistory(this.database))
    return new Map(duties.map((duty) => [duty.watcher, duty]))
  }

  /** Waits for the time on duty that follows one: the first of that watcher after a line of the history. */
  async taken(watcher: string, after: number): Promise<Duty> {
    return this.until(`a new holder of ${watcher}`, async () => {
      const { duties } = readDuties(await readHistory(this.database))
      return duties.find((duty) => duty.watcher === watcher && duty.takenId > after && duty.who !== 'test')
    })
  }

  /** The newest line of the history, to wait for what comes after it. */
  async lastLine(): Promise<number> {
    const [row] = await this.database.query('SELECT coalesce(max(id), 0) AS last FROM history')
    return Number(row?.['last'])
  }

  /** The chain stands still and everything on it becomes final: waits until all of it is applied and settled. */
  async settled(watchers: readonly string[] = WATCHERS): Promise<void> {
    this.live.rest()
    const { chain } = this.live
    const last = chain.head().number
    chain.mineEmpty(3 * FINALITY)
    const head = chain.head().number
    await this.until(`everything up to ${last} settled, head ${head}`, async () => {
      const rows = (await this.rows()).filter((row) => watchers.includes(String(row['name'])))
      const done = (row: Row) =>
        Number(row['settled'] ?? -1) >= last && (row['name'] === 'credits/node' || Number(row['cursor_block']) === head)
      return rows.length === watchers.length && rows.every(done)
    })
  }

  /** What differs from a naive fold over the final chain, once everything is settled. */
  async differences(): Promise<string[]> {
    const { chain } = this.live
    return differences(expectedTables(chain, TOKEN, chain.head().number), await readTables(this.database))
  }
}

/** Waits until it runs, or stands by. */
export async function started(member: Member): Promise<void> {
  await member.until('its start', () => member.of('started').length >= member.starts)
}
