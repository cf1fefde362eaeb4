import { TidemarkError } from '../../errors.ts'
import { invariant } from '../../util/invariant.ts'
import type { MigrationReport } from '../store.ts'
import type { Connection } from './connection.ts'
import { META_TABLE, type Migration, migrations } from './migrations.ts'
import { storeError } from './sqlite-errors.ts'

/** What the database says of itself. */
export interface SchemaState {
  /** The last step that was applied; 0 for a database without Tidemark's tables. */
  readonly version: number
  /** Code that knows fewer steps than this must not run on it. */
  readonly oldest: number
}

const HAS_META = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'tidemark_meta'"
const READ_META = 'SELECT value FROM tidemark_meta WHERE name = ?'
const WRITE_META = `
  INSERT INTO tidemark_meta (name, value) VALUES (?, ?)
  ON CONFLICT (name) DO UPDATE SET value = excluded.value`

function readMeta(connection: Connection, name: string): number {
  return Number(connection.database.prepare(READ_META).get(name)?.value ?? 0)
}

/** Reads the two versions; inside a transaction or outside. @throws {TidemarkError} `STORE_*` */
export function schemaState(connection: Connection): SchemaState {
  try {
    if (!connection.database.prepare(HAS_META).get()) return { version: 0, oldest: 0 }
    return { version: readMeta(connection, 'schema_version'), oldest: readMeta(connection, 'oldest_code') }
  } catch (error) {
    throw storeError(error)
  }
}

/** The last step that this code knows. */
export function knownVersion(steps: readonly Migration[] = migrations): number {
  return steps.at(-1)?.number ?? 0
}

/** @throws {TidemarkError} `STORE_NEWER` */
export function refuseNewer(state: SchemaState, known: number): void {
  if (state.oldest <= known) return
  throw new TidemarkError('STORE_NEWER', 'The database was written by a newer version of Tidemark', {
    values: { database: state.version, needs: state.oldest, known },
  })
}

export function pending(state: SchemaState, steps: readonly Migration[] = migrations): readonly Migration[] {
  return steps.filter((step) => step.number > state.version)
}

/** @throws {TidemarkError} `STORE_MIGRATION_NEEDED`, `STORE_NEWER` */
export function checkSchema(state: SchemaState, steps: readonly Migration[] = migrations): MigrationReport {
  refuseNewer(state, knownVersion(steps))
  const missing = pending(state, steps)
  if (missing.length > 0) {
    throw new TidemarkError('STORE_MIGRATION_NEEDED', 'The tables of Tidemark are missing or behind', {
      values: { database: state.version, known: knownVersion(steps) },
    })
  }
  return { from: state.version, to: state.version, applied: [] }
}

/**
 * Applies the missing steps, each in a write transaction of its own that reads the version under the lock: of two
 * processes one applies a step, and the other finds it applied.
 */
export function applyPending(connection: Connection, steps: readonly Migration[] = migrations): MigrationReport {
  const before = schemaState(connection)
  refuseNewer(before, knownVersion(steps))
  const applied = pending(before, steps).filter((step) => applyStep(connection, step, knownVersion(steps)))
  return { from: before.version, to: Math.max(before.version, knownVersion(steps)), applied: applied.map(label) }
}

function applyStep(connection: Connection, step: Migration, known: number): boolean {
  try {
    connection.control('BEGIN IMMEDIATE')
    const state = schemaState(connection)
    refuseNewer(state, known)
    const behind = state.version < step.number
    if (behind) runStep(connection, step, state)
    connection.control('COMMIT')
    return behind
  } catch (error) {
    if (connection.inTransaction) connection.control('ROLLBACK')
    throw storeError(error)
  }
}

function runStep(connection: Connection, step: Migration, state: SchemaState): void {
  invariant(state.version === step.number - 1, 'migrations are applied one after the other', {
    at: state.version,
    step: step.number,
  })
  connection.database.exec(META_TABLE)
  connection.database.exec(step.sql)
  const write = connection.database.prepare(WRITE_META)
  write.run('schema_version', step.number)
  write.run('oldest_code', step.kind === 'breaking' ? step.number : state.oldest)
}

function label(step: Migration): string {
  return `${step.number} ${step.name} (${step.kind})`
}

/** The SQL of the missing steps, as a person may run it: one transaction a step. */
export function pendingText(state: SchemaState, steps: readonly Migration[] = migrations): string {
  return pending(state, steps)
    .map((step) => {
      const meta = [
        `('schema_version', ${step.number})`,
        ...(step.kind === 'breaking' ? [`('oldest_code', ${step.number})`] : []),
      ]
      const write = `INSERT OR REPLACE INTO tidemark_meta (name, value) VALUES ${meta.join(', ')};`
      return `-- ${label(step)}\nBEGIN IMMEDIATE;\n${META_TABLE}${step.sql}\n${write}\nCOMMIT;\n`
    })
    .join('\n')
}
