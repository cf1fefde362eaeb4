import { describe, expect, test } from 'vitest'
import { openDefault } from '../../src/store/sqlite/driver.ts'
import { sqlite } from '../../src/store/sqlite/index.ts'
import { fakeChain } from '../../src/testkit/index.ts'
import { BOB, type Ledger, ledger, pay } from '../support/ledger.ts'
import { LiftedRpc } from '../support/nodes.ts'

/** Cases about the database: numbers that outgrow a column, locks, tables that only grow. */

function chainAt(head: number, depth = 10) {
  const chain = fakeChain({ chainId: 1, finalized: { depth } })
  chain.mineEmpty(head)
  return chain
}

describe('C45 an internal counter above 2^31', () => {
  const INT32 = 2 ** 31 - 1

  /** Every counter, id and sequence of the database stands at 2^31 − 1. */
  async function raise(h: Ledger): Promise<void> {
    const store = sqlite({ file: h.file, world: h.world })
    await store.migrate('auto')
    await store.close()
    h.sql((db) =>
      db.exec(
        `INSERT INTO sqlite_sequence (name, seq) VALUES ('tidemark_watchers', ${INT32}), ('tidemark_audit', ${INT32})`,
      ),
    )
  }

  test('counters, ids and block numbers go on', async () => {
    const chain = chainAt(20)
    await ledger({ chain, at: 'latest', startBlock: INT32 + 15, rpc: [new LiftedRpc(chain, INT32)] }, async (h) => {
      await raise(h)
      await h.settle()
      expect((await h.watcher()).cursor?.number).toBe(INT32 + 20)
      h.sql((db) =>
        db.exec(
          `UPDATE tidemark_watchers SET applied = ${INT32}, undone = ${INT32}, duplicates = ${INT32}, reorgs = ${INT32}, epoch = ${INT32}`,
        ),
      )
      const by = { actor: 'ada', reason: 'a look' }
      await h.tidemark.admin.pause('ledger/test', by)
      await h.tidemark.admin.resume('ledger/test', by)
      chain.fork(20, 'b')
      chain.mine([pay('T1', 1)])
      await h.settle()
      chain.mine([pay('T2', 2), pay('T3', 3)], { branch: 'b' })
      chain.adopt('b')
      await h.settle()
      const { counters, epoch, cursor, reason } = await h.watcher()
      expect(reason).toBe(null)
      expect(counters).toMatchObject({ applied: INT32 + 3, undone: INT32 + 1, duplicates: INT32, reorgs: INT32 + 1 })
      expect(epoch).toBe(INT32 + 1)
      expect(cursor?.number).toBe(INT32 + 21)
      expect(h.rows('SELECT id FROM tidemark_watchers')).toEqual([{ id: INT32 + 1 }])
      expect(h.rows('SELECT id FROM tidemark_audit ORDER BY id')).toEqual([{ id: INT32 + 1 }, { id: INT32 + 2 }])
      expect(h.rows('SELECT DISTINCT block_number, watcher FROM tidemark_processed_events')).toEqual([
        { block_number: INT32 + 21, watcher: INT32 + 1 },
      ])
      expect(h.balance(BOB)).toBe(5)
    })
  })
})

