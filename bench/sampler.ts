import { statSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { TidemarkEvents } from '../src/app/types.ts'
import { openDefault, type SqliteDatabaseLike } from '../src/store/sqlite/driver.ts'

export interface SamplerOptions {
  /** Events between two samples of memory. */
  readonly every: number
  /** Commits between two counts of rows. */
  readonly countEvery: number
}

export interface Sample {
  readonly events: number
  /** The JavaScript heap after a collection. */
  readonly heapMb: number
  readonly rssMb: number
}

interface Rows {
  readonly peak: number
  readonly end: number
}

const MB = 1024 * 1024

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0
}

/** Looks at a run from the side, between its commits: memory, rows of Tidemark's tables, sizes of the files. */
export class Sampler {
  readonly samples: Sample[] = []
  /** The widest commit, in blocks. */
  widest = 0
  logFilePeakMb = 0
  readonly #file: string
  readonly #options: SamplerOptions
  readonly #peaks = new Map<string, number>()
  #database: SqliteDatabaseLike | undefined
  #tables: readonly string[] = []
  #events = 0
  #commits = 0

  constructor(file: string, options: SamplerOptions) {
    this.#file = file
    this.#options = options
  }

  applied({ from, to, events }: TidemarkEvents['applied']): void {
    this.#events += events
    this.widest = Math.max(this.widest, to - from + 1)
    if (this.#commits++ % this.#options.countEvery === 0) this.#count()
    while (this.#events >= (this.samples.length + 1) * this.#options.every) this.#sample()
  }

  #sample(): void {
    collect()
    const { heapUsed, rss } = process.memoryUsage()
    this.samples.push({
      events: (this.samples.length + 1) * this.#options.every,
      heapMb: heapUsed / MB,
      rssMb: rss / MB,
    })
  }

  /** Every table of Tidemark, with the most rows that were seen and those at the end. */
  tables(): [table: string, rows: Rows][] {
    const end = this.#count()
    return this.#tables.map((table) => [table, { peak: this.#peaks.get(table) ?? 0, end: end.get(table) ?? 0 }])
  }

  fileMb(): number {
    return sizeOf(this.#file) / MB
  }

  close(): void {
    this.#database?.close()
  }

  #count(): ReadonlyMap<string, number> {
    const database = this.#open()
    const counts = new Map<string, number>()
    for (const table of this.#tables) {
      const n = Number(database.prepare(`SELECT count(*) AS n FROM "${table}"`).get()?.['n'])
      counts.set(table, n)
      this.#peaks.set(table, Math.max(n, this.#peaks.get(table) ?? 0))
    }
    this.logFilePeakMb = Math.max(this.logFilePeakMb, sizeOf(`${this.#file}-wal`) / MB)
    return counts
  }

  /** Opened at the first commit, when all tables are there. */
  #open(): SqliteDatabaseLike {
    if (this.#database) return this.#database
    this.#database = openDefault(this.#file)
    const names = `SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'tidemark_%' ORDER BY name`
    this.#tables = this.#database
      .prepare(names)
      .all()
      .map((row) => String(row['name']))
    return this.#database
  }
}
