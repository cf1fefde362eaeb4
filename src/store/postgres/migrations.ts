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
 * Hashes, stable ids, tokens and nonces are bytes; every number is 64 bits wide (C45), but for the watcher's id. Keys lead
 * with the block number: pruning is a range of them.
 *
 * `open_commits` stays empty. From its nonce on, until the cursor moves, a commit refers to a row that is not there, by a
 * foreign key that is checked at COMMIT: one that a handler sends on `db.raw` is refused by the server, and marks never get
 * in without their cursor (P1).
 *
 * `low_waters` stands apart from `scopes`: whoever marks an event reads it under a shared lock, and moves the cursor in the
 * same transaction. In one row, two of those would each wait for the other's lock (C59).
 */
const FIRST_TABLES = `
CREATE TABLE tidemark.chains (
  chain_id bigint PRIMARY KEY,
  genesis_hash bytea NOT NULL
);

CREATE TABLE tidemark.open_commits (
  id integer PRIMARY KEY CHECK (id IS NULL)
);

CREATE TABLE tidemark.watchers (
  id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text COLLATE "C" NOT NULL UNIQUE,
  chain_id bigint NOT NULL,
  fingerprint text NOT NULL,
  start_block bigint NOT NULL,
  cursor_block bigint,
  cursor_hash bytea,
  epoch bigint NOT NULL DEFAULT 0,
  token bytea,
  nonce bytea,
  open_commit integer CONSTRAINT commit_is_tidemarks REFERENCES tidemark.open_commits (id) DEFERRABLE INITIALLY DEFERRED,
  settled bigint,
  finalized bigint,
  low_water bigint,
  low_water_at bigint,
  state text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'paused', 'halted')),
  reason text,
  applied bigint NOT NULL DEFAULT 0,
  undone bigint NOT NULL DEFAULT 0,
  duplicates bigint NOT NULL DEFAULT 0,
  reorgs bigint NOT NULL DEFAULT 0,
  revision bigint NOT NULL DEFAULT 0,
  updated_at bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE tidemark.unfinalized_blocks (
  watcher integer NOT NULL,
  block_number bigint NOT NULL,
  block_hash bytea NOT NULL,
  PRIMARY KEY (watcher, block_number)
);

CREATE TABLE tidemark.processed_events (
  watcher integer NOT NULL,
  block_number bigint NOT NULL,
  block_hash bytea NOT NULL,
  stable_id bytea NOT NULL,
  transaction_hash bytea NOT NULL,
  log_index bigint NOT NULL,
  PRIMARY KEY (watcher, block_number, block_hash, stable_id)
);

CREATE VIEW tidemark.events AS
  SELECT watchers.name AS watcher,
    watchers.chain_id || '-0x' || encode(marks.transaction_hash, 'hex') || '-' || marks.log_index AS event_id,
    marks.block_number AS block_number,
    '0x' || encode(marks.block_hash, 'hex') AS block_hash,
    '0x' || encode(marks.transaction_hash, 'hex') AS transaction_hash,
    marks.log_index AS log_index,
    '0x' || encode(marks.stable_id, 'hex') AS stable_id
  FROM tidemark.processed_events AS marks JOIN tidemark.watchers AS watchers ON watchers.id = marks.watcher;

CREATE TABLE tidemark.kept_events (
  watcher integer NOT NULL,
  block_number bigint NOT NULL,
  sequence bigint NOT NULL,
  block_hash bytea NOT NULL,
  event_name text NOT NULL,
  stable_id bytea NOT NULL,
  address bytea NOT NULL,
  topics bytea NOT NULL,
  data bytea NOT NULL,
  transaction_hash bytea NOT NULL,
  transaction_index bigint NOT NULL,
  log_index bigint NOT NULL,
  key text,
  memo text,
  -- A log that was withheld at first takes the place of another in the order when it is found.
  PRIMARY KEY (watcher, block_number, sequence, stable_id)
);

CREATE TABLE tidemark.commits (
  watcher integer NOT NULL,
  from_block bigint NOT NULL,
  to_block bigint NOT NULL,
  events bigint NOT NULL,
  digest bytea NOT NULL,
  committed_at bigint NOT NULL,
  attempt bigint NOT NULL,
  build text NOT NULL,
  merged boolean NOT NULL,
  PRIMARY KEY (watcher, from_block)
);
CREATE INDEX commits_unmerged ON tidemark.commits (watcher, from_block) WHERE NOT merged;

CREATE TABLE tidemark.scopes (
  scope text COLLATE "C" NOT NULL,
  chain_id bigint NOT NULL,
  cursor_block bigint NOT NULL,
  cursor_hash bytea NOT NULL,
  updated_at bigint NOT NULL,
  PRIMARY KEY (scope, chain_id)
);

CREATE TABLE tidemark.low_waters (
  scope text COLLATE "C" NOT NULL,
  chain_id bigint NOT NULL,
  low_water bigint,
  PRIMARY KEY (scope, chain_id)
);

CREATE TABLE tidemark.handled_events (
  scope text COLLATE "C" NOT NULL,
  chain_id bigint NOT NULL,
  key text COLLATE "C" NOT NULL,
  block_number bigint NOT NULL,
  handled_at bigint NOT NULL,
  claim_token bytea,
  claimed_until timestamptz,
  PRIMARY KEY (scope, chain_id, key),
  CHECK ((claim_token IS NULL) = (claimed_until IS NULL))
);
CREATE INDEX handled_events_by_block ON tidemark.handled_events (scope, chain_id, block_number);
CREATE INDEX handled_events_claimed ON tidemark.handled_events (scope, claimed_until) WHERE claimed_until IS NOT NULL;

CREATE TABLE tidemark.audit (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at bigint NOT NULL,
  actor text NOT NULL,
  action text NOT NULL,
  watcher text NOT NULL,
  reason text NOT NULL
);

CREATE TABLE tidemark.leases (
  watcher text COLLATE "C" PRIMARY KEY,
  token bytea NOT NULL,
  host text NOT NULL,
  machine text NOT NULL,
  pid bigint NOT NULL,
  started text NOT NULL,
  expires_at timestamptz NOT NULL
);
`

const TOTAL_CHANGES = `
CREATE TABLE tidemark.total_changes (
  watcher integer NOT NULL,
  table_name text COLLATE "C" NOT NULL,
  block_number bigint NOT NULL,
  changes text NOT NULL,
  PRIMARY KEY (watcher, table_name, block_number)
);
`

export const migrations: readonly Migration[] = [
  { number: 1, name: 'first tables', kind: 'breaking', sql: FIRST_TABLES },
  { number: 2, name: 'changes of totals', kind: 'safe while running', sql: TOTAL_CHANGES },
]

export const SCHEMA_SQL = 'CREATE SCHEMA tidemark;\n'

/** Made apart from the numbered steps: it holds their number, and the few facts of `MetaPort`. */
export const META_TABLE = `
CREATE TABLE IF NOT EXISTS tidemark.meta (
  name text COLLATE "C" PRIMARY KEY,
  value text NOT NULL
);
`
