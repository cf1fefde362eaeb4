import { afterEach, expect, test } from 'vitest'
import { TidemarkError } from '../src/errors.ts'
import type { Watcher } from '../src/handle/watch.ts'
import { watch } from '../src/store/sqlite/index.ts'
import { type FakeChain, fakeChain } from '../src/testkit/index.ts'
import {
  ALICE,
  BOB,
  CAROL,
  type Changes,
  differences,
  good,
  ledger,
  pay,
  SCHEMA,
  TOKEN,
} from './support/demo-ledger.ts'
import { Harness, type HarnessOptions } from './support/harness.ts'

/** A configuration that changed between two starts: taken over with a defined meaning, or refused; nothing lost. */
const open: Harness[] = []
afterEach(async () => {
  for (const h of open.splice(0)) await h.close()
})

const by = { actor: 'ada', reason: 'a test' }

function newChain(): FakeChain {
  return fakeChain({ chainId: 7, finalized: { depth: 4 }, safe: { depth: 2 } })
}

function harness(chain: FakeChain, watcher: Watcher, options: Partial<HarnessOptions> = {}): Harness {
  const h = new Harness({ chain, watchers: { ledger: watcher }, schema: SCHEMA, ...options })
  open.push(h)
  return h
}

async function refusal(work: () => unknown): Promise<TidemarkError> {
  try {
    await work()
  } catch (error) {
    if (TidemarkError.is(error)) return error
    throw error
  }
  throw new Error('nothing was refused')
}

function row(h: Harness): Record<string, unknown> {
  return h.rows('SELECT * FROM tidemark_watchers')[0] ?? {}
}

async function steps(h: Harness): Promise<void> {
  await h.world.advance(1_000)
  await h.settle()
}

/** Only what comes to one receiver. */
function onlyTo(to: string, changes: Changes = {}): Watcher {
  const events = { Transfer: { ...good.events.Transfer, args: { to } } }
  return watch({ ...good, on: { test: { address: TOKEN, startBlock: 1, at: 'latest' } }, events, ...changes } as never)
}

test('a changed filter is refused, and nothing is changed', async () => {
  const chain = newChain()
  const h = harness(chain, onlyTo(BOB))
  chain.mine([pay(1), pay(2, ALICE, CAROL)])
  await h.settle()
  const before = row(h)
  await h.restart({ watchers: { ledger: onlyTo(CAROL) } })
  for (const work of [() => h.tidemark.runOnce(), () => h.tidemark.start()]) {
    const error = await refusal(work)
    expect([error.code, error.values, error.next.includes('--accept from-here')]).toEqual([
      'WATCHER_FILTER_CHANGED',
      {
        watcher: 'ledger/test',
        cursor: 1,
        changed: ['args of event Transfer(address indexed,address indexed,uint256)'],
      },
      true,
    ])
  }
  expect(row(h)).toEqual(before)
})

test('a changed filter that is accepted from here: the new one counts from the cursor on, the old effects stay', async () => {
  const chain = newChain()
  const h = harness(chain, onlyTo(BOB))
  chain.mine([pay(1), pay(2, ALICE, CAROL)])
  chain.mineEmpty(8)
  await steps(h)
  await h.restart({ watchers: { ledger: onlyTo(CAROL) }, accept: 'from-here' })
  chain.mine([pay(4), pay(8, ALICE, CAROL)])
  chain.mineEmpty(8)
  await steps(h)
  const amounts = () => h.rows('SELECT amount FROM payouts ORDER BY amount').map(({ amount }) => amount)
  expect(amounts()).toEqual([1, 8])
  // Accepted once: it is the watcher's own filter now.
  await h.restart({ watchers: { ledger: onlyTo(CAROL) } })
  chain.mine([pay(16, ALICE, CAROL)])
  chain.mineEmpty(8)
  await steps(h)
  expect(amounts()).toEqual([1, 8, 16])
})

test('a changed filter accepted above blocks that are not settled: those are taken back and redone under the new one', async () => {
  const chain = newChain()
  const h = harness(chain, onlyTo(BOB))
  chain.mineEmpty(6)
  await h.settle()
  chain.mine([pay(1), pay(2, ALICE, CAROL)])
  await steps(h)
  await h.restart({ watchers: { ledger: onlyTo(CAROL) }, accept: 'from-here' })
  chain.mineEmpty(8)
  await steps(h)
  await steps(h)
  expect(h.events.filter(({ type }) => type === 'halted' || type === 'failing')).toEqual([])
  expect(h.events.filter(({ type }) => type === 'undone').map(({ event }) => event.why)).toEqual(['sweep'])
  expect(h.rows('SELECT amount FROM payouts')).toEqual([{ amount: 2 }])
})

