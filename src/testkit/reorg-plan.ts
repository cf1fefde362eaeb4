import type { FakeLog, FakeTransaction } from './fake-log.ts'
import { changeContent } from './fake-log.ts'
import type { Random } from './random.ts'

/**
 * What becomes of the transactions of orphaned blocks:
 *
 * - `same`: each block again, in the same order; only the hashes differ
 * - `shuffled`: each block again, in another order: other transaction and log indexes (C22)
 * - `lower-block`: each transaction one block lower, where the reorg reaches that far
 * - `higher-block`: each transaction one block higher
 * - `some-dropped`: about half of them are gone, at least one
 * - `changed-content`: same transaction hash, other values; some revert and emit nothing (C73); at least one differs
 * - `none`: all are gone
 */
export type Reinclude =
  | 'same'
  | 'shuffled'
  | 'lower-block'
  | 'higher-block'
  | 'some-dropped'
  | 'changed-content'
  | 'none'

export const REINCLUDES: readonly Reinclude[] = [
  'same',
  'shuffled',
  'lower-block',
  'higher-block',
  'some-dropped',
  'changed-content',
  'none',
]

type Blocks = readonly (readonly FakeTransaction[])[]

/** Puts block i's transactions into block `to(i)`, held within the replacement; without one they are dropped. */
function move(orphans: Blocks, count: number, to: (i: number) => number): FakeTransaction[][] {
  const blocks: FakeTransaction[][] = Array.from({ length: count }, () => [])
  for (const [i, transactions] of orphans.entries()) {
    blocks[Math.max(0, Math.min(count - 1, to(i)))]?.push(...transactions)
  }
  return blocks
}

/** Another order, if there is one: a shuffle that changed nothing is turned by one place. */
function reorder(transactions: readonly FakeTransaction[], random: Random): FakeTransaction[] {
  const shuffled = random.shuffle(transactions)
  const unchanged = shuffled.every((transaction, i) => transaction === transactions[i])
  return unchanged ? [...shuffled.slice(1), ...shuffled.slice(0, 1)] : shuffled
}

/** Which of `count` transactions are hit: each with one chance in two, but never nobody. */
function victims(count: number, random: Random): Set<number> {
  const hit = new Set<number>()
  for (let i = 0; i < count; i++) if (random.chance(0.5)) hit.add(i)
  if (hit.size === 0 && count > 0) hit.add(random.int(0, count - 1))
  return hit
}

function drop(orphans: Blocks, random: Random): FakeTransaction[][] {
  const hit = victims(orphans.flat().length, random)
  let n = 0
  return orphans.map((transactions) => transactions.filter(() => !hit.has(n++)))
}

function alter(transaction: FakeTransaction, change: (log: FakeLog) => FakeLog, reverts: boolean): FakeTransaction {
  return reverts
    ? { ...transaction, status: 'reverted', logs: [] }
    : { ...transaction, logs: transaction.logs.map(change) }
}

function alterSome(orphans: Blocks, change: (log: FakeLog) => FakeLog, random: Random): FakeTransaction[][] {
  const speaking = orphans.flat().filter((transaction) => transaction.logs.length > 0)
  const hit = new Set([...victims(speaking.length, random)].map((i) => speaking[i]?.hash))
  return orphans.map((transactions) =>
    transactions.map((transaction) => {
      const reverts = random.chance(0.25)
      return hit.has(transaction.hash) ? alter(transaction, change, reverts) : transaction
    }),
  )
}

/**
 * Lays out the blocks that replace `orphans` (lowest first). Pure; the same random stream gives the same plan. Where the
 * replacement is shorter, transactions from above go into its last block.
 */
export function planReorg(
  orphans: Blocks,
  count: number,
  reinclude: Reinclude,
  random: Random,
  change: (log: FakeLog) => FakeLog = changeContent,
): FakeTransaction[][] {
  const again = (blocks: Blocks) => move(blocks, count, (i) => i)
  switch (reinclude) {
    case 'same':
      return again(orphans)
    case 'shuffled':
      return again(orphans.map((transactions) => reorder(transactions, random)))
    case 'lower-block':
      return move(orphans, count, (i) => i - 1)
    case 'higher-block':
      return move(orphans, count, (i) => i + 1)
    case 'some-dropped':
      return again(drop(orphans, random))
    case 'changed-content':
      return again(alterSome(orphans, change, random))
    case 'none':
      return again([])
  }
}
