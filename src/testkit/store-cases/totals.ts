import assert from 'node:assert/strict'
import type { Store, Tx } from '../../store/store.ts'
import type { TotalChange, TotalsTable } from '../../store/totals.ts'
import type { Op } from '../../util/op.ts'
import { wait } from '../../util/op.ts'
import { type ContractCase, codeOf, number } from './case.ts'

const TABLE: TotalsTable = {
  table: 'balances',
  key: { account: 'text', token: 'bytes' },
  sum: { amount: 'int256', moves: 'integer' },
}
const key = (account: string, token = '0x0a') => ({ account, token })
const plus = (account: string, amount: bigint, moves = 1n, additions = 1): TotalChange => ({
  key: key(account),
  add: { amount, moves },
  additions,
})

const LARGEST = 2n ** 255n - 1n
const SMALLEST = -(2n ** 255n)

/** The sums of an account after each list of changes was added in a commit of its own. */
async function sumsAfter<Db>(store: Store<Db>, ...commits: readonly TotalChange[][]) {
  await store.transact((tx) => wait(tx.totals.ensureTable(TABLE)))
  for (const changes of commits) await store.transact((tx) => wait(tx.totals.add(TABLE, changes)))
  return store.read(function* (tx): Op<(readonly [bigint | undefined, bigint | undefined] | null)[]> {
    const found = []
    for (const account of ['alice', 'Alice', 'bob']) {
      const row = yield* wait(tx.totals.get(TABLE, key(account)))
      found.push(row && ([row.amount, row.moves] as const))
    }
    return found
  })
}

const keptCases: readonly ContractCase[] = [
  {
    name: 'a block that has changes already gets more on a line of their own',
    async run({ store }) {
      const kept = await store.transact(function* (tx: Tx) {
        const keep = (changes: string) => wait(tx.totals.keep(1, 'a', [{ blockNumber: number(5), changes }]))
        yield* keep('one')
        yield* keep('two')
        return yield* wait(tx.totals.keptAbove(1, 'a', -1))
      })
      assert.deepEqual(kept, [{ blockNumber: number(5), changes: 'one\ntwo' }])
    },
  },
  {
    name: 'changes of totals are kept by watcher, table and block, and go from both ends',
    async run({ store }) {
      const found = await store.transact(function* (tx: Tx) {
        const at = (block: number) => ({ blockNumber: number(block), changes: `block ${block} é\u{1f600}` })
        yield* wait(tx.totals.keep(1, 'a', [at(5), at(6), at(7), at(8)]))
        yield* wait(tx.totals.keep(1, 'b', [at(6)]))
        yield* wait(tx.totals.keep(2, 'a', [at(6)]))
        yield* wait(tx.totals.deleteKeptThrough(1, 'a', number(5)))
        yield* wait(tx.totals.deleteKeptAbove(1, 'a', number(7)))
        const own = yield* wait(tx.totals.keptAbove(1, 'a', -1))
        const above = yield* wait(tx.totals.keptAbove(1, 'a', number(6)))
        const others = [yield* wait(tx.totals.keptAbove(1, 'b', -1)), yield* wait(tx.totals.keptAbove(2, 'a', -1))]
        return { own, above, others: others.map(({ length }) => length), expected: [at(6), at(7)] }
      })
      assert.deepEqual(found.own, found.expected)
      assert.deepEqual(found.above, found.expected.slice(1))
      assert.deepEqual(found.others, [1, 1])
    },
  },
]