test('a changed filter accepted by a watcher that cannot undo: what was applied stands, and it does not halt over it', async () => {
  const chain = newChain()
  const seen: bigint[] = []
  const blind = (to: string) => {
    const handle: Changes['handle'] = ({ event }) => void seen.push((event.args as { value: bigint }).value)
    return onlyTo(to, {
      undo: undefined,
      final: undefined,
      handle,
      on: { test: { address: TOKEN, startBlock: 1, at: { confirmations: 1 } } },
    } as never)
  }
  const h = harness(chain, blind(BOB))
  chain.mineEmpty(6)
  chain.mine([pay(1), pay(2, ALICE, CAROL)])
  await h.settle()
  await h.restart({ watchers: { ledger: blind(CAROL) }, accept: 'from-here' })
  chain.mine([pay(4), pay(8, ALICE, CAROL)])
  chain.mineEmpty(8)
  await steps(h)
  await steps(h)
  expect(h.events.filter(({ type }) => type === 'halted' || type === 'failing' || type === 'undone')).toEqual([])
  expect(seen).toEqual([1n, 8n])
  expect(Number(row(h).settled)).toBeGreaterThan(8)
})

test('a renamed watcher is refused, and goes on from its cursor under the new name once it is renamed', async () => {
  const chain = newChain()
  const h = harness(chain, ledger())
  chain.mine([pay(1)])
  await h.settle()
  const before = row(h)
  await h.restart({ watchers: { deposits: ledger() } })
  const error = await refusal(() => h.tidemark.runOnce())
  expect([error.code, error.values]).toEqual(['WATCHER_RENAMED', { watcher: 'deposits/test', formerly: 'ledger/test' }])
  expect(error.next).toContain('tidemark rename')
  expect(row(h)).toEqual(before)
  await h.tidemark.admin.rename('ledger/test', 'deposits/test', by)
  chain.mine([pay(2)])
  chain.mineEmpty(8)
  await steps(h)
  expect(h.sql((db) => differences(chain, db))).toEqual([])
  expect(h.rows('SELECT name, applied FROM tidemark_watchers')).toEqual([{ name: 'deposits/test', applied: 2 }])
  expect(h.rows('SELECT actor, action, watcher FROM tidemark_audit')).toEqual([
    { actor: 'ada', action: 'rename', watcher: 'ledger/test' },
  ])
})

test('renaming to a name that is taken, or of a watcher that is not there, is refused', async () => {
  const chain = newChain()
  const h = harness(chain, ledger())
  await h.settle()
  const { rename, resume, pause } = h.tidemark.admin
  expect((await refusal(() => rename('nobody/test', 'x/test', by))).code).toBe('WATCHER_UNKNOWN')
  // The chain left out, or a slip: whoever takes a watcher's name is told which there are.
  for (const name of ['ledger', 'leger/test']) {
    const tries = [
      () => rename(name, 'x/test', by),
      () => resume(name, by),
      () => pause(name, by),
      () => h.tidemark.runOnce({ watcher: name }),
    ]
    for (const one of tries) {
      const { code, message } = await refusal(one)
      expect([code, message]).toEqual(['WATCHER_UNKNOWN', expect.stringContaining("did you mean 'ledger/test'?")])
    }
  }
  // A row without a chain in its name would be found by no configuration.
  for (const to of ['deposits', 'deposits/', '/test', 'a/b/c', 'de posits/test', '']) {
    const { code, message } = await refusal(() => rename('ledger/test', to, by))
    expect([code, message]).toEqual(['WATCHER_INVALID', expect.stringContaining('NAME/CHAIN')])
  }
  const chainless = await refusal(() => rename('ledger/test', 'deposits', by))
  expect(chainless.message).toContain("did you mean 'deposits/test'?")
  expect((await refusal(() => h.tidemark.admin.rename('ledger/test', 'ledger/test', by))).code).toBe('WATCHER_INVALID')
  expect(h.rows('SELECT * FROM tidemark_audit')).toEqual([])
})

test('a chain whose id changed under its watchers is refused, and nothing is changed', async () => {
  const chain = newChain()
  const h = harness(chain, ledger())
  chain.mine([pay(1)])
  await h.settle()
  const before = row(h)
  await h.restart({ chains: { test: { id: 8, rpc: [...h.rpc], pollMs: 100 } } })
  const error = await refusal(() => h.tidemark.runOnce())
  expect([error.code, error.values]).toEqual(['CHAIN_MISMATCH', { watcher: 'ledger/test', stored: 7, configured: 8 }])
  expect(row(h)).toEqual(before)
})

test('a chain that was removed under its watchers is refused, and the cursor waits for it to come back', async () => {
  const chain = newChain()
  const h = harness(chain, ledger())
  chain.mine([pay(1)])
  await h.settle()
  await h.tidemark.stop()
  expect((await refusal(() => h.open({ chains: { other: { id: 7, rpc: [...h.rpc] } } }))).code).toBe(
    'WATCHER_UNKNOWN_CHAIN',
  )
  await h.restart()
  chain.mine([pay(2)])
  chain.mineEmpty(8)
  await steps(h)
  expect(h.sql((db) => differences(chain, db))).toEqual([])
})

