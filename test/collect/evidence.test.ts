import { expect, test } from 'vitest'
import type { BlockNumber } from '../../src/chain/block.ts'
import type { RpcCall, RpcTransport } from '../../src/chain/rpc.ts'
import type { SourceStep } from '../../src/collect/source.ts'
import { TidemarkError } from '../../src/errors.ts'
import { type FakeChain, fakeChain, fakeRpc } from '../../src/testkit/index.ts'
import { Driver, pay, plan, sourceOf } from './driver.ts'

/** Each piece of evidence, with the lie that only it finds out. */

const DEEP = 1100

function chainOf(length: number, every = 1): FakeChain {
  const chain = fakeChain({ chainId: 1, finalized: { depth: 10 } })
  for (let n = 1; n <= length; n++) chain.mine(n % every === 0 ? [pay(n)] : [])
  return chain
}

/** One URL, two nodes behind it: `choose` says which calls go to the second. */
function balanced(
  first: RpcTransport,
  second: RpcTransport,
  choose: (calls: readonly RpcCall[]) => boolean,
): RpcTransport {
  return { label: 'balanced', send: (calls, signal) => (choose(calls) ? second : first).send(calls, signal) }
}

const asksLogs = (calls: readonly RpcCall[]) => calls.some((call) => call.method === 'eth_getLogs')
const asksHead = (calls: readonly RpcCall[]) => calls.some((call) => call.params[0] === 'latest')
const numbered = (n: number) => (params: readonly unknown[]) => params[0] === `0x${n.toString(16)}`
const ranged = (params: readonly unknown[]) => 'fromBlock' in (params[0] as object)

function canonical(chain: FakeChain, step: SourceStep): boolean {
  return step.kind === 'blocks' && chain.blockByNumber(step.to.number)?.hash === step.to.hash
}

test('far below the head: logs at the end of a range must be of the block that the same answer names', async () => {
  const chain = chainOf(DEEP, 5)
  const rpc = fakeRpc(chain)
  rpc.once('eth_getLogs', ranged, (_, honest) => {
    const logs = (honest as { result: { blockNumber: string; blockHash: string }[] }).result
    const changed = logs.map((log) => (log === logs.at(-1) ? { ...log, blockHash: `0x${'9'.repeat(64)}` } : log))
    return { ok: true, result: changed }
  })
  const driver = new Driver(1, sourceOf(1, [rpc], { maxRange: 26 }), plan('finalized'))
  await driver.step()
  expect(driver.cursor?.number).toBe(25)
  expect(driver.held()).toEqual(driver.expected(chain))
})

test('far below the head: the backend that answers a range must have the cursor on its chain', async () => {
  const chain = chainOf(20)
  chain.fork(10, 'b')
  for (let n = 21; n <= DEEP + 50; n++) chain.mine([])
  for (let n = 11; n <= 60; n++) chain.mine([pay(1000 + n)], { branch: 'b' })
  const honest = fakeRpc(chain)
  const driver = new Driver(1, sourceOf(1, [honest], { maxRange: 21 }), plan('finalized'))
  await driver.step()
  const other = fakeRpc(chain, { backends: [{ branch: 'b' }] })
  driver.source = sourceOf(1, [balanced(honest, other, asksLogs)], { maxRange: 21 })
  expect(await driver.step()).toMatchObject({ kind: 'idle', why: 'node-behind' })
  expect(driver.cursor?.number).toBe(20)
})

test('near the head: a log of another block, and a log that is withheld, are found before a final range is applied', async () => {
  for (const lie of ['foreign', 'withheld'] as const) {
    const chain = chainOf(40)
    const rpc = fakeRpc(chain)
    rpc.once('eth_getLogs', ranged, (_, honest) => {
      const logs = (honest as { result: { blockNumber: string }[] }).result
      const changed = logs.flatMap((log) => {
        if (log.blockNumber !== '0x7') return [log]
        return lie === 'withheld' ? [] : [{ ...log, blockHash: `0x${'9'.repeat(64)}` }]
      })
      return { ok: true, result: changed }
    })
    const driver = await new Driver(1, sourceOf(1, [rpc]), plan('finalized')).run(50, true)
    expect(driver.held()).toEqual(driver.expected(chain))
    expect(driver.values).toHaveLength(30)
  }
})

