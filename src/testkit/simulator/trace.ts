import { createHash } from 'node:crypto'

/** Lines of a story that are kept; the hash covers all of them. */
const MAX_LINES = 4_000

/** What happened, in order: readable lines, and a hash by which two runs are told apart. */
export class Trace {
  readonly #hash = createHash('sha256')
  readonly #story: string[] = []
  readonly #listen: ((line: string) => void) | undefined

  constructor(listen?: (line: string) => void) {
    this.#listen = listen
  }

  /** An outcome: part of the hash and of the story. */
  add(line: string): void {
    this.#hash.update(line).update('\n')
    if (this.#story.length < MAX_LINES) this.#story.push(line)
    this.#listen?.(line)
  }

  get story(): readonly string[] {
    return this.#story
  }

  /** May be asked for once, at the end. */
  end(): string {
    return this.#hash.digest('hex')
  }
}
