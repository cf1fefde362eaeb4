/**
 * Every error that Tidemark raises: one table of codes. The kind says what happens next by itself:
 *
 * - `refused`: the request or configuration is wrong; nothing was started or changed
 * - `retries`: passing; the watcher is *failing*, waits, tries again and heals by itself
 * - `halts`: the watcher is *halted* until an operator says `tidemark resume` (P8)
 * - `bug`: an assertion about Tidemark itself broke; the transaction was rolled back
 */
export type ErrorKind = 'refused' | 'retries' | 'halts' | 'bug'

interface CodeEntry {
  readonly kind: ErrorKind
  /** What the reader should do now. */
  readonly next: string
}

const table = {
  // Configuration
  CONFIG_INVALID: { kind: 'refused', next: 'Correct the named key; `expected` says what it takes.' },
  CONFIG_UNKNOWN_KEY: { kind: 'refused', next: 'Remove the key, or use the suggested spelling.' },
  CONFIG_NOT_FOUND: { kind: 'refused', next: 'Create tidemark.config.ts here, or name one with --config.' },
  STORE_URL_UNDEFINED: { kind: 'refused', next: 'Set the variable that the configuration reads, or write the path.' },
  COMMAND_UNKNOWN: { kind: 'refused', next: 'Run `tidemark --help` for the list of commands.' },
  FLAG_INVALID: { kind: 'refused', next: 'Run the command with --help for its flags.' },
  // Watchers and their events
  WATCHER_INVALID: { kind: 'refused', next: 'Correct the watcher; `expected` says what it takes.' },
  WATCHER_UNKNOWN: { kind: 'refused', next: 'Run `tidemark status` for the names of the watchers.' },
  WATCHER_UNKNOWN_CHAIN: { kind: 'refused', next: 'Add the chain under `chains`, or correct the name under `on`.' },
  WATCHER_UNDO_MISSING: {
    kind: 'refused',
    next: "Use at: 'finalized'; or { confirmations: n }; or declare `undo`: a function, or 'managed' with managed tables only.",
  },
  WATCHER_FILTER_CHANGED: {
    kind: 'refused',
    next: 'Start with --accept from-here to use the new filter from here on (blocks that are not settled yet are done again), or give the new watcher a name of its own.',
  },
  WATCHER_RENAMED: {
    kind: 'refused',
    next: "Run `tidemark rename OLD/CHAIN NEW/CHAIN`, or start the new name at `startBlock: 'now'`.",
  },
  ABI_INVALID: { kind: 'refused', next: 'Correct the event signature or ABI item.' },
  ABI_EVENT_MISSING: { kind: 'refused', next: 'Name an event of the ABI, or give its signature as text.' },
  ABI_EVENT_AMBIGUOUS: {
    kind: 'refused',
    next: 'The name is overloaded: give the signature of the one you mean as text.',
  },
  EVENT_ARGS_INVALID: { kind: 'refused', next: 'Filter by indexed arguments with values of their type.' },
  // The store
  STORE_LOCKED: {
    kind: 'refused',
    next: 'Stop the other process on this file, or use a store made for several processes.',
  },
  STORE_NEWER: { kind: 'refused', next: 'Run the version of Tidemark that wrote this database, or a later one.' },
  STORE_MIGRATION_NEEDED: { kind: 'refused', next: 'Run `tidemark migrate`.' },
  STORE_READ_ONLY: { kind: 'retries', next: 'Make the file and its folder writable for this user.' },
  STORE_FULL: { kind: 'retries', next: 'Free disk space; the watcher goes on by itself.' },
  STORE_BUSY: { kind: 'retries', next: 'Another connection holds the write lock; shorten its transactions.' },
  STORE_FAILED: { kind: 'retries', next: 'Read the cause; the database refused a statement of Tidemark.' },
  STORE_CLOSED: { kind: 'refused', next: 'The store was closed; open a new one.' },
  STORE_TABLE_MISMATCH: { kind: 'refused', next: 'Add the missing columns, or name another table.' },
  NOT_IN_TRANSACTION: { kind: 'refused', next: 'Open a transaction on this connection first and pass it in.' },
  // Guards of the commit: each has its own code, and a test that reaches only it
  EPOCH_CHANGED: {
    kind: 'retries',
    next: 'Another run rolled this watcher back; this one stands down and reads again.',
  },
  POSITION_MOVED: { kind: 'retries', next: 'Another run moved this cursor; this one stands down and reads again.' },
  STORE_WENT_BACK: {
    kind: 'halts',
    next: 'The database is older than what this process wrote: it was restored, or another server took over without the last commits. Look at what left the database since, then run `tidemark restored`.',
  },
  ENVIRONMENT_MISMATCH: {
    kind: 'refused',
    next: "Point this process at its own database, or correct the setting 'environment'.",
  },
  FENCED: { kind: 'retries', next: 'Another process took this watcher over; this one stands down.' },
  NONCE_LOST: {
    kind: 'halts',
    next: 'A statement of the handler rolled the transaction back unseen. Correct the handler, then resume.',
  },
  TRANSACTION_LOST: {
    kind: 'halts',
    next: 'A statement of the handler ended the transaction (for example INSERT OR ROLLBACK). Correct the handler, then resume.',
  },
  HANDLER_ENDED_TRANSACTION: {
    kind: 'halts',
    next: 'The handler ended the transaction on db.raw. Look at what it wrote for this event, correct it, then resume.',
  },
  HANDLER_FORGOT_AWAIT: {
    kind: 'halts',
    next: 'The handler returned while a statement of its own was still running. Await every statement, then resume.',
  },
  SCOPE_DEAD: { kind: 'refused', next: 'Use `db` and `tables` only inside the callback that received them.' },
  COMMIT_UNKNOWN: {
    kind: 'retries',
    next: 'The answer to COMMIT was lost; the position is read again before anything is repeated.',
  },
  CURSOR_BELOW_LOW_WATER: {
    kind: 'halts',
    next: 'The cursor was moved to where marks have been pruned: events there would be applied twice. Put the cursor back, or give the watcher a new name.',
  },
  // Handlers
  HANDLER_FAILED: { kind: 'halts', next: 'Correct the handler, then run `tidemark resume`.' },
  HANDLER_RETURNED_PROMISE: {
    kind: 'halts',
    next: 'SQLite handlers are synchronous: move slow work into `prepare`, then resume.',
  },
  HANDLER_TIMEOUT: {
    kind: 'halts',
    next: 'The handler ran longer than handlerTimeout. Correct it or raise the limit, then resume.',
  },
  HANDLER_SWALLOWED_ERROR: {
    kind: 'halts',
    next: 'A statement failed and the handler went on. Use `savepoint(fn)` or ON CONFLICT DO NOTHING where failure is expected, then resume.',
  },
  TRANSACTION_CONTROL_REFUSED: {
    kind: 'halts',
    next: "The transaction is Tidemark's: use `savepoint(fn)` for a nested one, then resume.",
  },
  UNTRACKED_WRITE: {
    kind: 'halts',
    next: "With undo: 'managed' all writes go through `tables`. Declare an undo function for writes through `db`, then resume.",
  },
  DECODE_FAILED: {
    kind: 'halts',
    next: 'A log has the shape of the event but does not decode. Check the ABI, then resume.',
  },
  MEMO_INVALID: { kind: 'halts', next: 'Return undefined or a small plain value from the handler, then resume.' },
  MANAGED_VALUE_INVALID: {
    kind: 'halts',
    next: 'Give every column of the table a value of its type. Correct the handler, then resume.',
  },
  MANAGED_REFUSED: {
    kind: 'halts',
    next: 'A constraint of the managed table refuses a row. Correct the table or the handler, then resume.',
  },
  MANAGED_OVERFLOW: {
    kind: 'halts',
    next: 'A sum outgrew its column. Correct the handler, or give the sum a wider type, then resume.',
  },
  MANAGED_CONFLICT: {
    kind: 'halts',
    next: 'Somebody else removed or changed a row that is to be taken back. Put it right by hand, then resume.',
  },
  MANAGED_LIMIT: { kind: 'halts', next: 'One event wrote more managed rows than the limit. Write fewer, then resume.' },
  KEY_INVALID: {
    kind: 'halts',
    next: '`key` must return a well-formed string of 1 to 255 characters without NUL. Correct it, then resume.',
  },
  PREPARE_FAILED: { kind: 'retries', next: 'Read the cause; `prepare` is tried again with growing waits.' },
  PREPARE_TIMEOUT: {
    kind: 'retries',
    next: '`prepare` ran longer than handlerTimeout; it is tried again with growing waits.',
  },
  UNDO_FAILED: { kind: 'halts', next: 'The undo function threw; nothing was undone. Correct it, then resume.' },
  UNDO_CHANGED: {
    kind: 'halts',
    next: 'Run the build with the former `undo` until its blocks have settled; or correct their effects by hand, then `tidemark resume --accept-reorg`.',
  },
  FINAL_FAILED: { kind: 'halts', next: 'The `final` stage threw; the block is not settled. Correct it, then resume.' },
  // The chain
  CHAIN_MISMATCH: { kind: 'halts', next: 'The URL serves another chain. Correct `rpc` or `id`, then resume.' },
  REORG_BELOW_FINALITY: {
    kind: 'halts',
    next: 'Blocks that were final were replaced. Compare with another provider. If the new branch is the right one, correct by hand what cannot be undone, then `tidemark resume --accept-reorg`.',
  },
  REORG_BELOW_CONFIRMATIONS: {
    kind: 'halts',
    next: 'A reorg went deeper than the confirmations asked for. Correct the effects of the orphaned blocks by hand, then `tidemark resume --accept-reorg`.',
  },
  REORG_IRREVERSIBLE: {
    kind: 'halts',
    next: "Blocks with events of an undo: 'irreversible' watcher were orphaned. Correct their effects by hand, then `tidemark resume --accept-reorg`.",
  },
  SWEEP_DIFFERS: {
    kind: 'halts',
    next: 'The cross-check before settling found other logs than were applied, and this watcher cannot undo. Correct the effects by hand, then `tidemark resume --accept-reorg`.',
  },
  UNSETTLED_LIMIT: { kind: 'retries', next: 'Finality has stalled; the watcher waits so that undo stays bounded.' },
  RPC_UNREACHABLE: { kind: 'retries', next: 'Check the URL and the network; every configured URL was tried.' },
  RPC_TIMEOUT: { kind: 'retries', next: 'The node did not answer in time; it is asked again with growing waits.' },
  RPC_RATE_LIMITED: {
    kind: 'retries',
    next: 'The provider limits requests; Tidemark waits. Add a URL or raise the plan.',
  },
  RPC_ANSWER_INVALID: {
    kind: 'retries',
    next: 'The node answered with something that cannot be an answer; it is asked again.',
  },
  RPC_REFUSED: { kind: 'retries', next: 'The node refused the request; read the cause.' },
  RPC_RANGE_TOO_LARGE: { kind: 'retries', next: 'The range is made smaller and asked again.' },
  RPC_BLOCK_TOO_LARGE: {
    kind: 'halts',
    next: 'One block holds more logs than this node returns. Add a node with a higher cap, then resume.',
  },
  RPC_BEHIND: { kind: 'retries', next: 'The node is behind the block asked for; it is asked again.' },
  EVIDENCE_MISSING: {
    kind: 'retries',
    next: 'The node could not show that it has the block it answered for; it is asked again.',
  },
  // Parts used alone
  EVENT_TOO_OLD: {
    kind: 'refused',
    next: 'The event lies below the low-water mark, where marks are gone. Set it aside for a person.',
  },
  EVENT_KEY_INVALID: {
    kind: 'refused',
    next: 'Give the event as the node returned it, through `numberIdenticalLogs`; or an identity or key of 1 to 255 characters.',
  },
  EVENT_HELD: {
    kind: 'refused',
    next: 'Do not acknowledge the event: come again when its claim is done or its lease is over.',
  },
  CLAIM_LOST: {
    kind: 'refused',
    next: 'Roll the transaction back: another worker has the event, or will get it. Give a longer lease if this happens often.',
  },
  CLAIMS_FULL: {
    kind: 'retries',
    next: 'Claim the events of `expiredClaims()` again and finish them: only new events are refused.',
  },
  WINDOW_FULL: { kind: 'retries', next: 'Wait until keys expire, raise maxKeys, or make the window shorter.' },
  EVENT_ID_INVALID: { kind: 'refused', next: 'Write chainId-txHash-logIndex.' },
  // Tidemark itself
  UNEXPECTED: {
    kind: 'retries',
    next: 'Read the cause in the log at level debug; it is tried again with growing waits.',
  },
  INVARIANT_BROKEN: {
    kind: 'bug',
    next: 'This is a bug in Tidemark. The transaction was rolled back. Please report the code and values.',
  },
} as const satisfies Record<string, CodeEntry>

