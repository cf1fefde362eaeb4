import { afterEach, expect, test } from 'vitest'
import { rows, watch } from '../src/store/sqlite/index.ts'
import { BadBench, Clock, isPoison, POISON } from './support/bad-bench.ts'
import { type Changes, good, pay, TOKEN } from './support/demo-ledger.ts'

/** The user's other functions turned bad: `undo`, `final`, `prepare`, and a handler whose undo is managed. */
const benches: BadBench[] = []
afterEach(async () => {
  for (const b of benches.splice(0)) await b.h.close()
})

function bench(...args: ConstructorParameters<typeof BadBench>): BadBench {
  const b = new BadBench(...args)
  benches.push(b)
  return b
}

type Stage = (scope: any) => unknown

/** A stage that works as the demo's does, and then does `harm` at the poison. */
function harmful(stage: Stage, harm: Stage): Stage {
  return (scope) => {
    stage(scope)
    return isPoison(scope.event) ? harm(scope) : undefined
  }
}

const throws: Stage = () => {
  throw new Error('no')
}
const hangs: Stage = () => {
  for (;;);
}
const swallows: Stage = ({ db }) => {
  try {
    db.exec("INSERT INTO balances VALUES ('x', 1), ('x', 1)")
  } catch {
    // as careless handlers do
  }
}
const rollsBack: Stage = ({ db }) => db.raw.exec('ROLLBACK')
const promises: Stage = async () => {}

const HARMS: readonly (readonly [what: string, harm: Stage, undoCode: string, finalCode: string])[] = [
  ['throws', throws, 'UNDO_FAILED', 'FINAL_FAILED'],
  ['returns a promise', promises, 'HANDLER_RETURNED_PROMISE', 'HANDLER_RETURNED_PROMISE'],
  ['hangs', hangs, 'HANDLER_TIMEOUT', 'HANDLER_TIMEOUT'],
  ['swallows a failed statement', swallows, 'HANDLER_SWALLOWED_ERROR', 'HANDLER_SWALLOWED_ERROR'],
  ['rolls back on db.raw', rollsBack, 'HANDLER_ENDED_TRANSACTION', 'HANDLER_ENDED_TRANSACTION'],
]

test.each(HARMS)(
  'an undo function that %s: nothing is half undone, and the resumed rollback ends well',
  async (_what, harm, code) => {
    const b = bench({ undo: harmful(good.undo as Stage, harm) as never, handlerTimeout: 150 })
    b.chain.mine([pay(501)])
    b.chain.mine([pay(502), pay(POISON), pay(503)])
    b.chain.mine([pay(504)])
    await b.h.settle()
    const orphaned = b.chain.canonical()
    b.chain.reorg(2, { reinclude: 'some-dropped', also: () => [pay(505)] })
    await b.h.settle()
    expect(b.codes()).toEqual([code])
    expect((await b.status()).reason).toMatchObject({
      code,
      values: { watcher: 'ledger/test', block: 2, event: 'Transfer' },
    })
    // Newer events were undone before the bad one was reached: all of it came back.
    expect(b.row()).toMatchObject({ state: 'halted', cursor_block: 3, epoch: 0, undone: 0 })
    expect(b.marks()).toEqual([1, 2, 2, 2, 3])
    expect(b.unlikeChain(orphaned)).toEqual([])
    b.expectOther()
    await b.repair()
    expect(b.row()).toMatchObject({ epoch: 1, reorgs: 1, undone: 4 })
  },
)

test.each(HARMS)(
  'a final stage that %s: earlier blocks settle, the others after the correction',
  async (_what, harm, _undo, code) => {
    const b = bench({ final: harmful(good.final as Stage, harm) as never, handlerTimeout: 150 })
    await b.meetPoison()
    expect(b.codes()).toEqual([])
    b.chain.mineEmpty(10)
    await b.h.settle()
    expect(b.codes()).toEqual([code])
    expect((await b.status()).reason).toMatchObject({
      code,
      values: { watcher: 'ledger/test', block: 3, event: 'Transfer' },
    })
    expect(b.row()).toMatchObject({ state: 'halted', settled: 2 })
    expect(b.unlike(3, ['payouts'])).toEqual([])
    expect(b.unlike(Number.POSITIVE_INFINITY)).toEqual([]) // what the handler did stays
    b.expectOther()
    await b.repair()
  },
)

