import assert from 'node:assert/strict'
import type { Tx } from '../../store/store.ts'
import { wait } from '../../util/op.ts'
import { type ContractCase, codeOf, hash, makeWatcher } from './case.ts'

const names = <Db>(tx: Tx<Db>) =>
  (function* () {
    return (yield* wait(tx.cursors.list())).map((row) => row.name)
  })()

export const transactionCases: readonly ContractCase[] = [
  {
    name: 'what a committed transaction wrote is there, and what a thrown one wrote is not (P1)',
    async run({ store }) {
      await store.transact((tx) => makeWatcher(tx, 'kept'))
      const thrown = new Error('from the body')
      const failing = store.transact(function* (tx) {
        yield* makeWatcher(tx, 'lost')
        assert.equal(tx.inTransaction(), true)
        throw thrown
      })
      await assert.rejects(failing, (error) => error === thrown)
      assert.deepEqual(await store.read(names), ['kept'])
    },
  },
  {
    name: 'a read writes nothing',
    async run({ store }) {
      await store.read((tx) => makeWatcher(tx)).catch(() => {})
      assert.deepEqual(await store.read(names), [])
    },
  },
  {
    name: 'a savepoint takes back only what came after it',
    async run({ store }) {
      await store.transact(function* (tx) {
        yield* makeWatcher(tx, 'before')
        yield* wait(tx.savepoint('tidemark_handler'))
        yield* makeWatcher(tx, 'after')
        yield* wait(tx.rollbackTo('tidemark_handler'))
        yield* wait(tx.release('tidemark_handler'))
      })
      assert.deepEqual(await store.read(names), ['before'])
    },
  },
  {
    name: 'a savepoint that is gone is an error, not a shrug',
    async run({ store }) {
      const gone = store.transact(function* (tx) {
        yield* wait(tx.release('tidemark_handler'))
      })
      await assert.rejects(gone)
    },
  },
  {
    name: 'ports kept beyond their transaction refuse to write outside one',
    async run({ store }) {
      const leaked = await store.transact(function* (tx) {
        yield* makeWatcher(tx)
        return tx
      })
      await assert.rejects(async () => leaked.cursors.setGenesis(1, hash(1)))
      assert.equal(leaked.inTransaction(), false)
    },
  },
  {
    name: 'migrating twice changes nothing the second time',
    async run({ store }) {
      assert.deepEqual((await store.migrate('auto')).applied, [])
      assert.deepEqual((await store.migrate('check')).applied, [])
      assert.equal(await store.pendingSql(), '')
    },
  },
  {
    name: 'the right to run watchers is given once, under a new token each time (P9)',
    async run({ store }) {
      const first = await store.acquire('w/ethereum')
      assert.equal(first?.token.length, 16)
      assert.equal(await store.acquire('w/ethereum'), null)
      await first.release()
      await first.release() // a second release frees nobody else's lease
      const second = await store.acquire('w/ethereum')
      assert.ok(second)
      assert.notDeepEqual(second.token, first.token)
      await first.release()
      assert.equal(await store.acquire('w/ethereum'), null)
      await second.release()
    },
  },
  {
    name: 'a closed store says so',
    async run({ store }) {
      await store.close()
      assert.equal(await codeOf(store.transact((tx) => makeWatcher(tx))), 'STORE_CLOSED')
      assert.equal(await codeOf(store.read(names)), 'STORE_CLOSED')
    },
  },
]
