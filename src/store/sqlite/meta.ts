import type { MetaPort } from '../store.ts'
import type { Connection } from './connection.ts'
import { readText, text } from './values.ts'

const GET = 'SELECT value FROM tidemark_facts WHERE name = ?'
const SET = `
  INSERT INTO tidemark_facts (name, value) VALUES (?, ?)
  ON CONFLICT (name) DO UPDATE SET value = excluded.value`

/** Rows of `tidemark_facts`: what holds for the whole database. The versions of the schema lie apart, in `tidemark_meta`. */
export class SqliteMeta implements MetaPort {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  get(key: string): string | null {
    const row = this.#connection.get(GET, text(key))
    return row ? readText(row, 'value') : null
  }

  set(key: string, value: string): void {
    this.#connection.run(SET, text(key), text(value))
  }
}
