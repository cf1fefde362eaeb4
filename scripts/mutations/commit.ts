import { type Mutation, only } from './mutation.ts'

/** The commit: marks, effects and cursor together, in order, once; and what a handler may not do. */
export const commitMutations: readonly Mutation[] = [
  {
    name: 'mark-not-written',
    breaks: 'P1',
    file: 'handle/run-batch.ts',
    find: 'progress.fresh.push(...(yield* wait(tx.marks.insert(run.id, some.map(markOf)))))',
    replace: 'progress.fresh.push(...some.map((ready) => markOf(ready) !== undefined))',
    why: 'events are applied without a mark',
  },
  {
    name: 'marked-event-applied-again',
    breaks: 'P2',
    file: 'handle/run-batch.ts',
    find: 'if (progress.fresh[progress.next]) progress.kept.push',
    replace: 'if (progress.fresh[progress.next] !== undefined) progress.kept.push',
    why: 'the answer of the mark is not looked at: a second delivery has its effects again',
  },
  {
    name: 'marks-together-not-taken-back',
    breaks: 'P2',
    file: 'store/sqlite/marks.ts',
    find: 'if (!allNew) this.#connection.savepoint(SAVEPOINT.rollbackTo)',
    replace: 'if (!allNew && marks.length === 0) this.#connection.savepoint(SAVEPOINT.rollbackTo)',
    why: 'one event of several was there already, and the new ones among them are passed over',
  },
  {
    name: 'mark-before-work',
    breaks: 'P1',
    file: 'handle/run-batch.ts',
    find: 'progress.fresh.push(...(yield* wait(tx.marks.insert(run.id, some.map(markOf)))))',
    replace: 'progress.fresh.push(...some.map((ready) => claimed.has(ready)))',
    also: [
      {
        find: 'return guardedCommit(run, expected, (tx, row) => commitBody(tx, run, row, batch))',
        replace: `claimed = await run.store.transact(function* (tx) {
          const isNew = yield* wait(tx.marks.insert(run.id, batch.events.map(markOf)))
          return new Set(batch.events.filter((_, i) => isNew[i]))
        })
        return guardedCommit(run, expected, (tx, row) => commitBody(tx, run, row, batch))`,
      },
      {
        find: 'const MEMO_LIMIT = 65_536',
        replace: 'const MEMO_LIMIT = 65_536\nlet claimed: ReadonlySet<ReadyEvent> = new Set()',
      },
    ],
    why: 'marks are committed first, and the work after them',
  },
  {
    name: 'mark-after-work',
    breaks: 'P1',
    file: 'handle/run-batch.ts',
    find: 'progress.fresh.push(...(yield* wait(tx.marks.insert(run.id, some.map(markOf)))))',
    replace: `for (const { log, stableId } of some) {
        const known = yield* wait(tx.marks.between(run.id, log.blockNumber, log.blockNumber))
        progress.fresh.push(!known.some((mark) => mark.stableId === stableId && mark.blockHash === log.blockHash))
      }`,
    also: [
      {
        find: 'return guardedCommit(run, expected, (tx, row) => commitBody(tx, run, row, batch))',
        replace: `const outcome = await guardedCommit(run, expected, (tx, row) => commitBody(tx, run, row, batch))
        const done = batch.events.filter((ready) => ready.log.blockNumber <= outcome.to.number)
        await run.store.transact(function* (tx) {
          yield* wait(tx.marks.insert(run.id, done.map(markOf)))
        })
        return outcome`,
      },
    ],
    why: 'the work is committed first, and the marks after it',
  },
  {
    name: 'cursor-in-a-commit-of-its-own',
    breaks: 'P1',
    file: 'handle/run.ts',
    find: `yield* closeCommit(tx, run, nonce, change)
      done = { result }
      return result
    })`,
    replace: `yield* closeCommit(tx, run, nonce, { updatedAt: change.updatedAt })
      done = { result }
      later = change
      return result
    }).then(async (result) => {
      await run.store.transact(function* (tx) {
        yield* wait(tx.cursors.change(run.id, later))
      })
      return result
    })`,
    also: [
      {
        find: 'let done: { result: T } | undefined',
        replace: 'let done: { result: T } | undefined\nlet later: CursorChange = { updatedAt: 0 }',
      },
    ],
    why: 'effects and marks are committed, and the cursor, epoch and settled line after them',
  },
  {
    name: 'marked-beyond-the-cut',
    breaks: 'P2',
    file: 'handle/run-batch.ts',
    find: 'if (progress.cutAt) yield* wait(tx.marks.deleteAbove(run.id, progress.cutAt.number))',
    replace: '',
    why: 'events that were marked ahead and not handled, since time was over, count as done',
  },
  {
    name: 'failed-event-passed-over',
    breaks: 'P2',
    file: 'handle/run-batch.ts',
    find: 'if (progress.fresh[progress.next]) progress.kept.push(keptEvent(ready, yield* applyEvent(tx, run, batch, ready)))',
    replace: `if (progress.fresh[progress.next]) {
        let memo: string | null = null
        try {
          memo = yield* applyEvent(tx, run, batch, ready)
        } catch (error) {
          if (!(error instanceof EventFailure)) throw error
        }
        progress.kept.push(keptEvent(ready, memo))
      }`,
    why: 'the cursor moves on although a handler failed',
  },
  {
    name: 'failed-block-committed',
    breaks: 'P1',
    file: 'handle/batch.ts',
    find: 'if (log && log.blockNumber < block) return',
    replace: 'if (log && log.blockNumber <= block) return',
    why: 'what is committed after a failure ends with the failed block, not before it',
  },
  {
    name: 'block-cut-in-the-middle',
    breaks: 'P2',
    file: 'handle/run-batch.ts',
    find: 'if (!last || !following || last.blockNumber === following.blockNumber) return null',
    replace: 'if (!last || !following) return null',
    why: 'when the time is up the cursor passes a block whose last events were not handled',
  },
  {
    name: 'buffered-writes-lost',
    breaks: 'P1',
    file: 'handle/run-batch.ts',
    find: 'yield* flushAll(tx, run) return progress',
    replace: 'return progress',
    why: 'managed rows in the buffer are not written before the commit',
  },
  {
    name: 'buffered-writes-survive-a-rollback',
    breaks: 'P1',
    file: 'handle/run.ts',
    find: 'for (const participant of run.participants) participant.discard()',
    replace: '',
    why: 'managed rows of a failed commit are written with the next one',
  },
  {
    name: 'token-not-checked',
    breaks: 'P9',
    file: 'handle/run.ts',
    find: 'if (!row.token || !sameBytes(row.token, run.token)) {',
    replace: 'if (!row.token) {',
    why: 'a process whose lease was taken over commits all the same',
  },
  {
    name: 'paused-watcher-commits',
    breaks: 'P8',
    file: 'handle/run.ts',
    find: "if (row.state !== 'running' || !sameCursor(row.cursor, expected.cursor)) {",
    replace: 'if (!sameCursor(row.cursor, expected.cursor)) {',
    why: 'a run that was under way when a person paused the watcher commits all the same',
  },
  {
    name: 'token-always-the-same',
    breaks: 'P9',
    file: 'store/sqlite/lease.ts',
    find: 'token: this.#place.world.randomBytes(TOKEN_BYTES)',
    replace: 'token: new Uint8Array(TOKEN_BYTES)',
    why: 'every lease has one token, so none is fenced',
  },
  {
    name: 'lease-not-exclusive',
    breaks: 'P9',
    file: 'store/sqlite/lease.ts',
    find: "const database = tryLock(place, 'EXCLUSIVE')",
    replace: "const database = tryLock(place, 'DEFERRED')",
    why: 'two processes run the same watchers at once',
  },
  {
    name: 'nonce-not-read',
    breaks: 'P1',
    file: 'handle/run.ts',
    find: 'if (yield* wait(tx.cursors.close(run.id, nonce, change))) return',
    replace: 'if ((yield* wait(tx.cursors.change(run.id, change))) === undefined) return',
    why: 'a transaction that a handler ended and began anew is committed with what is left of it',
  },
  {
    name: 'lost-transaction-not-noticed',
    breaks: 'P1',
    file: 'store/sqlite/guard.ts',
    find: 'if (this.connection.inTransaction) return this.#fatal ??=',
    replace: 'if (this.connection.inTransaction || code !== undefined) return\n    this.#fatal ??=',
    why: 'after INSERT OR ROLLBACK the rest of a handler commits by itself, statement by statement',
  },
  {
    name: 'swallowed-error-accepted',
    breaks: 'P2',
    file: 'store/sqlite/guard.ts',
    find: 'if (first === undefined) return',
    replace: 'if (first === undefined || this.#closed) return',
    why: 'a statement failed, the handler went on, and the event counts as done',
  },
  {
    name: 'dead-scope-not-closed',
    breaks: 'P1',
    file: 'store/sqlite/guard.ts',
    find: 'alive(): void { if (!this.#closed) return',
    replace: 'alive(): void {\n    if (!this.#closed || this.#fatal === undefined) return',
    why: 'a handle that was kept from an earlier event still works',
  },
  {
    name: 'promise-accepted',
    breaks: 'P1',
    file: 'handle/scope.ts',
    find: 'if (!isThenable(result)) return result',
    replace: 'if (!isThenable(result) || !run.store.capabilities.asyncHandlers) return result',
    why: 'a handler that has not ended yet counts as done on an embedded store',
  },
  {
    name: 'slow-handler-accepted',
    breaks: 'P11',
    file: 'handle/scope.ts',
    find: 'if (took > timeout) {',
    replace: 'if (took > timeout && timeout < 0) {',
    why: 'a handler that hangs and then returns is no failure',
    given: {
      options: { watchers: ['managed'], rates: only({ mine: 5, run: 10, handlerFault: 6, resume: 4 }) },
      because: 'a statement after the deadline is refused by the guard: the function must hang and run none',
    },
  },
  {
    name: 'permanent-error-retried',
    breaks: 'P8',
    file: 'handle/failure.ts',
    find: "return error.kind === 'retries' ? 'retry' : 'halt'",
    replace: "return error.kind === 'retries' || error.code !== 'UNEXPECTED' ? 'retry' : 'halt'",
    why: 'a watcher that must stop for a person goes on trying',
  },
  {
    name: 'halt-not-written',
    breaks: 'P8',
    file: 'app/runner.ts',
    find: 'await writeHalt(this.run, this.row, reason)',
    replace: 'if (this.row === null) await writeHalt(this.run, this.row, reason)',
    why: 'a halt is told and not kept: the next step goes on',
  },
  {
    name: 'prepared-for-another-event',
    breaks: 'P2',
    file: 'handle/ready.ts',
    find: 'events.push(result.value)',
    replace: 'events.push({ ...result.value, prepared: (events[0] ?? result.value).prepared })',
    why: 'every event gets what was prepared for the first of its batch',
  },
  {
    name: 'memo-lost',
    breaks: 'P3',
    file: 'handle/run-batch.ts',
    find: 'return encodeMemo(run, ready, result)',
    replace: 'return encodeMemo(run, ready, result) === null ? null : null',
    why: 'what the handler returned does not reach the undo function and the final stage',
  },
  {
    name: 'memo-of-another-event',
    breaks: 'P3',
    file: 'handle/run-batch.ts',
    find: 'progress.kept.push(keptEvent(ready, yield* applyEvent(tx, run, batch, ready)))',
    replace: `{
        const memo = yield* applyEvent(tx, run, batch, ready)
        progress.kept.push(keptEvent(ready, progress.kept[0]?.memo ?? memo))
      }`,
    why: 'every event of a batch is undone with the memo of the first',
  },
  {
    name: 'commit-row-counts-what-was-cut',
    breaks: 'P1',
    file: 'handle/run-batch.ts',
    find: 'yield* recordCommit(tx, run, batch)',
    replace: 'yield* recordCommit(tx, run, { ...whole, to: batch.to })',
    why: 'the row of a commit counts events that the next commit applies',
  },
  {
    name: 'duplicates-counted-as-applied',
    breaks: 'P2',
    file: 'handle/run-batch.ts',
    find: 'add: { applied: progress.kept.length, duplicates: progress.duplicates }',
    replace: 'add: { applied: progress.kept.length + progress.duplicates, duplicates: 0 }',
    why: 'an event that was passed over counts as applied',
  },
  {
    name: 'lost-answer-taken-for-success',
    breaks: 'P1',
    file: 'handle/run.ts',
    find: '(await committedAfterAll(run, nonce))) return done.result',
    replace: '((await committedAfterAll(run, nonce)) || done)) return done.result',
    why: 'a COMMIT that failed is told as applied',
  },
]
