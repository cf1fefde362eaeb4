import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { TidemarkError } from '../errors.ts'
import { openDefault, type SqliteDatabaseLike } from '../store/sqlite/driver.ts'
import { sqlite } from '../store/sqlite/index.ts'
import type { Hex } from '../util/bytes.ts'
import { wait } from '../util/op.ts'
import { realWorld } from '../util/world.ts'
import { DeduplicationManager, type DeduplicationManagerOptions } from './deduplication-manager.ts'
import type { DeduplicationEvent } from './event-key.ts'
import type { MarkStore } from './mark-store.ts'

type Embedded = MarkStore<SqliteDatabaseLike, false>

let folder: string
let store: ReturnType<typeof sqlite>
let db: SqliteDatabaseLike

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'tidemark-forget-'))
  const file = join(folder, 'app.db')
  store = sqlite({ file, busyTimeoutMs: 0 })
  await store.migrate('auto')
  db = openDefault(file)
  db.exec('PRAGMA busy_timeout = 0; PRAGMA synchronous = OFF')
})

afterEach(async () => {
  db.close()
  await store.close()
  rmSync(folder, { recursive: true })
})

function manager(options: Partial<DeduplicationManagerOptions<SqliteDatabaseLike, false, DeduplicationEvent>> = {}) {
  return new DeduplicationManager({ store: store as unknown as Embedded, chainId: 1, ...options })
}

const hex32 = (n: number) => `0x${n.toString(16).padStart(64, '0')}` as Hex
const cursorAt = (number: number, chainId?: number) => ({ number, hash: hex32(number), chainId })
/** One event for each block. */
const at = (blockNumber: number, chainId?: number): DeduplicationEvent => ({
  transactionHash: hex32(blockNumber),
  logIndex: 0,
  blockNumber,
  chainId,
})

function transaction<T>(work: () => T): T {
  db.exec('BEGIN IMMEDIATE')
  try {
    return work()
  } finally {
    db.exec('COMMIT')
  }
}

type Manager = ReturnType<typeof manager>

/** Hands over the blocks and answers how each ended. */
function handOver(dedup: Manager, blocks: readonly number[], chainId?: number): string[] {
  return transaction(() => blocks.map((block) => dedup.once(db, at(block, chainId), () => {}).outcome))
}

const moveTo = (dedup: Manager, block: number, chainId?: number) =>
  transaction(() => dedup.setCursor(db, cursorAt(block, chainId)))

const codeOf = (promise: Promise<unknown>) =>
  promise.then(
    () => 'no error',
    (error) => (TidemarkError.is(error) ? error.code : String(error)),
  )

function thrown(fn: () => unknown): string {
  try {
    fn()
    return 'no error'
  } catch (error) {
    return TidemarkError.is(error) ? error.code : String(error)
  }
}

const marks = (scope = 'default') => store.read((tx) => wait(tx.handled.count(scope)))

