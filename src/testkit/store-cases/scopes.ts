import assert from 'node:assert/strict'
import { TidemarkError } from '../../errors.ts'
import type { DbScope, ScopeRules, Tx } from '../../store/store.ts'
import { type Op, wait } from '../../util/op.ts'
import { type ContractCase, type ContractKit, codeOf, rules } from './case.ts'

/** Runs `work` on a guarded handle, as a handler would, and answers the numbers that were committed. */
async function handled<Db>(
  { store, probe }: ContractKit<Db>,
  work: (scope: DbScope<Db>, tx: Tx<Db>) => Op<unknown>,
  changed: Partial<ScopeRules> = {},
): Promise<readonly number[]> {
  await store.transact(function* (tx) {
    const first = tx.openScope(rules)
    yield* wait(probe.makeTable(first.db))
    yield* wait(probe.insert(first.db, 1))
    yield* wait(first.close('returned'))
  })
  await store.transact(function* (tx) {
    const scope = tx.openScope({ ...rules, ...changed })
    yield* work(scope, tx)
    yield* wait(scope.close('returned'))
  })
  return store.read(function* (tx) {
    const scope = tx.openScope(rules)
    const numbers = yield* wait(probe.numbers(scope.db))
    yield* wait(scope.close('returned'))
    return numbers
  })
}

/** Swallows the failure of one statement, as careless handlers do. */
function* swallow(work: () => unknown): Op<void> {
  try {
    yield* wait(work())
  } catch {
    // swallowed
  }
}

export const scopeCases: readonly ContractCase[] = [
  {
    name: 'what a handler writes commits with the transaction',
    async run(kit) {
      const numbers = await handled(kit, function* ({ db }) {
        yield* wait(kit.probe.insert(db, 2))
      })
      assert.deepEqual(numbers, [1, 2])
    },
  },
  {
    name: 'db is dead after its callback',
    async run(kit) {
      const dead = await kit.store.transact(function* (tx) {
        const scope = tx.openScope(rules)
        yield* wait(scope.close('returned'))
        return scope
      })
      assert.equal(await codeOf((async () => kit.probe.insert(dead.db, 3))()), 'SCOPE_DEAD')
      await dead.close('returned') // closing twice is no error
    },
  },
  {
    name: 'a statement that failed and was swallowed is noticed',
    async run(kit) {
      const work = handled(kit, ({ db }) => swallow(() => kit.probe.insert(db, 1)))
      assert.equal(await codeOf(work), 'HANDLER_SWALLOWED_ERROR')
    },
  },
  {
    name: 'a failure inside a savepoint that threw counts as handled, and its writes are gone',
    async run(kit) {
      const numbers = await handled(kit, function* (scope, tx) {
        yield* swallow(() =>
          scope.savepoint(() =>
            tx.drive(
              (function* () {
                yield* wait(kit.probe.insert(scope.db, 5))
                yield* wait(kit.probe.insert(scope.db, 1))
              })(),
            ),
          ),
        )
        yield* wait(scope.savepoint(() => kit.probe.insert(scope.db, 6)))
      })
      assert.deepEqual(numbers, [1, 6])
    },
  },
  {
    name: 'a failure swallowed inside a savepoint that returned is noticed (control of the case before)',
    async run(kit) {
      const work = handled(kit, function* (scope, tx) {
        yield* wait(scope.savepoint(() => tx.drive(swallow(() => kit.probe.insert(scope.db, 1)))))
      })
      assert.equal(await codeOf(work), 'HANDLER_SWALLOWED_ERROR')
    },
  },
  {
    name: 'transaction control is refused, and stays refused when the handler swallows that',
    async run(kit) {
      const work = handled(kit, ({ db }) => swallow(() => kit.probe.commit(db)))
      assert.equal(await codeOf(work), 'TRANSACTION_CONTROL_REFUSED')
    },
  },
  {
    name: 'a handler that uses the database without end meets its deadline, and cannot swallow it',
    async run(kit) {
      const work = handled(kit, ({ db }) => swallow(() => kit.probe.insert(db, 9)), { deadline: 0 })
      assert.equal(await codeOf(work), 'HANDLER_TIMEOUT')
    },
  },
  {
    name: "with undo: 'managed' a write through db is refused, also when it was a quiet one",
    async run(kit) {
      const write = handled(
        kit,
        function* ({ db }) {
          yield* wait(kit.probe.insert(db, 2))
        },
        { mayWrite: false },
      )
      assert.equal(await codeOf(write), 'UNTRACKED_WRITE')
    },
  },
  {
    name: "with undo: 'managed' reads are free, and so is a write that was taken back",
    async run(kit) {
      const numbers = await handled(
        kit,
        function* (scope, tx) {
          yield* wait(kit.probe.numbers(scope.db))
          yield* swallow(() =>
            scope.savepoint(() =>
              tx.drive(
                (function* () {
                  yield* wait(kit.probe.insert(scope.db, 7))
                  throw new Error('taken back')
                })(),
              ),
            ),
          )
        },
        { mayWrite: false },
      )
      assert.deepEqual(numbers, [1])
    },
  },
  {
    name: 'an operation is driven to its answer, and its error comes through',
    async run({ store }) {
      const answer = await store.transact(function* (tx) {
        const driven = yield* wait(tx.drive(wait(tx.cursors.list())))
        const inner = yield* tx.interruptible(() => wait(tx.cursors.list()), 10_000)
        return [driven, inner]
      })
      assert.deepEqual(answer, [[], []])
      const thrown = new TidemarkError('HANDLER_FAILED', 'x')
      const failing = store.transact((tx) =>
        tx.interruptible(() => {
          throw thrown
        }, 10_000),
      )
      await assert.rejects(failing, (error) => error === thrown)
    },
  },
]
