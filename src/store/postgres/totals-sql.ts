import type { TotalsTable } from '../totals.ts'
import { type Column, quote, SQL_TYPE } from './managed-tables.ts'

/** How many additions a row holds: without any it goes. */
const ADDITIONS = 'tidemark_additions'
/** The place of a change among those of its statement. */
const PLACE = 'tidemark_place'

export const keysOf = (table: TotalsTable): string[] => Object.keys(table.key)
export const sumsOf = (table: TotalsTable): string[] => Object.keys(table.sum)

/** The columns of one table of sums and its statements: arrays of keys first, then of sums, then of additions. */
const keyColumns = (table: TotalsTable): Column[] =>
  Object.entries(table.key).map(([name, type]): Column => [name, SQL_TYPE[type]])

/** Every column of the table, as it is made and as one of the user's must be. */
export function allColumns(table: TotalsTable): Column[] {
  const sums = Object.entries(table.sum).map(([name, type]): Column => [name, SQL_TYPE[type]])
  return [...keyColumns(table), ...sums, [ADDITIONS, 'bigint']]
}

/** What is added may be one more than the column holds: the smallest number, taken back. */
const changeColumns = (table: TotalsTable): Column[] => [
  ...keyColumns(table),
  ...sumsOf(table).map((name): Column => [name, 'numeric']),
  [ADDITIONS, 'bigint'],
]

const namesOf = (columns: readonly Column[]): string => columns.map(([name]) => quote(name)).join(', ')

/** The columns come as arrays, one parameter each, however many rows there are. */
function unnested(columns: readonly Column[]): string {
  const arrays = columns.map(([, type], i) => `$${i + 1}::${type}[]`).join(', ')
  return `unnest(${arrays}) WITH ORDINALITY AS changes (${namesOf(columns)}, ${PLACE})`
}

function sameKey(table: TotalsTable, one: string, other: string): string {
  return keysOf(table)
    .map((name) => `${one}.${quote(name)} = ${other}.${quote(name)}`)
    .join(' AND ')
}

/** A column of the user's may be null where nothing was added yet. */
const orZero = (name: string): string => `coalesce(stored.${quote(name)}, 0)`

function added(table: TotalsTable, more: string): string {
  return [...sumsOf(table), ADDITIONS]
    .map((name) => `${quote(name)} = ${orZero(name)} + ${more}.${quote(name)}`)
    .join(', ')
}

const LARGEST = 2n ** 255n - 1n
const SMALLEST = -(2n ** 255n)

/** What is looked at in a row that was changed. A column of 78 digits has room for more than 256 bits with a sign. */
function outcome(table: TotalsTable): string {
  const wide = Object.entries(table.sum).filter(([, type]) => type === 'int256')
  const outside = wide.map(([name]) => `stored.${quote(name)} NOT BETWEEN ${SMALLEST} AND ${LARGEST}`)
  const nothing = [...sumsOf(table), ADDITIONS].map((name) => `stored.${quote(name)} = 0`)
  return `${outside.join(' OR ') || 'false'} AS outside, stored.${ADDITIONS} < 0 AS taken,
    ${nothing.join(' AND ')} AS nothing`
}

/**
 * Adds to the rows that are there. They are locked one after the other in the order of the changes (C59): the UPDATE meets
 * a row only behind its lock, whatever the plan.
 *
 * No INSERT … ON CONFLICT: it holds what is added, and not what comes of it, to the constraints of the user. With
 * `CHECK (amount >= 0)` nothing could ever be taken off.
 */
export function updateSql(table: TotalsTable, name: string): string {
  const columns = changeColumns(table)
  return `
  WITH changes AS (SELECT * FROM ${unnested(columns)}), held AS (
    SELECT changes.* FROM changes JOIN ${name} AS stored ON ${sameKey(table, 'stored', 'changes')}
    ORDER BY changes.${PLACE} FOR UPDATE OF stored)
  UPDATE ${name} AS stored SET ${added(table, 'held')} FROM held WHERE ${sameKey(table, 'stored', 'held')}
  RETURNING held.${PLACE} AS place, ${outcome(table)}`
}

/** Makes rows that were not there; where somebody else has made one since then, adds to it. */
export function insertSql(table: TotalsTable, name: string): string {
  const columns = changeColumns(table)
  return `
  INSERT INTO ${name} AS stored (${namesOf(columns)})
  SELECT ${namesOf(columns)} FROM ${unnested(columns)} ORDER BY ${PLACE}
  ON CONFLICT (${namesOf(keyColumns(table))}) DO UPDATE SET ${added(table, 'excluded')}
  RETURNING 0 AS place, ${outcome(table)}`
}

/** Deletes rows that this transaction has changed, and so has locked. */
export function deleteSql(table: TotalsTable, name: string): string {
  return `DELETE FROM ${name} AS stored USING ${unnested(keyColumns(table))} WHERE ${sameKey(table, 'stored', 'changes')}`
}

/** Numbers as text: a JavaScript number does not hold them. */
export function findSql(table: TotalsTable, name: string): string {
  const sums = sumsOf(table).map((sum) => `${orZero(sum)}::text AS ${quote(sum)}`)
  const where = keyColumns(table).map(([column, type], i) => `stored.${quote(column)} = $${i + 1}::${type}`)
  return `SELECT ${sums.join(', ')} FROM ${name} AS stored WHERE ${where.join(' AND ')}`
}