describe('P7: forgetting re-opens nothing', () => {
  test('C65: 20,000 blocks done, half forgotten, all handed over again: none is applied twice', async () => {
    const dedup = manager()
    const all = Array.from({ length: 20_000 }, (_, i) => i + 1)
    expect(new Set(handOver(dedup, all))).toEqual(new Set(['done']))
    moveTo(dedup, 20_000)
    const report = await dedup.cleanupOldEvents()
    expect(report).toEqual({
      chains: [{ chainId: 1, lowWater: 10_000, deleted: 9_999 }],
      skipped: [],
      deleted: 9_999,
      more: false,
    })
    const again = handOver(dedup, all)
    expect(again.slice(0, 9_999).every((outcome) => outcome === 'too-old')).toBe(true)
    expect(again.slice(9_999).every((outcome) => outcome === 'duplicate')).toBe(true)
  })

  test('the edge: exactly 10,000 blocks behind the cursor a mark is kept; one block further it is forgotten', async () => {
    const dedup = manager()
    handOver(dedup, [9_999, 10_000, 10_001])
    moveTo(dedup, 20_000)
    await dedup.cleanupOldEvents()
    expect(await dedup.isEventProcessed(at(10_000))).toBe(true)
    expect(await codeOf(dedup.isEventProcessed(at(9_999)))).toBe('EVENT_TOO_OLD')
    expect(handOver(dedup, [9_999, 10_000, 10_001])).toEqual(['too-old', 'duplicate', 'duplicate'])
  })

  test('an event never seen is too old at the low-water mark and new above it', async () => {
    const dedup = manager({ retentionBlocks: 10 })
    moveTo(dedup, 100)
    await dedup.cleanupOldEvents()
    expect(handOver(dedup, [90, 91])).toEqual(['too-old', 'done'])
  })

  test('too old leaves no mark behind, in any form of asking and marking', async () => {
    const dedup = manager({ retentionBlocks: 10 })
    moveTo(dedup, 100)
    await dedup.cleanupOldEvents()
    let ran = false
    transaction(() => {
      expect(dedup.once(db, at(50), () => (ran = true)).outcome).toBe('too-old')
      expect(thrown(() => dedup.markEventProcessed(at(50), db))).toBe('EVENT_TOO_OLD')
    })
    expect(await codeOf(dedup.markEventProcessed(at(50)))).toBe('EVENT_TOO_OLD')
    expect(await codeOf(dedup.isEventProcessed(at(50)))).toBe('EVENT_TOO_OLD')
    expect([ran, await marks()]).toEqual([false, 0])
  })

  test('an event re-included in a later block is not forgotten with its first block', async () => {
    const dedup = manager({ retentionBlocks: 10 })
    const log = { ...at(89), address: `0x${'aa'.repeat(20)}` as Hex, topics: [], data: '0x' as Hex, n: 0 }
    const again = { ...log, blockNumber: 95 }
    const once = (event: DeduplicationEvent) => transaction(() => dedup.once(db, event, () => {}).outcome)
    expect([once(log), once(again), once(log)]).toEqual(['done', 'duplicate', 'duplicate'])
    moveTo(dedup, 100)
    await dedup.cleanupOldEvents()
    expect(once(again)).toBe('duplicate')
  })

  test('a crash between the two steps leaves rows for the next run, and nothing looks new', async () => {
    const dedup = manager({ retentionBlocks: 10 })
    handOver(dedup, [10, 20, 95])
    moveTo(dedup, 100)
    let commits = 0
    const dying: Embedded = {
      capabilities: { asyncHandlers: false, shared: false, refusesForeignCommit: true, longestTransactionMs: 0 },
      read: (body) => store.read(body),
      join: (connection) => store.join(connection),
      transact: (body) => (commits++ === 0 ? store.transact(body) : Promise.reject(new Error('killed'))),
    }
    await expect(manager({ store: dying, retentionBlocks: 10 }).cleanupOldEvents()).rejects.toThrow('killed')
    expect([await marks(), (await dedup.getWatcherState()).lowWater]).toEqual([3, 90])
    expect(handOver(dedup, [10, 15, 95])).toEqual(['duplicate', 'too-old', 'duplicate'])
    expect((await dedup.cleanupOldEvents()).deleted).toBe(2)
    expect(handOver(dedup, [10, 15, 95])).toEqual(['too-old', 'too-old', 'duplicate'])
  })

  test('a store with writers side by side deletes only after its longest transaction has passed', async () => {
    const rowsWhileWaiting: number[] = []
    const sleep = async (ms: number) => {
      rowsWhileWaiting.push(ms, await marks(), (await manager().getWatcherState()).lowWater ?? -1)
    }
    const patient: Embedded = {
      capabilities: { asyncHandlers: false, shared: false, refusesForeignCommit: true, longestTransactionMs: 60_000 },
      read: (body) => store.read(body),
      join: (connection) => store.join(connection),
      transact: (body) => store.transact(body),
    }
    const dedup = manager({ store: patient, retentionBlocks: 10, world: { ...realWorld, sleep } })
    handOver(dedup, [10, 95])
    moveTo(dedup, 100)
    await dedup.cleanupOldEvents()
    expect([rowsWhileWaiting, await marks()]).toEqual([[60_000, 2, 90], 1])
  })
})

describe('the cursor', () => {
  test('C65: it may go back above the low-water mark and to it, never below', async () => {
    const dedup = manager()
    moveTo(dedup, 20_000)
    await dedup.cleanupOldEvents()
    for (const block of [19_000, 10_000]) {
      moveTo(dedup, block)
      expect((await dedup.getWatcherState()).cursor?.number).toBe(block)
    }
    transaction(() => expect(thrown(() => dedup.setCursor(db, cursorAt(9_999)))).toBe('CURSOR_BELOW_LOW_WATER'))
    expect(await dedup.getWatcherState()).toMatchObject({ cursor: { number: 10_000 }, lowWater: 10_000, chainId: 1 })
  })

  test('a cursor that went back does not take the low-water mark with it', async () => {
    const dedup = manager({ retentionBlocks: 10 })
    moveTo(dedup, 100)
    await dedup.cleanupOldEvents()
    moveTo(dedup, 92)
    await dedup.cleanupOldEvents()
    expect((await dedup.getWatcherState()).lowWater).toBe(90)
  })

  test('it stands or falls with the caller’s transaction', async () => {
    const dedup = manager()
    moveTo(dedup, 5)
    db.exec('BEGIN IMMEDIATE')
    dedup.setCursor(db, cursorAt(6))
    db.exec('ROLLBACK')
    expect((await dedup.getWatcherState()).cursor).toEqual({ number: 5, hash: hex32(5) })
  })

  test('a chain never heard of has an empty state', async () => {
    expect(await manager().getWatcherState(77)).toEqual({ chainId: 77, cursor: null, lowWater: null, updatedAt: null })
  })
})

