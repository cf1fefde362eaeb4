import { TidemarkError } from '../../errors.ts'
import type { Guard, Mark } from './guard.ts'
import type { Control } from './statements.ts'

interface Level {
  /** What user code calls it; null for a transaction, which has no name. */
  readonly name: string | null
  readonly savepoint: string
  readonly before: Mark
}

/** Transactions in transactions are a mistake long before this. */
const DEEPEST = 100

/**
 * Transactions that Drizzle, Kysely or mysql2's `beginTransaction` open on a guarded `db` become savepoints: BEGIN opens
 * one, COMMIT releases it, ROLLBACK undoes it. A COMMIT that ends no such transaction would be the engine's, and is refused.
 */
export class Nested {
  readonly #guard: Guard
  readonly #levels: Level[] = []
  #made = 0

  constructor(guard: Guard) {
    this.#guard = guard
    guard.onClose(() => this.#levels.some(({ name }) => name === null))
  }

  /** @returns what the driver answered */
  run(control: Control): Promise<unknown> {
    return this.#guard.control(() => this.#run(control))
  }

  #run(control: Control): Promise<unknown> {
    switch (control.verb) {
      case 'begin':
        return this.#open(null)
      case 'savepoint':
        return this.#open(control.name)
      case 'commit':
        return this.#close(this.#find(null, 'COMMIT'), 'keep')
      case 'release':
        return this.#close(this.#find(control.name, 'RELEASE'), 'keep')
      case 'rollback':
        return this.#close(this.#find(null, 'ROLLBACK'), 'undo')
      case 'rollback-to':
        return this.#back(this.#find(control.name, 'ROLLBACK TO'))
    }
  }

  #open(name: string | null): Promise<unknown> {
    if (this.#levels.length >= DEEPEST) throw this.#refused('SAVEPOINT')
    const savepoint = `tidemark_nested_${++this.#made}`
    this.#levels.push({ name, savepoint, before: this.#guard.mark() })
    return this.#send(`SAVEPOINT ${savepoint}`)
  }

  async #close(at: number, how: 'keep' | 'undo'): Promise<unknown> {
    const level = this.#levels[at] as Level
    if (how === 'undo') await this.#back(at)
    this.#levels.length = at
    const answer = await this.#send(`RELEASE SAVEPOINT ${level.savepoint}`)
    this.#guard.rewatch()
    return answer
  }

  async #back(at: number): Promise<unknown> {
    const level = this.#levels[at] as Level
    this.#levels.length = at + 1
    const answer = await this.#send(`ROLLBACK TO SAVEPOINT ${level.savepoint}`)
    this.#guard.rewatch()
    this.#guard.forgive(level.before)
    return answer
  }

  #find(name: string | null, word: string): number {
    const at = this.#levels.findLastIndex((level) => level.name?.toLowerCase() === name?.toLowerCase())
    if (at === -1) throw this.#refused(word)
    return at
  }

  async #send(sql: string): Promise<unknown> {
    return this.#guard.ground.client.query(sql)
  }

  #refused(word: string): TidemarkError {
    return new TidemarkError('TRANSACTION_CONTROL_REFUSED', 'A handler may not control the transaction', {
      values: { ...this.#guard.rules.values, statement: word },
    })
  }
}
