import type { Checked } from './checks.ts'
import { must } from './failure.ts'
import type { RowLine, TotalLine } from './inspector.ts'

function expectedOf(rows: readonly RowLine[]): Map<string, TotalLine> {
  const sums = new Map<string, TotalLine>()
  const add = (account: string, by: number) => {
    const { amount, additions } = sums.get(account) ?? { account, amount: 0, additions: 0 }
    sums.set(account, { account, amount: amount + by, additions: additions + 1 })
  }
  for (const { sender, receiver, amount } of rows) {
    add(sender, -amount)
    add(receiver, amount)
  }
  return sums
}

const said = (line: TotalLine | undefined) => (line ? `${line.amount} of ${line.additions} additions` : 'no row')

/** The sums are those of the rows that stand, without a row too many; what it takes to undo them is kept for what may be undone. */
export function totals({ now, tables }: Checked): void {
  if (!tables.totals) return
  const expected = expectedOf(tables.rows)
  const found = new Map(tables.totals.lines.map((line) => [line.account, line]))
  for (const account of new Set([...expected.keys(), ...found.keys()])) {
    const [is, should] = [said(found.get(account)), said(expected.get(account))]
    must(is === should, 'one commit', () => `${now.kind}: the sum of ${account} is ${is}, its rows make ${should}`)
  }
  const due = new Set(tables.rows.map(({ block }) => block).filter((block) => block > (now.settled ?? -1)))
  const kept = tables.totals.kept
  must(kept.length === due.size && kept.every((block) => due.has(block)), 'undo', () => {
    return `${now.kind}: changes of sums are kept for blocks ${kept.join(' ')}, and ${[...due].join(' ')} may be undone`
  })
}