test.each(HARMS)(
  'a final stage that %s while a final range is applied: the blocks before are in and settled',
  async (_what, harm, _undo, code) => {
    const b = bench({ final: harmful(good.final as Stage, harm) as never, handlerTimeout: 150 })
    b.chain.mine([pay(501), pay(502)])
    b.chain.mine([pay(503)])
    b.chain.mine([pay(504), pay(POISON), pay(505)])
    b.chain.mineEmpty(20)
    await b.h.settle()
    expect(b.codes()).toEqual([code])
    expect((await b.status()).reason).toMatchObject({
      code,
      values: { watcher: 'ledger/test', block: 3, event: 'Transfer' },
    })
    b.expectCutBefore(3)
    expect(b.unlike(3, ['payouts'])).toEqual([])
    expect(b.row()).toMatchObject({ settled: 2 })
    await b.repair()
  },
)

const PREPARES: readonly (readonly [what: string, code: string, harm: () => Promise<unknown>])[] = [
  [
    'throws',
    'PREPARE_FAILED',
    async () => {
      throw new Error(`cannot read ${POISON}`)
    },
  ],
  [
    'throws before it returns a promise',
    'PREPARE_FAILED',
    () => {
      throw new Error('no')
    },
  ],
  ['hangs', 'PREPARE_TIMEOUT', () => new Promise(() => {})],
]

test.each(PREPARES)('a prepare that %s: the watcher is failing, and heals by itself', async (_what, code, harm) => {
  let bad = true
  const prepare: Changes['prepare'] = ({ event }) => (bad && isPoison(event) ? harm() : Promise.resolve(undefined))
  const b = bench({ prepare })
  await b.meetPoison()
  expect(new Set(b.codes())).toEqual(new Set([code]))
  b.expectCutBefore(3)
  expect(b.row()).toMatchObject({ state: 'running', reason: null })
  expect(JSON.stringify(b.h.events)).not.toContain(String(POISON))
  bad = false
  await b.endsWell()
})

test('a prepare that fails in the daemon: the status says failing and why, and recovered is reported once', async () => {
  let bad = true
  const prepare: Changes['prepare'] = async ({ event }) => {
    if (bad && isPoison(event)) throw new Error('no')
  }
  const b = bench({ prepare })
  b.chain.mine([pay(501)])
  b.chain.mine([pay(POISON)])
  await b.h.tidemark.start()
  const happens = (type: string) => new Promise((resolve) => b.h.tidemark.on(type as never, resolve))
  await happens('failing')
  const { health, failing, reason } = await b.status()
  expect([health, reason, failing?.code]).toEqual(['failing', null, 'PREPARE_FAILED'])
  bad = false
  await happens('recovered')
  expect((await b.status()).failing).toBeNull()
  await b.repair()
  expect(b.h.events.filter(({ type, event }) => type === 'recovered' && event.watcher === 'ledger/test').length).toBe(1)
})

/** Raw rows alone, taken back by Tidemark. */
function managed(changes: Changes) {
  return watch({
    on: { test: { address: TOKEN, startBlock: 1, at: 'latest' } },
    events: good.events,
    tables: {
      transfers: rows({ table: 'transfers', columns: { sender: 'text', receiver: 'text', amount: 'uint256' } }),
    },
    undo: 'managed',
    handle: insertRow,
    ...changes,
  } as never)
}

const insertRow: Stage = ({ event, tables }) => {
  const { from, to, value } = event.args
  tables.transfers.insert({ sender: from, receiver: to, amount: value })
}

const WRITES: readonly (readonly [what: string, sql: string])[] = [
  ['writes', "INSERT INTO balances VALUES ('x', 1)"],
  ['makes a table', 'CREATE TABLE extra (a)'],
  ['writes to its own managed table', "INSERT INTO transfers VALUES (9, 9, x'00', 9, 'a', 'b', '1')"],
]

test.each(WRITES)("a handler that %s through db with undo: 'managed': UNTRACKED_WRITE", async (_what, sql) => {
  const b = bench({ handle: harmful(insertRow, ({ db }) => db.exec(sql)) }, { base: managed, tables: ['transfers'] })
  await b.meetPoison()
  expect(b.codes()).toEqual(['UNTRACKED_WRITE'])
  b.expectCutBefore(3)
  await b.repair()
})

test("control: reading through db with undo: 'managed' is fine, and a reorg takes the rows back", async () => {
  const read = harmful(insertRow, ({ db }) => void db.prepare('SELECT count(*) FROM transfers').get())
  const b = bench({ handle: read }, { base: managed, tables: ['transfers'] })
  await b.meetPoison()
  b.chain.reorg(3, { reinclude: 'lower-block' })
  await b.endsWell()
  expect(b.codes()).toEqual([])
})

test('a handler that is slow now and then is not cut off: the limit is for one call', async () => {
  const clock = new Clock(false)
  const handle: Changes['handle'] = (scope) => {
    clock.pass(900)
    return good.handle(scope)
  }
  const b = bench({ handle, handlerTimeout: 1_000 }, { clock })
  await b.meetPoison()
  expect(b.codes()).toEqual([])
  await b.endsWell()
})
