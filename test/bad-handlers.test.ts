import { afterEach, expect, test } from 'vitest'
import type { SqliteDatabaseLike } from '../src/store/sqlite/driver.ts'
import { watch } from '../src/store/sqlite/index.ts'
import { testAddress } from '../src/testkit/index.ts'
import { BadBench, Clock, isPoison, POISON } from './support/bad-bench.ts'
import { ALICE, BOB, type Changes, good, pay, TOKEN } from './support/demo-ledger.ts'

/**
 * A handler that does what it must not do at one event: the watcher halts and says why, the blocks before are in, nothing
 * of the bad block is, the other watcher goes on (P11); and with a corrected handler everything ends as the oracle says.
 */
const benches: BadBench[] = []
afterEach(async () => {
  for (const b of benches.splice(0)) await b.h.close()
})

function bench(...args: ConstructorParameters<typeof BadBench>): BadBench {
  const b = new BadBench(...args)
  benches.push(b)
  return b
}

type Scope = Parameters<typeof good.handle>[0]

/** Works as the demo's handler does, and then does `harm` at the poison. */
function harmful(harm: (scope: Scope) => unknown, more: Changes = {}): Changes {
  const handle: Changes['handle'] = (scope) => {
    good.handle(scope)
    return isPoison(scope.event) ? harm(scope) : undefined
  }
  return { ...more, handle }
}

const raw = ({ db }: Scope) => db.raw as SqliteDatabaseLike

function swallow(work: () => unknown): void {
  try {
    work()
  } catch {
    // as careless handlers do
  }
}

function circle(): unknown {
  const memo: { self?: unknown } = {}
  memo.self = memo
  return memo
}

/** Above the limit of 65,536 characters. */
const HUGE = { text: 'x'.repeat(70_000) }

const HALTS: readonly (readonly [what: string, code: string, changes: Changes])[] = [
  ['returns a promise', 'HANDLER_RETURNED_PROMISE', harmful(async () => {})],
  ['returns a promise that rejects', 'HANDLER_RETURNED_PROMISE', harmful(() => Promise.reject(new Error('later')))],
  ['throws', 'HANDLER_FAILED', harmful(() => JSON.parse('{'))],
  [
    'throws something that is no error',
    'HANDLER_FAILED',
    harmful(() => {
      throw 'a text'
    }),
  ],
  ['rolls back on db.raw', 'HANDLER_ENDED_TRANSACTION', harmful((scope) => raw(scope).exec('ROLLBACK'))],
  [
    'rolls back on db.raw and goes on',
    'HANDLER_ENDED_TRANSACTION',
    harmful((scope) => {
      raw(scope).exec('ROLLBACK')
      swallow(() => good.handle(scope))
    }),
  ],
  ['says COMMIT on db', 'TRANSACTION_CONTROL_REFUSED', harmful(({ db }) => db.exec('COMMIT'))],
  [
    'says COMMIT on db and swallows the refusal',
    'TRANSACTION_CONTROL_REFUSED',
    harmful(({ db }) => swallow(() => db.exec('COMMIT'))),
  ],
  [
    'hides ROLLBACK in a text of several statements',
    'TRANSACTION_CONTROL_REFUSED',
    harmful(({ db }) => db.exec('SELECT 1; /* */ rollback')),
  ],
  [
    'swallows INSERT OR ROLLBACK',
    'TRANSACTION_LOST',
    harmful(({ db }) => swallow(() => db.exec("INSERT OR ROLLBACK INTO balances VALUES ('x', 1), ('x', 1)"))),
  ],
  [
    'swallows a constraint error',
    'HANDLER_SWALLOWED_ERROR',
    harmful(({ db }) => swallow(() => db.exec("INSERT INTO balances VALUES ('x', 1), ('x', 1)"))),
  ],
  [
    'swallows an error of a text that does not parse',
    'HANDLER_SWALLOWED_ERROR',
    harmful(({ db }) => swallow(() => db.prepare('SELEC'))),
  ],
  ['returns a memo that is too long', 'MEMO_INVALID', harmful(() => HUGE)],
  ['returns a memo that is no value', 'MEMO_INVALID', harmful(() => ({ undo: () => {} }))],
  ['returns a memo that holds itself', 'MEMO_INVALID', harmful(circle)],
  [
    'gives a managed row a value of another type',
    'MANAGED_VALUE_INVALID',
    harmful(({ tables }) => (tables.transfers as any).insert({ sender: 5, receiver: 'x', amount: 1n })),
  ],
  ['has a key that is empty', 'KEY_INVALID', { key: (event) => (isPoison(event) ? '' : 'k') }],
  ['has a key that is too long', 'KEY_INVALID', { key: (event) => (isPoison(event) ? 'k'.repeat(256) : 'k') }],
  ['has a key that is no text', 'KEY_INVALID', { key: (event) => (isPoison(event) ? 5 : 'k') }],
  ['has a key function that throws', 'KEY_INVALID', { key: (event) => (isPoison(event) ? JSON.parse('{') : 'k') }],
]

test.each(HALTS)('a handler that %s: %s', async (_what, code, changes) => {
  const b = bench(changes)
  await b.meetPoison()
  expect(b.codes()).toEqual([code])
  b.expectCutBefore(3)
  const { health, reason } = await b.status()
  expect(health).toBe('halted')
  expect(reason).toMatchObject({ code, values: { watcher: 'ledger/test', block: 3 } })
  expect(reason?.next).toContain('resume')
  await b.repair()
})

const endless = (work: () => void): never => {
  for (;;) work()
}

