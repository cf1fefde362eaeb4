import { TidemarkError } from '../errors.ts'

/** What a database makes of the names of managed tables. */
export interface NameRules {
  isTaken(table: string): boolean
  /** The sentence for a table whose name is taken. */
  readonly taken: string
  /** The sentence for columns that differ only in case, where the database does not tell them apart. */
  readonly caseless?: string
}

const NAME = /^[A-Za-z_][A-Za-z0-9_]{0,62}$/

export function mismatch(table: string, sentence: string, values: Record<string, unknown> = {}): TidemarkError {
  return new TidemarkError('STORE_TABLE_MISMATCH', sentence, { values: { table, ...values } })
}

/**
 * Names are written into SQL, so they are held to letters, digits and underscores, and quoted all the same.
 * @throws {TidemarkError} `STORE_TABLE_MISMATCH`
 */
export function checkNames(table: string, columns: readonly string[], rules: NameRules): void {
  const odd = [table, ...columns].find((name) => !NAME.test(name))
  if (odd !== undefined)
    throw mismatch(table, 'A name may hold letters, digits and underscores only, at most 63', {
      name: odd.slice(0, 80),
    })
  if (rules.isTaken(table)) throw mismatch(table, rules.taken)
  const own = columns.find((name) => /^tidemark_/i.test(name))
  if (own !== undefined) throw mismatch(table, 'Column names that begin with tidemark_ are taken', { column: own })
  const distinct = new Set(columns.map((name) => name.toLowerCase())).size
  if (rules.caseless !== undefined && distinct < columns.length) throw mismatch(table, rules.caseless)
}
