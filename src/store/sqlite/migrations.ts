/** A step of the schema. A number is never used twice and a published step is never changed. */
export interface Migration {
  /** From 1, without gaps. */
  readonly number: number
  readonly name: string
  /**
   * `breaking`: code that knows only earlier steps must not run on the database any more.
   * `safe while running`: it may, so a deploy can be taken back one version.
   */
  readonly kind: 'breaking' | 'safe while running'
  readonly sql: string
}

/**
 * Hashes, stable ids, tokens and nonces are BLOBs; every number is a 64-bit INTEGER (C45). Keys lead with the block
 * number: four to six times faster than with a hash, and pruning is a range of the key.
 *
 * `tidemark_open_commits` stays empty. From its nonce on, until the cursor moves, a commit refers to a row that is not
 * there, so a COMMIT that a handler sends on `db.raw` is refused by SQLite: marks never get in without their cursor (P1).
 */
const FIRST_TABLES = `
CREATE TABLE tidemark_chains (
  chain_id INTEGER PRIMARY KEY,
  genesis_hash BLOB NOT NULL
);

CREATE TABLE tidemark_open_commits (
  id INTEGER PRIMARY KEY CHECK (id IS NULL)
);

CREATE TABLE tidemark_watchers (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,
  chain_id INTEGER NOT NULL,
  fingerprint TEXT NOT NULL,
  start_block INTEGER NOT NULL,
  cursor_block INTEGER,
  cursor_hash BLOB,
  epoch INTEGER NOT NULL DEFAULT 0,
  token BLOB,
  nonce BLOB,
  open_commit INTEGER REFERENCES tidemark_open_commits (id) DEFERRABLE INITIALLY DEFERRED,
  settled INTEGER,
  finalized INTEGER,
  low_water INTEGER,
  low_water_at INTEGER,
  state TEXT NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'paused', 'halted')),
  reason TEXT,
  applied INTEGER NOT NULL DEFAULT 0,
  undone INTEGER NOT NULL DEFAULT 0,
  duplicates INTEGER NOT NULL DEFAULT 0,
  reorgs INTEGER NOT NULL DEFAULT 0,
  updated_at INTEGER NOT NULL
);

CREATE TABLE tidemark_unfinalized_blocks (
  watcher INTEGER NOT NULL,
  block_number INTEGER NOT NULL,
  block_hash BLOB NOT NULL,
  PRIMARY KEY (watcher, block_number)
) WITHOUT ROWID;

CREATE TABLE tidemark_processed_events (
  watcher INTEGER NOT NULL,
  block_number INTEGER NOT NULL,
  block_hash BLOB NOT NULL,
  stable_id BLOB NOT NULL,
  transaction_hash BLOB NOT NULL,
  log_index INTEGER NOT NULL,
  PRIMARY KEY (watcher, block_number, block_hash, stable_id)
) WITHOUT ROWID;

CREATE VIEW tidemark_events AS
  SELECT watchers.name AS watcher,
    watchers.chain_id || '-0x' || lower(hex(marks.transaction_hash)) || '-' || marks.log_index AS event_id,
    marks.block_number AS block_number,
    '0x' || lower(hex(marks.block_hash)) AS block_hash,
    '0x' || lower(hex(marks.transaction_hash)) AS transaction_hash,
    marks.log_index AS log_index,
    '0x' || lower(hex(marks.stable_id)) AS stable_id
  FROM tidemark_processed_events AS marks JOIN tidemark_watchers AS watchers ON watchers.id = marks.watcher;

CREATE TABLE tidemark_kept_events (
  watcher INTEGER NOT NULL,
  block_number INTEGER NOT NULL,
  sequence INTEGER NOT NULL,
  block_hash BLOB NOT NULL,
  event_name TEXT NOT NULL,
  stable_id BLOB NOT NULL,
  address BLOB NOT NULL,
  topics BLOB NOT NULL,
  data BLOB NOT NULL,
  transaction_hash BLOB NOT NULL,
  transaction_index INTEGER NOT NULL,
  log_index INTEGER NOT NULL,
  key TEXT,
  memo TEXT,
  -- A log that was withheld at first takes the place of another in the order when it is found.
  PRIMARY KEY (watcher, block_number, sequence, stable_id)
) WITHOUT ROWID;

CREATE TABLE tidemark_commits (
  watcher INTEGER NOT NULL,
  from_block INTEGER NOT NULL,
  to_block INTEGER NOT NULL,
  events INTEGER NOT NULL,
  digest BLOB NOT NULL,
  committed_at INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  build TEXT NOT NULL,
  merged INTEGER NOT NULL,
  PRIMARY KEY (watcher, from_block)
) WITHOUT ROWID;
CREATE INDEX tidemark_commits_unmerged ON tidemark_commits (watcher, from_block) WHERE merged = 0;

CREATE TABLE tidemark_scopes (
  scope TEXT NOT NULL,
  chain_id INTEGER NOT NULL,
  cursor_block INTEGER,
  cursor_hash BLOB,
  low_water INTEGER,
  updated_at INTEGER,
  PRIMARY KEY (scope, chain_id)
) WITHOUT ROWID;

CREATE TABLE tidemark_handled_events (
  scope TEXT NOT NULL,
  chain_id INTEGER NOT NULL,
  key TEXT NOT NULL,
  block_number INTEGER NOT NULL,
  handled_at INTEGER NOT NULL,
  PRIMARY KEY (scope, chain_id, key)
) WITHOUT ROWID;
CREATE INDEX tidemark_handled_events_by_block ON tidemark_handled_events (scope, chain_id, block_number);

CREATE TABLE tidemark_audit (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  actor TEXT NOT NULL,
  action TEXT NOT NULL,
  watcher TEXT NOT NULL,
  reason TEXT NOT NULL
);
`

/** Breaking: older code would take a claim, work that somebody is at, for work that is done. */
const CLAIMS = `
ALTER TABLE tidemark_handled_events ADD COLUMN claim_token BLOB;
ALTER TABLE tidemark_handled_events ADD COLUMN claimed_until INTEGER;
CREATE INDEX tidemark_handled_events_claimed ON tidemark_handled_events (scope, claimed_until)
  WHERE claim_token IS NOT NULL;
`

const REVISION = `
ALTER TABLE tidemark_watchers ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
CREATE TABLE tidemark_facts (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;
`

const TOTAL_CHANGES = `
CREATE TABLE tidemark_total_changes (
  watcher INTEGER NOT NULL,
  table_name TEXT NOT NULL,
  block_number INTEGER NOT NULL,
  changes TEXT NOT NULL,
  PRIMARY KEY (watcher, table_name, block_number)
) WITHOUT ROWID;
`

export const migrations: readonly Migration[] = [
  { number: 1, name: 'first tables', kind: 'breaking', sql: FIRST_TABLES },
  { number: 2, name: 'claims', kind: 'breaking', sql: CLAIMS },
  { number: 3, name: 'revision and facts', kind: 'safe while running', sql: REVISION },
  { number: 4, name: 'changes of totals', kind: 'safe while running', sql: TOTAL_CHANGES },
]

/** Made apart from the numbered steps: it holds their number. */
export const META_TABLE = `
CREATE TABLE IF NOT EXISTS tidemark_meta (
  name TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) WITHOUT ROWID;
`
