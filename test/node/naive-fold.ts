import type { Backend, Database, Row } from '../support/stores.ts'
import type { NodeLog } from './anvil.ts'

/**
 * The oracle: the node's own logs, decoded by hand and folded naively. It shares nothing with the engine; the databases are
 * read through the driver alone.
 */

/** Tables as sorted lines of text, by name. */
export type Tables = Readonly<Record<string, readonly string[]>>

/** How far each watcher has come: its rows are compared with the logs up to there. */
export interface Progress {
  readonly ledger: number
  readonly credits: number
  readonly payouts: number
  /** Settled line of `payouts`. */
  readonly paid: number
}

/** What must never be taken back, nor changed. */
const FOR_GOOD = ['credits', 'payouts']

/** Triggers that refuse it, in the words of each database. */
const HOLD: Readonly<Record<Backend['kind'], (table: string) => readonly string[]>> = {
  sqlite: (table) => [
    `CREATE TRIGGER ${table}_stay BEFORE DELETE ON ${table} BEGIN SELECT RAISE(ABORT, 'never taken back'); END`,
    `CREATE TRIGGER ${table}_hold BEFORE UPDATE ON ${table} BEGIN SELECT RAISE(ABORT, 'never changed'); END`,
  ],
  postgres: (table) => [
    `CREATE FUNCTION hold_${table}() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN RAISE EXCEPTION 'never taken back nor changed'; END $$`,
    `CREATE TRIGGER ${table}_hold BEFORE DELETE OR UPDATE ON ${table} FOR EACH ROW EXECUTE FUNCTION hold_${table}()`,
  ],
  mysql: (table) => [
    `CREATE TRIGGER ${table}_stay BEFORE DELETE ON ${table} FOR EACH ROW SIGNAL SQLSTATE '45000'`,
    `CREATE TRIGGER ${table}_hold BEFORE UPDATE ON ${table} FOR EACH ROW SIGNAL SQLSTATE '45000'`,
  ],
}

/** What a user's application keeps. */
function schema({ kind, types: { text, whole } }: Backend): readonly string[] {
  const balances = (table: string) => `CREATE TABLE ${table} (account ${text} PRIMARY KEY, amount ${whole} NOT NULL)`
  const raw = (table: string) => `CREATE TABLE ${table} (block ${whole} NOT NULL, block_hash ${text} NOT NULL,
    transaction_hash ${text} NOT NULL, transaction_index ${whole} NOT NULL, log_index ${whole} NOT NULL,
    sender ${text} NOT NULL, receiver ${text} NOT NULL, amount ${whole} NOT NULL)`
  const kept = FOR_GOOD.flatMap((table) => [raw(table), ...HOLD[kind](table)])
  return [...SUMS.map(balances), ...kept]
}

const COLUMNS = 'block, block_hash, transaction_hash, transaction_index, log_index, sender, receiver, amount'
const RAW = ['ledger_transfers', 'credits', 'shown', 'payouts']
const SUMS = ['ledger_balances', 'credit_balances']

export async function makeSchema(database: Database): Promise<void> {
  for (const statement of schema(database.backend)) await database.rows(statement)
}

/** Amounts of a managed table are text of a fixed width in some stores. */
function line(row: Row): string {
  return Object.values(row)
    .map((value) => String(value).replace(/^0+(?=\d)/, ''))
    .join(' ')
}

const SNAPSHOT: Readonly<Record<Backend['kind'], string>> = {
  sqlite: 'BEGIN',
  postgres: 'BEGIN ISOLATION LEVEL REPEATABLE READ',
  mysql: 'START TRANSACTION WITH CONSISTENT SNAPSHOT',
}

/** All tables at one moment. */
export async function readTables(database: Database): Promise<Tables> {
  await database.rows(SNAPSHOT[database.backend.kind])
  try {
    const tables: Record<string, readonly string[]> = {}
    const read = async (select: string) => (await database.rows(select)).map(line).sort()
    for (const table of RAW) tables[table] = await read(`SELECT ${COLUMNS} FROM ${table}`)
    // The undo function leaves a zero where there was no row: that is the user's way, and no difference.
    for (const table of SUMS) tables[table] = await read(`SELECT account, amount FROM ${table} WHERE amount <> 0`)
    return tables
  } finally {
    await database.rows('COMMIT')
  }
}

interface Transfer {
  readonly block: number
  readonly from: string
  readonly to: string
  readonly amount: number
  readonly line: string
}

function decode(log: NodeLog): Transfer {
  const block = Number(log.blockNumber)
  const from = `0x${log.topics[1]?.slice(26)}`
  const to = `0x${log.topics[2]?.slice(26)}`
  const amount = Number(log.data)
  const place = [block, log.blockHash, log.transactionHash, Number(log.transactionIndex), Number(log.logIndex)]
  return { block, from, to, amount, line: [...place, from, to, amount].join(' ') }
}

function balances(transfers: readonly Transfer[]): string[] {
  const sums = new Map<string, number>()
  for (const { from, to, amount } of transfers) {
    sums.set(from, (sums.get(from) ?? 0) - amount)
    sums.set(to, (sums.get(to) ?? 0) + amount)
  }
  return [...sums]
    .filter(([, amount]) => amount !== 0)
    .map(([account, amount]) => `${account} ${amount}`)
    .sort()
}

/** What the tables must hold, when the watchers have come so far. */
export function expectedTables(logs: readonly NodeLog[], progress: Progress): Tables {
  const transfers = logs.map(decode)
  const through = (block: number) => transfers.filter((transfer) => transfer.block <= block)
  const raw = (block: number) =>
    through(block)
      .map((transfer) => transfer.line)
      .sort()
  return {
    ledger_transfers: raw(progress.ledger),
    ledger_balances: balances(through(progress.ledger)),
    credits: raw(progress.credits),
    credit_balances: balances(through(progress.credits)),
    shown: raw(progress.payouts),
    payouts: raw(progress.paid),
  }
}

/** How often each line stands there. */
function counts(lines: readonly string[]): Map<string, number> {
  const found = new Map<string, number>()
  for (const one of lines) found.set(one, (found.get(one) ?? 0) + 1)
  return found
}

/** The differences in words, the first few of each table; none means that the tables are equal. */
export function differences(expected: Tables, actual: Tables): string[] {
  return Object.keys(expected).flatMap((table) => {
    const [want, got] = [counts(expected[table] ?? []), counts(actual[table] ?? [])]
    const lines = [...new Set([...want.keys(), ...got.keys()])].filter((one) => want.get(one) !== got.get(one))
    const words = lines.map((one) => `${table}: ${want.get(one) ?? 0} expected, ${got.get(one) ?? 0} found: ${one}`)
    return words.length > 5 ? [...words.slice(0, 5), `${table}: and ${words.length - 5} more`] : words
  })
}
