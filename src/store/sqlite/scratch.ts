import { hexToBytes } from '../../util/bytes.ts'
import { openDefault, openReadOnly, type SqliteDatabaseLike, type SqliteParameter, type SqliteRow } from './driver.ts'

/** A column as the database declares it. */
export interface ScratchColumn {
  readonly name: string
  /** Place in the primary key, from 1; 0: not part of it. */
  readonly key: number
  /** The database makes its values: AUTOINCREMENT, or a default that asks the clock or chance. */
  readonly made: boolean
  /** Table and column that a foreign key of this column alone refers to. */
  readonly refersTo: { readonly table: string; readonly column: string } | null
}

/** A table of the user's with all that is in it. */
export interface ScratchTable {
  readonly name: string
  readonly columns: readonly ScratchColumn[]
  /** Integers are bigints. */
  readonly rows: readonly SqliteRow[]
}

const OWN = "name NOT LIKE 'tidemark\\_%' ESCAPE '\\' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
/** Shadow tables belong to a virtual one, which makes them. */
const TABLES = `SELECT name FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'virtual') AND ${OWN} ORDER BY name`
const SHADOWS = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'shadow'"
/** Tables first: the others refer to them. */
const STATEMENTS = `
  SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND ${OWN}
  ORDER BY CASE type WHEN 'table' THEN 0 WHEN 'index' THEN 1 WHEN 'view' THEN 2 ELSE 3 END, rowid`

/** Defaults with which the database asks the clock or chance: `CURRENT_TIMESTAMP`, `(unixepoch())`. */
const MADE = /current_(timestamp|date|time)|'now'|\b(random|randomblob|unixepoch|julianday|datetime|date|time)\s*\(/i

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

/** A database made for one run of somebody's handlers, and looked at from outside. */
export class ScratchDatabase {
  readonly database: SqliteDatabaseLike

  /** @param file made when it is missing */
  constructor(file: string) {
    this.database = openDefault(file)
    this.database.exec(
      'PRAGMA busy_timeout = 0; PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA foreign_keys = ON',
    )
  }

  query(sql: string, ...parameters: SqliteParameter[]): SqliteRow[] {
    return this.database.prepare(sql).all(...parameters)
  }

  rows(table: string): SqliteRow[] {
    const statement = this.database.prepare(`SELECT * FROM ${quoted(table)}`)
    statement.setReadBigInts(true)
    return statement.all()
  }

  /** Every table that is not Tidemark's, with its rows. */
  tables(): ScratchTable[] {
    return this.query(TABLES).map((row) => {
      const name = String(row.name)
      return { name, columns: this.#columns(name), rows: this.rows(name) }
    })
  }

  #columns(table: string): ScratchColumn[] {
    const sql = String(this.query('SELECT sql FROM sqlite_schema WHERE name = ?', table)[0]?.sql ?? '')
    const references = this.#references(table)
    return this.query('SELECT name, type, pk, dflt_value AS preset FROM pragma_table_info(?)', table).map((column) => {
      const key = Number(column.pk)
      const counted = key === 1 && /\bautoincrement\b/i.test(sql)
      const name = String(column.name)
      return {
        name,
        key,
        made: counted || MADE.test(String(column.preset ?? '')),
        refersTo: references.get(name) ?? null,
      }
    })
  }

  /** Foreign keys of one column. One that names no column refers to the primary key. */
  #references(table: string): Map<string, NonNullable<ScratchColumn['refersTo']>> {
    const keys = this.query(
      'SELECT id, "table" AS target, "from" AS source, "to" AS wanted FROM pragma_foreign_key_list(?)',
      table,
    )
    const alone = keys.filter(({ id }) => keys.filter((other) => other.id === id).length === 1)
    return new Map(
      alone.map(({ target, source, wanted }) => {
        const column =
          wanted ?? this.query('SELECT name FROM pragma_table_info(?) WHERE pk = 1', String(target))[0]?.name
        return [String(source), { table: String(target), column: String(column) }]
      }),
    )
  }

  /**
   * What a person does with a database shell: the node's blocks above `block` are delivered once more.
   * @param name full name of a watcher
   */
  moveCursor(name: string, block: number, hash: string): void {
    const update = this.database.prepare(
      'UPDATE tidemark_watchers SET cursor_block = ?, cursor_hash = ? WHERE name = ?',
    )
    update.run(block, hexToBytes(hash), name)
  }

  close(): void {
    this.database.close()
  }
}

/**
 * The statements that make the user's own tables, indexes, views and triggers, without any data. The file is opened for
 * reading only.
 */
export function schemaOf(file: string): string[] {
  const database = openReadOnly(file)
  try {
    const shadows = new Set(
      database
        .prepare(SHADOWS)
        .all()
        .map(({ name }) => name),
    )
    const all = database.prepare(STATEMENTS).all()
    return all.filter(({ name }) => !shadows.has(name)).map(({ sql }) => String(sql))
  } finally {
    database.close()
  }
}
