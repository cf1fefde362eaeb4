import { expect, test } from 'vitest'
import { rows, watch } from '../src/store/sqlite/index.ts'
import { fakeChain, rawLog, testAddress, transfer } from '../src/testkit/index.ts'
import { Harness } from './support/harness.ts'

const TOKEN = testAddress('token')
const [ALICE, BOB] = [testAddress('alice'), testAddress('bob')]
const BY = { actor: 'test', reason: 'looked at' }

function entries() {
  return rows({ table: 'entries', columns: { transaction_hash: 'text', amount: 'uint256' } })
}

/** At two confirmations and without undo: a deeper reorg is for a person to decide. */
const confirmed = watch({
  on: { test: { address: TOKEN, startBlock: 1, at: { confirmations: 2 } } },
  events: { Transfer: { event: 'event Transfer(address indexed from, address indexed to, uint256 value)' } },
  tables: { entries: entries() },
  handle({ event, tables }) {
    tables.entries.insert({ transaction_hash: event.transactionHash, amount: event.args.value })
  },
})

function hashes(h: Harness): string[] {
  return h.rows('SELECT transaction_hash FROM entries ORDER BY 1').map((row) => String(row.transaction_hash))
}

async function halted(h: Harness): Promise<string | undefined> {
  await h.settle()
  const [status] = (await h.tidemark.status()).watchers
  return status?.reason?.code
}

//   1a ─ 2a ─ 3a ─ 4a        applied: 1a, 2a, 3a at two confirmations
//      └ 2b ─ 3b ─ 4b ─ 5b   orphans 2a and 3a, which the watcher cannot undo
test('a reorg deeper than the confirmations halts until an operator accepts it, and the word holds for that reorg only', async () => {
  const chain = fakeChain({ chainId: 7 })
  const h = new Harness({ chain, watchers: { confirmed } })
  for (let i = 1; i <= 4; i++) chain.mine([transfer(TOKEN, ALICE, BOB, i)])
  await h.settle()
  const before = hashes(h)
  expect(before).toHaveLength(3)

  chain.reorg(3, { reinclude: 'some-dropped', extraBlocks: 1 })
  expect(await halted(h)).toBe('REORG_BELOW_CONFIRMATIONS')
  await h.tidemark.admin.resume('confirmed/test', BY)
  expect(await halted(h)).toBe('REORG_BELOW_CONFIRMATIONS')
  expect(hashes(h)).toEqual(before)

  await h.tidemark.admin.resume('confirmed/test', BY, { acceptReorg: true })
  expect(await halted(h)).toBeUndefined()
  const expected = chain.logs({ fromBlock: 1, toBlock: chain.head().number - 1 }).map((log) => log.transactionHash)
  expect(hashes(h)).toEqual([...expected].sort())

  chain.reorg(4, { reinclude: 'none', extraBlocks: 1, also: () => [transfer(TOKEN, ALICE, BOB, 9)] })
  expect(await halted(h)).toBe('REORG_BELOW_CONFIRMATIONS')
  await h.close()
})

test('a log that fits an anonymous event by shape alone is passed over, and is no difference when blocks settle', async () => {
  const chain = fakeChain({ chainId: 7, finalized: { depth: 3 } })
  const notes = watch({
    on: { test: { address: TOKEN, startBlock: 1, at: 'latest' } },
    events: { Note: { event: 'event Note(bytes32 indexed key, bytes32 value) anonymous' } },
    tables: { entries: rows({ table: 'entries', columns: { key: 'text' } }) },
    undo: 'managed',
    handle: ({ event, tables }) => tables.entries.insert({ key: event.args.key }),
  })
  const h = new Harness({ chain, watchers: { notes } })
  const topic = (digit: string) => `0x${digit.repeat(64)}`
  chain.mine([rawLog(TOKEN, [topic('1')], '0x'), rawLog(TOKEN, [topic('2')], topic('f'))])
  chain.mineEmpty(1)
  await h.settle()
  chain.mineEmpty(6)
  await h.settle()
  const [status] = (await h.tidemark.status()).watchers
  expect(h.rows('SELECT key FROM entries')).toEqual([{ key: topic('2') }])
  expect(status).toMatchObject({ reason: null, counters: { undone: 0, reorgs: 0 } })
  expect(status?.settled).toBeGreaterThanOrEqual(1)
  await h.close()
})
