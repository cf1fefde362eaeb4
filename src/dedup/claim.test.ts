import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, expectTypeOf, test } from 'vitest'
import { TidemarkError } from '../errors.ts'
import { openDefault, type SqliteDatabaseLike } from '../store/sqlite/driver.ts'
import { sqlite } from '../store/sqlite/index.ts'
import type { Hex } from '../util/bytes.ts'
import { wait } from '../util/op.ts'
import { realWorld } from '../util/world.ts'
import { MAX_EXPIRED_CLAIMS } from './claim.ts'
import { DeduplicationManager, type DeduplicationManagerOptions } from './deduplication-manager.ts'
import type { DeduplicationEvent } from './event-key.ts'
import { eventId, stableId } from './identity.ts'
import type { MarkStore } from './mark-store.ts'

type Embedded = MarkStore<SqliteDatabaseLike, false>

let folder: string
let store: ReturnType<typeof sqlite>
let db: SqliteDatabaseLike
/** The database's clock: SQLite runs in this process. */
const clock = { time: 1_000_000 }
const world = { ...realWorld, now: () => clock.time }
const LEASE = { leaseMs: 1_000 }

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'tidemark-claim-'))
  const file = join(folder, 'app.db')
  store = sqlite({ file, busyTimeoutMs: 0, world })
  await store.migrate('auto')
  db = openDefault(file)
  db.exec('PRAGMA busy_timeout = 0; PRAGMA synchronous = OFF; CREATE TABLE mails (receiver TEXT NOT NULL)')
})

afterEach(async () => {
  db.close()
  await store.close()
  rmSync(folder, { recursive: true })
})

function manager(options: Partial<DeduplicationManagerOptions<SqliteDatabaseLike, false, DeduplicationEvent>> = {}) {
  return new DeduplicationManager({ store: store as unknown as Embedded, chainId: 1, world, ...options })
}

type Manager = ReturnType<typeof manager>

function event(index: number, more: Partial<DeduplicationEvent> = {}): DeduplicationEvent {
  const transactionHash = `0x${index.toString(16).padStart(64, '0')}` as Hex
  return { transactionHash, logIndex: index, blockNumber: 100, ...more }
}

const send = (receiver = 'alice') => db.prepare('INSERT INTO mails VALUES (?)').run(receiver)
const mails = () => Number(db.prepare('SELECT count(*) AS n FROM mails').get()?.n)
const moveTo = (dedup: Manager, number: number) =>
  transaction(() => dedup.setCursor(db, { number, hash: `0x${'b0'.repeat(32)}` }))
const mark = (dedup: Manager, one: DeduplicationEvent) => transaction(() => dedup.once(db, one, () => {}).outcome)

function transaction<T>(work: () => T): T {
  db.exec('BEGIN IMMEDIATE')
  try {
    const result = work()
    db.exec('COMMIT')
    return result
  } catch (error) {
    if (db.isTransaction) db.exec('ROLLBACK')
    throw error
  }
}

/** A claim that must be there. */
async function claim(dedup: Manager, one = event(1), options = LEASE) {
  const taken = await dedup.claim(one, options)
  if (taken.outcome !== 'claimed') throw new Error(`expected a claim, got ${taken.outcome}`)
  return taken
}

const codeOf = (work: Promise<unknown>) =>
  work.then(
    (value) => JSON.stringify(value),
    (error) => (TidemarkError.is(error) ? error.code : String(error)),
  )

describe('claim, work outside, done', () => {
  test('one of two workers has it; the other is told `held`, never `duplicate`, until it is done', async () => {
    const dedup = manager()
    const mine = await claim(dedup)
    expect(mine.takenOver).toBe(false)
    expect(mine.token).toMatch(/^0x[0-9a-f]{32}$/)
    expect(await dedup.claim(event(1), LEASE)).toEqual({ outcome: 'held' })
    await mine.done()
    expect(await dedup.claim(event(1), LEASE)).toEqual({ outcome: 'duplicate' })
  })

  test('a claimed event is not processed, and `once` answers held without running its work', async () => {
    const dedup = manager()
    const mine = await claim(dedup)
    expect(await dedup.isEventProcessed(event(1))).toBe(false)
    expect(transaction(() => dedup.once(db, event(1), send))).toEqual({ outcome: 'held' })
    clock.time += LEASE.leaseMs * 10
    expect(transaction(() => dedup.once(db, event(1), send))).toEqual({ outcome: 'held' })
    expect(mails()).toBe(0)
    await mine.done()
    expect(await dedup.isEventProcessed(event(1))).toBe(true)
    expect(transaction(() => dedup.once(db, event(1), send))).toEqual({ outcome: 'duplicate' })
  })

  test('a held event cannot be marked in silence', async () => {
    const dedup = manager()
    await claim(dedup)
    expect(await codeOf(dedup.markEventProcessed(event(1)))).toBe('EVENT_HELD')
    expect(() => transaction(() => dedup.markEventProcessed(event(1), db))).toThrow(/EVENT_HELD/)
    expect(await dedup.isEventProcessed(event(1))).toBe(false)
  })

  test('an event that `once` did is a duplicate to who claims it', async () => {
    const dedup = manager()
    mark(dedup, event(1))
    expect(await dedup.claim(event(1), LEASE)).toEqual({ outcome: 'duplicate' })
  })

  test('given back, it is free at once, and only once', async () => {
    const dedup = manager()
    const mine = await claim(dedup)
    expect([await mine.release(), await mine.release()]).toEqual([true, false])
    expect(await codeOf(mine.done())).toBe('CLAIM_LOST')
    expect((await claim(dedup)).takenOver).toBe(false)
  })

  test('names and chains are strangers to each other', async () => {
    await claim(manager())
    for (const other of [manager({ name: 'mails' }), manager({ chainId: 10 })]) await claim(other)
  })

  test('the types tell how `done` answers', () => {
    const dedup = manager()
    const take = () => claim(dedup)
    type Claim = Awaited<ReturnType<typeof take>>
    expectTypeOf((mine: Claim) => mine.done()).returns.toEqualTypeOf<Promise<void>>()
    expectTypeOf((mine: Claim) => mine.done(db)).returns.toEqualTypeOf<void>()
  })
})

