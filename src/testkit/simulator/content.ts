import { eventsOf, type OracleBlock, readTransfer } from '../oracle.ts'
import { must } from './failure.ts'
import type { WatcherState, WatcherTables } from './inspector.ts'
import { TOKEN } from './sim-chain.ts'

/** `block/hash/transaction/index sender receiver amount`, or without the place in the transaction for managed rows. */
type Line = string

/** What a naive reader of a line of blocks has, from the start block up to `to`. */
function expectedLines(blocks: readonly OracleBlock[], watcher: WatcherState, to: number): Line[] {
  const found = eventsOf(blocks, { addresses: [TOKEN], from: watcher.startBlock, to })
  return found.flatMap(({ block, log }) => {
    const moved = readTransfer(log)
    if (!moved) return []
    const place =
      watcher.kind === 'managed'
        ? `${block.number}/${block.hash}`
        : `${block.number}/${block.hash}/${log.transactionHash}/${log.logIndex}`
    const amount = watcher.kind === 'managed' ? '' : ` ${moved.value}`
    return [`${place} ${moved.from} ${moved.to}${amount}`.toLowerCase()]
  })
}

/** What the watcher's tables say. */
function actualLines({ kind }: WatcherState, tables: WatcherTables, to: number): Line[] {
  if (kind !== 'managed') {
    return tables.effects
      .filter((row) => row.block <= to)
      .map((row) => `${row.place} ${row.sender} ${row.receiver} ${row.amount}`.toLowerCase())
  }
  return tables.rows
    .filter((row) => row.block <= to)
    .map((row) => `${row.block}/${row.hash} ${row.sender} ${row.receiver}`.toLowerCase())
}

/** What a naive replay has and the watcher has not, or the other way round; null: they are equal. */
export function contentDifference(
  blocks: readonly OracleBlock[],
  watcher: WatcherState,
  tables: WatcherTables,
  to: number,
): string | null {
  const should = expectedLines(blocks, watcher, to)
  const is = actualLines(watcher, tables, to)
  // Managed rows have no order of their own; effects come in the order of the calls, which is the chain's (P5).
  if (watcher.kind === 'managed') for (const lines of [should, is]) lines.sort()
  const wrong = should.findIndex((line, i) => line !== is[i])
  if (wrong === -1 && is.length === should.length) return null
  const at = wrong === -1 ? should.length : wrong
  return `up to block ${to} there are ${is.length} effects, expected ${should.length}; first difference: ${is[at] ?? 'none'}, expected ${should[at] ?? 'none'}`
}

/**
 * The effects of blocks up to `to` are those of a naive replay of `blocks`.
 * @param blocks the line that ends in the watcher's cursor
 */
export function checkContent(
  kind: 'content' | 'oracle',
  blocks: readonly OracleBlock[],
  watcher: WatcherState,
  tables: WatcherTables,
  to: number,
): void {
  const difference = contentDifference(blocks, watcher, tables, to)
  must(difference === null, kind, () => `${watcher.kind}: ${difference}`)
}
