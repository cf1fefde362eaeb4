import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Watcher } from '../../src/handle/watch.ts'
import { openDefault } from '../../src/store/sqlite/driver.ts'
import { type Disk, type End, endState, readDisk, sameDisk, writeDisk } from './crash-disk.ts'
import { type Around, chainAt, PHASE_COUNT, play, prepareFile } from './crash-run.ts'
import { differences } from './demo-ledger.ts'

/** An instant of a run: before or after one of its statements. */
export interface Point {
  readonly n: number
  readonly when: 'before' | 'after'
  readonly sql: string
  /** The last phase that the chain has gone through. */
  readonly phase: number
  /** The files at that instant; the same object for neighbours with the same bytes. */
  readonly disk: Disk
}

type MakeWatcher = (file: string) => Watcher

/** Files of their own for as many runs as a test needs. */
export class CrashLab {
  readonly #folder = mkdtempSync(join(tmpdir(), 'tidemark-crash-'))
  #files = 0

  /** A file with the application's own tables, or with what a crash left. */
  newFile(disk?: Disk): string {
    const file = join(this.#folder, `${++this.#files}.db`)
    if (disk) writeDisk(file, disk)
    else prepareFile(file)
    return file
  }

  /** One run to its end, with the files copied before and after each statement. */
  async everyPoint(watcher?: MakeWatcher): Promise<{ points: Point[]; end: End }> {
    const file = this.newFile()
    const points: Point[] = []
    let phase = 0
    const note = (n: number, when: Point['when'], sql: string) => {
      const disk = readDisk(file)
      const last = points.at(-1)?.disk
      points.push({ n, when, sql, phase, disk: last && sameDisk(last, disk) ? last : disk })
    }
    const around: Around = (n, sql, work) => {
      note(n, 'before', sql)
      const result = work()
      note(n, 'after', sql)
      return result
    }
    await play({ file, around, onPhase: (now) => (phase = now), ...(watcher ? { watcher: watcher(file) } : {}) })
    return { points, end: endState(file) }
  }

  /** A new process goes on from what the file holds. */
  async resume(file: string, phase: number, watcher?: MakeWatcher): Promise<End> {
    await play({ file, from: phase, later: 1, ...(watcher ? { watcher: watcher(file) } : {}) })
    return endState(file)
  }

  close(): void {
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

/** The first point of each pair of bytes and chain. */
export function distinct(points: readonly Point[]): Point[] {
  return points.filter((point, i) => point.disk !== points[i - 1]?.disk || point.phase !== points[i - 1]?.phase)
}

export function label({ n, when, sql, phase }: Point): string {
  return `${when} statement ${n} (phase ${phase}): ${sql.replace(/\s+/g, ' ').trim().slice(0, 60)}`
}

/** Differences between the user's tables and a naive replay of the final chain. */
export function oracle(file: string): string[] {
  const db = openDefault(file)
  try {
    return differences(chainAt(PHASE_COUNT - 1), db)
  } finally {
    db.close()
  }
}

/** Where an end state differs from the whole run's, or the user's tables from the oracle's. */
export function differing(found: End, end: End, file: string): string[] {
  const keys = Object.keys(end).filter((key) => JSON.stringify(found[key]) !== JSON.stringify(end[key]))
  return [...oracle(file), ...keys]
}
