import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, expectTypeOf, test } from 'vitest'
import { TidemarkError } from '../errors.ts'
import { openDefault, type SqliteDatabaseLike } from '../store/sqlite/driver.ts'
import { sqlite } from '../store/sqlite/index.ts'
import type { Hex } from '../util/bytes.ts'
import { wait } from '../util/op.ts'
import { DeduplicationManager, type DeduplicationManagerOptions, type OnceOutcome } from './deduplication-manager.ts'
import type { DeduplicationEvent, Positioned } from './event-key.ts'
import type { MarkStore, MarkTx } from './mark-store.ts'

type Embedded = MarkStore<SqliteDatabaseLike, false>

let folder: string
let file: string
let store: ReturnType<typeof sqlite>
let db: SqliteDatabaseLike
const opened: SqliteDatabaseLike[] = []

/** A connection of the application's own, as it would open it. */
function connect(): SqliteDatabaseLike {
  const connection = openDefault(file)
  connection.exec('PRAGMA busy_timeout = 0; PRAGMA synchronous = OFF')
  opened.push(connection)
  return connection
}

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'tidemark-dedup-'))
  file = join(folder, 'app.db')
  store = sqlite({ file, busyTimeoutMs: 0 })
  await store.migrate('auto')
  db = connect()
  db.exec('CREATE TABLE totals (account TEXT PRIMARY KEY, amount INTEGER NOT NULL)')
})

afterEach(async () => {
  for (const connection of opened.splice(0)) connection.close()
  await store.close()
  rmSync(folder, { recursive: true })
})

function manager(options: Partial<DeduplicationManagerOptions<SqliteDatabaseLike, false, DeduplicationEvent>> = {}) {
  return new DeduplicationManager({ store: store as unknown as Embedded, chainId: 1, ...options })
}

function event(index: number, more: Partial<DeduplicationEvent> = {}): DeduplicationEvent {
  const transactionHash = `0x${index.toString(16).padStart(64, '0')}` as Hex
  return { transactionHash, logIndex: index, blockNumber: 100, ...more }
}

const content = { address: `0x${'aa'.repeat(20)}`, topics: [], data: '0x01', n: 0 } as const
const blockHash = (n: number) => `0x${n.toString(16).padStart(64, 'b')}` as Hex
const block = (n: number) => ({ number: n, hash: blockHash(n) })

/** Not idempotent on purpose: a second run shows. */
function credit(connection = db, account = 'alice', amount = 1): number {
  const sql = 'INSERT INTO totals VALUES (?, ?) ON CONFLICT DO UPDATE SET amount = amount + excluded.amount'
  connection.prepare(sql).run(account, amount)
  return amount
}

function total(account = 'alice'): number {
  return Number(db.prepare('SELECT amount FROM totals WHERE account = ?').get(account)?.amount ?? 0)
}

function transaction<T>(work: () => T, connection = db): T {
  connection.exec('BEGIN IMMEDIATE')
  try {
    const result = work()
    connection.exec('COMMIT')
    return result
  } catch (error) {
    if (connection.isTransaction) connection.exec('ROLLBACK')
    throw error
  }
}

function codeOf(fn: () => unknown): string {
  try {
    return JSON.stringify(fn())
  } catch (error) {
    return TidemarkError.is(error) ? error.code : String(error)
  }
}

async function codeOfAsync(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    (value) => JSON.stringify(value),
    (error) => (TidemarkError.is(error) ? error.code : String(error)),
  )
}

const marks = (scope = 'default') => store.read((tx) => wait(tx.handled.count(scope)))

