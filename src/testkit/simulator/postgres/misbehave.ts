import type { PgDb } from '../../../store/postgres/index.ts'
import type { Misbehaviour, Stage } from '../plan.ts'
import { HANG_MS, type PlannedCall, type Probe, THROWN } from '../probe.ts'

/**
 * What each misbehaviour is on a server whose handlers may wait, by the code with which the watcher must halt:
 *
 * - `promise`: a statement is not awaited
 * - `swallow`: a statement fails, and nobody says so; it is the last one, since the server refuses all that follow
 * - `commit`, `rollback`: sent on `raw`; the server refuses the first, and the second ends the transaction
 */
function codeOf(stage: Stage, does: Misbehaviour): string {
  switch (does) {
    case 'throw':
    case 'throw-after':
      return THROWN[stage]
    case 'hang':
      return 'HANDLER_TIMEOUT'
    case 'swallow':
      return 'HANDLER_SWALLOWED_ERROR'
    case 'promise':
      return 'HANDLER_FORGOT_AWAIT'
    case 'commit':
    case 'rollback':
      return 'HANDLER_ENDED_TRANSACTION'
    case 'reopen':
      return 'NONCE_LOST'
    case 'stale':
      return 'SCOPE_DEAD'
  }
}

const quietly = (answer: PromiseLike<unknown>) =>
  answer.then(
    () => {},
    () => {},
  )

/** Ends the transaction and opens another that looks the same, savepoint and all. */
async function reopen(db: PgDb): Promise<void> {
  const { raw } = db
  await raw.query('ROLLBACK')
  await raw.query('BEGIN')
  await raw.query('SAVEPOINT tidemark_handler')
}

async function before(does: Misbehaviour, { kept }: PlannedCall, db: PgDb, probe: Probe): Promise<void> {
  if (does === 'hang') probe.passes(HANG_MS)
  if (does === 'rollback') await quietly(db.raw.query('ROLLBACK'))
  if (does === 'commit') await db.raw.query('COMMIT')
  if (does === 'stale') await (kept as PgDb).query('UPDATE simulator_once SET id = id')
  if (does === 'reopen') await reopen(db)
}

async function misbehave<T>(planned: PlannedCall, db: PgDb, probe: Probe, work: () => Promise<T>): Promise<T> {
  const { does, wrong } = planned
  wrong()
  if (does === 'throw') throw new Error('a fault of the handler')
  await before(does, planned, db, probe)
  wrong()
  const result = await work()
  if (does === 'throw-after') throw new Error('a fault of the handler')
  if (does === 'swallow') await quietly(db.query('INSERT INTO table_that_is_not_there VALUES (1)'))
  if (does === 'promise') void quietly(db.query('SELECT 1'))
  return result
}

/** As `probe.call`, for a function that waits for its statements. */
export async function callAsync<T>(
  probe: Probe,
  watcher: string,
  stage: Stage,
  db: PgDb,
  work: () => Promise<T>,
): Promise<T> {
  const planned = probe.enter(watcher, stage, db, codeOf)
  return planned ? misbehave(planned, db, probe, work) : work()
}
