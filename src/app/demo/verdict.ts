import { compareTables, type Row } from '../../testkit/compare-rows.ts'
import { eventsOf, type OracleSource, readTransfer, transferBalances } from '../../testkit/oracle.ts'
import { TOKEN } from './watchers.ts'

/** The tables that the demo compares. */
export interface Tables {
  readonly transfers: readonly Row[]
  readonly balances: readonly Row[]
  readonly payouts: readonly Row[]
}

/** Amounts of the managed table are fixed-width text; the oracle's are numbers. */
function digits(text: unknown): string {
  return String(text).replace(/^0+(?=\d)/, '')
}

/** The rows of the watcher's database in the oracle's spelling. */
export function spellTables(tables: Tables): Record<string, readonly Row[]> {
  return {
    transfers: tables.transfers.map((row) => ({
      sender: row.sender,
      receiver: row.receiver,
      amount: digits(row.amount),
    })),
    balances: tables.balances,
    payouts: tables.payouts,
  }
}

/** What the tables must hold: a naive replay of the final chain, in code that shares nothing with the engine. */
export function expectedTables(chain: OracleSource): Record<string, readonly Row[]> {
  const filter = { addresses: [TOKEN], topicCount: 3 }
  const moved = eventsOf(chain, filter).flatMap(({ log }) => {
    const transfer = readTransfer(log)
    return transfer ? [{ ...transfer, hash: log.transactionHash }] : []
  })
  return {
    transfers: moved.map(({ from, to, value }) => ({ sender: from, receiver: to, amount: String(value) })),
    balances: [...transferBalances(chain, filter)].map(([account, amount]) => ({ account, amount })),
    payouts: moved.map(({ hash, to, value }) => ({ transaction_hash: hash, receiver: to, amount: value })),
  }
}

/** Differences in words; none means that the databases are equal. */
export function differences(chain: OracleSource, tables: Tables): string[] {
  return compareTables(expectedTables(chain), spellTables(tables))
}

/** Events of the followed token on the final chain. */
export function eventCount(chain: OracleSource): number {
  return eventsOf(chain, { addresses: [TOKEN], topicCount: 3 }).length
}