// Two processes that mark the same events at once: src/store/sqlite/processes.test.ts; a deferred transaction that
// upgrades, with its control: src/store/sqlite/dangers.test.ts and src/dedup/deduplication-manager.test.ts.
describe('C57 SQLite: read first, then write', () => {
  test("another writer on the file: busy is not the handler's failure, and the whole commit is tried again", async () => {
    const chain = chainAt(20)
    await ledger({ chain, at: 'latest', startBlock: 15, busyTimeoutMs: 20 }, async (h) => {
      await h.settle()
      chain.mine([pay('T1', 1)])
      const other = openDefault(h.file)
      // The application reads, then writes; the lock is taken at once. The daemon holds its lease meanwhile.
      await h.tidemark.start()
      other.exec('BEGIN IMMEDIATE')
      other.prepare('SELECT count(*) FROM tidemark_processed_events').all()
      for (let i = 0; i < 20 && h.codes('failing').length < 2; i++) await h.world.advance(300)
      expect(new Set(h.codes('failing'))).toEqual(new Set(['STORE_BUSY']))
      expect(h.codes('halted')).toEqual([])
      expect(h.marks()).toEqual([])
      other.exec("INSERT INTO balances VALUES ('app', 1)")
      other.exec('COMMIT')
      other.close()
      for (let i = 0; i < 20 && (await h.cursor()) !== '21a'; i++) await h.world.advance(10_000)
      expect(h.marks()).toEqual(['T1,0@21a'])
      expect(h.balance(BOB)).toBe(1)
      // The lock was wanted before anything was read or done: the handler ran only in the commit that succeeded.
      expect(h.calls).toEqual(['T1,0@21a'])
      h.sql((db) => db.exec("DELETE FROM balances WHERE account = 'app'"))
      expect(await h.differences()).toEqual([])
    })
  })

  test('a reader with an old snapshot holds up nothing', async () => {
    const chain = chainAt(20)
    await ledger({ chain, at: 'latest', startBlock: 15, busyTimeoutMs: 20 }, async (h) => {
      await h.settle()
      const reader = openDefault(h.file)
      reader.exec('BEGIN')
      const count = () => reader.prepare('SELECT count(*) AS n FROM tidemark_processed_events').get()?.n
      expect(count()).toBe(0)
      chain.mine([pay('T1', 1)])
      await h.settle()
      expect(h.marks()).toEqual(['T1,0@21a'])
      expect(count()).toBe(0)
      reader.exec('COMMIT')
      reader.close()
      expect(h.codes('failing')).toEqual([])
      expect(await h.differences()).toEqual([])
    })
  })
})

/*
 * 1,000,000 events, with table sizes: bench/. A cap by number of ids, and the first id after 3,000 others:
 * src/dedup/bounded-deduplicator.test.ts.
 */
describe('C62 a seen-set that only grows', () => {
  const DEPTH = 64
  const RETENTION = 150
  const counts = (h: Ledger) => {
    const count = (table: string) => Number(h.rows(`SELECT count(*) AS n FROM ${table}`)[0]?.n)
    return {
      marks: count('tidemark_processed_events'),
      kept: count('tidemark_kept_events'),
      blocks: count('tidemark_unfinalized_blocks'),
      commits: count('tidemark_commits'),
    }
  }
  let mined = 0
  const mine = (chain: ReturnType<typeof chainAt>, blocks: number) => {
    for (let i = 0; i < blocks; i++) chain.mine([pay(`T${++mined}`, 1)])
  }

  test('tables stay bounded while it runs and right after a restart, and forgetting makes nothing new', async () => {
    const chain = fakeChain({ chainId: 1, finalized: { depth: DEPTH } })
    const config = { retentionBlocks: RETENTION }
    await ledger({ chain, at: 'latest', startBlock: 1, config, chainInput: { maxRange: 100 } }, async (h) => {
      // One event a block; the low-water mark is raised in steps of 256 blocks.
      const bound = RETENTION + 256
      for (let round = 0; round < 3; round++) {
        mine(chain, 500)
        if (round > 0) await h.restart()
        await h.settle()
        const found = counts(h)
        expect(found.marks).toBeLessThanOrEqual(bound)
        expect(found.kept).toBeLessThanOrEqual(DEPTH + 1)
        expect(found.blocks).toBeLessThanOrEqual(DEPTH + 2)
        expect(found.commits).toBeLessThanOrEqual(bound)
      }
      const { lowWater, counters } = await h.watcher()
      expect(lowWater).toBeGreaterThanOrEqual(1500 - bound)
      expect(counters.applied).toBe(1500)
      expect(h.balance(BOB)).toBe(1500)
      // A node that sends old blocks again is not asked for them: nothing at or below the cursor is read anew.
      h.rpc[0]!.log.clear()
      await h.settle()
      for (const range of h.rpc[0]!.log.ranges()) expect(range.from).toBeGreaterThan(1500 - DEPTH - 64)
      // A shorter retention takes effect by itself at the first look after a restart.
      await h.restart({ retentionBlocks: 10 })
      await h.settle()
      expect(counts(h).marks).toBeLessThanOrEqual(DEPTH + 256)
      expect(h.balance(BOB)).toBe(1500)
    })
  })

  test('control: with a retention longer than the chain the marks do grow', async () => {
    const chain = fakeChain({ chainId: 1, finalized: { depth: DEPTH } })
    await ledger({ chain, at: 'latest', startBlock: 1 }, async (h) => {
      mine(chain, 600)
      await h.settle()
      expect(counts(h).marks).toBe(600)
    })
  })
})
