import {
  openDefault,
  type SqliteDatabaseLike,
  type SqliteParameter,
  type SqliteStatementLike,
} from '../../store/sqlite/driver.ts'
import type { DriverEvents, ProcessDriver } from './backend.ts'
import { Fuses } from './fuses.ts'
import type { Mishap } from './plan.ts'

/** What a dead process gets from each statement: nothing it does reaches the disk any more. */
export class Crashed extends Error {
  override readonly name = 'Crashed'
}

/** Extended result codes (https://sqlite.org/rescode.html). */
const BUSY = 5
const FULL = 13
const IOERR_READ = 266
const IOERR_FSYNC = 1034

/** An error shaped as the driver's own. */
function sqliteError(errcode: number): Error {
  return Object.assign(new Error('a simulated failure of the disk'), { code: 'ERR_SQLITE_ERROR', errcode })
}

const isCommit = (sql: string) => /^\s*COMMIT/i.test(sql)
const isBegin = (sql: string) => /^\s*BEGIN IMM/i.test(sql)
const writes = (sql: string) => /^\s*(INSERT|UPDATE|DELETE|REPLACE)/i.test(sql)
/** SQLite itself does no input or output for these inside a transaction. */
const isControl = (sql: string) => /^\s*(SAVEPOINT|RELEASE|ROLLBACK|COMMIT|BEGIN)|total_changes\(\)/i.test(sql)
const any = () => true

/** Which statements count for a mishap. A real disk fails only where SQLite touches it. */
function countsFor(mishap: Mishap): (sql: string) => boolean {
  if (mishap.includes('commit')) return isCommit
  if (mishap === 'busy') return isBegin
  if (mishap.startsWith('full')) return writes
  return mishap.startsWith('io-error') ? (sql) => !isControl(sql) : any
}

export interface CrashDriverOptions extends DriverEvents {
  /** Keeps the files as they are now, for the processes that come after a loss of power. */
  snapshot(): void
}

function andThen<T>(work: () => T, then: (() => unknown) | undefined): T {
  const result = work()
  then?.()
  return result
}

/**
 * The SQLite driver of one simulated process: counts its statements, and at a planned one lets the disk fail or the
 * process die. It opens both the database and the lock file beside it.
 */
export class CrashDriver implements ProcessDriver {
  /** The process is dead: it reaches neither disk nor network. */
  dead = false
  /** Power was lost: the other processes are dead as well, and the files are those of the snapshot. */
  powerLost = false
  statements = 0
  readonly #options: CrashDriverOptions
  readonly #databases: CountedDatabase[] = []
  readonly #locks: LockDatabase[] = []
  readonly #fuses = new Fuses(countsFor)

  constructor(options: CrashDriverOptions) {
    this.#options = options
  }

  /** The option `open` of the store. */
  readonly open = (file: string): SqliteDatabaseLike => {
    if (this.dead) throw new Crashed('the process is dead')
    if (file.endsWith('-tidemark-lock')) {
      const lock = new LockDatabase(openDefault(file))
      this.#locks.push(lock)
      return lock
    }
    const database = new CountedDatabase(openDefault(file), this)
    this.#databases.push(database)
    return database
  }

  /** @param at strikes at the n-th statement that counts for this mishap, from 1 */
  arm(mishap: Mishap, at: number): void {
    this.#fuses.arm(mishap, at)
  }

  disarm(): void {
    this.#fuses.disarm()
  }

