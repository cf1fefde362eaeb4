import type { MetaPort } from '../store.ts'
import type { Session } from './session.ts'
import { key, readText } from './values.ts'

const GET = 'SELECT value FROM {facts} WHERE name = ?'
const SET = 'INSERT INTO {facts} (name, value) VALUES (?, ?) ON DUPLICATE KEY UPDATE value = VALUES(value)'

/** Rows of `facts`: what holds for the whole database. The versions of the schema lie apart, in `meta`. */
export class MysqlMeta implements MetaPort {
  readonly #session: Session

  constructor(session: Session) {
    this.#session = session
  }

  async get(name: string): Promise<string | null> {
    const row = await this.#session.get(GET, key(name))
    return row ? readText(row, 'value') : null
  }

  async set(name: string, value: string): Promise<void> {
    await this.#session.run(SET, key(name), value)
  }
}
