import { TidemarkError } from '../../errors.ts'

/** A row as the driver answers it, by column name. */
export type PgRow = Record<string, unknown>

export interface PgField {
  readonly name: string
  readonly dataTypeID: number
}

/** The answer of one statement. */
export interface PgResult<Row = PgRow> {
  /** The command tag's first word: `INSERT`, `SELECT`, … */
  readonly command: string
  /** Rows changed or answered; null for commands that count nothing. */
  readonly rowCount: number | null
  readonly rows: Row[]
  readonly fields: readonly PgField[]
}

/** How values of a type are read: `types` of a `pg` query. */
export interface PgTypes {
  getTypeParser(oid: number, format?: string): (value: string) => unknown
}

/** What `pg` takes instead of a text. */
export interface PgQueryConfig {
  readonly text: string
  readonly values?: unknown[]
  readonly name?: string
  readonly rowMode?: 'array'
  readonly types?: PgTypes
  readonly query_timeout?: number
}

/** The part of a `pg` client that is used, recognised by shape. */
export interface PgClientLike {
  query(config: PgQueryConfig): Promise<PgResult>
  /** `I` idle, `T` in a transaction, `E` in an aborted one; as the last answer of the server said. Newer versions of pg. */
  getTransactionStatus?(): string | null
  on(event: 'error', listener: (error: Error) => void): unknown
  removeListener(event: 'error', listener: (error: Error) => void): unknown
}

export interface PgPoolClientLike extends PgClientLike {
  /** @param destroy closes the connection instead of giving it back */
  release(destroy?: boolean): void
}

/** A `pg` pool, recognised by shape. */
export interface PgPoolLike {
  connect(): Promise<PgPoolClientLike>
  on(event: 'error', listener: (error: Error) => void): unknown
  removeListener(event: 'error', listener: (error: Error) => void): unknown
  end(): Promise<void>
  readonly options?: { readonly max?: number | undefined }
}

/** The server's word on a transaction: none, open, aborted. */
export type TransactionStatus = 'I' | 'T' | 'E'

interface Emitter {
  on(event: 'readyForQuery', listener: (message: { status?: unknown }) => void): unknown
}

/** Statuses of clients that do not tell theirs, heard from the messages of their connection. */
const heard = new WeakMap<object, { status: unknown }>()

/** Listens to an idle client of an older `pg`, so that its status is known. Once for each client. */
export function listenForStatus(client: PgClientLike): void {
  if (client.getTransactionStatus || heard.has(client)) return
  const { connection } = client as { connection?: Partial<Emitter> }
  if (typeof connection?.on !== 'function') return
  const state: { status: unknown } = { status: 'I' }
  heard.set(client, state)
  connection.on('readyForQuery', ({ status }) => {
    state.status = status
  })
}

/** @throws {TidemarkError} `CONFIG_INVALID` for a client that can tell nothing of its transaction, as that of pg-native */
export function transactionStatus(client: PgClientLike): TransactionStatus {
  const status = client.getTransactionStatus ? client.getTransactionStatus() : heard.get(client)?.status
  if (status === 'I' || status === 'T' || status === 'E') return status
  throw new TidemarkError('CONFIG_INVALID', 'The driver does not say whether a transaction is open', {
    values: { expected: 'a client of pg 8, not of pg-native' },
  })
}

export interface OwnPoolOptions {
  readonly url: string
  readonly max: number
  readonly applicationName: string
  readonly connectTimeoutMs: number
}

/** Loads `pg`, an optional peer, and makes a pool. @throws {TidemarkError} `CONFIG_INVALID` when it is not installed */
export async function makePool(options: OwnPoolOptions): Promise<PgPoolLike> {
  const { default: pg } = await import('pg').catch((cause: unknown) => {
    throw new TidemarkError('CONFIG_INVALID', 'The package pg cannot be loaded', {
      values: { expected: 'npm install pg' },
      cause,
    })
  })
  return new pg.Pool({
    connectionString: options.url,
    max: options.max,
    application_name: options.applicationName,
    connectionTimeoutMillis: options.connectTimeoutMs,
    // A peer that is gone without a word is noticed by the operating system, also between statements.
    keepAlive: true,
  })
}
