import { expect, test } from 'vitest'
import { expectedTables, spellTables } from '../src/app/demo/verdict.ts'
import { SCHEMA, TOKEN, transfers } from '../src/app/demo/watchers.ts'
import { compareTables, fakeChain, testAddress, transfer } from '../src/testkit/index.ts'
import { Harness } from './support/harness.ts'

const watcher = {
  ...transfers,
  definition: { ...transfers.definition, on: { test: { address: TOKEN, startBlock: 1, at: 'latest' as const } } },
}
const [ALICE, BOB] = [testAddress('alice'), testAddress('bob')]

function tables(h: Harness) {
  return {
    transfers: h.rows('SELECT sender, receiver, amount FROM transfers'),
    balances: h.rows('SELECT account, amount FROM balances'),
    payouts: h.rows('SELECT transaction_hash, receiver, amount FROM payouts'),
  }
}

test('applied live, then final: the final stage runs for every event', async () => {
  const chain = fakeChain({ chainId: 7, finalized: { depth: 12 }, safe: { depth: 6 } })
  const h = new Harness({ chain, watchers: { transfers: watcher }, schema: SCHEMA })
  for (let i = 0; i < 40; i++) {
    for (let k = 0; k < 3; k++) chain.mine([transfer(TOKEN, ALICE, BOB, i + 1)])
    await h.settle()
  }
  chain.mineEmpty(20)
  await h.settle()
  expect(compareTables(expectedTables(chain), spellTables(tables(h)))).toEqual([])
  await h.close()
})