export const totalsCases: readonly ContractCase[] = [
  {
    name: 'sums are added up by key: one account is not another that differs in case',
    async run({ store }) {
      const found = await sumsAfter(
        store,
        [plus('Alice', 7n), plus('alice', 5n)],
        [plus('alice', -6n), plus('bob', 0n)],
      )
      assert.deepEqual(found, [
        [-1n, 2n],
        [7n, 1n],
        [0n, 1n],
      ])
    },
  },
  {
    name: 'sums of 256 bits are exact to the last one, and those of 64 bits too (C44)',
    async run({ store }) {
      const most = 2n ** 63n - 1n
      const found = await sumsAfter(
        store,
        [plus('alice', LARGEST, most), plus('bob', SMALLEST, -most)],
        [plus('alice', -1n, -1n), plus('bob', 1n, 1n)],
      )
      assert.deepEqual(found, [[LARGEST - 1n, most - 1n], null, [SMALLEST + 1n, 1n - most]])
    },
  },
  {
    name: 'the smallest number is taken back, though its opposite fits no column (C44)',
    async run({ store }) {
      const least = -(2n ** 63n)
      const found = await sumsAfter(
        store,
        [plus('alice', SMALLEST, least), plus('bob', 1n)],
        [plus('alice', -SMALLEST, -least, -1)],
      )
      assert.deepEqual(found, [null, null, [1n, 1n]])
      for (const amount of [LARGEST, SMALLEST - 2n]) {
        const work = store.transact((tx) => wait(tx.totals.add(TABLE, [plus('bob', amount)])))
        assert.equal(await codeOf(work), 'MANAGED_OVERFLOW')
      }
    },
  },
  {
    name: 'a sum that outgrows its column stops the commit, and nothing of it is kept (C44)',
    async run({ store }) {
      await sumsAfter(store, [plus('alice', 1n, 2n ** 63n - 1n)])
      const work = store.transact((tx) => wait(tx.totals.add(TABLE, [plus('bob', 1n), plus('alice', 1n, 1n)])))
      assert.equal(await codeOf(work), 'MANAGED_OVERFLOW')
      assert.deepEqual(await sumsAfter(store), [[1n, 2n ** 63n - 1n], null, null])
    },
  },
  {
    name: 'what is taken back leaves no row behind, but for what somebody else has added',
    async run({ store }) {
      const back = (account: string, amount: bigint) => plus(account, -amount, -1n, -1)
      const found = await sumsAfter(
        store,
        [plus('alice', 5n), plus('bob', 5n)],
        [plus('bob', 4n, 0n, 0)],
        [back('alice', 5n), back('bob', 5n)],
      )
      assert.deepEqual(found, [null, null, [4n, 0n]])
      const gone = store.transact((tx) => wait(tx.totals.add(TABLE, [back('alice', 5n)])))
      assert.equal(await codeOf(gone), 'MANAGED_CONFLICT')
    },
  },
  {
    name: 'many keys in one commit are each written once',
    async run({ store }) {
      const names = Array.from({ length: 3_001 }, (_, i) => `account ${i}`)
      const changes = names.map((name, i) => plus(name, BigInt(i)))
      await sumsAfter(store, changes, changes)
      const found = await store.read(function* (tx): Op<unknown[]> {
        const rows = []
        for (const i of [0, 1_500, 3_000]) rows.push(yield* wait(tx.totals.get(TABLE, key(`account ${i}`))))
        return rows
      })
      assert.deepEqual(
        found,
        [0, 1_500, 3_000].map((i) => ({ amount: BigInt(2 * i), moves: 2n })),
      )
    },
  },
  {
    name: 'a table of sums with other columns or another key is refused, and one that fits is taken',
    async run({ store }) {
      const ensure = (table: TotalsTable) => store.transact((tx) => wait(tx.totals.ensureTable(table)))
      await ensure(TABLE)
      await ensure(TABLE)
      assert.equal(await codeOf(ensure({ ...TABLE, sum: { ...TABLE.sum, more: 'integer' } })), 'STORE_TABLE_MISMATCH')
      assert.equal(await codeOf(ensure({ ...TABLE, key: { account: 'text' } })), 'STORE_TABLE_MISMATCH')
      assert.equal(await codeOf(ensure({ ...TABLE, table: 'tidemark_x' })), 'STORE_TABLE_MISMATCH')
    },
  },
  ...keptCases,
]
