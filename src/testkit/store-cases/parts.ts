import assert from 'node:assert/strict'
import type { HandledKey, ManagedTable, Tx } from '../../store/store.ts'
import { type Op, wait } from '../../util/op.ts'
import { type ContractCase, codeOf, id, number, ref } from './case.ts'

const handledCases: readonly ContractCase[] = [
  {
    name: 'a key is new once in its scope and chain',
    async run({ store }) {
      const found = await store.transact(function* (tx) {
        const insert = (scope: string, chain: number, key: string) =>
          wait(tx.handled.insert({ scope, chainId: chain, key }, number(5), 1))
        const news = [
          yield* insert('a', 1, 'k'),
          yield* insert('a', 1, 'k'),
          yield* insert('a', 2, 'k'),
          yield* insert('b', 1, 'k'),
        ]
        const has = [
          yield* wait(tx.handled.find({ scope: 'a', chainId: 1, key: 'k' })),
          yield* wait(tx.handled.find({ scope: 'b', chainId: 2, key: 'k' })),
        ]
        return { news, has, count: yield* wait(tx.handled.count('a')) }
      })
      assert.deepEqual(found, { news: ['new', 'done', 'new', 'new'], has: ['done', null], count: 2 })
    },
  },
  {
    name: 'each chain has its own cursor, and a chain without one is seen as such',
    async run({ store }) {
      const found = await store.transact(function* (tx) {
        yield* wait(tx.handled.insert({ scope: 'a', chainId: 5, key: 'k' }, number(1), 1))
        yield* wait(tx.handled.insert({ scope: 'a', chainId: 7, key: 'k' }, number(1), 1))
        yield* wait(tx.handled.setCursor('a', 1, ref(2 ** 31), 4))
        yield* wait(tx.handled.setCursor('a', 1, ref(2 ** 31 + 1), 5))
        const states = [yield* wait(tx.handled.state('a', 1)), yield* wait(tx.handled.state('a', 5))]
        return { states, chains: yield* wait(tx.handled.chains('a')), none: yield* wait(tx.handled.chains('b')) }
      })
      const none = { cursor: null, lowWater: null, updatedAt: null }
      assert.deepEqual(found.states, [{ cursor: ref(2 ** 31 + 1), lowWater: null, updatedAt: 5 }, none])
      assert.deepEqual([found.chains, found.none], [[1, 5, 7], []])
    },
  },
  {
    name: 'forgetting is bounded by block, and its mark never goes back (P7)',
    async run({ store }) {
      const found = await store.transact(function* (tx) {
        for (let block = 1; block <= 5; block++)
          yield* wait(tx.handled.insert({ scope: 'a', chainId: 1, key: `k${block}` }, number(block), 1))
        yield* wait(tx.handled.insert({ scope: 'a', chainId: 2, key: 'other' }, number(1), 1))
        yield* wait(tx.handled.raiseLowWater('a', 1, number(3)))
        yield* wait(tx.handled.raiseLowWater('a', 1, number(2)))
        const deleted = [
          yield* wait(tx.handled.deleteThrough('a', 1, number(3), 2)),
          yield* wait(tx.handled.deleteThrough('a', 1, number(3), 2)),
        ]
        const left = [
          yield* wait(tx.handled.find({ scope: 'a', chainId: 1, key: 'k3' })),
          yield* wait(tx.handled.find({ scope: 'a', chainId: 1, key: 'k4' })),
        ]
        return {
          deleted,
          left,
          lowWater: (yield* wait(tx.handled.state('a', 1))).lowWater,
          count: yield* wait(tx.handled.count('a')),
        }
      })
      assert.deepEqual(found, { deleted: [2, 1], left: [null, 'done'], lowWater: 3, count: 3 })
    },
  },
]

const K: HandledKey = { scope: 'a', chainId: 1, key: 'k' }
const HOUR = 3_600_000
/** Looks at a lease of 2 ms within one transaction: more than that passes before they are over. */
const LOOKS = 20_000
const token = (n: number): Uint8Array => new Uint8Array(16).fill(n)

