import { copyFileSync, existsSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Memory as a folder, where the system has it: no run should wait for a disk. */
const MEMORY_FOLDER = '/dev/shm'

function defaultFolder(): string {
  return existsSync(MEMORY_FOLDER) && statSync(MEMORY_FOLDER).isDirectory() ? MEMORY_FOLDER : tmpdir()
}

/** The files of a run. After a loss of power the run goes on with copies: old connections never see them. */
export class Disk {
  readonly #folder: string
  #generation = 0
  #snapshots = 0

  constructor(folder = defaultFolder()) {
    this.#folder = mkdtempSync(join(folder, 'tidemark-simulate-'))
  }

  /** The database file of now. */
  get file(): string {
    return this.#path(this.#generation)
  }

  #path(generation: number): string {
    return join(this.#folder, `${generation}.db`)
  }

  /** Keeps database and log as the operating system has them at this moment. The shared-memory index is not durable. */
  snapshot(): void {
    this.#snapshots += 1
    const to = this.#path(this.#snapshots)
    for (const suffix of ['', '-wal']) {
      const from = `${this.file}${suffix}`
      if (existsSync(from)) copyFileSync(from, `${to}${suffix}`)
    }
  }

  /** Goes on with the newest snapshot. */
  useSnapshot(): void {
    this.#generation = this.#snapshots
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true })
  }
}
