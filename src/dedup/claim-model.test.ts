import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { TidemarkError } from '../errors.ts'
import { openDefault, type SqliteDatabaseLike } from '../store/sqlite/driver.ts'
import { sqlite } from '../store/sqlite/index.ts'
import type { Hex } from '../util/bytes.ts'
import { realWorld } from '../util/world.ts'
import type { EventClaim } from './claim.ts'
import { DeduplicationManager } from './deduplication-manager.ts'
import type { DeduplicationEvent } from './event-key.ts'
import type { MarkStore } from './mark-store.ts'

/**
 * Random workers that claim, finish, give back, come too late, forget and mark, against the rules written down naively.
 * After each run the effects in the application's table are counted: at most one an event, and exactly one where it is done.
 */
const clock = { time: 0 }
const world = { ...realWorld, now: () => clock.time }
const EVENTS = 3
const LEASE = 100

let folder: string
let store: ReturnType<typeof sqlite>
let db: SqliteDatabaseLike
let runsMade = 0

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'tidemark-claim-model-'))
  const file = join(folder, 'app.db')
  store = sqlite({ file, world })
  await store.migrate('auto')
  db = openDefault(file)
  db.exec('PRAGMA synchronous = OFF; CREATE TABLE effects (name TEXT NOT NULL, event INTEGER NOT NULL)')
})

afterAll(async () => {
  db.close()
  await store.close()
  rmSync(folder, { recursive: true })
})

const hex32 = (n: number) => `0x${n.toString(16).padStart(64, '0')}` as Hex
/** Event n stands in block n + 1. */
const event = (n: number): DeduplicationEvent => ({ transactionHash: hex32(n), logIndex: n, blockNumber: n + 1 })

type Step =
  | { readonly call: 'claim' | 'once' | 'processed'; readonly event: number }
  | { readonly call: 'done' | 'doneApart' | 'release' | 'rolledBack'; readonly claim: number }
  | { readonly call: 'wait'; readonly ms: number }
  | { readonly call: 'expired' }
  | { readonly call: 'forget'; readonly through: number }

const eventStep = fc.record({
  call: fc.constantFrom('claim', 'claim', 'claim', 'once', 'processed'),
  event: fc.nat({ max: EVENTS - 1 }),
}) as fc.Arbitrary<Step>
const claimStep = fc.record({
  call: fc.constantFrom('done', 'done', 'doneApart', 'release', 'rolledBack'),
  claim: fc.nat(),
}) as fc.Arbitrary<Step>
const steps = fc.array(
  fc.oneof(
    { weight: 5, arbitrary: eventStep },
    { weight: 5, arbitrary: claimStep },
    {
      weight: 3,
      arbitrary: fc.record({ call: fc.constant('wait' as const), ms: fc.constantFrom(1, LEASE - 1, LEASE) }),
    },
    { weight: 1, arbitrary: fc.constant<Step>({ call: 'expired' }) },
    {
      weight: 1,
      arbitrary: fc.record({ call: fc.constant('forget' as const), through: fc.integer({ min: 1, max: EVENTS + 1 }) }),
    },
  ),
  { maxLength: 40, size: 'max' },
)

/** How one event stands: nothing is known of it, it is done, or someone has it. */
interface Standing {
  state: 'free' | 'done' | 'claimed'
  /** Number of the claim that has it. */
  owner: number
  until: number
}

/** The rules, without any database. */
class Model {
  readonly events: Standing[] = Array.from({ length: EVENTS }, () => ({ state: 'free', owner: -1, until: 0 }))
  /** The event of each claim that was handed out. */
  readonly claims: number[] = []
  lowWater = 0

