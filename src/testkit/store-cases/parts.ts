import assert from 'node:assert/strict'
import type { ManagedTable } from '../../store/store.ts'
import { wait } from '../../util/op.ts'
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

export const partCases: readonly ContractCase[] = [...handledCases, ...auditCases, ...managedCases]