export type ErrorCode = keyof typeof table

/** Every code with its kind and its next step. `docs/errors.md` has a section for each; a test compares both ways. */
export const errorCodes: Readonly<Record<ErrorCode, CodeEntry>> = table

export interface ErrorDetails {
  /** Public facts only: chain, block, transaction, index, event name, watcher, limits (P12). Never arguments or URLs. */
  readonly values?: Readonly<Record<string, unknown>>
  readonly cause?: unknown
}

const DOCS = 'https://github.com/tidemark/tidemark/blob/main/docs/errors.md'

function printValue(value: unknown): string {
  return typeof value === 'bigint' ? value.toString() : (JSON.stringify(value) ?? String(value))
}

function printValues(values: Readonly<Record<string, unknown>>): string {
  return Object.entries(values)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => `${key}=${printValue(value)}`)
    .join(', ')
}

/**
 * A code, a sentence, the values, the next step, a link. `message` holds all of them on a few lines; `sentence` is the
 * first line alone. Recognise it by `TidemarkError.is`, which also works across two copies of the package.
 */
export class TidemarkError extends Error {
  override readonly name = 'TidemarkError'
  readonly isTidemarkError = true
  readonly code: ErrorCode
  readonly kind: ErrorKind
  readonly sentence: string
  readonly values: Readonly<Record<string, unknown>>
  readonly next: string
  readonly link: string

  constructor(code: ErrorCode, sentence: string, details: ErrorDetails = {}) {
    const values = details.values ?? {}
    const shown = printValues(values)
    const entry = table[code]
    const link = `${DOCS}#${code.toLowerCase()}`
    super(`${sentence}${shown ? ` (${shown})` : ''}\n  code: ${code}\n  next: ${entry.next}\n  docs: ${link}`, {
      cause: details.cause,
    })
    this.code = code
    this.kind = entry.kind
    this.sentence = sentence
    this.values = values
    this.next = entry.next
    this.link = link
  }

  static is(error: unknown): error is TidemarkError {
    return (
      typeof error === 'object' && error !== null && (error as { isTidemarkError?: unknown }).isTidemarkError === true
    )
  }

  /** Whether `error` is a TidemarkError with this code. */
  static has(error: unknown, code: ErrorCode): error is TidemarkError {
    return TidemarkError.is(error) && error.code === code
  }
}
