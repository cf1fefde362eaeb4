import { openDefault, type SqliteRow } from '../../src/store/sqlite/driver.ts'
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

/** What a user's application keeps; what must never be taken back refuses to be. */
export const SCHEMA = `
  CREATE TABLE ledger_balances (account TEXT PRIMARY KEY, amount INTEGER NOT NULL);
  CREATE TABLE credit_balances (account TEXT PRIMARY KEY, amount INTEGER NOT NULL);
  ${['credits', 'payouts']
    .map(
      (table) => `
  CREATE TABLE ${table} (block INTEGER NOT NULL, block_hash TEXT NOT NULL, transaction_hash TEXT NOT NULL,
    transaction_index INTEGER NOT NULL, log_index INTEGER NOT NULL, sender TEXT NOT NULL, receiver TEXT NOT NULL, amount INTEGER NOT NULL);
  CREATE TRIGGER ${table}_stay BEFORE DELETE ON ${table} BEGIN SELECT RAISE(ABORT, '${table} are never taken back'); END;
  CREATE TRIGGER ${table}_hold BEFORE UPDATE ON ${table} BEGIN SELECT RAISE(ABORT, '${table} are never changed'); END;`,
    )
    .join('')}
`
const COLUMNS = 'block, block_hash, transaction_hash, transaction_index, log_index, sender, receiver, amount'
const RAW = ['ledger_transfers', 'credits', 'shown', 'payouts']
const SUMS = ['ledger_balances', 'credit_balances']

export function makeSchema(file: string): void {
  const database = openDefault(file)
  database.exec('PRAGMA journal_mode = WAL')
  database.exec(SCHEMA)
  database.close()
}

/** Amounts of a managed table are fixed-width text. */
function line(row: SqliteRow): string {
  return Object.values(row)
    .map((value) => String(value).replace(/^0+(?=\d)/, ''))
    .join(' ')
}

/** All tables at one moment. */
export function readTables(file: string): Tables {
  const database = openDefault(file)
  try {
    database.exec('PRAGMA busy_timeout = 5000; BEGIN')
    const read = (select: string) => database.prepare(select).all().map(line).sort()
    const raw = RAW.map((table) => [table, read(`SELECT ${COLUMNS} FROM ${table}`)] as const)
    // The undo function leaves a zero where there was no row: that is the user's way, and no difference.
    const sums = SUMS.map((table) => [table, read(`SELECT account, amount FROM ${table} WHERE amount <> 0`)] as const)
    return Object.fromEntries([...raw, ...sums])
  } finally {
    database.close()
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
