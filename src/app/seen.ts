import { TidemarkError } from '../errors.ts'
import type { WatcherRow } from '../store/store.ts'

/** The state of a watcher's row that this process has seen, over all its times on duty. */
export class Seen {
  private revision = 0

  /**
   * A row that was seen in a later state: the database was put back (restore, failover to a stale replica). Said once: what
   * is done about it is written into the older row.
   * @returns the error to halt with, or null
   */
  look(row: WatcherRow): TidemarkError | null {
    const seen = this.revision
    this.revision = row.revision
    if (row.revision >= seen) return null
    return new TidemarkError('STORE_WENT_BACK', 'The database holds less than this process has seen in it', {
      values: { watcher: row.name, seen, found: row.revision, cursor: row.cursor?.number ?? null },
    })
  }
}