const claimCases: readonly ContractCase[] = [
  {
    name: 'a claim keeps others out, marks included, until the database says that its lease is over',
    async run({ store }) {
      const found = await store.transact(function* (tx) {
        const claim = (by: number, leaseMs: number, now: number) =>
          wait(tx.handled.claim(K, number(5), token(by), leaseMs, now))
        // The clock of the process, the last number, decides nothing.
        const first = [yield* claim(1, HOUR, 1), yield* claim(2, HOUR, 2 ** 45), yield* claim(3, HOUR, 1)]
        const others = [yield* wait(tx.handled.insert(K, number(5), 1)), yield* wait(tx.handled.find(K))]
        const elsewhere = yield* wait(tx.handled.claim({ ...K, chainId: 2 }, number(5), token(2), HOUR, 1))
        return { first, others, elsewhere, expired: yield* wait(tx.handled.expired('a', 10)) }
      })
      assert.deepEqual(found, {
        first: ['new', 'claimed', 'claimed'],
        others: ['claimed', 'claimed'],
        elsewhere: 'new',
        expired: [],
      })
    },
  },
  {
    name: 'an expired claim is taken over, and the late one can neither finish nor remove it (P9)',
    async run({ store }) {
      const found = await store.transact(function* (tx) {
        const claim = (by: number, leaseMs: number) => wait(tx.handled.claim(K, number(5), token(by), leaseMs, 1))
        const claims = [yield* claim(1, 0), yield* claim(2, HOUR)]
        const late = [yield* wait(tx.handled.finish(K, token(1))), yield* wait(tx.handled.unclaim(K, token(1)))]
        const still = yield* wait(tx.handled.find(K))
        const won = [yield* wait(tx.handled.finish(K, token(2))), yield* wait(tx.handled.find(K))]
        const again = [yield* wait(tx.handled.finish(K, token(2))), yield* claim(3, HOUR)]
        return { claims, late, still, won, again }
      })
      assert.deepEqual(found, {
        claims: ['new', 'taken-over'],
        late: [false, false],
        still: 'claimed',
        won: [true, 'done'],
        again: [false, 'done'],
      })
    },
  },
  {
    name: 'an expired claim that nobody took over may still finish',
    async run({ store }) {
      const found = await store.transact(function* (tx) {
        yield* wait(tx.handled.claim(K, number(5), token(1), 0, 1))
        return [yield* wait(tx.handled.finish(K, token(1))), yield* wait(tx.handled.find(K))]
      })
      assert.deepEqual(found, [true, 'done'])
    },
  },
  {
    name: 'a claim that was given back is as if it never was; one that is done stays',
    async run({ store }) {
      const found = await store.transact(function* (tx) {
        yield* wait(tx.handled.claim(K, number(5), token(1), HOUR, 1))
        const removed = yield* wait(tx.handled.unclaim(K, token(1)))
        const after = yield* wait(tx.handled.find(K))
        const next = yield* wait(tx.handled.claim(K, number(5), token(2), HOUR, 1))
        yield* wait(tx.handled.finish(K, token(2)))
        return { removed, after, next, done: yield* wait(tx.handled.unclaim(K, token(2))) }
      })
      assert.deepEqual(found, { removed: true, after: null, next: 'new', done: false })
    },
  },
  {
    name: 'a lease runs by the clock, not by the start of the transaction that made it (P9)',
    async run({ store }) {
      const expired = await store.transact(function* (tx) {
        yield* wait(tx.handled.claim(K, number(5), token(1), 2, 1))
        for (let tries = 0; tries < LOOKS; tries++) {
          if ((yield* wait(tx.handled.expired('a', 1))).length > 0) return true
        }
        return false
      })
      assert.equal(expired, true)
    },
  },
  {
    name: 'the list of expired claims is oldest first, bounded, of one scope, and without what is done or given back',
    async run({ store }) {
      const found = await store.transact(function* (tx) {
        for (let n = 1; n <= 6; n++) {
          const key = { ...K, chainId: n, key: `k${n}` }
          // The shorter lease is over first, whatever the order in which they were made.
          yield* wait(tx.handled.claim(key, number(5), token(n), -1_000 * (7 - n), 1))
        }
        yield* wait(tx.handled.claim({ ...K, scope: 'b' }, number(5), token(7), -1, 1))
        yield* wait(tx.handled.claim(K, number(5), token(8), HOUR, 1))
        yield* wait(tx.handled.finish({ ...K, chainId: 2, key: 'k2' }, token(2)))
        yield* wait(tx.handled.unclaim({ ...K, chainId: 4, key: 'k4' }, token(4)))
        return [yield* wait(tx.handled.expired('a', 10)), yield* wait(tx.handled.expired('a', 2))]
      })
      const row = (n: number) => ({ chainId: n, key: `k${n}` })
      assert.deepEqual(found, [[1, 3, 5, 6].map(row), [1, 3].map(row)])
    },
  },
  {
    name: 'a claim is not forgotten before it is done, with the higher of both blocks (P7)',
    async run({ store }) {
      const found = await store.transact(function* (tx) {
        const forget = () => wait(tx.handled.deleteThrough('a', 1, number(9), 10))
        yield* wait(tx.handled.claim(K, number(5), token(1), 0, 1))
        const whileClaimed = yield* forget()
        yield* wait(tx.handled.claim(K, number(10), token(2), 0, 1))
        yield* wait(tx.handled.finish(K, token(2)))
        const atItsOldBlock = yield* forget()
        const later = yield* wait(tx.handled.deleteThrough('a', 1, number(10), 10))
        return [whileClaimed, atItsOldBlock, later]
      })
      assert.deepEqual(found, [0, 0, 1])
    },
  },
  {
    name: 'a claim stands or falls with the transaction that made it, took it over or finished it',
    async run({ store }) {
      const failing = (work: (tx: Tx) => Op<unknown>) =>
        store
          .transact(function* (tx) {
            yield* work(tx)
            throw new Error('rolled back')
          })
          .catch(() => {})
      const find = () => store.read((tx) => wait(tx.handled.find(K)))
      await failing((tx) => wait(tx.handled.claim(K, number(5), token(1), HOUR, 1)))
      assert.equal(await find(), null)
      await store.transact((tx) => wait(tx.handled.claim(K, number(5), token(1), 0, 1)))
      await failing((tx) => wait(tx.handled.claim(K, number(5), token(2), HOUR, 1)))
      await failing((tx) => wait(tx.handled.finish(K, token(1))))
      assert.equal(await find(), 'claimed')
      assert.equal(await store.transact((tx) => wait(tx.handled.finish(K, token(1)))), true)
    },
  },
]

