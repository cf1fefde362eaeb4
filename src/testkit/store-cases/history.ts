import assert from 'node:assert/strict'
import type { CommitRow } from '../../store/store.ts'
import { wait } from '../../util/op.ts'
import { type ContractCase, codeOf, kept, mark, number, ref } from './case.ts'

const commit = (from: number, to: number, n: number): CommitRow => ({
  from: number(from),
  to: number(to),
  events: n,
  digest: new Uint8Array(16).fill(n),
  committedAt: n,
  attempt: 1,
  build: 'b',
})

const markCases: readonly ContractCase[] = [
  {
    name: 'a mark that is there already is not new (P2)',
    async run({ store }) {
      const answers = await store.transact(function* (tx) {
        const first = yield* wait(tx.marks.insert(1, [mark(5, 1), mark(5, 2)]))
        const again = yield* wait(tx.marks.insert(1, [mark(5, 2), mark(5, 3), mark(5, 3)]))
        const other = yield* wait(tx.marks.insert(2, [mark(5, 1)]))
        return [first, again, other]
      })
      assert.deepEqual(answers, [[true, true], [false, true, false], [true]])
    },
  },
  {
    name: 'the same event in another block is another occurrence',
    async run({ store }) {
      const moved = { ...mark(5, 1), blockHash: ref(5, 1).hash }
      assert.deepEqual(await store.transact((tx) => wait(tx.marks.insert(1, [mark(5, 1), moved]))), [true, true])
    },
  },
  {
    name: 'marks come back as they were, in the order of the key',
    async run({ store }) {
      const most = mark(Number.MAX_SAFE_INTEGER, 1)
      const all = [mark(7, 2), mark(2 ** 31, 4), mark(7, 1), mark(3, 9), most]
      await store.transact((tx) => wait(tx.marks.insert(1, all)))
      const between = await store.read((tx) => wait(tx.marks.between(1, number(4), number(2 ** 31))))
      assert.deepEqual(between, [mark(7, 1), mark(7, 2), mark(2 ** 31, 4)])
      assert.deepEqual(await store.read((tx) => wait(tx.marks.between(1, most.blockNumber, most.blockNumber))), [most])
      assert.equal(await store.read((tx) => wait(tx.marks.count(1))), 5)
    },
  },
  {
    name: "undoing deletes above a block, and another watcher's marks stay",
    async run({ store }) {
      const left = await store.transact(function* (tx) {
        for (const watcher of [1, 2])
          yield* wait(tx.marks.insert(watcher, [mark(0, 1), mark(6, 1), mark(7, 1), mark(7, 2)]))
        const deleted = yield* wait(tx.marks.deleteAbove(1, number(6)))
        const rest = yield* wait(tx.marks.deleteAbove(1, -1))
        return [deleted, rest, yield* wait(tx.marks.count(1)), yield* wait(tx.marks.count(2))]
      })
      assert.deepEqual(left, [2, 2, 0, 4])
    },
  },
  {
    name: 'pruning is bounded, oldest first (P6)',
    async run({ store }) {
      const left = await store.transact(function* (tx) {
        yield* wait(tx.marks.insert(1, [mark(3, 1), mark(1, 1), mark(2, 2), mark(2, 1), mark(9, 1)]))
        yield* wait(tx.marks.insert(2, [mark(1, 1)]))
        const deleted = [yield* wait(tx.marks.deleteThrough(1, number(3), 3))]
        const rest = yield* wait(tx.marks.between(1, number(0), number(9)))
        deleted.push(
          yield* wait(tx.marks.deleteThrough(1, number(3), 3)),
          yield* wait(tx.marks.deleteThrough(1, number(3), 3)),
        )
        return { deleted, rest, other: yield* wait(tx.marks.count(2)) }
      })
      assert.deepEqual(left, { deleted: [3, 1, 0], rest: [mark(3, 1), mark(9, 1)], other: 1 })
    },
  },
]

const trailCases: readonly ContractCase[] = [
  {
    name: 'remembered blocks: newest first, cut from both ends',
    async run({ store }) {
      const lists = await store.transact(function* (tx) {
        yield* wait(tx.trail.add(1, [ref(5), ref(7), ref(2 ** 33)]))
        yield* wait(tx.trail.add(1, [ref(6), ref(7)])) // the same block again is no news
        yield* wait(tx.trail.add(2, [ref(5, 1)]))
        const all = yield* wait(tx.trail.list(1))
        yield* wait(tx.trail.deleteAbove(1, number(7)))
        yield* wait(tx.trail.deleteBelow(1, number(6)))
        return [all, yield* wait(tx.trail.list(1)), yield* wait(tx.trail.list(2))]
      })
      assert.deepEqual(lists, [[ref(2 ** 33), ref(7), ref(6), ref(5)], [ref(7), ref(6)], [ref(5, 1)]])
    },
  },
  {
    name: 'another hash at a remembered height without a rollback is an error',
    async run({ store }) {
      const work = store.transact(function* (tx) {
        yield* wait(tx.trail.add(1, [ref(5)]))
        yield* wait(tx.trail.add(1, [ref(5, 1)]))
      })
      assert.equal(await codeOf(work), 'INVARIANT_BROKEN')
    },
  },
]

