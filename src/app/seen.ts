import { TidemarkError } from '../errors.ts'
import type { Tx, WatcherRow } from '../store/store.ts'
import { type Op, wait } from '../util/op.ts'

/** The fact that holds the marks of `restored`, oldest first, with commas between them. */
const RESTORED = 'restored'
/** Marks kept: a process compares with those that it met when it last took the watcher over. */
const MOST = 100

/** Leaves a mark, so that processes know that an operator has looked at what the older database means. */
export function* markRestored(tx: Tx, mark: string): Op<void> {
  const marks = yield* readMarks(tx)
  yield* wait(tx.meta.set(RESTORED, [...marks, mark].slice(-MOST).join(',')))
}

function* readMarks(tx: Tx): Op<string[]> {
  const text = yield* wait(tx.meta.get(RESTORED))
  return text ? text.split(',') : []
}

/**
 * The state of a watcher's row that this process has seen, over all its times on duty. A row that was seen in a later state
 * was put back (restore, failover to a stale replica): nothing is done with it until a halt is written into it, or an
 * operator has said `restored` since.
 */
export class Seen {
  private revision = 0
  private marks: ReadonlySet<string> = new Set()

  /** The halt stands in the row: from here on it is the operator's. */
  accept(row: WatcherRow): void {
    this.revision = row.revision
  }

  /**
   * The process itself has committed: a row that is put back to the state before is older than what it has seen. A person may
   * have raised the revision further meanwhile, which the next look tells.
   */
  committed(): void {
    this.revision += 1
  }

  /**
   * Compares a row, read in the same transaction. Says it again until `accept`.
   * @returns the error to halt with, or null
   */
  *look(tx: Tx, row: WatcherRow): Op<TidemarkError | null> {
    if (row.revision < this.revision && !(yield* this.newMark(tx))) {
      return new TidemarkError('STORE_WENT_BACK', 'The database holds less than this process has seen in it', {
        values: {
          watcher: row.name,
          seen: this.revision,
          found: row.revision,
          cursor: row.cursor?.number ?? null,
        },
      })
    }
    this.revision = row.revision
    return null
  }

  /** Before the first look of a time on duty: a mark that is there already says nothing of what comes later. */
  *begin(tx: Tx, row: WatcherRow): Op<TidemarkError | null> {
    const older = yield* this.look(tx, row)
    if (!older) this.marks = new Set(yield* readMarks(tx))
    return older
  }

  /** Whether somebody said `restored` since: a mark that this process has never met. */
  private *newMark(tx: Tx): Op<boolean> {
    const marks = yield* readMarks(tx)
    return marks.some((mark) => !this.marks.has(mark))
  }
}
