import type { Socket } from 'node:net'
import type { Pool as MysqlPool } from 'mysql2/promise'
import type pg from 'pg'
import { type Database, userPool } from './stores.ts'

/**
 * `before`: the statement is not sent. `after`: the answer has come, and whoever asked does not get it. `unanswered`: it was
 * sent, and the connection is gone at once, so that the server may still be at it when the next process comes.
 */
export type When = 'before' | 'after' | 'unanswered'

export interface Cut {
  /** Which statement, from 1, over all connections of the pool. */
  readonly n: number
  readonly when: When
}

export interface CuttingOptions {
  readonly cut?: Cut
  /** Only the connection breaks, and the process goes on. Default: the process is gone with all its connections. */
  readonly lives?: boolean
  /** Told of each statement before it is sent. */
  readonly onStatement?: (n: number, sql: string) => void
}

interface Connection {
  stream(): Socket
}

/** As the operating system says it. */
function reset(): Error {
  return Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET', errno: -104, syscall: 'read', fatal: true })
}

function textOf(statement: unknown): string {
  if (typeof statement === 'string') return statement
  const { text, sql } = statement as { text?: string; sql?: string }
  return text ?? sql ?? ''
}

type Query = (...args: unknown[]) => Promise<unknown>

/** The user's own pool, whose connections break before or after a chosen statement. */
export class CuttingPool {
  /** What the store is opened with. */
  readonly pool: object
  /** Every statement that was asked for, in order. */
  readonly statements: string[] = []
  /** Whether the process that used it is gone: nothing reaches the server any more. */
  dead = false
  readonly #options: CuttingOptions
  readonly #real: pg.Pool | MysqlPool
  readonly #open = new Set<Connection>()

  constructor(database: Database, options: CuttingOptions = {}) {
    this.#options = options
    this.#real = userPool(database)
    this.pool = this.#wrapPool(this.#real)
  }

  /** Ends what is left of it. */
  async end(): Promise<void> {
    this.dead = true
    await this.#real.end()
  }

  #wrapPool(real: pg.Pool | MysqlPool): object {
    const lend = (take: () => Promise<object>) => async () => {
      if (this.dead) throw reset()
      return this.#wrapClient(await take())
    }
    const verbs: Record<string, unknown> =
      'getConnection' in real
        ? { getConnection: lend(() => real.getConnection()) }
        : { connect: lend(() => real.connect()) }
    return withVerbs(real, verbs)
  }

  #wrapClient(client: object): object {
    const held = client as { connection: { stream: Socket } }
    // Asked for when it is needed: a driver replaces the stream for TLS.
    const connection: Connection = { stream: () => held.connection.stream }
    this.#open.add(connection)
    const counted = (name: string) => {
      const verb = (client as Record<string, Query>)[name]
      return (...args: unknown[]) => this.#around(textOf(args[0]), connection, () => verb?.apply(client, args))
    }
    return withVerbs(client, { query: counted('query'), execute: counted('execute') })
  }

  async #around(sql: string, connection: Connection, work: () => Promise<unknown> | undefined): Promise<unknown> {
    if (this.dead) throw reset()
    const n = this.statements.push(sql)
    this.#options.onStatement?.(n, sql)
    const { cut } = this.#options
    if (cut?.n !== n) return work()
    if (cut.when === 'after') await work()
    if (cut.when === 'unanswered') {
      work()?.catch(() => {})
      // The driver has written it by then; the answer has not been read.
      await new Promise((resolve) => setImmediate(resolve))
    }
    this.#break(connection)
    throw reset()
  }

  #break(connection: Connection): void {
    if (this.#options.lives) return void connection.stream().destroy()
    this.dead = true
    for (const { stream } of this.#open) stream().destroy()
  }
}

/** The same object with some methods replaced. */
function withVerbs(target: object, verbs: Readonly<Record<string, unknown>>): object {
  return new Proxy(target, {
    get: (_, name) => {
      if (typeof name === 'string' && name in verbs) return verbs[name]
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}