  #at(n: number): Standing {
    return this.events[n] as Standing
  }

  #tooOld(n: number): boolean {
    return this.#at(n).state === 'free' && n + 1 <= this.lowWater
  }

  claim(n: number): string {
    const one = this.#at(n)
    if (one.state === 'done') return 'duplicate'
    if (one.state === 'claimed' && clock.time < one.until) return 'held'
    if (this.#tooOld(n)) return 'too-old'
    const answer = one.state === 'claimed' ? 'taken over' : 'claimed'
    this.events[n] = { state: 'claimed', owner: this.claims.push(n) - 1, until: clock.time + LEASE }
    return answer
  }

  once(n: number): string {
    const { state } = this.#at(n)
    if (this.#tooOld(n)) return 'too-old'
    if (state === 'free') this.#at(n).state = 'done'
    return { free: 'done', done: 'duplicate', claimed: 'held' }[state]
  }

  owns(claim: number): boolean {
    const one = this.#at(this.claims[claim] as number)
    return one.state === 'claimed' && one.owner === claim
  }

  done(claim: number): boolean {
    const owns = this.owns(claim)
    if (owns) this.#at(this.claims[claim] as number).state = 'done'
    return owns
  }

  release(claim: number): boolean {
    const owns = this.owns(claim)
    const n = this.claims[claim] as number
    // Below the low-water mark it stays, as a claim of nobody that has expired.
    if (owns && n + 1 <= this.lowWater) this.events[n] = { state: 'claimed', owner: -1, until: clock.time }
    else if (owns) this.#at(n).state = 'free'
    return owns
  }

  processed(n: number): string | boolean {
    return this.#tooOld(n) ? 'EVENT_TOO_OLD' : this.#at(n).state === 'done'
  }

  expired(): number[] {
    return this.events.flatMap(({ state, until }, n) => (state === 'claimed' && until <= clock.time ? [n] : []))
  }

  /** Marks strictly below the low-water mark are deleted; claims are not. */
  forget(through: number): void {
    this.lowWater = Math.max(this.lowWater, through)
    this.events.forEach((one, n) => {
      if (one.state === 'done' && n + 1 < this.lowWater) one.state = 'free'
    })
  }
}

/** The application: real claims on a real database, under a name of its own. */
class Application {
  readonly #name = `run ${runsMade++}`
  readonly #dedup = new DeduplicationManager({
    store: store as unknown as MarkStore<SqliteDatabaseLike, false>,
    chainId: 1,
    name: this.#name,
    retentionBlocks: 0,
    world,
  })
  readonly claims: { readonly of: number; readonly claim: EventClaim<SqliteDatabaseLike, false> }[] = []

  #effect(n: number): void {
    db.prepare('INSERT INTO effects VALUES (?, ?)').run(this.#name, n)
  }

  effects(): number[] {
    const sql = 'SELECT event FROM effects WHERE name = ? ORDER BY event'
    return db
      .prepare(sql)
      .all(this.#name)
      .map((row) => Number(row.event))
  }

  /** Runs `work` in a transaction that ends with `end`; a throw rolls back. */
  #transaction<T>(work: () => T, end = 'COMMIT'): T {
    db.exec('BEGIN IMMEDIATE')
    try {
      return work()
    } catch (error) {
      db.exec('ROLLBACK')
      throw error
    } finally {
      if (db.isTransaction) db.exec(end)
    }
  }

  async claim(n: number): Promise<string> {
    const taken = await this.#dedup.claim(event(n), { leaseMs: LEASE })
    if (taken.outcome !== 'claimed') return taken.outcome
    this.claims.push({ of: n, claim: taken })
    return taken.takenOver ? 'taken over' : 'claimed'
  }

  once(n: number): string {
    return this.#transaction(() => this.#dedup.once(db, event(n), () => this.#effect(n)).outcome)
  }

  /** The effect and the end of the claim in one transaction, as the documents say. */
  done(index: number, end: 'COMMIT' | 'ROLLBACK'): boolean {
    const { of, claim } = this.claims[index] as (typeof this.claims)[number]
    return this.#transaction(() => {
      this.#effect(of)
      claim.done(db)
      return true
    }, end)
  }

  async doneApart(index: number): Promise<boolean> {
    const { of, claim } = this.claims[index] as (typeof this.claims)[number]
    await claim.done()
    // Work that was done outside is only written down here, so that all effects can be counted.
    this.#transaction(() => this.#effect(of))
    return true
  }

  release(index: number): Promise<boolean> {
    return (this.claims[index] as (typeof this.claims)[number]).claim.release()
  }

  processed(n: number): Promise<boolean> {
    return this.#dedup.isEventProcessed(event(n))
  }

  async expired(): Promise<number[]> {
    const found = await this.#dedup.expiredClaims()
    return found.map(({ id }) => Number(id.slice(id.lastIndexOf('-') + 1))).sort()
  }

  async forget(through: number): Promise<void> {
    const state = await this.#dedup.getWatcherState()
    const number = Math.max(state.lowWater ?? 0, through)
    this.#transaction(() => this.#dedup.setCursor(db, { number, hash: hex32(number) }))
    await this.#dedup.cleanupOldEvents()
  }
}

/** The answer, or the code of the error. A claim that is lost answers false, as the model does. */
async function told(work: () => unknown): Promise<unknown> {
  try {
    return await work()
  } catch (error) {
    if (TidemarkError.has(error, 'CLAIM_LOST')) return false
    if (TidemarkError.is(error)) return error.code
    throw error
  }
}

async function play(app: Application, model: Model, step: Step): Promise<readonly [unknown, unknown] | null> {
  if (step.call === 'wait') {
    clock.time += step.ms
    return null
  }
  if (step.call === 'expired') return [await app.expired(), model.expired()]
  if (step.call === 'forget') return [await app.forget(step.through), model.forget(step.through)]
  if ('event' in step) return [await told(() => app[step.call](step.event)), model[step.call](step.event)]
  if (app.claims.length === 0) return null
  const index = step.claim % app.claims.length
  if (step.call === 'release') return [await app.release(index), model.release(index)]
  if (step.call === 'rolledBack') return [await told(() => app.done(index, 'ROLLBACK')), model.owns(index)]
  const done = () => (step.call === 'done' ? app.done(index, 'COMMIT') : app.doneApart(index))
  return [await told(done), model.done(index)]
}

/** A failing property prints its seed; FC_SEED repeats it. */
const { FC_SEED } = process.env
const runs = { numRuns: 120, ...(FC_SEED && { seed: Number(FC_SEED) }) }

test('random claims, expiries, finishers and forgettings: the answers of the model, and no effect twice', async () => {
  const seen = new Map<unknown, number>()
  await fc.assert(
    fc.asyncProperty(steps, async (plan) => {
      const app = new Application()
      const model = new Model()
      const done = new Set<number>()
      for (const step of plan) {
        const answers = await play(app, model, step)
        if (answers === null) continue
        expect(answers[0], JSON.stringify(step)).toEqual(answers[1])
        seen.set(answers[0], (seen.get(answers[0]) ?? 0) + 1)
        for (const [n, one] of model.events.entries()) if (one.state === 'done') done.add(n)
      }
      expect(app.effects()).toEqual([...done].sort())
    }),
    runs,
  )
  // A property over answers that never come would hold for any code.
  for (const answer of ['claimed', 'taken over', 'held', 'duplicate', 'too-old', 'EVENT_TOO_OLD', true, false]) {
    expect(seen.get(answer) ?? 0, `how often the answer was ${String(answer)}`).toBeGreaterThan(5)
  }
}, 120_000)
