import type { PgResult } from './driver.ts'

/** A savepoint that is open, and what had failed before it: a rollback forgives what came after. */
export interface Savepoint {
  readonly name: string
  /** `begin`: what Drizzle and Kysely believe to be a transaction. */
  readonly kind: 'function' | 'begin' | 'named'
  readonly failed: number
  /** Statements that were running when it was opened. */
  readonly running: number
}

export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

/** What the driver answers to a statement that counts nothing. */
export function answer(command: string): PgResult {
  return { command, rowCount: null, rows: [], fields: [] }
}
