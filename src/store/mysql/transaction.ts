import { TidemarkError } from '../../errors.ts'
import { type Op, runAsync } from '../../util/op.ts'
import type { World } from '../../util/world.ts'
import type { DbScope, ScopeRules, Tx } from '../store.ts'
import { MysqlAudit } from './audit.ts'
import { MysqlCommits } from './commits.ts'
import { MysqlCursors } from './cursors.ts'
import type { Client } from './driver.ts'
import { onClient } from './executors.ts'
import { MysqlHandled } from './handled.ts'
import { MysqlKept } from './kept.ts'
import { MysqlManaged } from './managed.ts'
import type { RunDdl } from './managed-tables.ts'
import { MysqlMarks } from './marks.ts'
import { MysqlMeta } from './meta.ts'
import { commitError, storeError } from './mysql-errors.ts'
import type { Names } from './names.ts'
import { type MysqlDb, openScope } from './scope.ts'
import { Session, type SessionKind, savepointName } from './session.ts'
import { borrow, type Dialect, giveBack, type Limits } from './settings.ts'
import { MysqlTotals } from './totals.ts'
import { MysqlTrail } from './trail.ts'

/** The ports on one transaction. */
export class MysqlTx implements Tx<MysqlDb> {
  readonly cursors: MysqlCursors
  readonly trail: MysqlTrail
  readonly marks: MysqlMarks
  readonly kept: MysqlKept
  readonly commits: MysqlCommits
  readonly managed: MysqlManaged
  readonly totals: MysqlTotals
  readonly handled: MysqlHandled
  readonly audit: MysqlAudit
  readonly meta: MysqlMeta
  readonly #session: Session
  readonly #client: Client | undefined
  readonly #world: World

  /** @param client of the driver, for `openScope`; none for a transaction that the application opened */
  constructor(session: Session, ddl: RunDdl, world: World, client?: Client) {
    this.#session = session
    this.#client = client
    this.#world = world
    this.cursors = new MysqlCursors(session)
    this.trail = new MysqlTrail(session)
    this.marks = new MysqlMarks(session)
    this.kept = new MysqlKept(session)
    this.commits = new MysqlCommits(session)
    this.managed = new MysqlManaged(session, ddl)
    this.totals = new MysqlTotals(session, ddl)
    this.handled = new MysqlHandled(session)
    this.audit = new MysqlAudit(session)
    this.meta = new MysqlMeta(session)
  }

  inTransaction(): boolean {
    return this.#session.inTransaction
  }

  async savepoint(name: string): Promise<void> {
    await this.#session.control(`SAVEPOINT ${savepointName(name)}`)
  }

  async release(name: string): Promise<void> {
    await this.#session.control(`RELEASE SAVEPOINT ${savepointName(name)}`)
  }

  async rollbackTo(name: string): Promise<void> {
    await this.#session.control(`ROLLBACK TO SAVEPOINT ${savepointName(name)}`)
  }

