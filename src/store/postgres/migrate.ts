import { TidemarkError } from '../../errors.ts'
import { invariant } from '../../util/invariant.ts'
import type { MigrationReport } from '../store.ts'
import { META_TABLE, type Migration, migrations, SCHEMA_SQL } from './migrations.ts'
import { storeError } from './pg-errors.ts'
import type { Place } from './place.ts'
import type { Session } from './session.ts'
import { OWN_TYPES } from './values.ts'

/** What the database says of itself. */
export interface SchemaState {
  /** The last step that was applied; 0 for a database without Tidemark's tables. */
  readonly version: number
  /** Code that knows fewer steps than this must not run on it. */
  readonly oldest: number
  /** Making a schema needs a right even where it is there already, so it is only made where it is missing. */
  readonly hasSchema: boolean
}

/** How long one process waits for another's migration, in ms. */
const MIGRATION_MS = 120_000

// From the tables themselves: `to_regclass` may answer from a cache that is older than the wait for the lock.
const LOOK = `
  SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1::text) AS has_schema, EXISTS (
    SELECT 1 FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE nspname = $1::text AND relname = 'meta') AS has_meta`
const READ_META = "SELECT name, value FROM tidemark.meta WHERE name IN ('schema_version', 'oldest_code')"
const WRITE_META = `
  INSERT INTO tidemark.meta (name, value) VALUES ('schema_version', $1), ('oldest_code', $2)
  ON CONFLICT (name) DO UPDATE SET value = excluded.value`
// Of the transaction, so that it holds behind a transaction pooler too, and never outlives its owner (C60).
const LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('tidemark migration of ' || $1, 0))"

async function rows(session: Session, text: string, values: unknown[] = []) {
  return (await session.run({ text, values, types: OWN_TYPES })).rows
}

/** Reads the two versions; inside a transaction or outside. @throws {TidemarkError} `STORE_*` */
export async function schemaState(session: Session, place: Place): Promise<SchemaState> {
  try {
    const [found] = await rows(session, LOOK, [place.schema])
    const hasSchema = found?.has_schema === true
    if (found?.has_meta !== true) return { version: 0, oldest: 0, hasSchema }
    const meta = new Map((await rows(session, place.sql(READ_META))).map((row) => [row.name, Number(row.value)]))
    return { version: meta.get('schema_version') ?? 0, oldest: meta.get('oldest_code') ?? 0, hasSchema }
  } catch (error) {
    throw storeError(error)
  }
}

function knownVersion(steps: readonly Migration[]): number {
  return steps.at(-1)?.number ?? 0
}

/** @throws {TidemarkError} `STORE_NEWER` */
function refuseNewer(state: SchemaState, known: number): void {
  if (state.oldest <= known) return
  throw new TidemarkError('STORE_NEWER', 'The database was written by a newer version of Tidemark', {
    values: { database: state.version, needs: state.oldest, known },
  })
}

function pending(state: SchemaState, steps: readonly Migration[]): readonly Migration[] {
  return steps.filter((step) => step.number > state.version)
}

/** @throws {TidemarkError} `STORE_MIGRATION_NEEDED`, `STORE_NEWER` */
export function checkSchema(state: SchemaState, steps: readonly Migration[] = migrations): MigrationReport {
  refuseNewer(state, knownVersion(steps))
  if (pending(state, steps).length > 0) {
    throw new TidemarkError('STORE_MIGRATION_NEEDED', 'The tables of Tidemark are missing or behind', {
      values: { database: state.version, known: knownVersion(steps) },
    })
  }
  return { from: state.version, to: state.version, applied: [] }
}

/**
 * Applies the missing steps, each in a transaction of its own that reads the version under a lock: of two processes one
 * applies a step, and the other finds it applied.
 */
export async function applyPending(
  session: Session,
  place: Place,
  steps: readonly Migration[] = migrations,
): Promise<MigrationReport> {
  const before = await schemaState(session, place)
  refuseNewer(before, knownVersion(steps))
  const applied: string[] = []
  for (const step of pending(before, steps)) {
    if (await applyStep(session, place, step, knownVersion(steps))) applied.push(label(step))
  }
  return { from: before.version, to: Math.max(before.version, knownVersion(steps)), applied }
}

async function applyStep(session: Session, place: Place, step: Migration, known: number): Promise<boolean> {
  const limits = `SET LOCAL statement_timeout = ${MIGRATION_MS}; SET LOCAL lock_timeout = ${MIGRATION_MS}`
  try {
    // The version must be read as it is after the wait for the lock, whatever the database's own default is.
    await session.run({ text: `BEGIN ISOLATION LEVEL READ COMMITTED; ${limits}` })
    await rows(session, LOCK, [place.schema])
    const state = await schemaState(session, place)
    refuseNewer(state, known)
    const behind = state.version < step.number
    if (behind) await runStep(session, place, step, state)
    await session.run({ text: 'COMMIT' })
    return behind
  } catch (error) {
    await session.run({ text: 'ROLLBACK' }).catch(() => session.breakOff())
    throw storeError(error)
  }
}

async function runStep(session: Session, place: Place, step: Migration, state: SchemaState): Promise<void> {
  invariant(state.version === step.number - 1, 'migrations are applied one after the other', {
    at: state.version,
    step: step.number,
  })
  const schema = state.hasSchema ? '' : SCHEMA_SQL
  await session.run({ text: place.sql(schema + META_TABLE + step.sql) })
  const oldest = step.kind === 'breaking' ? step.number : state.oldest
  await rows(session, place.sql(WRITE_META), [String(step.number), String(oldest)])
}

function label(step: Migration): string {
  return `${step.number} ${step.name} (${step.kind})`
}

/** The SQL of the missing steps, as a person may run it: one transaction a step. */
export function pendingText(state: SchemaState, place: Place, steps: readonly Migration[] = migrations): string {
  return pending(state, steps)
    .map((step) => {
      const oldest = step.kind === 'breaking' ? step.number : state.oldest
      const meta = `('schema_version', '${step.number}'), ('oldest_code', '${oldest}')`
      const write = `INSERT INTO tidemark.meta (name, value) VALUES ${meta}
ON CONFLICT (name) DO UPDATE SET value = excluded.value;`
      const schema = state.hasSchema || step.number > 1 ? '' : SCHEMA_SQL
      return place.sql(`-- ${label(step)}\nBEGIN;\n${schema}${META_TABLE}${step.sql}\n${write}\nCOMMIT;\n`)
    })
    .join('\n')
}