const AUDIT_ROWS = 10_000

const auditCases: readonly ContractCase[] = [
  {
    name: 'the audit keeps the newest 10,000 rows (P6)',
    async run({ store }) {
      const rows = await store.transact(function* (tx) {
        for (let at = 1; at <= AUDIT_ROWS + 5; at++) {
          yield* wait(tx.audit.add({ at, actor: 'ann', action: 'resume', watcher: 'w', reason: 'r' }))
        }
        return yield* wait(tx.audit.list(AUDIT_ROWS * 2))
      })
      assert.equal(rows.length, AUDIT_ROWS)
      assert.deepEqual([rows[0]?.at, rows.at(-1)?.at], [AUDIT_ROWS + 5, 6])
    },
  },
]

const transfers: ManagedTable = {
  table: 'contract_transfers',
  columns: { account: 'text', amount: 'uint256', change: 'int256', raw: 'bytes', nonce: 'integer', ok: 'boolean' },
}

const row = (block: number, ordinal: number, values: Record<string, unknown> = {}) => ({
  blockNumber: number(block),
  stableId: id(block),
  ordinal,
  values: { account: 'alice', amount: 1n, change: -1n, raw: Uint8Array.of(1), nonce: 1, ok: true, ...values },
})

const managedCases: readonly ContractCase[] = [
  {
    name: "managed rows go with their block, and another watcher's stay",
    async run({ store }) {
      const deleted = await store.transact(function* (tx) {
        yield* wait(tx.managed.ensureTable(transfers))
        yield* wait(tx.managed.ensureTable(transfers)) // there already, with all its columns
        for (const watcher of [1, 2])
          yield* wait(tx.managed.insertRows(transfers, watcher, [row(0, 0), row(5, 0), row(5, 1), row(6, 0)]))
        const above5 = yield* wait(tx.managed.deleteRowsAbove(transfers, 1, number(5)))
        const all = yield* wait(tx.managed.deleteRowsAbove(transfers, 1, -1))
        return [above5, all, yield* wait(tx.managed.deleteRowsAbove(transfers, 2, -1))]
      })
      assert.deepEqual(deleted, [1, 3, 4])
    },
  },
  {
    name: 'a table without the columns is refused before anything is written',
    async run({ store }) {
      const wider = { ...transfers, columns: { ...transfers.columns, memo: 'text' as const } }
      const work = store.transact(function* (tx) {
        yield* wait(tx.managed.ensureTable(transfers))
        yield* wait(tx.managed.ensureTable(wider))
      })
      assert.equal(await codeOf(work), 'STORE_TABLE_MISMATCH')
    },
  },
  {
    name: 'names that could end a quotation are refused',
    async run({ store }) {
      for (const table of ['a"b', 'a b', 'a;b', '', 'tidemark_x', 'ä']) {
        assert.equal(
          await codeOf(store.transact((tx) => wait(tx.managed.ensureTable({ ...transfers, table })))),
          'STORE_TABLE_MISMATCH',
        )
      }
      const columns = { 'a"b': 'text' as const }
      assert.equal(
        await codeOf(store.transact((tx) => wait(tx.managed.ensureTable({ table: 'ok', columns })))),
        'STORE_TABLE_MISMATCH',
      )
    },
  },
  {
    name: 'a value that does not fit stops the commit: never a float, never a cut (C44)',
    async run({ store }) {
      const bad: Record<string, unknown>[] = [
        { amount: -1n },
        { amount: 2n ** 256n },
        { amount: 1.5 },
        { amount: 2 ** 60 },
        { amount: '1' },
        { change: 2n ** 255n },
        { change: -(2n ** 255n) - 1n },
        { nonce: 2n ** 63n },
        { nonce: 0.5 },
        { account: 5 },
        { account: undefined },
        { raw: '0x0' },
        { ok: 1 },
      ]
      for (const values of bad) {
        const work = store.transact(function* (tx) {
          yield* wait(tx.managed.ensureTable(transfers))
          yield* wait(tx.managed.insertRows(transfers, 1, [row(1, 0, values)]))
        })
        assert.equal(await codeOf(work), 'MANAGED_VALUE_INVALID')
      }
    },
  },
]

export const partCases: readonly ContractCase[] = [...handledCases, ...claimCases, ...auditCases, ...managedCases]
