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
  /**
   * One statement each, `{name}` for a table. DDL commits by itself here, so a step can stop half way: each statement must
   * do nothing when it was done before.
   */
  readonly sql: readonly string[]
}

/** The engine is named: without transactions nothing here holds. */
const OPTIONS = 'ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin'

function table(name: string, columns: string): string {
  return `CREATE TABLE IF NOT EXISTS {${name}} (\n${columns}\n) ${OPTIONS}`
}

/** Text made in a view has the collation of whoever made the view, unless it is named. */
function readable(text: string): string {
  return `CONVERT(${text} USING utf8mb4) COLLATE utf8mb4_bin`
}

function hexText(column: string): string {
  return readable(`CONCAT('0x', LOWER(HEX(marks.${column})))`)
}

/**
 * Hashes, stable ids, tokens, nonces, and every name and key that is compared, are bytes: text columns take 'a' and 'a '
 * for the same, whatever their collation (except the NOPAD ones, which MariaDB and MySQL name differently). Numbers are
 * signed and 64 bits wide (C45). Keys lead with the block number: pruning is a range of the key.
 */
const FIRST_TABLES = [
  table(
    'chains',
    `  chain_id BIGINT NOT NULL PRIMARY KEY,
  genesis_hash BINARY(32) NOT NULL`,
  ),
  table(
    'watchers',
    `  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  name VARBINARY(1020) NOT NULL,
  chain_id BIGINT NOT NULL,
  fingerprint LONGTEXT NOT NULL,
  start_block BIGINT NOT NULL,
  cursor_block BIGINT,
  cursor_hash BINARY(32),
  epoch BIGINT NOT NULL DEFAULT 0,
  token VARBINARY(255),
  nonce VARBINARY(255),
  settled BIGINT,
  finalized BIGINT,
  low_water BIGINT,
  low_water_at BIGINT,
  state VARCHAR(16) NOT NULL DEFAULT 'running',
  reason LONGTEXT,
  applied BIGINT NOT NULL DEFAULT 0,
  undone BIGINT NOT NULL DEFAULT 0,
  duplicates BIGINT NOT NULL DEFAULT 0,
  reorgs BIGINT NOT NULL DEFAULT 0,
  revision BIGINT NOT NULL DEFAULT 0,
  updated_at BIGINT NOT NULL,
  UNIQUE KEY by_name (name)`,
  ),
  table(
    'leases',
    `  watcher VARBINARY(1020) NOT NULL PRIMARY KEY,
  token BINARY(16) NOT NULL,
  host VARCHAR(255) NOT NULL,
  machine VARCHAR(255) NOT NULL,
  pid BIGINT,
  started VARCHAR(64) NOT NULL,
  expires_at BIGINT NOT NULL,
  lease_ms BIGINT NOT NULL,
  changes BIGINT NOT NULL DEFAULT 0`,
  ),
  table(
    'unfinalized_blocks',
    `  watcher BIGINT NOT NULL,
  block_number BIGINT NOT NULL,
  block_hash BINARY(32) NOT NULL,
  PRIMARY KEY (watcher, block_number)`,
  ),
  table(
    'processed_events',
    `  watcher BIGINT NOT NULL,
  block_number BIGINT NOT NULL,
  block_hash BINARY(32) NOT NULL,
  stable_id BINARY(16) NOT NULL,
  transaction_hash BINARY(32) NOT NULL,
  log_index BIGINT NOT NULL,
  repeats BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (watcher, block_number, block_hash, stable_id)`,
  ),
  `CREATE OR REPLACE VIEW {events} AS
  SELECT CONVERT(watchers.name USING utf8mb4) COLLATE utf8mb4_bin AS watcher,
    ${readable("CONCAT(watchers.chain_id, '-0x', LOWER(HEX(marks.transaction_hash)), '-', marks.log_index)")} AS event_id,
    marks.block_number AS block_number,
    ${hexText('block_hash')} AS block_hash,
    ${hexText('transaction_hash')} AS transaction_hash,
    marks.log_index AS log_index,
    ${hexText('stable_id')} AS stable_id
  FROM {processed_events} AS marks JOIN {watchers} AS watchers ON watchers.id = marks.watcher`,
  table(
    'kept_events',
    `  watcher BIGINT NOT NULL,
  block_number BIGINT NOT NULL,
  sequence BIGINT NOT NULL,
  block_hash BINARY(32) NOT NULL,
  event_name LONGTEXT NOT NULL,
  stable_id BINARY(16) NOT NULL,
  address BINARY(20) NOT NULL,
  topics VARBINARY(128) NOT NULL,
  data LONGBLOB NOT NULL,
  transaction_hash BINARY(32) NOT NULL,
  transaction_index BIGINT NOT NULL,
  log_index BIGINT NOT NULL,
  order_key LONGTEXT,
  memo LONGTEXT,
  -- A log that was withheld at first takes the place of another in the order when it is found.
  PRIMARY KEY (watcher, block_number, sequence, stable_id)`,
  ),
  table(
    'commits',
    `  watcher BIGINT NOT NULL,
  from_block BIGINT NOT NULL,
  to_block BIGINT NOT NULL,
  events BIGINT NOT NULL,
  digest BINARY(16) NOT NULL,
  committed_at BIGINT NOT NULL,
  attempt BIGINT NOT NULL,
  build LONGTEXT NOT NULL,
  merged TINYINT NOT NULL,
  PRIMARY KEY (watcher, from_block),
  KEY unmerged (watcher, merged, from_block)`,
  ),
  table(
    'scopes',
    `  scope VARBINARY(1020) NOT NULL,
  chain_id BIGINT NOT NULL,
  cursor_block BIGINT,
  cursor_hash BINARY(32),
  updated_at BIGINT,
  PRIMARY KEY (scope, chain_id)`,
  ),
  table(
    'low_waters',
    `  scope VARBINARY(1020) NOT NULL,
  chain_id BIGINT NOT NULL,
  low_water BIGINT NOT NULL,
  PRIMARY KEY (scope, chain_id)`,
  ),
  table(
    'handled_events',
    `  scope VARBINARY(1020) NOT NULL,
  chain_id BIGINT NOT NULL,
  event_key VARBINARY(1020) NOT NULL,
  block_number BIGINT NOT NULL,
  handled_at BIGINT NOT NULL,
  claim_token VARBINARY(255),
  claimed_until BIGINT,
  repeats BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (scope, chain_id, event_key),
  KEY by_block (scope, chain_id, block_number),
  KEY by_claim (scope, claimed_until)`,
  ),
  table(
    'audit',
    `  slot BIGINT NOT NULL PRIMARY KEY,
  id BIGINT NOT NULL,
  at BIGINT NOT NULL,
  actor LONGTEXT NOT NULL,
  action LONGTEXT NOT NULL,
  watcher LONGTEXT NOT NULL,
  reason LONGTEXT NOT NULL,
  UNIQUE KEY by_id (id)`,
  ),
  table(
    'counters',
    `  name VARBINARY(64) NOT NULL PRIMARY KEY,
  value BIGINT NOT NULL`,
  ),
  table(
    'facts',
    `  name VARBINARY(1020) NOT NULL PRIMARY KEY,
  value LONGTEXT NOT NULL`,
  ),
]

const TOTAL_CHANGES = [
  table(
    'total_changes',
    `  watcher BIGINT NOT NULL,
  table_name VARBINARY(1020) NOT NULL,
  block_number BIGINT NOT NULL,
  changes LONGTEXT NOT NULL,
  PRIMARY KEY (watcher, table_name, block_number)`,
  ),
]

export const migrations: readonly Migration[] = [
  { number: 1, name: 'first tables', kind: 'breaking', sql: FIRST_TABLES },
  { number: 2, name: 'changes of totals', kind: 'safe while running', sql: TOTAL_CHANGES },
]

/** Made apart from the numbered steps: it holds their number. */
export const META_TABLE = table(
  'meta',
  `  name VARBINARY(64) NOT NULL PRIMARY KEY,
  value BIGINT NOT NULL`,
)