const HANGS: readonly (readonly [what: string, harm: (scope: Scope, clock: Clock) => unknown, real: boolean])[] = [
  ['in an endless loop that touches nothing', () => endless(() => {}), true],
  ['in an endless loop with statements', (scope) => endless(() => scope.db.prepare('SELECT 1').get()), true],
  [
    'in an endless loop with statements that swallows every error',
    (scope) => endless(() => swallow(() => scope.db.prepare('SELECT 1').get())),
    true,
  ],
  ['for longer than handlerTimeout, and then returns', (_, clock) => clock.pass(5_000), false],
  [
    'and then goes on with statements, whose errors it swallows',
    ({ db }, clock) => {
      clock.pass(5_000)
      swallow(() => db.exec("INSERT INTO balances VALUES ('late', 1)"))
    },
    false,
  ],
]

test.each(HANGS)('a handler that hangs %s: HANDLER_TIMEOUT', async (_what, harm, real) => {
  const clock = new Clock(real)
  const b = bench(
    harmful((scope) => harm(scope, clock), { handlerTimeout: 400 }),
    { clock },
  )
  await b.meetPoison()
  expect(b.codes()).toEqual(['HANDLER_TIMEOUT'])
  b.expectCutBefore(3)
  expect((await b.status()).reason).toMatchObject({ code: 'HANDLER_TIMEOUT', values: { block: 3, event: 'Transfer' } })
  await b.repair()
})

test('a handler that throws its arguments: the reason that is kept has none of them (P12)', async () => {
  const message = (event: { args: unknown }) => {
    const { from, to, value } = event.args as { from: string; to: string; value: bigint }
    return `no account ${to} nor ${from.toUpperCase()} for ${value}`
  }
  const b = bench(
    harmful(({ event }) => {
      throw new RangeError(message(event))
    }),
  )
  await b.meetPoison()
  const { reason } = await b.status()
  expect(reason?.sentence).toBe(
    'The handle function threw: RangeError: no account <argument> nor <argument> for <argument>',
  )
  const stored = JSON.stringify(b.h.rows('SELECT reason FROM tidemark_watchers'))
  for (const secret of [ALICE, BOB, String(POISON)]) expect(stored).not.toContain(secret.slice(2, 12))
  await b.repair()
})

test('a failure that a handler expects, inside savepoint(), is no failure', async () => {
  const b = bench(
    harmful(({ db, savepoint }) => {
      swallow(() => savepoint(() => db.exec("INSERT INTO balances VALUES ('x', 1), ('x', 1)")))
    }),
  )
  await b.meetPoison()
  expect(b.codes()).toEqual([])
  await b.endsWell()
})

test('a handler that keeps db for later: the later use is refused, and writes nothing', async () => {
  const kept: Scope['db'][] = []
  const b = bench(harmful(({ db }) => void kept.push(db)))
  await b.meetPoison()
  const later = () => kept[0]?.exec("INSERT INTO balances VALUES ('later', 1)")
  expect(later).toThrow(expect.objectContaining({ code: 'SCOPE_DEAD' }))
  expect(() => kept[0]?.raw).toThrow(expect.objectContaining({ code: 'SCOPE_DEAD' }))
  expect(b.codes()).toEqual([])
  await b.endsWell()
})

/** COMMIT on `db.raw`, with what a handler may do to hide it. SQLite refuses it while a commit is open, so it is nothing. */
const COMMITS: readonly (readonly [what: string, sql: string])[] = [
  ['says COMMIT', 'COMMIT'],
  ['commits and begins again', 'COMMIT; BEGIN IMMEDIATE'],
  ['commits, begins again and makes up the savepoint', 'COMMIT; BEGIN IMMEDIATE; SAVEPOINT tidemark_handler'],
  ['ends it by another word', 'END TRANSACTION'],
  [
    'releases the savepoint around it and commits',
    'RELEASE tidemark_handler; COMMIT; BEGIN; SAVEPOINT tidemark_handler',
  ],
]

test.each(COMMITS)('a handler that %s on db.raw commits nothing: HANDLER_FAILED', async (_what, sql) => {
  const b = bench(harmful((scope) => raw(scope).exec(sql)))
  await b.meetPoison()
  expect(b.codes()).toEqual(['HANDLER_FAILED'])
  b.expectCutBefore(3)
  await b.repair()
})

test.each(COMMITS.slice(0, 4))(
  'a handler that %s on db.raw and swallows the refusal has done nothing',
  async (_what, sql) => {
    const b = bench(harmful((scope) => swallow(() => raw(scope).exec(sql))))
    await b.meetPoison()
    expect(b.codes()).toEqual([])
    await b.endsWell()
  },
)

test('control: outside a commit SQLite does not refuse it', () => {
  const b = bench({})
  b.h.sql((db) => db.exec("BEGIN IMMEDIATE; INSERT INTO balances VALUES ('x', 1); COMMIT"))
  expect(b.h.rows('SELECT account FROM balances')).toEqual([{ account: 'x' }])
})

const ODD = testAddress('odd')

/** Watches a contract more, whose `Transfer` is not the one that was declared. */
function twoContracts(changes: Changes) {
  const { on, ...rest } = changes
  return watch({
    ...good,
    on: { test: { address: [TOKEN, ODD], startBlock: 1, at: 'latest' }, ...on },
    ...rest,
  } as never)
}

test('a log that fits the event by its shape and does not decode: DECODE_FAILED, and what stands before it is in', async () => {
  const b = bench({}, { base: twoContracts })
  await b.meetPoison({ ...pay(POISON), address: ODD, data: '0x' })
  expect(b.codes()).toEqual(['DECODE_FAILED'])
  b.expectCutBefore(3)
  expect((await b.status()).reason).toMatchObject({ code: 'DECODE_FAILED', values: { block: 3, event: 'Transfer' } })
  await b.repair({ on: { test: { address: TOKEN, startBlock: 1, at: 'latest' } } }, 'from-here')
})