  openScope(rules: ScopeRules): DbScope<MysqlDb> {
    if (!this.#client) {
      throw new TidemarkError('NOT_IN_TRANSACTION', 'A handler cannot run inside a transaction of the application')
    }
    return openScope({ client: this.#client, session: this.#session, world: this.#world }, rules)
  }

  drive<T>(op: Op<T>): Promise<T> {
    return runAsync(op)
  }

  /** An endless loop in a handler cannot be ended here: the engine's own time-out is for promises that are never kept. */
  *interruptible<T>(op: () => Op<T>, _hardLimitMs: number): Op<T> {
    return yield* op()
  }
}

/** What a transaction is run with. */
export interface Setting {
  readonly client: Client
  readonly names: Names
  readonly world: World
  readonly limits: Limits
  readonly dialect: Dialect
  /** Whether the connection is the user's, or shared: then its settings are put back at the end. */
  readonly borrowed: boolean
  readonly ddl: RunDdl
}

/**
 * Write transactions on MariaDB are XA transactions of one phase: inside one the server itself refuses COMMIT, ROLLBACK,
 * BEGIN, LOCK TABLES and whatever commits by itself, also on `raw` and inside procedures (error 1399), so that marks never
 * get in without their cursor (P1). Savepoints work, nothing is prepared, and a connection that breaks rolls back.
 */
interface Ending {
  readonly commit: readonly string[]
  readonly rollback: readonly string[]
}

const PLAIN: Ending = { commit: ['COMMIT'], rollback: ['ROLLBACK'] }

function endingOf(id: string): Ending {
  return { commit: [`XA END ${id}`, `XA COMMIT ${id} ONE PHASE`], rollback: [`XA END ${id}`, `XA ROLLBACK ${id}`] }
}

function newId(world: World): string {
  return `X'${[...world.randomBytes(16)].map((byte) => byte.toString(16).padStart(2, '0')).join('')}'`
}

async function control(client: Client, sql: string): Promise<void> {
  try {
    await onClient(client).execute(sql)
  } catch (error) {
    throw storeError(error)
  }
}

async function begin(setting: Setting, kind: SessionKind): Promise<{ session: Session; ending: Ending }> {
  try {
    return await open(setting, kind)
  } catch (error) {
    // Nobody knows what it is in the middle of.
    setting.client.destroy()
    throw error
  }
}

async function open(setting: Setting, kind: SessionKind): Promise<{ session: Session; ending: Ending }> {
  const { client, dialect, limits, borrowed } = setting
  const id = kind === 'write' && dialect === 'mariadb' ? newId(setting.world) : undefined
  const start = id === undefined ? 'START TRANSACTION' : `XA START ${id}`
  if (kind === 'read') await control(client, 'SET TRANSACTION ISOLATION LEVEL REPEATABLE READ')
  else if (borrowed) await control(client, `SET TRANSACTION ISOLATION LEVEL ${limits.isolation}`)
  await control(client, kind === 'read' ? 'START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY' : start)
  if (borrowed) await control(client, borrow(dialect, limits))
  const ending = id === undefined ? PLAIN : endingOf(id)
  return { session: new Session(onClient(client), setting.names, kind), ending }
}

function txOf(setting: Setting, session: Session): MysqlTx {
  return new MysqlTx(session, setting.ddl, setting.world, setting.client)
}

/**
 * Runs `body` between START TRANSACTION and COMMIT.
 *
 * READ COMMITTED unless the options say otherwise: at REPEATABLE READ InnoDB locks the gaps between keys, so that bulk
 * inserts of two watchers wait for each other (C59), and a plain SELECT reads an old snapshot while a write sees the
 * newest rows, which no handler expects.
 */
export async function writeTransaction<T>(setting: Setting, body: (tx: MysqlTx) => Op<T>): Promise<T> {
  const startedAt = setting.world.monotonic()
  const { session, ending } = await begin(setting, 'write')
  let result: T
  try {
    result = await runAsync(body(txOf(setting, session)))
    await leave(setting, session)
    refuseTooLong(setting, startedAt)
  } catch (error) {
    if (session.tainted) setting.client.destroy()
    else await rollBack(setting, session, ending)
    throw error
  }
  await commit(setting, session, ending)
  if (session.tainted) setting.client.destroy()
  return result
}

/** Runs `body` on one snapshot. The server refuses to write in it. */
export async function readTransaction<T>(setting: Setting, body: (tx: MysqlTx) => Op<T>): Promise<T> {
  const { session, ending } = await begin(setting, 'read')
  try {
    return await runAsync(body(txOf(setting, session)))
  } finally {
    await rollBack(setting, session, ending)
  }
}

/** The last look before COMMIT: one that is sent after the transaction is gone would answer "done". */
async function leave(setting: Setting, session: Session): Promise<void> {
  if (setting.borrowed && session.inTransaction) {
    await session.control(giveBack(setting.dialect, setting.limits)).catch((error: unknown) => {
      throw storeError(error)
    })
  }
  if (!(await session.refresh())) throw session.over()
}

/** Forgetting trusts that no transaction is open longer than it was told (P7). */
function refuseTooLong(setting: Setting, startedAt: number): void {
  const tookMs = Math.round(setting.world.monotonic() - startedAt)
  const limitMs = setting.limits.transactionMs
  if (tookMs <= limitMs) return
  throw new TidemarkError('STORE_FAILED', 'The transaction took longer than longestTransactionMs', {
    values: { tookMs, limitMs },
  })
}

/** Sent once. What an error leaves open only the database can tell. */
async function commit(setting: Setting, session: Session, ending: Ending): Promise<void> {
  session.end()
  try {
    for (const sql of ending.commit) await onClient(setting.client).execute(sql)
  } catch (error) {
    // It may still be open, and hold the lock of the cursor row.
    setting.client.destroy()
    throw commitError(error)
  }
}

/** A connection that cannot say that it rolled back is closed, which makes the server do it. */
async function rollBack(setting: Setting, session: Session, ending: Ending): Promise<void> {
  session.end()
  const executor = onClient(setting.client)
  try {
    // XA END of one that the server has rolled back says so by an error; ROLLBACK tells whether all is well.
    for (const sql of ending.rollback.slice(0, -1)) await executor.execute(sql).catch(() => {})
    for (const sql of ending.rollback.slice(-1)) await executor.execute(sql)
    if (setting.borrowed) await executor.execute(giveBack(setting.dialect, setting.limits))
  } catch {
    setting.client.destroy()
  }
}
