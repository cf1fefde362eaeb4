import { eventsOf, type FakeChain, readTransfer, transferBalances } from '../../src/testkit/index.ts'
import type { Database, Row } from './database.ts'

/** Tables as sorted lines of text, by name. */
export type Tables = Readonly<Record<string, readonly string[]>>

/** The database as it should be once everything up to the head is settled: a naive fold over the final chain. */
export function expectedTables(chain: FakeChain, token: string, settled: number): Tables {
  const filter = { addresses: [token] }
  const lines = (to: number) =>
    eventsOf(chain, { ...filter, to })
      .map(({ block, log }) =>
        [block.hash, log.transactionHash, Number(log.logIndex), readTransfer(log)?.value ?? 'no transfer'].join(' '),
      )
      .sort()
  const head = chain.head().number
  return {
    balances: [...transferBalances(chain, filter)].map(([account, amount]) => `${account} ${amount}`).sort(),
    shown: lines(head),
    credits: lines(settled),
    payouts: lines(settled),
  }
}

export async function readTables(database: Database): Promise<Tables> {
  const lines = (rows: readonly Row[]) => rows.map((row) => Object.values(row).map(String).join(' ')).sort()
  const events = (table: string) =>
    database.query(`SELECT block_hash, transaction_hash, log_index, amount FROM ${table}`).then(lines)
  return {
    // The undo function leaves a zero where there was no row: that is the user's way, and no difference.
    balances: lines(await database.query('SELECT account, amount FROM balances WHERE amount <> 0')),
    shown: await events('shown'),
    credits: await events('credits'),
    payouts: await events('payouts'),
  }
}

function counts(lines: readonly string[]): Map<string, number> {
  const found = new Map<string, number>()
  for (const line of lines) found.set(line, (found.get(line) ?? 0) + 1)
  return found
}

/** The differences in words, a few of each table; none means equal. */
export function differences(expected: Tables, actual: Tables): string[] {
  return Object.keys(expected).flatMap((table) => {
    const [want, got] = [counts(expected[table] ?? []), counts(actual[table] ?? [])]
    const lines = [...new Set([...want.keys(), ...got.keys()])].filter((one) => want.get(one) !== got.get(one))
    return lines
      .slice(0, 5)
      .map((one) => `${table}: ${want.get(one) ?? 0} expected, ${got.get(one) ?? 0} found: ${one}`)
  })
}
