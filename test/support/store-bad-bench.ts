import { expect } from 'vitest'
import { TOKEN } from '../../src/app/demo/watchers.ts'
import type { Status } from '../../src/app/types.ts'
import type { Watcher } from '../../src/handle/watch.ts'
import { type FakeChain, type FakeLog, fakeChain } from '../../src/testkit/index.ts'
import { wait } from '../../src/util/op.ts'
import { isPoison, POISON } from './bad-bench.ts'
import { pay, type TableName } from './demo-ledger.ts'
import { StoreHarness } from './store-harness.ts'
import { differences, goodOn, ledgerOn, makeLedgerTables } from './store-ledger.ts'
import type { Backend, Database, Definition, OpenOptions } from './stores.ts'

export type Scope = Parameters<Definition['handle']>[0]

/** A second watcher of the same chain, which has nothing to do with what the first one does (P11). */
function other(backend: Backend): Watcher {
  const amount = (event: { readonly args: unknown }) => Number((event.args as { value: bigint }).value)
  return backend.watch({
    on: { test: { address: TOKEN, startBlock: 1, at: 'latest' } },
    events: { Transfer: { event: 'event Transfer(address indexed from, address indexed to, uint256 value)' } },
    handle: ({ event, db }) =>
      backend.drive(wait(backend.send(db, 'INSERT INTO seen (amount) VALUES (?)', amount(event)))) as never,
    undo: ({ event, db }) =>
      backend.drive(wait(backend.send(db, 'DELETE FROM seen WHERE amount = ?', amount(event)))) as never,
  } as Definition)
}

/** The tables of the application; `empty` keeps them. */
export async function makeBadTables(database: Database): Promise<void> {
  await makeLedgerTables(database)
  await database.rows(`CREATE TABLE seen (amount ${database.backend.types.whole} NOT NULL)`)
}

/** Works as it should, and then does `harm` at the poison. */
export function harmful(backend: Backend, harm: (scope: Scope) => unknown, more: Partial<Definition> = {}) {
  const { handle } = goodOn(backend)
  return {
    ...more,
    handle: async (scope: Scope) => {
      await handle(scope)
      return isPoison(scope.event) ? harm(scope) : undefined
    },
  }
}

export interface BadBenchOptions {
  /** What the watcher writes. Default: all three. */
  readonly tables?: readonly TableName[]
  readonly open?: Partial<OpenOptions>
}

/** Two watchers on one chain, of which one is bad: what it does, and what becomes of it and of the other. */
export class StoreBadBench {
  readonly chain: FakeChain = fakeChain({ chainId: 7, finalized: { depth: 6 } })
  readonly h: StoreHarness
  readonly database: Database
  private readonly tables: readonly TableName[]

  constructor(database: Database, bad: Partial<Definition>, options: BadBenchOptions = {}) {
    this.database = database
    this.tables = options.tables ?? ['balances', 'transfers', 'payouts']
    const open = options.open ?? {}
    this.h = new StoreHarness({ database, chain: this.chain, watchers: this.watchers(bad), open })
  }

  private watchers(changes: Partial<Definition>): Record<string, Watcher> {
    const { backend } = this.database
    return { ledger: ledgerOn(backend, changes), other: other(backend) }
  }

  /** Two good blocks, one in which the poison stands between good events, and one more. */
  async meetPoison(poison: FakeLog = pay(POISON), once = false): Promise<void> {
    this.chain.mine([pay(501), pay(502)])
    this.chain.mine([pay(503)])
    this.chain.mine([pay(504), poison, pay(505)])
    this.chain.mine([pay(506)])
    if (once) await this.h.tidemark.runOnce({ budgetMs: 60_000 })
    else await this.h.settle()
  }

  codes(): string[] {
    return this.h.codes('ledger/test')
  }

  async status(): Promise<Status['watchers'][number]> {
    const found = (await this.h.tidemark.status()).watchers.find(({ name }) => name === 'ledger/test')
    expect(found).toBeDefined()
    return found as Status['watchers'][number]
  }

  async marks(): Promise<number[]> {
    const events = this.database.backend.own('events')
    const rows = await this.database.rows(
      `SELECT block_number FROM ${events} WHERE watcher = 'ledger/test' ORDER BY block_number`,
    )
    return rows.map((row) => Number(row['block_number']))
  }

  /** Everything below the bad block is in, nothing of it and above, and the other watcher has gone on. */
  async expectCutBefore(block: number): Promise<void> {
    const below = this.chain.canonical(0, block - 1)
    const tables = this.tables.filter((name) => name !== 'payouts')
    expect(await differences(this.database, below, tables)).toEqual([])
    expect((await this.marks()).filter((at) => at >= block)).toEqual([])
    expect((await this.status()).cursor?.number).toBe(block - 1)
    await this.expectOther()
  }

  async expectOther(): Promise<void> {
    const own = this.chain.canonical().flatMap(({ logs }) => logs.filter(({ address }) => address === TOKEN))
    const seen = await this.database.rows('SELECT amount FROM seen')
    const sorted = (amounts: readonly number[]) => [...amounts].sort((a, b) => a - b)
    expect(sorted(seen.map(({ amount }) => Number(amount)))).toEqual(
      sorted(own.map(({ data }) => Number(BigInt(data)))),
    )
  }

  async expectHalt(code: string, block = 3): Promise<void> {
    expect(this.codes()).toEqual([code])
    const { health, reason } = await this.status()
    expect(health).toBe('halted')
    expect(reason).toMatchObject({ code, values: { watcher: 'ledger/test', block } })
    await this.expectCutBefore(block)
  }

  /** A new process with a corrected handler, and the operator's word; then everything becomes final. */
  async repair(changes: Partial<Definition> = {}): Promise<void> {
    await this.h.restart({ watchers: this.watchers(changes) })
    if ((await this.status()).health === 'halted') {
      await this.h.tidemark.admin.resume('ledger/test', { actor: 'ada', reason: 'handler corrected' })
    }
    await this.endsWell()
  }

  async endsWell(): Promise<void> {
    this.chain.mineEmpty(9)
    this.h.world.jump(61_000)
    await this.h.settle()
    expect(await differences(this.database, this.chain, this.tables)).toEqual([])
    await this.expectOther()
    const states = await this.database.rows(`SELECT state, duplicates FROM ${this.database.backend.own('watchers')}`)
    expect(states).toEqual([
      { state: 'running', duplicates: 0 },
      { state: 'running', duplicates: 0 },
    ])
  }
}