test('near the head: a final range that ends on an orphaned branch is not applied', async () => {
  const chain = chainOf(20)
  chain.fork(20, 'b')
  for (let n = 21; n <= 26; n++) chain.mine([], { branch: 'b' })
  for (let n = 21; n <= 36; n++) chain.mine([])
  const stuck = fakeRpc(chain, { backends: [{ branch: 'b' }] })
  const driver = new Driver(1, sourceOf(1, [balanced(fakeRpc(chain), stuck, asksLogs)]), plan('finalized'))
  expect((await driver.step()).kind).toBe('idle')
  expect(driver.cursor).toBe(null)
})

/*
 *   18 ── 19a ── 20a ── 21a ── 22a ── 23a
 *     └── 19b ── 20b ── 21b ── 22b
 */
function forked() {
  const chain = chainOf(18)
  chain.fork(18, 'b')
  for (let n = 19; n <= 23; n++) chain.mine([pay(n)])
  for (let n = 19; n <= 22; n++) chain.mine([pay(100 + n)], { branch: 'b' })
  return { chain, rpc: fakeRpc(chain), sibling: fakeRpc(chain, { backends: [{ branch: 'b' }] }) }
}

/** Nothing settles, so that the next step is about blocks. */
const FAR = { finality: { depth: 100 } }

test('an unfinal block must stand on the cursor', async () => {
  const { chain, rpc, sibling } = forked()
  const driver = new Driver(1, sourceOf(1, [fakeRpc(chain, { backends: [{ behind: 3 }] })], FAR), plan('latest'))
  await driver.run()
  expect(driver.cursor?.number).toBe(20)
  const b21 = await sibling.request({ method: 'eth_getBlockByNumber', params: ['0x15', false] })
  rpc.once('eth_getBlockByNumber', numbered(21), { result: b21 as never })
  driver.source = sourceOf(1, [rpc], FAR)
  const step = await driver.step()
  expect(canonical(chain, step)).toBe(true)
})

test('a block counts as confirmed only by a head that stands on it', async () => {
  const { chain, rpc, sibling } = forked()
  const watch = plan({ confirmations: 3 }, { keepsUndo: false })
  const driver = await new Driver(1, sourceOf(1, [fakeRpc(chain, { backends: [{ behind: 3 }] })], FAR), watch).run()
  expect(driver.cursor?.number).toBe(18)
  for (const n of [19, 20, 21]) {
    const block = await sibling.request({ method: 'eth_getBlockByNumber', params: [`0x${n.toString(16)}`, false] })
    rpc.once('eth_getBlockByNumber', numbered(n), { result: block as never })
  }
  driver.source = sourceOf(1, [rpc], FAR)
  const step = await driver.step()
  expect(canonical(chain, step)).toBe(true)
})

test('nothing settles on an orphaned branch, though the node that answers has it', async () => {
  const { chain, sibling } = forked()
  const driver = await new Driver(1, sourceOf(1, [sibling]), plan('latest')).run()
  expect(driver.cursor?.number).toBe(22)
  for (let n = 24; n <= 32; n++) chain.mine([])
  // The head comes from the canonical node, everything else from the one that is stuck.
  driver.source = sourceOf(1, [balanced(sibling, fakeRpc(chain), asksHead)])
  for (let i = 0; i < 4; i++) await driver.step()
  expect(driver.settled).toBeLessThanOrEqual(18)
})

