import {
  openDefault,
  type SqliteDatabaseLike,
  type SqliteParameter,
  type SqliteStatementLike,
} from '../../src/store/sqlite/driver.ts'

/**
 * A driver that fails at a chosen statement of the database file; the lock file beside it is left alone. A *kill* closes
 * the connection there, which rolls back as the operating system would, and nothing reaches the file afterwards.
 */
export class FailingStore {
  /** Called before and after each statement with its text; what it throws is what the driver throws. */
  at: ((when: 'before' | 'after', sql: string) => void) | undefined
  #killed = false
  #native: SqliteDatabaseLike | undefined

  readonly open = (file: string): SqliteDatabaseLike => {
    const native = openDefault(file)
    if (file.endsWith('-tidemark-lock')) return native
    this.#native = native
    return this.#wrap(native)
  }

  /** Kills the process of the test at the first statement that `where` accepts; it lives again with `revive`. */
  killAt(where: (when: 'before' | 'after', sql: string) => boolean): void {
    this.at = (when, sql) => {
      if (!where(when, sql)) return
      this.at = undefined
      this.#killed = true
      // `close` alone keeps the lock as long as a statement lives; the operating system does not.
      if (this.#native?.isTransaction) this.#native.exec('ROLLBACK')
      this.#native?.close()
      throw new Error('killed')
    }
  }

  get killed(): boolean {
    return this.#killed
  }

  revive(): void {
    this.#killed = false
  }

  #around<T>(sql: string, work: () => T): T {
    if (this.#killed) throw new Error('killed')
    this.at?.('before', sql)
    const result = work()
    this.at?.('after', sql)
    return result
  }

  #wrap(native: SqliteDatabaseLike): SqliteDatabaseLike {
    const dead = () => this.#killed
    const wrapStatement = (sql: string) => this.#statement(sql, native.prepare(sql))
    return {
      get isTransaction() {
        return !dead() && native.isTransaction
      },
      prepare: (sql) => {
        if (dead()) throw new Error('killed')
        return wrapStatement(sql)
      },
      exec: (sql) => this.#around(sql, () => native.exec(sql)),
      close: () => {
        if (!dead()) native.close()
      },
    }
  }

  #statement(sql: string, native: SqliteStatementLike): SqliteStatementLike {
    return {
      run: (...values: SqliteParameter[]) => this.#around(sql, () => native.run(...values)),
      get: (...values: SqliteParameter[]) => this.#around(sql, () => native.get(...values)),
      all: (...values: SqliteParameter[]) => this.#around(sql, () => native.all(...values)),
      iterate: (...values: SqliteParameter[]) => native.iterate(...values),
      setReadBigInts: (on) => native.setReadBigInts(on),
    }
  }
}

/** SQLite's own error for a result code, as the driver throws it. */
export function sqliteError(errcode: number): Error {
  return Object.assign(new Error('database or disk is full'), { code: 'ERR_SQLITE_ERROR', errcode })
}
