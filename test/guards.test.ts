import { afterEach, expect, test } from 'vitest'
import type { SqliteDatabaseLike } from '../src/store/sqlite/driver.ts'
import { type FakeChain, fakeChain } from '../src/testkit/index.ts'
import { type Changes, differences, good, ledger, pay, SCHEMA } from './support/demo-ledger.ts'
import { Harness } from './support/harness.ts'

/**
 * Each guard of the commit, reached alone: its code shows and no other, what came before it is committed, nothing of
 * what it stopped is, and the watcher goes on as its kind says: it stands down and reads again, or waits for a person.
 */
const open: Harness[] = []
afterEach(async () => {
  for (const h of open.splice(0)) await h.close()
})

type Tamper = (db: SqliteDatabaseLike) => void

interface Bench {
  readonly h: Harness
  readonly chain: FakeChain
  /** Runs once on a connection of its own, between the reading of the cursor row and the commit. */
  tamper(work: Tamper): void
  /** What failed or halted, in order. */
  codes(): unknown[]
  oracle(): string[]
  row(): Record<string, unknown>
}

/** A watcher that has applied block 1 and stands on it. */
async function bench(changes: Changes = {}): Promise<Bench> {
  const chain = fakeChain({ chainId: 7, finalized: { depth: 3 } })
  let next: Tamper | undefined
  const prepare = async () => {
    if (next) h.sql(next)
    next = undefined
  }
  const h = new Harness({ chain, watchers: { ledger: ledger({ prepare, ...changes }) }, schema: SCHEMA })
  open.push(h)
  chain.mine([pay(1)])
  await h.settle()
  return {
    h,
    chain,
    tamper: (work) => {
      next = work
    },
    codes: () => h.events.flatMap(({ type, event }) => codeOf(type, event)),
    oracle: () => h.sql((db) => differences(chain, db)),
    row: () => h.rows('SELECT * FROM tidemark_watchers')[0] ?? {},
  }
}

function codeOf(type: string, event: Record<string, unknown>): unknown[] {
  if (type === 'failing') return [event.code]
  return type === 'halted' ? [(event.reason as { code: string }).code] : []
}

/** Blocks until everything is settled, and the user's tables as the oracle wants them. */
async function endsWell({ h, chain, oracle }: Bench): Promise<void> {
  chain.mineEmpty(6)
  await h.world.advance(1_000)
  await h.settle()
  expect(oracle()).toEqual([])
  expect(h.rows('SELECT state, duplicates FROM tidemark_watchers')).toEqual([{ state: 'running', duplicates: 0 }])
}

/** What a commit writes, as it stands now. */
function written({ h }: Bench): unknown {
  return [
    'balances',
    'transfers',
    'payouts',
    'tidemark_processed_events',
    'tidemark_kept_events',
    'tidemark_commits',
  ].map((table) => h.rows(`SELECT * FROM ${table}`))
}

test('FENCED: a process whose token was replaced commits nothing, and its next lease goes on (P9)', async () => {
  const b = await bench()
  const before = written(b)
  b.tamper((db) => db.exec("UPDATE tidemark_watchers SET token = x'00112233445566778899aabbccddeeff'"))
  b.chain.mine([pay(2)])
  await b.h.tidemark.runOnce({ budgetMs: 60_000 })
  expect(new Set(b.codes())).toEqual(new Set(['FENCED']))
  expect(written(b)).toEqual(before)
  await endsWell(b)
})

test('FENCED: a fenced process halts nobody, whatever it meets', async () => {
  let fenced = false
  // The key is asked for between the reading of the row and the commit, as `prepare` is.
  const key = () => {
    if (fenced) b.h.sql((db) => db.exec("UPDATE tidemark_watchers SET token = x'00112233445566778899aabbccddeeff'"))
    return fenced ? '' : 'k'
  }
  const b = await bench({ key })
  const before = written(b)
  b.chain.mine([pay(2)])
  fenced = true
  await b.h.tidemark.runOnce({ budgetMs: 60_000 })
  expect(new Set(b.codes())).toEqual(new Set(['FENCED']))
  expect(b.row()).toMatchObject({ state: 'running', reason: null })
  expect(written(b)).toEqual(before)
  fenced = false
  await endsWell(b)
})

