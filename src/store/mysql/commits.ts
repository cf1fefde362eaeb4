import type { BlockNumber } from '../../chain/block.ts'
import { invariant } from '../../util/invariant.ts'
import { mergeCommits } from '../merge-commits.ts'
import type { CommitPort, CommitRow } from '../store.ts'
import { chunks, type SqlValue } from './literals.ts'
import type { Session } from './session.ts'
import { type Row, readBlock, readBytes, readNumber, readText } from './values.ts'

const COLUMNS = 'from_block, to_block, events, digest, committed_at, attempt, build'
const ADD_MERGED = `INSERT INTO {commits} (watcher, ${COLUMNS}, merged) VALUES ?`
// The newest row has the highest blocks: none of the others can reach further.
const ADD_ABOVE = `
  INSERT INTO {commits} (watcher, ${COLUMNS}, merged)
  SELECT ?, ?, ?, ?, ?, ?, ?, ?, 0 FROM DUAL WHERE ? > COALESCE(
    (SELECT to_block FROM {commits} WHERE watcher = ? ORDER BY from_block DESC LIMIT 1), -1)`
const LIST = `SELECT ${COLUMNS} FROM {commits} WHERE watcher = ? ORDER BY from_block DESC LIMIT ?`
const DELETE_ABOVE = 'DELETE FROM {commits} WHERE watcher = ? AND from_block > ?'
const STRADDLING = `
  SELECT ${COLUMNS} FROM {commits} WHERE watcher = ? AND from_block <= ? AND to_block > ?
  ORDER BY from_block DESC LIMIT 1`
const CUT = 'UPDATE {commits} SET to_block = ?, events = ?, digest = ? WHERE watcher = ? AND from_block = ?'
// An index that leads with `merged` keeps a call from walking over what earlier calls have merged.
const UNMERGED = `
  SELECT ${COLUMNS} FROM {commits} WHERE watcher = ? AND merged = 0 AND to_block <= ?
  ORDER BY from_block LIMIT ?`
const BEFORE = `
  SELECT ${COLUMNS} FROM {commits} WHERE watcher = ? AND from_block < ?
  ORDER BY from_block DESC LIMIT 1`
const DELETE_RANGE = 'DELETE FROM {commits} WHERE watcher = ? AND from_block BETWEEN ? AND ?'

function readCommit(row: Row): CommitRow {
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

function rowOf(watcher: number, row: CommitRow): SqlValue[] {
  const { from, to, events, digest, committedAt, attempt, build } = row
  return [watcher, from, to, events, digest, committedAt, attempt, build]
}

/** Rows of `commits`. */
export class MysqlCommits implements CommitPort {
  readonly #session: Session

  constructor(session: Session) {
    this.#session = session
  }

  async add(watcher: number, row: CommitRow): Promise<boolean> {
    return (await this.#session.run(ADD_ABOVE, ...rowOf(watcher, row), row.from, watcher)) === 1
  }

  async list(watcher: number, limit: number): Promise<readonly CommitRow[]> {
    return (await this.#session.all(LIST, watcher, limit)).map(readCommit)
  }

  async cutAbove(
    watcher: number,
    block: BlockNumber | -1,
    rest: { events: number; digest: Uint8Array } | null,
  ): Promise<void> {
    const row = await this.straddling(watcher, block)
    invariant(
      (row === undefined) === (rest === null),
      'a commit row that is cut needs a new count, and only such a row',
      { block },
    )
    if (row && rest) await this.#session.run(CUT, block, rest.events, rest.digest, watcher, row.from)
    await this.#session.run(DELETE_ABOVE, watcher, block)
  }

  async straddling(watcher: number, block: BlockNumber | -1): Promise<CommitRow | undefined> {
    const row = await this.#session.get(STRADDLING, watcher, block, block)
    return row && readCommit(row)
  }

  async compact(watcher: number, through: BlockNumber, span: number, limit: number): Promise<number> {
    const loose = (await this.#session.all(UNMERGED, watcher, through, limit)).map(readCommit)
    const [first] = loose
    if (!first) return 0
    // The last merged row may have room for the first loose one.
    const before = await this.#session.get(BEFORE, watcher, first.from)
    const rows = before ? [readCommit(before), ...loose] : loose
    const merged = mergeCommits(rows, span)
    await this.#replace(watcher, rows, merged)
    return rows.length - merged.length
  }

  async #replace(watcher: number, rows: readonly CommitRow[], merged: readonly CommitRow[]): Promise<void> {
    const from = rows[0]?.from ?? 0
    const to = rows.at(-1)?.from ?? 0
    const deleted = await this.#session.run(DELETE_RANGE, watcher, from, to)
    invariant(deleted === rows.length, 'commit rows to be merged must be the rows that were read', { from, to })
    for (const some of chunks(merged.map((row) => [...rowOf(watcher, row), 1])))
      await this.#session.run(ADD_MERGED, some)
  }
}
