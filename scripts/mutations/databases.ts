import { makeDatabase, serverUrl } from '../../src/testkit/simulator/postgres/database.ts'

type Made = Awaited<ReturnType<typeof makeDatabase>>

/** PostgreSQL databases for the mutations that are played there: one for each that is played at once. */
export class Databases {
  readonly #all: readonly Made[]
  readonly #free: Made[]

  private constructor(all: readonly Made[]) {
    this.#all = all
    this.#free = [...all]
  }

  /** Null: no server answers. */
  static async make(count: number): Promise<Databases | null> {
    const all: Made[] = []
    try {
      for (let i = 0; i < count; i++) all.push(await makeDatabase(serverUrl(process.env)))
    } catch {
      return null
    }
    return new Databases(all)
  }

  /** Gives `work` the url of one that nobody uses meanwhile. Never more at once than were made. */
  async lend<T>(work: (url: string) => Promise<T>): Promise<T> {
    const made = this.#free.pop()
    if (!made) throw new Error('more mutations are played at once than there are databases')
    try {
      return await work(made.url)
    } finally {
      this.#free.push(made)
    }
  }

  async drop(): Promise<void> {
    for (const { drop } of this.#all) await drop()
  }
}
