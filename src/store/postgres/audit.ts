import type { AuditPort, AuditRow } from '../store.ts'
import type { Connection } from './connection.ts'
import { int, readNumber, readText, text } from './values.ts'

/** The newest rows are kept. Ids of transactions that were rolled back are missing, so a little fewer may be left. */
const AUDIT_ROWS = 10_000

const ADD = `
  INSERT INTO tidemark.audit (at, actor, action, watcher, reason)
  VALUES ($1::bigint, $2::text, $3::text, $4::text, $5::text) RETURNING id`
const TRIM = 'DELETE FROM tidemark.audit WHERE id <= $1::bigint'
const LIST = 'SELECT at, actor, action, watcher, reason FROM tidemark.audit ORDER BY id DESC LIMIT $1::bigint'

/** Rows of `audit`: what operators did. */
export class PgAudit implements AuditPort {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  async add(row: AuditRow): Promise<void> {
    const { at, actor, action, watcher, reason } = row
    const added = await this.#connection.get(ADD, int(at), text(actor), text(action), text(watcher), text(reason))
    const id = readNumber(added ?? {}, 'id')
    if (id > AUDIT_ROWS) await this.#connection.run(TRIM, id - AUDIT_ROWS)
  }

  async list(limit: number): Promise<readonly AuditRow[]> {
    return (await this.#connection.all(LIST, int(limit))).map((row) => ({
      at: readNumber(row, 'at'),
      actor: readText(row, 'actor'),
      action: readText(row, 'action'),
      watcher: readText(row, 'watcher'),
      reason: readText(row, 'reason'),
    }))
  }
}