test('a paused watcher does nothing and says why; resumed it catches up', async () => {
  const chain = newChain()
  const h = harness(chain, ledger())
  chain.mine([pay(1)])
  await h.settle()
  await h.tidemark.admin.pause('ledger/test', { actor: 'ada', reason: 'moving house' })
  chain.mine([pay(2)])
  await steps(h)
  const [status] = (await h.tidemark.status()).watchers
  expect([status?.health, status?.cursor?.number, status?.reason?.sentence]).toEqual(['paused', 1, 'moving house'])
  await h.restart() // it outlives a restart
  await steps(h)
  expect((await h.tidemark.status()).watchers[0]?.cursor?.number).toBe(1)
  await h.tidemark.admin.resume('ledger/test', by)
  chain.mineEmpty(8)
  await steps(h)
  expect(h.sql((db) => differences(chain, db))).toEqual([])
  expect(h.rows('SELECT action FROM tidemark_audit ORDER BY id')).toEqual([{ action: 'pause' }, { action: 'resume' }])
})

test("startBlock: 'now' begins at the head of the first start, and a restart goes on from the cursor", async () => {
  const chain = newChain()
  chain.mine([pay(1)])
  chain.mineEmpty(9)
  const watcher = ledger({}, { startBlock: 'now' })
  const h = harness(chain, watcher)
  await h.settle()
  expect(row(h)).toMatchObject({ start_block: 10 })
  chain.mine([pay(2)])
  await steps(h)
  await h.tidemark.stop()
  chain.mine([pay(4)])
  await h.restart()
  chain.mineEmpty(8)
  await steps(h)
  expect(row(h)).toMatchObject({ start_block: 10, applied: 2 })
  expect(h.rows('SELECT amount FROM payouts ORDER BY amount')).toEqual([{ amount: 2 }, { amount: 4 }])
})

test('endBlock: nothing above it is applied, the watcher ends once it is settled, and start() comes to its end', async () => {
  const chain = newChain()
  chain.mine([pay(1)])
  chain.mine([pay(2)])
  chain.mine([pay(4)])
  const h = harness(chain, ledger({}, { endBlock: 2 }))
  await h.settle()
  expect((await h.tidemark.runOnce()).nextAt).not.toBeNull() // a reorg may still change block 2
  chain.reorg(2, { reinclude: 'lower-block', also: () => [pay(8)] })
  chain.mineEmpty(9)
  await steps(h)
  expect(h.sql((db) => differences(chain.canonical(0, 2), db))).toEqual([])
  expect(row(h)).toMatchObject({ cursor_block: 2, settled: 2 })
  expect((await h.tidemark.runOnce()).nextAt).toBeNull()
  await h.tidemark.start()
  await (h.tidemark as unknown as { ended(): Promise<void> }).ended()
  expect((await h.tidemark.status()).watchers[0]?.health).toBe('ended')
})

test("at moved from 'finalized' to 'latest': the watcher runs ahead from its cursor on", async () => {
  const chain = newChain()
  const h = harness(chain, ledger({}, { at: 'finalized' }))
  for (let i = 1; i <= 8; i++) chain.mine([pay(i)])
  await h.settle()
  expect(row(h)).toMatchObject({ cursor_block: 4, settled: 4, applied: 4 })
  await h.restart({ watchers: { ledger: ledger({}, { at: 'latest' }) } })
  await steps(h)
  expect(row(h)).toMatchObject({ cursor_block: 8, settled: 4, applied: 8 })
  chain.reorg(3, { reinclude: 'shuffled', also: () => [pay(100)] })
  chain.mineEmpty(8)
  await steps(h)
  expect(h.sql((db) => differences(chain, db))).toEqual([])
})

test("at moved from 'latest' to 'finalized': nothing new until finality has passed the cursor, and a reorg is still undone", async () => {
  const chain = newChain()
  const h = harness(chain, ledger({}, { at: 'latest' }))
  for (let i = 1; i <= 8; i++) chain.mine([pay(i)])
  await h.settle()
  await h.restart({ watchers: { ledger: ledger({}, { at: 'finalized' }) } })
  chain.mine([pay(9)])
  await steps(h)
  expect(row(h)).toMatchObject({ cursor_block: 8, applied: 8 })
  chain.reorg(3, { reinclude: 'some-dropped', also: () => [pay(100)] })
  await steps(h)
  expect(row(h)).toMatchObject({ reorgs: 1 })
  chain.mineEmpty(12)
  await steps(h)
  await steps(h)
  expect(h.sql((db) => differences(chain.canonical(0, Number(row(h).cursor_block)), db))).toEqual([])
  expect(row(h)).toMatchObject({ state: 'running' })
  expect(Number(row(h).cursor_block)).toBeGreaterThan(9)
})