describe('done inside the transaction of the effect', () => {
  test('both commit together', async () => {
    const dedup = manager()
    const mine = await claim(dedup)
    transaction(() => {
      send()
      mine.done(db)
    })
    expect([mails(), await dedup.isEventProcessed(event(1))]).toEqual([1, true])
  })

  test('both are gone with a rollback, and the claim still stands', async () => {
    const dedup = manager()
    const mine = await claim(dedup)
    db.exec('BEGIN IMMEDIATE')
    send()
    mine.done(db)
    db.exec('ROLLBACK')
    expect([mails(), await dedup.isEventProcessed(event(1))]).toEqual([0, false])
    expect((await dedup.claim(event(1), LEASE)).outcome).toBe('held')
    await mine.done()
  })

  test('without an open transaction it is refused', async () => {
    const mine = await claim(manager())
    expect(() => mine.done(db)).toThrow(/NOT_IN_TRANSACTION/)
    await mine.done()
  })
})

describe('expiry and takeover (P9)', () => {
  test('to the millisecond, by the clock of the database: a worker whose own clock runs away takes nothing', async () => {
    const hasty = manager({ world: { ...world, now: () => clock.time + 1e9 } })
    await claim(manager())
    clock.time += LEASE.leaseMs - 1
    expect((await hasty.claim(event(1), LEASE)).outcome).toBe('held')
    clock.time += 1
    expect((await claim(hasty)).takenOver).toBe(true)
  })

  test('the late one is refused with its effect; who took over is not disturbed', async () => {
    const dedup = manager()
    const late = await claim(dedup)
    clock.time += LEASE.leaseMs
    const next = await claim(dedup)
    expect(next.token).not.toBe(late.token)
    const work = () => {
      send()
      late.done(db)
    }
    expect(() => transaction(work)).toThrow(/CLAIM_LOST/)
    expect([await late.release(), await codeOf(late.done()), mails()]).toEqual([false, 'CLAIM_LOST', 0])
    transaction(() => {
      send()
      next.done(db)
    })
    expect(() => transaction(work)).toThrow(/now="done"/)
    expect(mails()).toBe(1)
  })

  test('late, but nobody took over: it still counts, and the next one is told duplicate', async () => {
    const dedup = manager()
    const late = await claim(dedup)
    clock.time += LEASE.leaseMs * 100
    await late.done()
    expect((await dedup.claim(event(1), LEASE)).outcome).toBe('duplicate')
  })

  test('a second done of the same claim is refused: it may be the repeat of work that must not be repeated', async () => {
    const mine = await claim(manager())
    await mine.done()
    expect(await codeOf(mine.done())).toBe('CLAIM_LOST')
  })

  test('a claim whose transaction never committed was never there', async () => {
    const dedup = manager()
    db.exec('BEGIN IMMEDIATE')
    expect(await codeOf(dedup.claim(event(1), LEASE))).toBe('STORE_BUSY')
    db.exec('ROLLBACK')
    expect((await claim(dedup)).takenOver).toBe(false)
  })
})

describe('the list of expired claims', () => {
  const full = { address: `0x${'aa'.repeat(20)}`, topics: [], data: '0x01', n: 0 } as const

  test('oldest first, named so that the event is found again, without those that are alive or done', async () => {
    const dedup = manager()
    const own = manager({ identity: () => 'entry-7' })
    await claim(dedup, event(1))
    clock.time += 1
    await claim(dedup, event(2, full))
    clock.time += 1
    await claim(own, event(3, { chainId: 10 }))
    clock.time += 1
    const finished = await claim(dedup, event(4))
    expect(await dedup.expiredClaims()).toEqual([])
    clock.time += LEASE.leaseMs
    await claim(dedup, event(5))
    await finished.done()
    const expected = [
      { chainId: 1, by: 'event-id', id: eventId({ ...event(1), chainId: 1, logIndex: 1 }) },
      { chainId: 1, by: 'stable-id', id: stableId(1, { ...event(2), ...full }, 0) },
      { chainId: 10, by: 'identity', id: 'entry-7' },
    ]
    expect(await dedup.expiredClaims()).toEqual(expected)
    expect(await dedup.expiredClaims({ limit: 2 })).toEqual(expected.slice(0, 2))
    expect(await manager({ name: 'other' }).expiredClaims()).toEqual([])
  })

  test('taking over takes it off the list', async () => {
    const dedup = manager()
    await claim(dedup)
    clock.time += LEASE.leaseMs
    expect(await dedup.expiredClaims()).toHaveLength(1)
    await claim(dedup)
    expect(await dedup.expiredClaims()).toEqual([])
  })
})

