import type { ColumnType } from '../store.ts'
import { mismatch, type NameRules } from '../table-names.ts'
import type { Connection } from './connection.ts'
import { readNumber, readText, readTextOrNull } from './values.ts'

/** A column as it is declared. */
export type Column = readonly [name: string, type: string]

/** The SQL type of each kind of column. 2^256 − 1 has 78 digits. */
export const SQL_TYPE: Readonly<Record<ColumnType, string>> = {
  text: 'text',
  integer: 'bigint',
  bytes: 'bytea',
  boolean: 'boolean',
  uint256: 'numeric(78,0)',
  int256: 'numeric(78,0)',
}

/** Types of a table of the user's that keep a value as it is. A narrower one refuses values or, as `char(n)`, pads them. */
const KEEPS: Readonly<Record<string, RegExp>> = {
  text: /^(text|character varying(\(\d+\))?)$/,
  integer: /^(integer|bigint|numeric)$/,
  bigint: /^(bigint|numeric)$/,
  bytea: /^bytea$/,
  boolean: /^boolean$/,
  'numeric(78,0)': /^numeric(\((7[89]|[89]\d|\d{3,4}),0\))?$/,
}

export const NAMES: NameRules = {
  isTaken: (table) => /^(tidemark|pg)_/i.test(table),
  taken: 'Names that begin with tidemark_ or pg_ are taken',
}

export function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

export function declared([name, type]: Column): string {
  return `${quote(name)} ${type}`
}

const FOUND = `
  SELECT pg_class.oid::bigint AS oid, relkind::text AS kind, obj_description(pg_class.oid, 'pg_class') AS comment,
    relnamespace::regnamespace::text AS schema
  FROM pg_class WHERE pg_class.oid = to_regclass($1::text)`
const COLUMNS = `
  SELECT attname::text AS name, format_type(atttypid, atttypmod) AS type FROM pg_attribute
  WHERE attrelid = $1::bigint::oid AND attnum > 0 AND NOT attisdropped`
/** A key that is checked only at COMMIT cannot settle what ON CONFLICT is about. Columns that are INCLUDEd are no key. */
const PRIMARY = `
  SELECT attname::text AS name FROM pg_index
  JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY ((indkey::int2[])[0:indnkeyatts - 1])
  WHERE indrelid = $1::bigint::oid AND indisprimary AND indimmediate`

/** Says to which environment a table belongs; watchers of two are numbered alike, and would undo each other's rows. */
const ownerOf = (schema: string): string => `Rows of Tidemark, schema ${schema}`

/** The managed table as statements name it: with the schema in which it was found or made. */
export function nameOf({ place }: Connection, table: string): string {
  return place.managed.get(table) ?? quote(table)
}

/**
 * Finds the table by the search path, or makes it there. From then on it is named with its schema: a handler may change
 * the path for itself.
 * @param columns of the table to be made, as SQL
 * @param check holds a table that was found to what is needed
 */
export async function findOrMake(
  connection: Connection,
  table: string,
  columns: readonly string[],
  check: (oid: number) => Promise<void>,
): Promise<void> {
  const found = await connection.get(FOUND, quote(table))
  if (!found) return make(connection, table, columns)
  if (!['r', 'p'].includes(readText(found, 'kind'))) throw mismatch(table, 'The name belongs to a view or an index')
  const comment = readTextOrNull(found, 'comment')
  if (comment?.startsWith(ownerOf('')) && comment !== ownerOf(connection.place.schema)) {
    throw mismatch(table, 'The table belongs to another environment on this database')
  }
  await check(readNumber(found, 'oid'))
  connection.place.managed.set(table, `${readText(found, 'schema')}.${quote(table)}`)
}

async function make(connection: Connection, table: string, columns: readonly string[]): Promise<void> {
  const current = await connection.get('SELECT quote_ident(current_schema()) AS schema')
  const schema = readTextOrNull(current ?? {}, 'schema')
  if (schema === null) throw mismatch(table, 'The search path names no schema in which the table could be made')
  const name = `${schema}.${quote(table)}`
  await connection.run(`CREATE TABLE ${name} (${columns.join(', ')})`)
  await connection.run(`COMMENT ON TABLE ${name} IS '${ownerOf(connection.place.schema)}'`)
  connection.place.managed.set(table, name)
}

/** Holds a table of the user's to the columns that are needed. */
export async function checkColumns(
  connection: Connection,
  table: string,
  oid: number,
  columns: readonly Column[],
): Promise<void> {
  const rows = await connection.all(COLUMNS, oid)
  const found = new Map(rows.map((row) => [readText(row, 'name'), readText(row, 'type')]))
  const missing = columns.filter(([name]) => !found.has(name))
  if (missing.length > 0) {
    throw mismatch(table, 'The table lacks columns', { missing: missing.map(([name, type]) => `${name} ${type}`) })
  }
  const wrong = columns.filter(([name, type]) => !KEEPS[type]?.test(found.get(name) ?? ''))
  if (wrong.length > 0) {
    throw mismatch(table, 'Columns of the table would change values', {
      expected: wrong.map(([name, type]) => `${name} ${type}`),
    })
  }
}

/** Holds a table of the user's to a primary key of exactly these columns. */
export async function checkKey(connection: Connection, table: string, oid: number, key: string[]): Promise<void> {
  const primary = (await connection.all(PRIMARY, oid)).map((row) => readText(row, 'name'))
  if (primary.sort().join() === [...key].sort().join()) return
  throw mismatch(table, 'The primary key of the table must be the columns of the key', { expected: key })
}
