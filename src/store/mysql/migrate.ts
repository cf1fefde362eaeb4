import { TidemarkError } from '../../errors.ts'
import { invariant } from '../../util/invariant.ts'
import type { MigrationReport } from '../store.ts'
import type { Client } from './driver.ts'
import { onClient } from './executors.ts'
import { bind, type SqlValue } from './literals.ts'
import { META_TABLE, type Migration, migrations } from './migrations.ts'
import { storeError } from './mysql-errors.ts'
import type { Names } from './names.ts'
import { type Row, readNumber } from './values.ts'

/** What the database says of itself. */
export interface SchemaState {
  /** The last step that was applied; 0 for a database without Tidemark's tables. */
  readonly version: number
  /** Code that knows fewer steps than this must not run on it. */
  readonly oldest: number
}

/** A connection on which steps are applied. */
export interface Place {
  readonly client: Client
  readonly names: Names
}

const HAS_META =
  'SELECT count(*) AS n FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?'
const READ_META = 'SELECT value FROM {meta} WHERE name = ?'
const WRITE_META = 'INSERT INTO {meta} (name, value) VALUES (?, ?) ON DUPLICATE KEY UPDATE value = VALUES(value)'
/** Names of locks are of the whole server and at most 64 characters long. */
const LOCK_NAME = "CONCAT('tidemark:', SHA1(CONCAT(DATABASE(), ':', ?)))"
const LOCK = `SELECT GET_LOCK(${LOCK_NAME}, ?) AS taken`
const UNLOCK = `SELECT RELEASE_LOCK(${LOCK_NAME}) AS freed`
/** How long a process waits for another one that is migrating. */
const LOCK_SECONDS = 60

const encoder = new TextEncoder()

async function ask({ client, names }: Place, text: string, ...values: readonly SqlValue[]): Promise<readonly Row[]> {
  try {
    return (await onClient(client).execute(bind(names.parts(text), values))).rows
  } catch (error) {
    throw storeError(error)
  }
}

async function readMeta(place: Place, name: string): Promise<number> {
  const [row] = await ask(place, READ_META, encoder.encode(name))
  return row ? readNumber(row, 'value') : 0
}

/** Reads the two versions. @throws {TidemarkError} `STORE_*` */
export async function schemaState(place: Place): Promise<SchemaState> {
  const [found] = await ask(place, HAS_META, `${place.names.prefix}meta`)
  if (!found || readNumber(found, 'n') === 0) return { version: 0, oldest: 0 }
  return { version: await readMeta(place, 'schema_version'), oldest: await readMeta(place, 'oldest_code') }
}

/** The last step that this code knows. */
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
 * Applies the missing steps under a named lock of the server: of two processes one applies a step, and the other waits and
 * finds it applied. A step that was cut off half way is run again from its start.
 */
export async function applyPending(place: Place, steps: readonly Migration[] = migrations): Promise<MigrationReport> {
  const known = knownVersion(steps)
  const seen = await schemaState(place)
  refuseNewer(seen, known)
  if (pending(seen, steps).length === 0) return { from: seen.version, to: seen.version, applied: [] }
  await takeLock(place)
  try {
    const before = await schemaState(place)
    refuseNewer(before, known)
    const missing = pending(before, steps)
    let state = before
    for (const step of missing) state = await applyStep(place, step, state)
    return { from: before.version, to: Math.max(before.version, known), applied: missing.map(label) }
  } finally {
    await ask(place, UNLOCK, place.names.prefix)
  }
}

async function takeLock(place: Place): Promise<void> {
  const [row] = await ask(place, LOCK, place.names.prefix, LOCK_SECONDS)
  if (row && row['taken'] !== null && readNumber(row, 'taken') === 1) return
  throw new TidemarkError('STORE_BUSY', 'Another process is migrating the database', {
    values: { waitedMs: LOCK_SECONDS * 1000 },
  })
}

async function applyStep(place: Place, step: Migration, state: SchemaState): Promise<SchemaState> {
  invariant(state.version === step.number - 1, 'migrations are applied one after the other', {
    at: state.version,
    step: step.number,
  })
  const after = { version: step.number, oldest: step.kind === 'breaking' ? step.number : state.oldest }
  for (const sql of [META_TABLE, ...step.sql]) await ask(place, sql)
  await ask(place, WRITE_META, encoder.encode('oldest_code'), after.oldest)
  // Last, and by itself: until it is there, the step is run again.
  await ask(place, WRITE_META, encoder.encode('schema_version'), after.version)
  return after
}

function label(step: Migration): string {
  return `${step.number} ${step.name} (${step.kind})`
}

/** The SQL of the missing steps, as a person may run it. */
export function pendingText(state: SchemaState, names: Names, steps: readonly Migration[] = migrations): string {
  const write = (name: string, value: number) =>
    `INSERT INTO {meta} (name, value) VALUES ('${name}', ${value}) ON DUPLICATE KEY UPDATE value = VALUES(value)`
  return pending(state, steps)
    .map((step) => {
      const meta = [
        ...(step.kind === 'breaking' ? [write('oldest_code', step.number)] : []),
        write('schema_version', step.number),
      ]
      const all = [META_TABLE, ...step.sql, ...meta].map((sql) => `${names.fill(sql)};\n`)
      return `-- ${label(step)}\n${all.join('\n')}`
    })
    .join('\n')
}
