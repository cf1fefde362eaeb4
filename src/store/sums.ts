import { TidemarkError } from '../errors.ts'
import type { SumType, TotalChange, TotalsTable } from './totals.ts'

/** A row of a table of sums, apart from its key. */
export interface TotalRow {
  readonly sums: Readonly<Record<string, bigint>>
  readonly additions: number
}

const FITS: Readonly<Record<SumType, (value: bigint) => boolean>> = {
  integer: (value) => BigInt.asIntN(64, value) === value,
  int256: (value) => BigInt.asIntN(256, value) === value,
}

export function overflow(table: string, sum: string, cause?: unknown): TidemarkError {
  return new TidemarkError('MANAGED_OVERFLOW', 'A sum does not fit its column', { values: { table, sum }, cause })
}

/** More is to be taken back from a row than was added to it: somebody else has changed it. */
export function conflict(table: string): TidemarkError {
  const sentence = 'A row of a managed table was changed by somebody else: what was added is not in it any more'
  return new TidemarkError('MANAGED_CONFLICT', sentence, { values: { table } })
}

/**
 * The row after a change, for databases that cannot add numbers of 256 bits.
 * @returns null when nothing is left of what was added, by anybody: the row is to be deleted
 * @throws {TidemarkError} `MANAGED_OVERFLOW`, `MANAGED_CONFLICT`
 */
export function afterChange(table: TotalsTable, row: TotalRow | null, change: TotalChange): TotalRow | null {
  const additions = (row?.additions ?? 0) + change.additions
  if (additions < 0) throw conflict(table.table)
  const entries = Object.entries(table.sum).map(([sum, type]): [string, bigint] => {
    const value = (row?.sums[sum] ?? 0n) + (change.add[sum] ?? 0n)
    if (!FITS[type](value)) throw overflow(table.table, sum)
    return [sum, value]
  })
  // What others have added stays.
  if (additions === 0 && entries.every(([, value]) => value === 0n)) return null
  return { sums: Object.fromEntries(entries), additions }
}