describe('cleanup as a cron runs it', () => {
  test('no chain at all: nothing to do', async () => {
    expect(await manager().cleanupOldEvents()).toEqual({ chains: [], skipped: [], deleted: 0, more: false })
  })

  test('each chain by its own cursor, one without a cursor skipped, another name left alone', async () => {
    const dedup = manager({ retentionBlocks: 10 })
    const other = manager({ retentionBlocks: 10, name: 'other' })
    for (const chain of [1, 10, 137]) handOver(dedup, [5, 50, 95], chain)
    handOver(other, [5])
    moveTo(dedup, 100, 1)
    moveTo(dedup, 20, 10)
    const report = await dedup.cleanupOldEvents()
    expect(report.chains).toEqual([
      { chainId: 1, lowWater: 90, deleted: 2 },
      { chainId: 10, lowWater: 10, deleted: 1 },
    ])
    expect([report.skipped, report.deleted]).toEqual([[137], 3])
    expect([await marks(), await marks('other')]).toEqual([6, 1])
    expect((await dedup.getWatcherState(137)).lowWater).toBeNull()
  })

  test('a cursor lower than the retention forgets nothing; at the retention block 0 becomes the low-water mark', async () => {
    const dedup = manager({ retentionBlocks: 10 })
    handOver(dedup, [0, 1])
    moveTo(dedup, 9)
    expect((await dedup.cleanupOldEvents()).chains).toEqual([{ chainId: 1, lowWater: null, deleted: 0 }])
    moveTo(dedup, 10)
    expect((await dedup.cleanupOldEvents()).chains).toEqual([{ chainId: 1, lowWater: 0, deleted: 0 }])
    expect(handOver(dedup, [0, 1])).toEqual(['duplicate', 'duplicate'])
  })

  test('it may run any number of times', async () => {
    const dedup = manager({ retentionBlocks: 10 })
    handOver(dedup, [10, 20, 95])
    moveTo(dedup, 100)
    const runs = [await dedup.cleanupOldEvents(), await dedup.cleanupOldEvents(), await dedup.cleanupOldEvents()]
    expect(runs.map((report) => report.deleted)).toEqual([2, 0, 0])
    expect(await marks()).toBe(1)
  })

  test('a limit is kept across chains, and the rest goes with the next runs', async () => {
    const dedup = manager({ retentionBlocks: 10 })
    for (const chain of [1, 10]) {
      handOver(
        dedup,
        Array.from({ length: 50 }, (_, i) => i),
        chain,
      )
      moveTo(dedup, 100, chain)
    }
    const runs = []
    for (let i = 0; i < 4; i++) runs.push(await dedup.cleanupOldEvents({ limit: 40 }))
    expect(runs.map((report) => [report.deleted, report.more])).toEqual([
      [40, true],
      [40, true],
      [20, false],
      [0, false],
    ])
  })

  test('rows go in steps of at most 1,000, each in a transaction of its own', async () => {
    const dedup = manager({ retentionBlocks: 0 })
    handOver(
      dedup,
      Array.from({ length: 2_500 }, (_, i) => i),
    )
    moveTo(dedup, 2_500)
    const { transact } = store
    let transactions = 0
    store.transact = (body) => {
      transactions++
      return transact.call(store, body) as never
    }
    expect((await dedup.cleanupOldEvents()).deleted).toBe(2_500)
    expect(transactions).toBe(1 + 3)
  })

  test('while another connection writes it says busy and has changed nothing', async () => {
    const dedup = manager({ retentionBlocks: 10 })
    handOver(dedup, [10])
    moveTo(dedup, 100)
    db.exec('BEGIN IMMEDIATE')
    expect(await codeOf(dedup.cleanupOldEvents())).toBe('STORE_BUSY')
    db.exec('COMMIT')
    expect([await marks(), (await dedup.getWatcherState()).lowWater]).toEqual([1, null])
    expect((await dedup.cleanupOldEvents()).deleted).toBe(1)
  })

  test('C62: with a cleanup now and then the table stays bounded, whatever the length of the run', async () => {
    const dedup = manager({ retentionBlocks: 64 })
    let most = 0
    for (let block = 100; block <= 5_000; block += 100) {
      handOver(
        dedup,
        Array.from({ length: 100 }, (_, i) => block - 99 + i),
      )
      moveTo(dedup, block)
      most = Math.max(most, await marks())
      await dedup.cleanupOldEvents()
    }
    expect(most).toBeLessThanOrEqual(100 + 64 + 1)
    expect(await marks()).toBe(65)
  })
})