describe('effects once', () => {
  test('the work of a repeat is not run, in the same transaction or in a later one', () => {
    const dedup = manager()
    const first = transaction(() => [dedup.once(db, event(1), credit), dedup.once(db, event(1), credit)])
    expect(first).toEqual([{ outcome: 'done', value: 1 }, { outcome: 'duplicate' }])
    expect(transaction(() => dedup.once(db, event(1), credit))).toEqual({ outcome: 'duplicate' })
    expect(total()).toBe(1)
  })

  test('the mark is gone with the transaction that was rolled back', async () => {
    const dedup = manager()
    db.exec('BEGIN IMMEDIATE')
    dedup.once(db, event(1), credit)
    db.exec('ROLLBACK')
    expect(await dedup.isEventProcessed(event(1))).toBe(false)
    expect(transaction(() => dedup.once(db, event(1), credit)).outcome).toBe('done')
    expect(total()).toBe(1)
  })

  test('a log that a reorg re-includes at another index and in another block is a repeat', () => {
    const dedup = manager()
    const outcomes = [{ ...content }, { ...content, logIndex: 7 }, { ...content, blockNumber: 103 }].map(
      (more) => transaction(() => dedup.once(db, event(1, more), credit)).outcome,
    )
    expect(outcomes).toEqual(['done', 'duplicate', 'duplicate'])
  })

  test('C41: the same hash on two chains is two events, with two cursors', async () => {
    const [one, ten] = [manager(), manager({ chainId: 10 })]
    transaction(() => {
      one.once(db, event(1), () => credit(db, 'bob', 1))
      ten.once(db, event(1), () => credit(db, 'bob', 2))
      one.setCursor(db, block(100))
    })
    expect(total('bob')).toBe(3)
    expect((await one.getWatcherState()).cursor).toEqual(block(100))
    expect((await ten.getWatcherState()).cursor).toBeNull()
    expect((await ten.getWatcherState(1)).cursor).toEqual(block(100))
  })

  test('C46: an address or a hash in another spelling is the same event', () => {
    const dedup = manager()
    const hashes = [`0x${'ab'.repeat(32)}`, `0x${'AB'.repeat(32)}`] as Hex[]
    const addresses = [`0x${'cd'.repeat(20)}`, `0x${'CD'.repeat(20)}`] as Hex[]
    for (const transactionHash of hashes) {
      for (const address of addresses) {
        transaction(() => dedup.once(db, event(1, { ...content, transactionHash, address }), credit))
      }
    }
    expect(total()).toBe(1)
  })

  test('two names are strangers to each other', () => {
    for (const name of ['deposits', 'mails']) transaction(() => manager({ name }).once(db, event(1), credit))
    expect(total()).toBe(2)
  })

  test('an identity of one’s own names events that have no index', () => {
    type Entry = Positioned & { txId: string }
    const dedup = new DeduplicationManager({
      store: store as unknown as Embedded,
      chainId: 5,
      identity: (entry: Entry) => entry.txId,
    })
    const run = (txId: string) => transaction(() => dedup.once(db, { txId, blockNumber: 1 }, credit)).outcome
    expect([run('a'), run('a'), run('b')]).toEqual(['done', 'duplicate', 'done'])
  })
})

describe('C56: failed work leaves no mark', () => {
  const fail = () => {
    credit()
    throw new Error('boom')
  }

  test('the error is thrown on and the user’s rollback takes the key back', async () => {
    const dedup = manager()
    expect(() => transaction(() => dedup.once(db, event(1), fail))).toThrow('boom')
    expect([await marks(), total()]).toEqual([0, 0])
    expect(transaction(() => dedup.once(db, event(1), credit)).outcome).toBe('done')
  })

  test('even when the error is caught and the rest is committed', async () => {
    const dedup = manager()
    transaction(() => {
      dedup.once(db, event(1), credit)
      expect(() => dedup.once(db, event(2), fail)).toThrow('boom')
      dedup.once(db, event(3), credit)
    })
    expect([await marks(), total()]).toEqual([2, 2])
    expect(await dedup.isEventProcessed(event(2))).toBe(false)
  })

  test('a promise is refused on an embedded store, and nothing of it stays', async () => {
    const dedup = manager()
    const slow = async () => {
      credit()
      await Promise.resolve()
      throw new Error('later')
    }
    transaction(() => expect(codeOf(() => dedup.once(db, event(1), slow))).toBe('HANDLER_RETURNED_PROMISE'))
    expect([await marks(), total()]).toEqual([0, 0])
  })

  test('once inside the work of another once: both or none', async () => {
    const dedup = manager()
    const nested = (then: () => void) => () => {
      dedup.once(db, event(2), credit)
      then()
    }
    transaction(() => expect(() => dedup.once(db, event(1), nested(fail))).toThrow('boom'))
    expect([await marks(), total()]).toEqual([0, 0])
    transaction(() =>
      dedup.once(
        db,
        event(1),
        nested(() => {}),
      ),
    )
    expect([await marks(), total()]).toEqual([2, 1])
  })
})