test('control: the same error under the right token does halt', async () => {
  let bad = false
  const b = await bench({ key: () => (bad ? '' : 'k') })
  b.chain.mine([pay(2)])
  bad = true
  await b.h.tidemark.runOnce({ budgetMs: 60_000 })
  expect(b.codes()).toEqual(['KEY_INVALID'])
})

test('EPOCH_CHANGED: a run that was rolled back meanwhile stands down and reads again at once', async () => {
  const b = await bench()
  b.tamper((db) => db.exec('UPDATE tidemark_watchers SET epoch = epoch + 1'))
  b.chain.mine([pay(2)])
  await b.h.tidemark.runOnce({ budgetMs: 60_000 })
  expect(b.codes()).toEqual(['EPOCH_CHANGED'])
  expect(b.h.events.find(({ type }) => type === 'failing')?.event).toMatchObject({ tries: 1, waitMs: 0 })
  expect(b.row()).toMatchObject({ cursor_block: 2, epoch: 1, applied: 2 })
  await endsWell(b)
})

test('POSITION_MOVED: a run that finds another cursor stands down, reads again and goes on from there', async () => {
  const b = await bench()
  const [empty] = b.chain.mineEmpty(1)
  b.chain.mine([pay(2)])
  b.tamper((db) => {
    db.prepare('UPDATE tidemark_watchers SET cursor_block = ?, cursor_hash = ?').run(
      2,
      Buffer.from(empty!.hash.slice(2), 'hex'),
    )
  })
  await b.h.tidemark.runOnce({ budgetMs: 60_000 })
  expect(b.codes()).toEqual(['POSITION_MOVED'])
  expect(b.row()).toMatchObject({ cursor_block: 3, applied: 2 })
  expect(b.h.rows('SELECT from_block, to_block FROM tidemark_commits ORDER BY from_block').at(-1)).toEqual({
    from_block: 3,
    to_block: 3,
  })
  await endsWell(b)
})

test('POSITION_MOVED: a watcher that is paused between reading and commit commits nothing more', async () => {
  const b = await bench()
  const before = written(b)
  b.tamper((db) => db.exec("UPDATE tidemark_watchers SET state = 'paused'"))
  b.chain.mine([pay(2)])
  await b.h.settle()
  expect(b.codes()).toEqual(['POSITION_MOVED'])
  expect(written(b)).toEqual(before)
  await b.h.tidemark.admin.resume('ledger/test', { actor: 'ada', reason: 'enough' })
  await endsWell(b)
})

test('CURSOR_BELOW_LOW_WATER: a cursor moved below forgotten marks halts before anything is read (C65, P7)', async () => {
  const b = await bench()
  b.chain.mine([pay(2)])
  await b.h.settle()
  const { cursor_block, cursor_hash } = b.row()
  b.h.sql((db) => {
    db.exec('UPDATE tidemark_watchers SET low_water = 2; DELETE FROM tidemark_processed_events')
    db.prepare('UPDATE tidemark_watchers SET cursor_block = 1, cursor_hash = ?').run(hashOf(b.chain, 1))
  })
  const before = written(b)
  await b.h.settle()
  expect(b.codes()).toEqual(['CURSOR_BELOW_LOW_WATER'])
  expect(b.row()).toMatchObject({ state: 'halted', cursor_block: 1 })
  expect(written(b)).toEqual(before)
  b.h.sql((db) =>
    db
      .prepare('UPDATE tidemark_watchers SET cursor_block = ?, cursor_hash = ?')
      .run(cursor_block as number, cursor_hash as Uint8Array),
  )
  await b.h.tidemark.admin.resume('ledger/test', { actor: 'ada', reason: 'cursor put back' })
  b.chain.mine([pay(3)])
  await b.h.settle()
  expect(b.codes()).toEqual(['CURSOR_BELOW_LOW_WATER'])
  expect(b.h.sql((db) => differences(b.chain, db, ['balances', 'transfers']))).toEqual([])
})

