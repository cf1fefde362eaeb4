import { invariant } from '../../util/invariant.ts'
import type { MetaPort } from '../store.ts'
import type { Connection } from './connection.ts'
import { readText, text } from './values.ts'

const GET = 'SELECT value FROM tidemark.meta WHERE name = $1::text'
const SET = `
  INSERT INTO tidemark.meta (name, value) VALUES ($1::text, $2::text)
  ON CONFLICT (name) DO UPDATE SET value = excluded.value`

/** The migrations keep their numbers in the same table. */
const TAKEN: ReadonlySet<string> = new Set(['schema_version', 'oldest_code'])

/** Rows of `meta`. */
export class PgMeta implements MetaPort {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  async get(key: string): Promise<string | null> {
    const row = await this.#connection.get(GET, text(key))
    return row ? readText(row, 'value') : null
  }

  async set(key: string, value: string): Promise<void> {
    invariant(!TAKEN.has(key), 'this fact belongs to the migrations', { key })
    await this.#connection.run(SET, text(key), text(value))
  }
}
