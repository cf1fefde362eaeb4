import type { AuditPort, AuditRow } from '../store.ts'
import type { Session } from './session.ts'
import { readNumber, readText } from './values.ts'

/** The newest rows are kept. */
const AUDIT_ROWS = 10_000

// Ids of AUTO_INCREMENT have gaps, after a rollback for one. This counter goes back with its transaction. It is taken
// first, which also keeps two writers in order.
const NEXT = `
  INSERT INTO {counters} (name, value) VALUES ('audit', LAST_INSERT_ID(1))
  ON DUPLICATE KEY UPDATE value = LAST_INSERT_ID(value + 1)`
// The table is a ring: a new row takes the place of the one that is as many rows older.
const VALUES_OF = ['id', 'at', 'actor', 'action', 'watcher', 'reason'] as const
const ADD = `
  INSERT INTO {audit} (slot, ${VALUES_OF.join(', ')})
  VALUES (LAST_INSERT_ID() % ${AUDIT_ROWS}, LAST_INSERT_ID(), ?, ?, ?, ?, ?)
  ON DUPLICATE KEY UPDATE ${VALUES_OF.map((column) => `${column} = VALUES(${column})`).join(', ')}`
const LIST = 'SELECT at, actor, action, watcher, reason FROM {audit} ORDER BY id DESC LIMIT ?'

/** Rows of `audit`: what operators did. */
export class MysqlAudit implements AuditPort {
  readonly #session: Session

  constructor(session: Session) {
    this.#session = session
  }

  async add(row: AuditRow): Promise<void> {
    const { at, actor, action, watcher, reason } = row
    await this.#session.run(NEXT)
    await this.#session.run(ADD, at, actor, action, watcher, reason)
  }

  async list(limit: number): Promise<readonly AuditRow[]> {
    return (await this.#session.all(LIST, limit)).map((row) => ({
      at: readNumber(row, 'at'),
      actor: readText(row, 'actor'),
      action: readText(row, 'action'),
      watcher: readText(row, 'watcher'),
      reason: readText(row, 'reason'),
    }))
  }
}