const keptCases: readonly ContractCase[] = [
  {
    name: 'kept events come back as they were: newest first to undo, oldest first to settle',
    async run({ store }) {
      const bare = { ...kept(9, 0), log: { ...kept(9, 0).log, topics: [], data: '0x' as const } }
      const all = [kept(7, 0), kept(7, 1), kept(8, 0), bare]
      const found = await store.transact(function* (tx) {
        yield* wait(tx.kept.add(1, all))
        yield* wait(tx.kept.add(2, [kept(7, 0)]))
        const above = yield* wait(tx.kept.above(1, number(6)))
        const two = yield* wait(tx.kept.through(1, number(8), 2))
        yield* wait(tx.kept.deleteThrough(1, number(7)))
        yield* wait(tx.kept.deleteAbove(1, number(8)))
        return { above, two, left: yield* wait(tx.kept.above(1, -1)), other: yield* wait(tx.kept.above(2, -1)) }
      })
      assert.deepEqual(found.above, [...all].reverse())
      assert.deepEqual(found.two, all.slice(0, 2))
      assert.deepEqual([found.left, found.other], [[kept(8, 0)], [kept(7, 0)]])
    },
  },
]

const commitCases: readonly ContractCase[] = [
  {
    name: 'a range that is cut in two keeps the count of its lower part',
    async run({ store }) {
      const found = await store.transact(function* (tx) {
        for (const row of [commit(1, 10, 1), commit(11, 20, 2), commit(21, 30, 3)]) yield* wait(tx.commits.add(1, row))
        const straddling = [
          yield* wait(tx.commits.straddling(1, number(15))),
          yield* wait(tx.commits.straddling(1, number(20))),
        ]
        yield* wait(tx.commits.cutAbove(1, number(15), { events: 9, digest: new Uint8Array(16) }))
        return { straddling, left: yield* wait(tx.commits.list(1, 10)), newest: yield* wait(tx.commits.list(1, 1)) }
      })
      assert.deepEqual(found.straddling, [commit(11, 20, 2), undefined])
      const cut = { ...commit(11, 15, 2), events: 9, digest: new Uint8Array(16) }
      assert.deepEqual(found.left, [cut, commit(1, 10, 1)])
      assert.deepEqual(found.newest, [cut])
    },
  },
  {
    name: 'a cut without a new count is an error; a cut between rows needs none',
    async run({ store }) {
      const cut = (block: number) =>
        store.transact(function* (tx) {
          yield* wait(tx.commits.add(1, commit(block + 1, block + 10, 1)))
          yield* wait(tx.commits.cutAbove(1, number(block), null))
          yield* wait(tx.commits.add(1, commit(block - 5, block + 5, 1)))
          yield* wait(tx.commits.cutAbove(1, number(block), null))
        })
      assert.equal(await codeOf(cut(100)), 'INVARIANT_BROKEN')
    },
  },
  {
    name: 'a row whose blocks another one covers is refused, and nothing is written',
    async run({ store }) {
      const found = await store.transact(function* (tx) {
        const answers: boolean[] = []
        for (const row of [
          commit(1, 10, 1),
          commit(11, 20, 2),
          commit(20, 30, 3),
          commit(5, 8, 4),
          commit(21, 21, 5),
        ]) {
          answers.push(yield* wait(tx.commits.add(1, row)))
        }
        // Another watcher has rows of its own.
        answers.push(yield* wait(tx.commits.add(2, commit(0, 5, 1))))
        return { answers, left: yield* wait(tx.commits.list(1, 10)) }
      })
      assert.deepEqual(found.answers, [true, true, false, false, true, true])
      assert.deepEqual(found.left, [commit(21, 21, 5), commit(11, 20, 2), commit(1, 10, 1)])
    },
  },
  {
    name: 'settled ranges are merged in bounded pieces, and only what is settled (P6)',
    async run({ store }) {
      const found = await store.transact(function* (tx) {
        for (let i = 0; i < 6; i++) yield* wait(tx.commits.add(1, commit(i * 10 + 1, i * 10 + 10, 1 << i)))
        const saved = [
          yield* wait(tx.commits.compact(1, number(50), 20, 3)),
          yield* wait(tx.commits.compact(1, number(50), 20, 3)),
        ]
        saved.push(yield* wait(tx.commits.compact(1, number(50), 20, 3)))
        return { saved, left: yield* wait(tx.commits.list(1, 10)) }
      })
      assert.deepEqual(found.saved, [1, 1, 0])
      const sums = found.left.map((row) => [row.from, row.to, row.events, row.digest[0]])
      assert.deepEqual(sums, [
        [51, 60, 32, 32],
        [41, 50, 16, 16],
        [21, 40, 12, 12],
        [1, 20, 3, 3],
      ])
    },
  },
]

export const historyCases: readonly ContractCase[] = [...markCases, ...trailCases, ...keptCases, ...commitCases]