test('a node that is stuck on an old sibling is behind: it proves no violation of finality', async () => {
  const chain = chainOf(15)
  chain.fork(15, 'b')
  for (let n = 16; n <= 30; n++) chain.mine([pay(n)])
  for (let n = 16; n <= 22; n++) chain.mine([], { branch: 'b' })
  const driver = await new Driver(1, sourceOf(1, [fakeRpc(chain)]), plan('finalized')).run()
  expect(driver.cursor?.number).toBe(20)
  driver.source = sourceOf(1, [fakeRpc(chain, { backends: [{ branch: 'b' }] })])
  expect(await driver.step()).toMatchObject({ kind: 'idle', why: 'node-behind' })
  // Control: once the other branch has buried the block itself, it is a violation.
  for (let n = 23; n <= 31; n++) chain.mine([], { branch: 'b' })
  await expect(driver.run()).rejects.toMatchObject({ code: 'REORG_BELOW_FINALITY' })
})

test('a sibling that is too short to confirm anything proves no violation of confirmations', async () => {
  const chain = chainOf(3)
  chain.fork(3, 'b')
  for (let n = 4; n <= 12; n++) chain.mine([pay(n)])
  for (let n = 4; n <= 5; n++) chain.mine([], { branch: 'b' })
  const watch = plan({ confirmations: 9 })
  const driver = await new Driver(1, sourceOf(1, [fakeRpc(chain)]), watch).run()
  expect(driver.values).toEqual([1, 2, 3, 4])
  driver.source = sourceOf(1, [fakeRpc(chain, { backends: [{ branch: 'b' }] })])
  expect(await driver.step()).toMatchObject({ kind: 'idle', why: 'node-behind' })
})

test('what was stored as final halts, although it is not settled and could be undone', async () => {
  const chain = chainOf(30)
  const driver = await new Driver(1, sourceOf(1, [fakeRpc(chain)]), plan('latest')).run()
  expect(driver.settled).toBe(20)
  driver.finalized = 25 as BlockNumber
  chain.reorg(8, { extraBlocks: 6 })
  const error = await driver.run().catch((thrown) => thrown)
  expect(TidemarkError.is(error) && error.code).toBe('REORG_BELOW_FINALITY')
  expect(error.values).toMatchObject({ block: 23, finalized: 25, settled: 20 })
  // Control: with the finality as it was, the same reorg is an ordinary one.
  driver.finalized = 20 as BlockNumber
  await driver.run()
  expect(driver.held()).toEqual(driver.expected(chain))
})

test('a sweep whose readings differ from each other takes nothing back and settles nothing', async () => {
  const chain = chainOf(3)
  const rpc = fakeRpc(chain)
  const driver = await new Driver(1, sourceOf(1, [rpc]), plan('latest')).run()
  chain.mine([pay(4)])
  rpc.setFaults({ phantomLog: { chance: 1, attempts: 1 } })
  await driver.run()
  rpc.stopFaults()
  for (let n = 5; n <= 14; n++) chain.mine([])
  // Applied: the log and a phantom. By range: nothing. By hash: the log.
  rpc.times(Number.POSITIVE_INFINITY, 'eth_getLogs', ranged, { result: [] })
  const before = driver.settled
  await driver.run(40)
  expect(driver.kinds()).not.toContain('rollback')
  expect(driver.settled).toBe(before)
  rpc.stopFaults()
  await driver.run(40, true)
  expect(driver.held()).toEqual(driver.expected(chain))
})

test('C33: a node that leaves a log out of ranges, but not out of its block, does not hold up settling', async () => {
  const chain = chainOf(20)
  const rpc = fakeRpc(chain)
  const driver = new Driver(1, sourceOf(1, [rpc], { finality: { depth: 100 } }), plan('latest'))
  await driver.run()
  rpc.times(Number.POSITIVE_INFINITY, 'eth_getLogs', ranged, (_, honest) => {
    const logs = (honest as { result: { blockNumber: string }[] }).result
    return { ok: true, result: logs.filter((log) => log.blockNumber !== '0x7') }
  })
  driver.source = sourceOf(1, [rpc])
  await driver.run()
  expect(driver.settled).toBe(10)
  expect(driver.values).toHaveLength(20)
})