  /** The operating system drops the lock without a word, as network file systems do: another process can take it. */
  loseLock(): void {
    for (const lock of this.#locks) lock.close()
  }

  /** Ends the process: open transactions are rolled back, as SQLite does for a process that was killed. */
  kill(): void {
    this.dead = true
    for (const database of this.#databases) database.shut()
    this.loseLock()
  }

  /** Runs one statement between the mishaps. */
  around<T>(database: CountedDatabase, sql: string, work: () => T): T {
    if (this.dead) throw new Crashed('the process is dead')
    this.statements += 1
    const told = this.#telling(sql, work)
    const mishap = this.#fuses.due(sql)
    if (!mishap) return told()
    this.#options.struck(mishap, sql)
    return this.#play(mishap, database, told)
  }

  /** The same work, with a word to whoever watches the transactions. */
  #telling<T>(sql: string, work: () => T): () => T {
    const { began, committed } = this.#options
    if (isCommit(sql)) return () => andThen(work, committed)
    return isBegin(sql) ? () => andThen(work, began) : work
  }

  #play<T>(mishap: Mishap, database: CountedDatabase, work: () => T): T {
    switch (mishap) {
      case 'die-before':
      case 'die-before-commit':
        return this.#die(false)
      case 'power-before':
        return this.#die(true)
      case 'die-after':
      case 'die-after-commit':
        work()
        return this.#die(false)
      case 'power-after':
      case 'power-after-commit':
        work()
        return this.#die(true)
      case 'commit-answer-lost':
        work()
        throw sqliteError(IOERR_FSYNC)
      default:
        return this.#failStatement(mishap, database)
    }
  }

  #failStatement(mishap: Mishap, database: CountedDatabase): never {
    if (mishap.endsWith('rolled-back')) database.rollBack()
    if (mishap.startsWith('full')) throw sqliteError(FULL)
    throw sqliteError(mishap.endsWith('busy') ? BUSY : IOERR_READ)
  }

  #die(power: boolean): never {
    if (power) {
      this.powerLost = true
      this.#options.snapshot()
    }
    this.kill()
    throw new Crashed('the process died here')
  }
}

/** The database as a process sees it. */
class CountedDatabase implements SqliteDatabaseLike {
  readonly #native: SqliteDatabaseLike
  readonly #driver: CrashDriver
  #shut = false

  constructor(native: SqliteDatabaseLike, driver: CrashDriver) {
    this.#native = native
    this.#driver = driver
  }

  get isTransaction(): boolean {
    return !this.#shut && this.#native.isTransaction
  }

  prepare(sql: string): SqliteStatementLike {
    const native = this.#driver.dead ? null : this.#native.prepare(sql)
    const around = <T>(work: (statement: SqliteStatementLike) => T) =>
      this.#driver.around(this, sql, () => work(native as SqliteStatementLike))
    return {
      run: (...parameters: SqliteParameter[]) => around((statement) => statement.run(...parameters)),
      get: (...parameters: SqliteParameter[]) => around((statement) => statement.get(...parameters)),
      all: (...parameters: SqliteParameter[]) => around((statement) => statement.all(...parameters)),
      iterate: (...parameters: SqliteParameter[]) => around((statement) => statement.iterate(...parameters)),
      setReadBigInts: (on) => native?.setReadBigInts(on),
    }
  }

  exec(sql: string): void {
    this.#driver.around(this, sql, () => this.#native.exec(sql))
  }

  close(): void {
    this.shut()
  }

  rollBack(): void {
    if (this.#native.isTransaction) this.#native.exec('ROLLBACK')
  }

  /**
   * Rolls back, as the end of a process does. Said aloud: one driver keeps a connection, and with it the write lock, until its
   * statements are collected.
   */
  shut(): void {
    if (this.#shut) return
    this.#shut = true
    this.rollBack()
    this.#native.close()
  }
}

/** The lock file. A claimant's wait is real time, which does not pass here. */
class LockDatabase implements SqliteDatabaseLike {
  readonly #native: SqliteDatabaseLike
  #open = true

  constructor(native: SqliteDatabaseLike) {
    this.#native = native
  }

  get isTransaction(): boolean {
    return this.#open && this.#native.isTransaction
  }

  prepare(sql: string): SqliteStatementLike {
    return this.#native.prepare(sql)
  }

  exec(sql: string): void {
    this.#native.exec(sql.replace(/busy_timeout = \d+/, 'busy_timeout = 0'))
  }

  close(): void {
    if (this.#open) this.#native.close()
    this.#open = false
  }
}
