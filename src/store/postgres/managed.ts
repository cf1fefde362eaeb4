import type { BlockNumber } from '../../chain/block.ts'
import { TidemarkError } from '../../errors.ts'
import type { ColumnType, ManagedPort, ManagedRow, ManagedTable } from '../store.ts'
import type { Connection } from './connection.ts'
import { encodeManaged } from './managed-values.ts'
import { isConstraint } from './pg-errors.ts'
import { blob, int, readNumber, readText, readTextOrNull } from './values.ts'

/** The columns that tie a row to the event that made it; the key leads with them, so undo is a range of it. */
const KEY_COLUMNS = {
  tidemark_watcher: 'integer',
  tidemark_block: 'bigint',
  tidemark_event: 'bytea',
  tidemark_ordinal: 'bigint',
} as const

/** The SQL type of each kind of column. 2^256 − 1 has 78 digits. */
const SQL_TYPE: Readonly<Record<ColumnType, string>> = {
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

const NAME = /^[A-Za-z_][A-Za-z0-9_]{0,62}$/
/** Rows of one statement. */
const CHUNK = 5_000
const SAVEPOINT = 'tidemark_rows'

function mismatch(table: ManagedTable, sentence: string, values: Record<string, unknown> = {}): TidemarkError {
  return new TidemarkError('STORE_TABLE_MISMATCH', sentence, { values: { table: table.table, ...values } })
}

/** Names are written into SQL, so they are held to letters, digits and underscores, and quoted all the same. */
function checkNames(table: ManagedTable): void {
  const columns = Object.keys(table.columns)
  const odd = [table.table, ...columns].find((name) => !NAME.test(name))
  if (odd !== undefined)
    throw mismatch(table, 'A name may hold letters, digits and underscores only, at most 63', {
      name: odd.slice(0, 80),
    })
  if (/^(tidemark|pg)_/i.test(table.table)) throw mismatch(table, 'Names that begin with tidemark_ or pg_ are taken')
  const own = columns.find((name) => /^tidemark_/i.test(name))
  if (own !== undefined) throw mismatch(table, 'Column names that begin with tidemark_ are taken', { column: own })
}

function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

/** Every column of the table with its SQL type, Tidemark's four first. */
function allColumns(table: ManagedTable): [name: string, type: string][] {
  const own = Object.entries(table.columns).map(([name, type]): [string, string] => [name, SQL_TYPE[type]])
  return [...Object.entries(KEY_COLUMNS), ...own]
}

function createSql(table: ManagedTable, name: string): string {
  const own = Object.entries(table.columns).map(([name, type]) => `${quote(name)} ${SQL_TYPE[type]}`)
  const key = Object.entries(KEY_COLUMNS).map(([name, type]) => `${name} ${type} NOT NULL`)
  const primary = `PRIMARY KEY (${Object.keys(KEY_COLUMNS).join(', ')})`
  return `CREATE TABLE ${name} (${[...key, ...own, primary].join(', ')})`
}

/** The columns come as arrays, one parameter each, however many rows there are. */
function insertSql(table: ManagedTable, name: string): string {
  const columns = allColumns(table)
  const names = columns.map(([name]) => quote(name)).join(', ')
  const arrays = columns.map(([, type], i) => `$${i + 1}::${type}[]`).join(', ')
  return `INSERT INTO ${name} (${names}) SELECT * FROM unnest(${arrays})`
}

/** A constraint that the user put on the table: permanent, and of the event that wrote the row. */
function refused(table: ManagedTable, block: BlockNumber | undefined, error: unknown): TidemarkError {
  const cause = TidemarkError.is(error) ? error.cause : error
  const values = { table: table.table, block }
  return new TidemarkError('MANAGED_REFUSED', 'A constraint of the managed table refused a row', { values, cause })
}

const isRefused = (error: unknown): boolean => isConstraint(TidemarkError.is(error) ? error.cause : error)

const FOUND = `
  SELECT pg_class.oid::bigint AS oid, relkind::text AS kind, obj_description(pg_class.oid, 'pg_class') AS comment,
    relnamespace::regnamespace::text AS schema
  FROM pg_class WHERE pg_class.oid = to_regclass($1::text)`
const COLUMNS = `
  SELECT attname::text AS name, format_type(atttypid, atttypmod) AS type FROM pg_attribute
  WHERE attrelid = $1::bigint::oid AND attnum > 0 AND NOT attisdropped`

/** Says to which environment a table belongs; watchers of two are numbered alike, and would undo each other's rows. */
const ownerOf = (schema: string): string => `Rows of Tidemark, schema ${schema}`

type Bound = readonly unknown[]

/**
 * Tables of `rows()`: Tidemark's own, or the user's with Tidemark's four columns added. Found, or made, by the search path
 * when the watcher is opened, and named with their schema from then on: a handler may change the path for itself.
 */
export class PgManaged implements ManagedPort {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  async ensureTable(table: ManagedTable): Promise<void> {
    checkNames(table)
    const found = await this.#connection.get(FOUND, quote(table.table))
    if (!found) return this.#create(table)
    const owner = ownerOf(this.#connection.place.schema)
    if (!['r', 'p'].includes(readText(found, 'kind'))) throw mismatch(table, 'The name belongs to a view or an index')
    const comment = readTextOrNull(found, 'comment')
    if (comment?.startsWith(ownerOf('')) && comment !== owner) {
      throw mismatch(table, 'The table belongs to another environment on this database')
    }
    await this.#checkColumns(table, readNumber(found, 'oid'))
    this.#connection.place.managed.set(table.table, `${readText(found, 'schema')}.${quote(table.table)}`)
  }

  async insertRows(table: ManagedTable, watcher: number, rows: readonly ManagedRow[]): Promise<void> {
    const columns = Object.entries(table.columns)
    const bound = rows.map(({ blockNumber, stableId, ordinal, values }): Bound => {
      const own = columns.map(([column, type]) => encodeManaged(table.table, column, type, values[column]))
      return [int(watcher), int(blockNumber), blob(stableId), int(ordinal), ...own]
    })
    for (let at = 0; at < bound.length; at += CHUNK) await this.#insert(table, bound.slice(at, at + CHUNK))
  }

  async deleteRowsAbove(table: ManagedTable, watcher: number, block: BlockNumber | -1): Promise<number> {
    const sql = `DELETE FROM ${this.#nameOf(table)} WHERE tidemark_watcher = $1::int AND tidemark_block > $2::bigint`
    return this.#connection.run(sql, int(watcher), int(block))
  }

  #nameOf({ table }: ManagedTable): string {
    return this.#connection.place.managed.get(table) ?? quote(table)
  }

  async #create(table: ManagedTable): Promise<void> {
    const current = await this.#connection.get('SELECT quote_ident(current_schema()) AS schema')
    const schema = readTextOrNull(current ?? {}, 'schema')
    if (schema === null) throw mismatch(table, 'The search path names no schema in which the table could be made')
    const name = `${schema}.${quote(table.table)}`
    await this.#connection.run(createSql(table, name))
    await this.#connection.run(`COMMENT ON TABLE ${name} IS '${ownerOf(this.#connection.place.schema)}'`)
    this.#connection.place.managed.set(table.table, name)
  }

  /** One row needs no savepoint: which row it was is known. */
  async #insert(table: ManagedTable, rows: readonly Bound[]): Promise<void> {
    if (rows.length > 1) return this.#insertMany(table, rows)
    try {
      await this.#send(table, rows)
    } catch (error) {
      throw isRefused(error) ? refused(table, rows[0]?.[1] as BlockNumber, error) : error
    }
  }

  /** The server does not say which row a constraint refused, so halves are tried until it is one row. */
  async #insertMany(table: ManagedTable, rows: readonly Bound[]): Promise<void> {
    await this.#connection.control(`SAVEPOINT ${SAVEPOINT}`)
    try {
      await this.#send(table, rows)
    } catch (error) {
      if (!isRefused(error)) throw error
      await this.#connection.control(`ROLLBACK TO ${SAVEPOINT}`)
      const half = Math.ceil(rows.length / 2)
      await this.#insert(table, rows.slice(0, half))
      await this.#insert(table, rows.slice(half))
      // Each half alone was taken: the constraint is about both together, and no one event is to blame.
      throw refused(table, undefined, error)
    }
    await this.#connection.control(`RELEASE ${SAVEPOINT}`)
  }

  async #send(table: ManagedTable, rows: readonly Bound[]): Promise<void> {
    const columns = allColumns(table).map((_, i) => rows.map((row) => row[i]))
    await this.#connection.run(insertSql(table, this.#nameOf(table)), ...columns)
  }

  async #checkColumns(table: ManagedTable, oid: number): Promise<void> {
    const rows = await this.#connection.all(COLUMNS, oid)
    const found = new Map(rows.map((row) => [readText(row, 'name'), readText(row, 'type')]))
    const missing = allColumns(table).filter(([name]) => !found.has(name))
    if (missing.length > 0) {
      throw mismatch(table, 'The table lacks columns', { missing: missing.map(([name, type]) => `${name} ${type}`) })
    }
    const wrong = allColumns(table).filter(([name, type]) => !KEEPS[type]?.test(found.get(name) ?? ''))
    if (wrong.length > 0) {
      throw mismatch(table, 'Columns of the table would change values', {
        expected: wrong.map(([name, type]) => `${name} ${type}`),
      })
    }
  }
}
