import type { BlockNumber } from '../../chain/block.ts'
import { invariant } from '../../util/invariant.ts'
import { mergeCommits } from '../merge-commits.ts'
import type { CommitPort, CommitRow } from '../store.ts'
import type { Connection } from './connection.ts'
import type { SqliteRow } from './driver.ts'
import { int, readBlock, readBytes, readNumber, readText, text } from './values.ts'

const COLUMNS = 'from_block, to_block, events, digest, committed_at, attempt, build'
const ADD_MERGED = `INSERT INTO tidemark_commits (watcher, ${COLUMNS}, merged) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1)`
// The newest row has the highest blocks: none of the others can reach further.
const ADD_ABOVE = `
  INSERT INTO tidemark_commits (watcher, ${COLUMNS}, merged) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0
  WHERE ?2 > ifnull((SELECT to_block FROM tidemark_commits WHERE watcher = ?1 ORDER BY from_block DESC LIMIT 1), -1)`
const LIST = `SELECT ${COLUMNS} FROM tidemark_commits WHERE watcher = ? ORDER BY from_block DESC LIMIT ?`
const DELETE_ABOVE = 'DELETE FROM tidemark_commits WHERE watcher = ? AND from_block > ?'
const STRADDLING = `
  SELECT ${COLUMNS} FROM tidemark_commits WHERE watcher = ? AND from_block <= ? AND to_block > ?
  ORDER BY from_block DESC LIMIT 1`
const CUT = 'UPDATE tidemark_commits SET to_block = ?, events = ?, digest = ? WHERE watcher = ? AND from_block = ?'
// An index of the unmerged rows alone keeps a call from walking over what earlier calls have merged.
const UNMERGED = `
  SELECT ${COLUMNS} FROM tidemark_commits WHERE watcher = ? AND merged = 0 AND to_block <= ?
  ORDER BY from_block LIMIT ?`
const BEFORE = `
  SELECT ${COLUMNS} FROM tidemark_commits WHERE watcher = ? AND from_block < ?
  ORDER BY from_block DESC LIMIT 1`
const DELETE_RANGE = 'DELETE FROM tidemark_commits WHERE watcher = ? AND from_block BETWEEN ? AND ?'

function readCommit(row: SqliteRow): CommitRow {
  return {
    from: readBlock(row, 'from_block'),
    to: readBlock(row, 'to_block'),
    events: readNumber(row, 'events'),
    digest: readBytes(row, 'digest'),
    committedAt: readNumber(row, 'committed_at'),
    attempt: readNumber(row, 'attempt'),
    build: readText(row, 'build'),
  }
}

function valuesOf(watcher: number, row: CommitRow) {
  const { from, to, events, digest, committedAt, attempt, build } = row
  return [int(watcher), int(from), int(to), int(events), digest, int(committedAt), int(attempt), text(build)] as const
}

/** Rows of `tidemark_commits`. */
export class SqliteCommits implements CommitPort {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  add(watcher: number, row: CommitRow): boolean {
    return this.#connection.run(ADD_ABOVE, ...valuesOf(watcher, row)) === 1
  }

  list(watcher: number, limit: number): readonly CommitRow[] {
    return this.#connection.all(LIST, int(watcher), int(limit)).map(readCommit)
  }

  cutAbove(watcher: number, block: BlockNumber | -1, rest: { events: number; digest: Uint8Array } | null): void {
    const row = this.straddling(watcher, block)
    invariant(
      (row === undefined) === (rest === null),
      'a commit row that is cut needs a new count, and only such a row',
      { block },
    )
    if (row && rest) this.#connection.run(CUT, int(block), int(rest.events), rest.digest, int(watcher), int(row.from))
    this.#connection.run(DELETE_ABOVE, int(watcher), int(block))
  }

  straddling(watcher: number, block: BlockNumber | -1): CommitRow | undefined {
    const row = this.#connection.get(STRADDLING, int(watcher), int(block), int(block))
    return row && readCommit(row)
  }

  compact(watcher: number, through: BlockNumber, span: number, limit: number): number {
    const loose = this.#connection.all(UNMERGED, int(watcher), int(through), int(limit)).map(readCommit)
    const [first] = loose
    if (!first) return 0
    // The last merged row may have room for the first loose one.
    const before = this.#connection.get(BEFORE, int(watcher), int(first.from))
    const rows = before ? [readCommit(before), ...loose] : loose
    const merged = mergeCommits(rows, span)
    this.#replace(watcher, rows, merged)
    return rows.length - merged.length
  }

  #replace(watcher: number, rows: readonly CommitRow[], merged: readonly CommitRow[]): void {
    const from = rows[0]?.from ?? 0
    const to = rows.at(-1)?.from ?? 0
    const deleted = this.#connection.run(DELETE_RANGE, int(watcher), int(from), int(to))
    invariant(deleted === rows.length, 'commit rows to be merged must be the rows that were read', { from, to })
    for (const row of merged) this.#connection.run(ADD_MERGED, ...valuesOf(watcher, row))
  }
}
