import { TidemarkError } from '../errors.ts'
import type { ColumnType } from '../store/store.ts'

/** The TypeScript type of a managed column's value. Amounts are bigint: never a float, never a silent cut. */
export type ColumnValue<T extends ColumnType> = T extends 'text'
  ? string
  : T extends 'integer'
    ? number | bigint
    : T extends 'bytes'
      ? Uint8Array | `0x${string}`
      : T extends 'boolean'
        ? boolean
        : bigint

const FITS: Readonly<Record<ColumnType, (value: unknown) => boolean>> = {
  text: (value) => typeof value === 'string',
  integer: (value) => Number.isSafeInteger(value) || (typeof value === 'bigint' && BigInt.asIntN(64, value) === value),
  bytes: (value) => value instanceof Uint8Array || (typeof value === 'string' && /^0x([0-9a-fA-F]{2})*$/.test(value)),
  uint256: (value) => typeof value === 'bigint' && BigInt.asUintN(256, value) === value,
  int256: (value) => typeof value === 'bigint' && BigInt.asIntN(256, value) === value,
  boolean: (value) => typeof value === 'boolean',
}

export function invalid(table: string, column: string, sentence: string): TidemarkError {
  return new TidemarkError('MANAGED_VALUE_INVALID', sentence, { values: { table, column } })
}

/** @throws {TidemarkError} `MANAGED_VALUE_INVALID` for a value that is missing or of another type */
export function checkValue(table: string, column: string, type: ColumnType, value: unknown): void {
  if (value === undefined) throw invalid(table, column, 'A column was not given')
  if (!FITS[type](value)) throw invalid(table, column, `A value does not fit the column type ${type}`)
}

/** @throws {TidemarkError} `MANAGED_VALUE_INVALID` for a name that is none of the columns */
export function checkNames(
  table: string,
  columns: Readonly<Record<string, unknown>>,
  given: Readonly<Record<string, unknown>>,
): void {
  const odd = Object.keys(given).find((column) => !Object.hasOwn(columns, column))
  if (odd !== undefined) throw invalid(table, odd, 'The table has no such column')
}
