import { createHash } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { openDefault, type SqliteDatabaseLike, type SqliteRow } from '../../src/store/sqlite/driver.ts'

/** What a process that dies leaves of a database: the file and its write-ahead log, as the operating system has them. */
export interface Disk {
  readonly database: Buffer
  readonly log: Buffer
}

/**
 * Reads both files as they are at this instant. Bytes that a process has written are the operating system's: SIGKILL
 * takes the process's memory and its locks, and nothing of these. (The shared-memory index is not read: the first
 * connection after a crash makes it anew from the log.)
 */
export function readDisk(file: string): Disk {
  const log = `${file}-wal`
  return { database: readFileSync(file), log: existsSync(log) ? readFileSync(log) : Buffer.alloc(0) }
}

export function writeDisk(file: string, disk: Disk): void {
  writeFileSync(file, disk.database)
  writeFileSync(`${file}-wal`, disk.log)
}

export function sameDisk(a: Disk, b: Disk): boolean {
  return a.database.equals(b.database) && a.log.equals(b.log)
}

/** Layout of the log: https://sqlite.org/fileformat2.html#walformat */
const HEADER = 32
const FRAME_HEADER = 24

/**
 * A digest of what the files say: the pages of the database, then each frame of the log with its page number, its commit
 * mark and its page. Left out are the salts, which SQLite draws at random, and the checksums over them.
 */
export function pagesOf({ database, log }: Disk): string {
  const hash = createHash('sha256').update(database)
  const pageSize = log.length >= HEADER ? log.readUInt32BE(8) : 0
  for (let at = HEADER; pageSize > 0 && at + FRAME_HEADER + pageSize <= log.length; at += FRAME_HEADER + pageSize) {
    // A frame of an earlier use of the log has other salts and counts for nothing.
    if (!log.subarray(at + 8, at + 16).equals(log.subarray(16, 24))) break
    hash.update(log.subarray(at, at + 8)).update(log.subarray(at + FRAME_HEADER, at + FRAME_HEADER + pageSize))
  }
  return hash.digest('hex')
}

/** A state of the database as JSON can tell it, by table. */
export type End = Readonly<Record<string, unknown>>

function spelled(rows: readonly SqliteRow[]): string[] {
  const spell = (_: string, value: unknown) =>
    value instanceof Uint8Array ? Buffer.from(value).toString('hex') : typeof value === 'bigint' ? `${value}` : value
  return rows.map((row) => JSON.stringify(row, spell)).sort()
}

/** How blocks were shared out among commits may differ; what they held together may not. */
function commitsOf(db: SqliteDatabaseLike): End {
  const rows = db.prepare('SELECT from_block, to_block, events, digest FROM tidemark_commits ORDER BY from_block').all()
  const digest = Buffer.alloc(16)
  for (const row of rows)
    for (const [i, byte] of (row.digest as Uint8Array).entries()) digest[i] = (digest[i] as number) ^ byte
  const gaps = rows.filter((row, i) => i > 0 && row.from_block !== Number(rows[i - 1]?.to_block) + 1).length
  const events = rows.reduce((sum, row) => sum + Number(row.events), 0)
  return { from: rows[0]?.from_block, to: rows.at(-1)?.to_block, gaps, events, digest: digest.toString('hex') }
}

/** Everything in which a run that was killed must agree with one that was not. Times, tokens and nonces are left out. */
export function endState(file: string): End {
  const db = openDefault(file)
  const rows = (sql: string) => spelled(db.prepare(sql).all())
  try {
    return {
      balances: rows('SELECT * FROM balances'),
      payouts: rows('SELECT * FROM payouts'),
      transfers: rows('SELECT * FROM transfers'),
      marks: rows('SELECT * FROM tidemark_processed_events'),
      kept: rows('SELECT * FROM tidemark_kept_events'),
      remembered: rows('SELECT * FROM tidemark_unfinalized_blocks'),
      watcher: rows(
        `SELECT id, name, state, reason, cursor_block, cursor_hash, epoch, settled, finalized, low_water,
          applied, undone, duplicates, reorgs FROM tidemark_watchers`,
      ),
      chains: rows('SELECT * FROM tidemark_chains'),
      commits: commitsOf(db),
    }
  } finally {
    db.close()
  }
}