describe('claims and forgetting (P7)', () => {
  test('a claimed event is kept while its neighbours go, and is told neither new nor too old', async () => {
    const dedup = manager({ retentionBlocks: 10 })
    const mine = await claim(dedup, event(1))
    mark(dedup, event(2))
    moveTo(dedup, 200)
    expect((await dedup.cleanupOldEvents()).deleted).toBe(1)
    expect((await dedup.claim(event(1), LEASE)).outcome).toBe('held')
    expect((await dedup.claim(event(2), LEASE)).outcome).toBe('too-old')
    await mine.done()
    expect((await dedup.cleanupOldEvents()).deleted).toBe(1)
    expect((await dedup.claim(event(1), LEASE)).outcome).toBe('too-old')
  })

  test('expired below the low-water mark it can still be taken over: it is known that it was not done', async () => {
    const dedup = manager({ retentionBlocks: 10 })
    await claim(dedup)
    moveTo(dedup, 200)
    await dedup.cleanupOldEvents()
    clock.time += LEASE.leaseMs
    const next = await claim(dedup)
    await next.done()
    expect(await dedup.isEventProcessed(event(1))).toBe(true)
  })

  test('given back below the low-water mark it is free at once, and not lost as too old', async () => {
    const dedup = manager({ retentionBlocks: 10 })
    const mine = await claim(dedup, event(1), { leaseMs: 86_400_000 })
    moveTo(dedup, 200)
    await dedup.cleanupOldEvents()
    expect(await mine.release()).toBe(true)
    expect(await codeOf(mine.done())).toBe('CLAIM_LOST')
    await (await claim(dedup)).done()
    expect((await dedup.claim(event(1), LEASE)).outcome).toBe('duplicate')
  })

  test('what lies below the low-water mark without a row is refused, and leaves none', async () => {
    const dedup = manager({ retentionBlocks: 10 })
    moveTo(dedup, 200)
    await dedup.cleanupOldEvents()
    expect((await dedup.claim(event(1), LEASE)).outcome).toBe('too-old')
    expect(await store.read((tx) => wait(tx.handled.count('default')))).toBe(0)
  })
})

describe('bounds and bad input', () => {
  test('P6: beyond 10,000 expired claims new events are refused; taking over is not, and makes room', async () => {
    const dedup = manager()
    await store.transact(function* (tx) {
      for (let n = 0; n < MAX_EXPIRED_CLAIMS; n++) {
        const key = `event-${eventId({ chainId: 1, transactionHash: event(n).transactionHash, logIndex: n })}`
        const token = new Uint8Array(16)
        yield* wait(tx.handled.claim({ scope: 'default', chainId: 1, key }, 100 as never, token, 0, 1))
      }
    })
    const late = event(MAX_EXPIRED_CLAIMS)
    const tries = [dedup.claim(late, LEASE), dedup.claim(late, LEASE)]
    expect(await Promise.all(tries.map(codeOf))).toEqual(['CLAIMS_FULL', 'CLAIMS_FULL'])
    expect((await claim(dedup, event(0))).takenOver).toBe(true)
    expect((await claim(dedup, late)).takenOver).toBe(false)
  })

  test.each([[{ leaseMs: 0 }], [{ leaseMs: 86_400_001 }], [{ leaseMs: 1.5 }], [{}], [{ leaseMs: '5' }]])(
    'a lease of %j is refused',
    async (options) => {
      expect(await codeOf(manager().claim(event(1), options as never))).toBe('CONFIG_INVALID')
    },
  )

  test('a misspelt option, a bad event and a limit out of range are refused, and nothing is claimed', async () => {
    const dedup = manager()
    expect(await codeOf(dedup.claim(event(1), { lease: 5 } as never))).toBe('CONFIG_UNKNOWN_KEY')
    expect(await codeOf(dedup.claim(event(1), undefined as never))).toBe('CONFIG_INVALID')
    expect(await codeOf(dedup.claim(event(1, { logIndex: -1 }), LEASE))).toBe('EVENT_KEY_INVALID')
    for (const limit of [0, 10_001]) expect(await codeOf(dedup.expiredClaims({ limit }))).toBe('CONFIG_INVALID')
    expect(await store.read((tx) => wait(tx.handled.count('default')))).toBe(0)
  })
})