describe('work that ends the transaction it runs in', () => {
  let next = 1
  /** Another event each time: what the work commits itself stays marked. */
  const run = (work: () => void) => {
    db.exec('BEGIN IMMEDIATE')
    const code = codeOf(() => manager().once(db, event(next++), work))
    if (db.isTransaction) db.exec('ROLLBACK')
    return code
  }

  test('COMMIT, ROLLBACK and a swallowed INSERT OR ROLLBACK are noticed: the transaction is lost', () => {
    expect(run(() => db.exec('COMMIT'))).toBe('TRANSACTION_LOST')
    expect(run(() => db.exec('ROLLBACK'))).toBe('TRANSACTION_LOST')
    const swallow = () => {
      try {
        db.exec("INSERT OR ROLLBACK INTO totals VALUES ('zed', 1), ('zed', 1)")
      } catch {}
    }
    expect(run(swallow)).toBe('TRANSACTION_LOST')
  })

  test('a transaction of its own put in place of the caller’s is noticed too', () => {
    expect(run(() => db.exec('ROLLBACK; BEGIN'))).toBe('HANDLER_ENDED_TRANSACTION')
  })

  test('committed and then failed: the error says that the mark does not stand with the work', () => {
    const fail = (sql: string) => () => {
      db.exec(sql)
      throw new Error('boom')
    }
    expect(run(fail('COMMIT'))).toBe('TRANSACTION_LOST')
    expect(run(fail('COMMIT; BEGIN'))).toBe('HANDLER_ENDED_TRANSACTION')
  })

  test('without an open transaction nothing is run', () => {
    expect(codeOf(() => manager().once(db, event(1), credit))).toBe('NOT_IN_TRANSACTION')
    expect(total()).toBe(0)
  })
})

describe('C57: two processors on one file', () => {
  test('the second waits outside, tries the whole transaction again, and finds a duplicate', () => {
    const dedup = manager()
    const other = connect()
    db.exec('BEGIN IMMEDIATE')
    dedup.once(db, event(1), credit)
    expect(() => other.exec('BEGIN IMMEDIATE')).toThrow(/locked/)
    db.exec('COMMIT')
    const again = transaction(() => dedup.once(other, event(1), () => credit(other)), other)
    expect([again.outcome, total()]).toEqual(['duplicate', 1])
  })

  test('two deferred transactions that both read first: one is told busy, not done, and its retry is a duplicate', () => {
    const dedup = manager()
    const other = connect()
    for (const connection of [db, other]) connection.exec('BEGIN; SELECT count(*) FROM totals')
    other.prepare('SELECT * FROM totals').all()
    expect(dedup.once(db, event(1), credit).outcome).toBe('done')
    db.exec('COMMIT')
    expect(codeOf(() => dedup.once(other, event(1), () => credit(other)))).toBe('STORE_BUSY')
    other.exec('ROLLBACK')
    const again = transaction(() => dedup.once(other, event(1), () => credit(other)), other)
    expect([again.outcome, total()]).toEqual(['duplicate', 1])
  })

  test('each processor takes what the other has not: together every event once', () => {
    const dedup = manager()
    const other = connect()
    for (let i = 0; i < 20; i++) {
      const [first, second] = i % 2 ? [db, other] : [other, db]
      transaction(() => dedup.once(first, event(i), () => credit(first)), first)
      transaction(() => dedup.once(second, event(i), () => credit(second)), second)
    }
    expect(total()).toBe(20)
  })
})

describe('asking and marking apart', () => {
  test('mark is idempotent, alone and in the caller’s transaction', async () => {
    const dedup = manager()
    expect(await dedup.isEventProcessed(event(1))).toBe(false)
    await dedup.markEventProcessed(event(1))
    await dedup.markEventProcessed(event(1))
    transaction(() => dedup.markEventProcessed(event(1), db))
    expect([await dedup.isEventProcessed(event(1)), await marks()]).toEqual([true, 1])
    expect(transaction(() => dedup.once(db, event(1), credit)).outcome).toBe('duplicate')
  })

  test('a mark in the caller’s transaction is gone with its rollback', async () => {
    const dedup = manager()
    db.exec('BEGIN IMMEDIATE')
    dedup.markEventProcessed(event(1), db)
    db.exec('ROLLBACK')
    expect(await dedup.isEventProcessed(event(1))).toBe(false)
  })

  test('asking marks nothing', async () => {
    await manager().isEventProcessed(event(1))
    expect(await marks()).toBe(0)
  })
})

