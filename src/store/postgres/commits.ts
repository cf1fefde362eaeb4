import type { BlockNumber } from '../../chain/block.ts'
import { invariant } from '../../util/invariant.ts'
import { mergeCommits } from '../merge-commits.ts'
import type { CommitPort, CommitRow } from '../store.ts'
import type { Connection } from './connection.ts'
import type { PgRow } from './driver.ts'
import { bytes, int, readBlock, readBytes, readNumber, readText, text } from './values.ts'

const COLUMNS = 'from_block, to_block, events, digest, committed_at, attempt, build'
const ADD_MERGED = `
  INSERT INTO tidemark.commits (watcher, ${COLUMNS}, merged)
  VALUES ($1::int, $2::bigint, $3::bigint, $4::bigint, $5::bytea, $6::bigint, $7::bigint, $8::text, true)`
// The newest row has the highest blocks: none of the others can reach further.
const ADD_ABOVE = `
  INSERT INTO tidemark.commits (watcher, ${COLUMNS}, merged)
  SELECT $1::int, $2::bigint, $3::bigint, $4::bigint, $5::bytea, $6::bigint, $7::bigint, $8::text, false
  WHERE $2::bigint > coalesce(
    (SELECT to_block FROM tidemark.commits WHERE watcher = $1::int ORDER BY from_block DESC LIMIT 1), -1)`
const LIST = `
  SELECT ${COLUMNS} FROM tidemark.commits WHERE watcher = $1::int ORDER BY from_block DESC LIMIT $2::bigint`
const DELETE_ABOVE = 'DELETE FROM tidemark.commits WHERE watcher = $1::int AND from_block > $2::bigint'
const STRADDLING = `
  SELECT ${COLUMNS} FROM tidemark.commits
  WHERE watcher = $1::int AND from_block <= $2::bigint AND to_block > $2::bigint
  ORDER BY from_block DESC LIMIT 1`
const CUT = `
  UPDATE tidemark.commits SET to_block = $1::bigint, events = $2::bigint, digest = $3::bytea
  WHERE watcher = $4::int AND from_block = $5::bigint`
// An index of the unmerged rows alone keeps a call from walking over what earlier calls have merged.
const UNMERGED = `
  SELECT ${COLUMNS} FROM tidemark.commits WHERE watcher = $1::int AND NOT merged AND to_block <= $2::bigint
  ORDER BY from_block LIMIT $3::bigint`
const BEFORE = `
  SELECT ${COLUMNS} FROM tidemark.commits WHERE watcher = $1::int AND from_block < $2::bigint
  ORDER BY from_block DESC LIMIT 1`
const DELETE_RANGE = `
  DELETE FROM tidemark.commits WHERE watcher = $1::int AND from_block BETWEEN $2::bigint AND $3::bigint`

function readCommit(row: PgRow): CommitRow {
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
  const range = [int(watcher), int(from), int(to)] as const
  return [...range, int(events), bytes(digest), int(committedAt), int(attempt), text(build)] as const
}

/** Rows of `commits`. */
export class PgCommits implements CommitPort {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  async add(watcher: number, row: CommitRow): Promise<boolean> {
    return (await this.#connection.run(ADD_ABOVE, ...valuesOf(watcher, row))) === 1
  }

  async list(watcher: number, limit: number): Promise<readonly CommitRow[]> {
    return (await this.#connection.all(LIST, int(watcher), int(limit))).map(readCommit)
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
    if (row && rest) {
      await this.#connection.run(CUT, int(block), int(rest.events), bytes(rest.digest), int(watcher), int(row.from))
    }
    await this.#connection.run(DELETE_ABOVE, int(watcher), int(block))
  }

  async straddling(watcher: number, block: BlockNumber | -1): Promise<CommitRow | undefined> {
    const row = await this.#connection.get(STRADDLING, int(watcher), int(block))
    return row && readCommit(row)
  }

  async compact(watcher: number, through: BlockNumber, span: number, limit: number): Promise<number> {
    const loose = (await this.#connection.all(UNMERGED, int(watcher), int(through), int(limit))).map(readCommit)
    const [first] = loose
    if (!first) return 0
    // The last merged row may have room for the first loose one.
    const before = await this.#connection.get(BEFORE, int(watcher), int(first.from))
    const rows = before ? [readCommit(before), ...loose] : loose
    const merged = mergeCommits(rows, span)
    await this.#replace(watcher, rows, merged)
    return rows.length - merged.length
  }

  async #replace(watcher: number, rows: readonly CommitRow[], merged: readonly CommitRow[]): Promise<void> {
    const from = rows[0]?.from ?? 0
    const to = rows.at(-1)?.from ?? 0
    const deleted = await this.#connection.run(DELETE_RANGE, int(watcher), int(from), int(to))
    invariant(deleted === rows.length, 'commit rows to be merged must be the rows that were read', { from, to })
    for (const row of merged) await this.#connection.run(ADD_MERGED, ...valuesOf(watcher, row))
  }
}
