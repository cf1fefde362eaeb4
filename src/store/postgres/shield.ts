import type { Session } from './session.ts'

const NAME = 'tidemark_handler'
const OPEN = `SAVEPOINT ${NAME}`
/** Only a subtransaction is made read-only: with its end PostgreSQL lets the transaction write again. */
const OPEN_READ_ONLY = `${OPEN}; SET LOCAL transaction_read_only = on`
const CLOSE = `RELEASE ${NAME}`
const SHIELD_MS = 10_000

/**
 * A savepoint around what a guard cannot see through: `raw`, and, where the user may not write, every statement, since a
 * function that writes looks like any other. Without these no savepoint is opened, which saves two round trips an event.
 *
 * Not seen in a scope that may not write: temporary tables, which PostgreSQL lets a read-only transaction fill, and what a
 * function does elsewhere (dblink, files).
 */
export class Shield {
  readonly #session: Session
  readonly #mayWrite: boolean
  #up = false
  #raw = false

  constructor(session: Session, mayWrite: boolean) {
    this.#session = session
    this.#mayWrite = mayWrite
  }

  /** Whether `raw` was handed out. */
  get used(): boolean {
    return this.#raw
  }

  /** Whether a statement of the user needs nothing sent before it, and nothing of it is open. */
  get isDown(): boolean {
    return this.#mayWrite && !this.#raw && !this.#up
  }

  /** For `raw`: sent before the client is handed out. Its queue keeps the order. */
  async raise(): Promise<void> {
    this.#raw = true
    if (this.#up) return
    this.#up = true
    await this.#session.now(this.#opening())
  }

  /** Before a statement of the user, in its turn. In an aborted transaction the statement fails by itself. */
  async enter(): Promise<void> {
    if (this.#up || (this.#mayWrite && !this.#raw) || this.#session.status !== 'T') return
    this.#up = true
    await this.#session.send(this.#opening())
  }

  /**
   * Before a savepoint is opened or ended, before Tidemark writes, and at the end. In an aborted transaction the rollback
   * to an older savepoint takes it along.
   * @throws the server's error when the savepoint is gone
   */
  async lower(): Promise<void> {
    if (!this.#up) return
    this.#up = false
    if (this.#session.status === 'T') await this.#session.send({ text: CLOSE, query_timeout: SHIELD_MS })
  }

  #opening() {
    return { text: this.#mayWrite ? OPEN : OPEN_READ_ONLY, query_timeout: SHIELD_MS }
  }
}
