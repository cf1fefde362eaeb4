import { TidemarkError } from '../../errors.ts'
import type { World } from '../../util/world.ts'
import type { PgRow } from './driver.ts'
import type { Executor } from './executors.ts'
import { storeError } from './pg-errors.ts'
import type { Place } from './place.ts'

/** Tidemark's own statements on one transaction. */
export class Connection {
  readonly place: Place
  /** Whether the transaction may write: a lock for reading is refused in one that may not. */
  readonly writes: boolean
  readonly #executor: Executor
  #over = false

  constructor(executor: Executor, place: Place, writes: boolean) {
    this.#executor = executor
    this.place = place
    this.writes = writes
  }

  get world(): World {
    return this.place.world
  }

  get inTransaction(): boolean {
    return !this.#over && this.#executor.inTransaction()
  }

  /** The transaction is over: ports that were kept beyond it must not write by themselves (P1). */
  end(): void {
    this.#over = true
  }

  /** Runs a writing statement. Answers how many rows it changed. */
  async run(sql: string, ...values: unknown[]): Promise<number> {
    return (await this.#own(sql, values)).rowCount
  }

  async get(sql: string, ...values: unknown[]): Promise<PgRow | undefined> {
    return (await this.#own(sql, values)).rows[0]
  }

  async all(sql: string, ...values: unknown[]): Promise<readonly PgRow[]> {
    return (await this.#own(sql, values)).rows
  }

  /** SAVEPOINT and the like: errors as the driver threw them. */
  async control(sql: string): Promise<void> {
    this.#checkOpen()
    await this.#executor.execute(sql, [])
  }

  async #own(sql: string, values: unknown[]) {
    this.#checkOpen()
    try {
      return await this.#executor.execute(this.place.sql(sql), values)
    } catch (error) {
      throw storeError(error)
    }
  }

  /** A statement of Tidemark outside a transaction would commit by itself, apart from marks and cursor (P1): refused. */
  #checkOpen(): void {
    if (this.inTransaction) return
    throw new TidemarkError('TRANSACTION_LOST', 'The transaction ended before Tidemark was done with it')
  }
}
