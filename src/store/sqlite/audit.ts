import type { AuditPort, AuditRow } from '../store.ts'
import type { Connection } from './connection.ts'
import { int, readNumber, readText, text } from './values.ts'

/** The newest rows are kept. The ids have no gaps, so the oldest ones follow from the newest id. */
export const AUDIT_ROWS = 10_000

const ADD = 'INSERT INTO tidemark_audit (at, actor, action, watcher, reason) VALUES (?, ?, ?, ?, ?)'
const TRIM = 'DELETE FROM tidemark_audit WHERE id <= (SELECT max(id) FROM tidemark_audit) - ?'
const LIST = 'SELECT at, actor, action, watcher, reason FROM tidemark_audit ORDER BY id DESC LIMIT ?'

/** Rows of `tidemark_audit`: what operators did. */
export class SqliteAudit implements AuditPort {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  add(row: AuditRow): void {
    const { at, actor, action, watcher, reason } = row
    this.#connection.run(ADD, int(at), text(actor), text(action), text(watcher), text(reason))
    this.#connection.run(TRIM, AUDIT_ROWS)
  }

  list(limit: number): readonly AuditRow[] {
    return this.#connection.all(LIST, int(limit)).map((row) => ({
      at: readNumber(row, 'at'),
      actor: readText(row, 'actor'),
      action: readText(row, 'action'),
      watcher: readText(row, 'watcher'),
      reason: readText(row, 'reason'),
    }))
  }
}
