import assert from 'node:assert/strict'
import type { CursorChange, WatcherRow } from '../../store/store.ts'
import { wait } from '../../util/op.ts'
import { type ContractCase, type ContractKit, codeOf, hash, makeWatcher, number, ref } from './case.ts'

/** Makes a watcher, applies changes one after the other, and reads the row back in a new transaction. */
async function afterChanges<Db>({ store }: ContractKit<Db>, ...changes: CursorChange[]): Promise<WatcherRow> {
  const id = await store.transact(function* (tx) {
    const made = yield* makeWatcher(tx)
    for (const change of changes) yield* wait(tx.cursors.change(made, change))
    return made
  })
  const row = await store.transact((tx) => wait(tx.cursors.lock(id)))
  assert.ok(row)
  return row
}

const reason = { code: 'HANDLER_FAILED', sentence: 's', next: 'n', values: { block: 7, big: 2n ** 80n }, at: 5 }

export const cursorCases: readonly ContractCase[] = [
  {
    name: 'a new watcher starts before everything',
    async run(kit) {
      const row = await afterChanges(kit)
      const counters = { applied: 0, undone: 0, duplicates: 0, reorgs: 0 }
      const open = {
        cursor: null,
        token: null,
        settled: null,
        finalized: null,
        lowWater: null,
        lowWaterAt: null,
        reason: null,
      }
      const made = {
        name: 'deposits/ethereum',
        chainId: 1,
        fingerprint: 'f',
        startBlock: 1,
        epoch: 0,
        state: 'running',
      }
      assert.deepEqual(row, { ...made, ...open, id: row.id, counters, revision: 0, updatedAt: 1 })
      assert.deepEqual(await kit.store.read((tx) => wait(tx.cursors.find(row.name))), row)
      assert.deepEqual(await kit.store.read((tx) => wait(tx.cursors.list())), [row])
      assert.equal(await kit.store.read((tx) => wait(tx.cursors.find('other'))), undefined)
    },
  },
  {
    name: 'a change sets what it names and leaves the rest',
    async run(kit) {
      const token = Uint8Array.of(1, 2, 3)
      const whole: CursorChange = {
        cursor: ref(9),
        epoch: 2,
        settled: number(7),
        finalized: number(8),
        state: 'halted',
        reason,
        token,
        updatedAt: 2,
      }
      const row = await afterChanges(kit, whole, { name: 'renamed', fingerprint: 'g', updatedAt: 3 })
      const { cursor, epoch, settled, finalized, state } = row
      assert.deepEqual(
        { cursor, epoch, settled, finalized, state },
        { cursor: ref(9), epoch: 2, settled: 7, finalized: 8, state: 'halted' },
      )
      assert.deepEqual([row.name, row.fingerprint, row.updatedAt], ['renamed', 'g', 3])
      assert.deepEqual([...(row.token ?? [])], [1, 2, 3])
      assert.deepEqual(row.reason, reason)
    },
  },
  {
    name: 'null puts the cursor and the reason back to nothing',
    async run(kit) {
      const row = await afterChanges(
        kit,
        { cursor: ref(9), reason, updatedAt: 2 },
        { cursor: null, reason: null, updatedAt: 3 },
      )
      assert.deepEqual([row.cursor, row.reason], [null, null])
    },
  },
  {
    name: 'counters and heights beyond 2^31 and up to 2^53 − 1 are exact (C45)',
    async run(kit) {
      const most = Number.MAX_SAFE_INTEGER
      const add = { applied: 2 ** 31 - 1, undone: most - 1 }
      const again = { applied: 1, undone: 1, duplicates: 2 ** 40 }
      const row = await afterChanges(
        kit,
        { add, updatedAt: 2 },
        { add: again, cursor: { ...ref(1), number: number(most) }, updatedAt: most },
      )
      assert.deepEqual(row.counters, { applied: 2 ** 31, undone: most, duplicates: 2 ** 40, reorgs: 0 })
      assert.equal(row.cursor?.number, most)
      assert.equal(row.updatedAt, most)
    },
  },
  {
    name: 'the low-water mark never goes back (P7)',
    async run(kit) {
      const raised = { lowWater: number(50), lowWaterAt: 5, updatedAt: 2 }
      const row = await afterChanges(kit, raised, { lowWater: number(40), lowWaterAt: 6, updatedAt: 3 })
      assert.equal(row.lowWater, 50)
    },
  },
  {
    name: 'a change of a row that is not there is an error',
    async run({ store }) {
      assert.equal(
        await codeOf(store.transact((tx) => wait(tx.cursors.change(99, { epoch: 1, updatedAt: 1 })))),
        'INVARIANT_BROKEN',
      )
      assert.equal(await store.transact((tx) => wait(tx.cursors.lock(99))), undefined)
    },
  },
  {
    name: 'a nonce is read back, and goes with its transaction',
    async run({ store }) {
      const id = await store.transact((tx) => makeWatcher(tx))
      const read = () => store.read((tx) => wait(tx.cursors.readNonce(id)))
      assert.equal(await read(), null)
      const failing = store.transact(function* (tx) {
        assert.equal((yield* wait(tx.cursors.open(id, Uint8Array.of(1))))?.id, id)
        assert.deepEqual([...((yield* wait(tx.cursors.readNonce(id))) ?? [])], [1])
        throw new Error('lost')
      })
      await assert.rejects(failing)
      assert.equal(await read(), null)
    },
  },
  {
    name: 'a commit is closed only where its nonce still stands (P1)',
    async run({ store }) {
      const id = await store.transact((tx) => makeWatcher(tx))
      const cursor = { number: number(5), hash: hash(5) }
      const found = await store.transact(function* (tx) {
        yield* wait(tx.cursors.open(id, Uint8Array.of(1)))
        const other = yield* wait(tx.cursors.close(id, Uint8Array.of(2), { cursor, updatedAt: 2 }))
        const before = (yield* wait(tx.cursors.lock(id)))?.cursor
        const own = yield* wait(tx.cursors.close(id, Uint8Array.of(1), { cursor, updatedAt: 2 }))
        return [other, before, own, (yield* wait(tx.cursors.lock(id)))?.cursor]
      })
      assert.deepEqual(found, [false, null, true, cursor])
      const none = store.transact((tx) => wait(tx.cursors.open(99, Uint8Array.of(1))))
      assert.equal(await none, undefined)
    },
  },
  {
    name: 'the genesis hash first seen stays (C20)',
    async run({ store }) {
      const genesis = await store.transact(function* (tx) {
        const before = yield* wait(tx.cursors.genesis(1))
        yield* wait(tx.cursors.setGenesis(1, hash(1)))
        yield* wait(tx.cursors.setGenesis(1, hash(2)))
        return [before, yield* wait(tx.cursors.genesis(1)), yield* wait(tx.cursors.genesis(2))]
      })
      assert.deepEqual(genesis, [null, hash(1), null])
    },
  },
]
