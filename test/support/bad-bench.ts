import { expect } from 'vitest'
import type { Status } from '../../src/app/types.ts'
import type { Watcher } from '../../src/handle/watch.ts'
import { type SqliteDb, watch } from '../../src/store/sqlite/index.ts'
import { type FakeChain, type FakeLog, fakeChain, type OracleSource } from '../../src/testkit/index.ts'
import { type Changes, differences, ledger, pay, SCHEMA, type TableName, TOKEN } from './demo-ledger.ts'
import { Harness } from './harness.ts'

/** The amount at which a handler turns bad. */
export const POISON = 1_313_131_313n

export function isPoison(event: { readonly args: unknown }): boolean {
  return (event.args as { value: bigint }).value === POISON
}

const OTHER_SCHEMA = 'CREATE TABLE IF NOT EXISTS seen (amount INTEGER NOT NULL);'

/** A second watcher of the same chain, which has nothing to do with what the first one does (P11). */
function other(): Watcher {
  return watch({
    on: { test: { address: TOKEN, startBlock: 1, at: 'latest' } },
    events: { Transfer: { event: 'event Transfer(address indexed from, address indexed to, uint256 value)' } },
    handle: ({ event, db }) => void db.prepare('INSERT INTO seen VALUES (?)').run(Number(event.args.value)),
    undo: ({ event, db }) => void remove(db, Number(event.args.value)),
  })
}

function remove(db: SqliteDb, amount: number): void {
  db.prepare('DELETE FROM seen WHERE rowid = (SELECT max(rowid) FROM seen WHERE amount = ?)').run(amount)
}

/** Time that a handler can use up: it passes as the handler says, or as it really does. */
export class Clock {
  private readonly startedAt = performance.now()
  private readonly real: boolean
  private added = 0

  constructor(real: boolean) {
    this.real = real
  }

  /** Lets a handler be slow without waiting for it. */
  pass(ms: number): void {
    this.added += ms
  }

  apply(h: Harness): void {
    const fake = h.world.monotonic.bind(h.world)
    h.world.monotonic = () => fake() + this.added + (this.real ? performance.now() - this.startedAt : 0)
  }
}

export interface BadBenchOptions {
  readonly clock?: Clock
  /** How the watcher is made from its changes. Default: `ledger`. */
  readonly base?: (changes: Changes) => Watcher
  /** What the watcher writes. Default: all three. */
  readonly tables?: readonly TableName[]
}

/** Two watchers on one chain, of which one is bad: what it does, and what becomes of it and of the other. */
export class BadBench {
  readonly chain: FakeChain = fakeChain({ chainId: 7, finalized: { depth: 6 } })
  readonly h: Harness
  private readonly watchers: (changes: Changes) => Record<string, Watcher>
  private readonly tables: readonly TableName[]

  constructor(bad: Changes, options: BadBenchOptions = {}) {
    const { base = ledger, clock, tables = ['balances', 'transfers', 'payouts'] } = options
    this.tables = tables
    this.watchers = (changes) => ({ ledger: base(changes), other: other() })
    this.h = new Harness({ chain: this.chain, watchers: this.watchers(bad), schema: SCHEMA + OTHER_SCHEMA })
    clock?.apply(this.h)
  }

  /** Two good blocks, one in which the poison stands between good events, and one more. */
  async meetPoison(poison: FakeLog = pay(POISON)): Promise<void> {
    this.chain.mine([pay(501), pay(502)])
    this.chain.mine([pay(503)])
    this.chain.mine([pay(504), poison, pay(505)])
    this.chain.mine([pay(506)])
    await this.h.settle()
  }

  /** What the bad watcher failed or halted with, in order. */
  codes(): unknown[] {
    const own = this.h.events.filter(({ event }) => event.watcher === 'ledger/test')
    return own.flatMap(({ type, event }) => {
      if (type === 'failing') return [event.code]
      return type === 'halted' ? [(event.reason as { code: string }).code] : []
    })
  }

  async status(): Promise<Status['watchers'][number]> {
    const found = (await this.h.tidemark.status()).watchers.find(({ name }) => name === 'ledger/test')
    expect(found).toBeDefined()
    return found as Status['watchers'][number]
  }

  /** The user's tables against a replay of the blocks below `end`; payouts come later, when blocks settle. */
  unlike(end: number, tables: readonly TableName[] = this.tables.filter((name) => name !== 'payouts')): string[] {
    return this.unlikeChain(this.chain.canonical(0, end - 1), tables)
  }

  unlikeChain(chain: OracleSource, tables: readonly TableName[] = ['balances', 'transfers']): string[] {
    return this.h.sql((db) => differences(chain, db, tables))
  }

  row(): Record<string, unknown> {
    return this.h.rows("SELECT * FROM tidemark_watchers WHERE name = 'ledger/test'")[0] ?? {}
  }

  marks(): number[] {
    const rows = this.h.rows(
      "SELECT block_number FROM tidemark_events WHERE watcher = 'ledger/test' ORDER BY block_number",
    )
    return rows.map((row) => Number(row.block_number))
  }

  /** Everything below the bad block is in, nothing of it and above, and the other watcher has gone on. */
  expectCutBefore(block: number): void {
    expect(this.unlike(block)).toEqual([])
    expect(this.marks().filter((at) => at >= block)).toEqual([])
    expect(this.row()).toMatchObject({ cursor_block: block - 1 })
    this.expectOther()
  }

  expectOther(): void {
    const own = this.chain.canonical().flatMap(({ logs }) => logs.filter(({ address }) => address === TOKEN))
    const seen = this.h.rows('SELECT amount FROM seen ORDER BY rowid').map(({ amount }) => amount)
    expect(seen).toEqual(own.map(({ data }) => Number(BigInt(data))))
  }

  /** A new process with a corrected handler, and the operator's word; then everything becomes final. */
  async repair(changes: Changes = {}, accept?: 'from-here'): Promise<void> {
    await this.h.restart({ watchers: this.watchers(changes), ...(accept ? { accept } : {}) })
    if ((await this.status()).health === 'halted') {
      await this.h.tidemark.admin.resume('ledger/test', { actor: 'ada', reason: 'handler corrected' })
    }
    await this.endsWell()
  }

  async endsWell(): Promise<void> {
    this.chain.mineEmpty(9)
    await this.h.world.advance(61_000)
    await this.h.settle()
    expect(this.unlike(Number.POSITIVE_INFINITY, this.tables)).toEqual([])
    this.expectOther()
    const states = this.h.rows('SELECT state, duplicates FROM tidemark_watchers')
    expect(states).toEqual(states.map(() => ({ state: 'running', duplicates: 0 })))
  }
}