function hashOf(chain: FakeChain, block: number): Uint8Array {
  return Buffer.from(chain.blockByNumber(block)!.hash.slice(2), 'hex')
}

test('CURSOR_BELOW_LOW_WATER: the same is seen under the lock, when marks went between reading and commit', async () => {
  const b = await bench()
  const before = written(b)
  b.tamper((db) => db.exec('UPDATE tidemark_watchers SET low_water = 50'))
  b.chain.mine([pay(2)])
  await b.h.settle()
  expect(b.codes()).toEqual(['CURSOR_BELOW_LOW_WATER'])
  expect(written(b)).toEqual(before)
  b.h.sql((db) => db.exec('UPDATE tidemark_watchers SET low_water = NULL'))
  await b.h.tidemark.admin.resume('ledger/test', { actor: 'ada', reason: 'mark put back' })
  await endsWell(b)
})

/** A handler that does `harm` at amount 2, as long as it is bad. */
function harmful(harm: (scope: Parameters<typeof good.handle>[0]) => void): { changes: Changes; repair: () => void } {
  let bad = true
  const handle: Changes['handle'] = (scope) => {
    good.handle(scope)
    if (bad && (scope.event.args as { value: bigint }).value === 2n) harm(scope)
  }
  return { changes: { handle }, repair: () => (bad = false) }
}

type Harm = Parameters<typeof harmful>[0]

function raw(scope: Parameters<Harm>[0], sql: string): void {
  ;(scope.db.raw as SqliteDatabaseLike).exec(sql)
}

function swallow(work: () => void): void {
  try {
    work()
  } catch {
    // as careless handlers do
  }
}

let leaked: { exec(sql: string): void } | undefined

const HALTING: readonly (readonly [code: string, what: string, harm: Harm])[] = [
  [
    'NONCE_LOST',
    'the transaction is lost and another one opened, savepoint and all: every flag says that it is open',
    (scope) => raw(scope, 'ROLLBACK; BEGIN IMMEDIATE; SAVEPOINT tidemark_handler'),
  ],
  [
    'TRANSACTION_LOST',
    'a statement rolled back from inside and its error was swallowed: the driver says that no transaction is open',
    ({ db }) => swallow(() => db.exec("INSERT OR ROLLBACK INTO balances VALUES ('x', 1), ('x', 2)")),
  ],
  [
    'HANDLER_ENDED_TRANSACTION',
    'the handler rolled back and began again: the savepoint around it is gone',
    (scope) => raw(scope, 'ROLLBACK; BEGIN IMMEDIATE'),
  ],
  ['SCOPE_DEAD', 'the handle of an earlier event is used', () => leaked?.exec("INSERT INTO balances VALUES ('x', 1)")],
]

test.each(HALTING)('%s: %s', async (code, _what, harm) => {
  const { changes, repair } = harmful(harm)
  const handle: Changes['handle'] = (scope) => {
    leaked ??= scope.db as never
    return changes.handle?.(scope)
  }
  leaked = undefined
  const b = await bench({ handle })
  const before = written(b)
  b.chain.mine([pay(7), pay(2)])
  await b.h.settle()
  expect(b.codes()).toEqual([code])
  expect(b.row()).toMatchObject({ state: 'halted', cursor_block: 1 })
  expect(written(b)).toEqual(before)
  repair()
  await b.h.tidemark.admin.resume('ledger/test', { actor: 'ada', reason: 'handler corrected' })
  await endsWell(b)
})