/** The same store with every answer behind a promise, as a store over a connection gives them. */
function promised(): MarkStore<SqliteDatabaseLike, true> {
  const late = <T extends object>(target: T): T =>
    new Proxy(target, {
      get(on, name) {
        const member = Reflect.get(on, name) as unknown
        if (typeof member !== 'function') return late(member as object)
        return async (...given: unknown[]) => member.apply(on, given)
      },
    })
  return {
    capabilities: { asyncHandlers: true, shared: false, refusesForeignCommit: true, longestTransactionMs: 0 },
    transact: () => Promise.reject(new Error('not here')),
    read: () => Promise.reject(new Error('not here')),
    join: (connection) => late(store.join(connection) as MarkTx),
  }
}

test('on a store that answers with promises, once waits for its work and for its marks', async () => {
  const dedup = new DeduplicationManager({ store: promised(), chainId: 1 })
  const slowly = async () => {
    await Promise.resolve()
    return credit()
  }
  const fail = async () => {
    await slowly()
    throw new Error('boom')
  }
  db.exec('BEGIN IMMEDIATE')
  expect(await dedup.once(db, event(1), slowly)).toEqual({ outcome: 'done', value: 1 })
  expect(await dedup.once(db, event(1), slowly)).toEqual({ outcome: 'duplicate' })
  await expect(dedup.once(db, event(2), fail)).rejects.toThrow('boom')
  expect(await codeOfAsync(dedup.once(db, event(2, { logIndex: -1 }), slowly))).toBe('EVENT_KEY_INVALID')
  await dedup.setCursor(db, block(9))
  db.exec('COMMIT')
  expect([await marks(), total()]).toEqual([1, 1])
})

test('the types tell a store that answers at once from one that promises', () => {
  const now = manager()
  const later = new DeduplicationManager({ store: promised(), chainId: 1 })
  expectTypeOf(() => now.once(db, event(1), () => 5)).returns.toEqualTypeOf<OnceOutcome<number>>()
  expectTypeOf(() => later.once(db, event(1), async () => 5)).returns.toEqualTypeOf<Promise<OnceOutcome<number>>>()
  expectTypeOf(() => now.setCursor(db, block(1))).returns.toEqualTypeOf<void>()
})

describe('bad input', () => {
  test.each([
    [{ chainId: 0 }, 'CONFIG_INVALID'],
    [{ chainId: '1' }, 'CONFIG_INVALID'],
    [{ name: '' }, 'CONFIG_INVALID'],
    [{ name: 'x'.repeat(256) }, 'CONFIG_INVALID'],
    [{ store: {} }, 'CONFIG_INVALID'],
    [{ identity: 'id' }, 'CONFIG_INVALID'],
    [{ retentionBlocks: -1 }, 'CONFIG_INVALID'],
    [{ retentionBlocks: 1.5 }, 'CONFIG_INVALID'],
    [{ retentionBlock: 5 }, 'CONFIG_UNKNOWN_KEY'],
  ])('%j is refused with %s', (options, code) => {
    expect(codeOf(() => manager(options as object))).toBe(code)
  })

  test('a bad event, cursor or limit is refused before anything is written', async () => {
    const dedup = manager()
    transaction(() => {
      expect(codeOf(() => dedup.once(db, event(1, { logIndex: -1 }), credit))).toBe('EVENT_KEY_INVALID')
      expect(codeOf(() => dedup.setCursor(db, { number: 5 } as never))).toBe('CONFIG_INVALID')
      expect(codeOf(() => dedup.setCursor(db, { ...block(5), number: null } as never))).toBe('CONFIG_INVALID')
    })
    expect(await codeOfAsync(dedup.isEventProcessed(event(1, { logIndex: -1 })))).toBe('EVENT_KEY_INVALID')
    expect(await codeOfAsync(dedup.markEventProcessed(event(1, { logIndex: -1 })))).toBe('EVENT_KEY_INVALID')
    expect(await codeOfAsync(dedup.cleanupOldEvents({ limit: 0 }))).toBe('CONFIG_INVALID')
    expect(await codeOfAsync(dedup.getWatcherState(-1))).toBe('CONFIG_INVALID')
    expect([total(), await marks()]).toEqual([0, 0])
  })
})
