import { createTidemark } from '../../src/app/tidemark.ts'
import type { Tidemark } from '../../src/app/types.ts'
import { defineConfig } from '../../src/config.ts'
import { TidemarkError } from '../../src/errors.ts'
import type { Watcher } from '../../src/handle/watch.ts'
import { openDefault, type SqliteDatabaseLike, type SqliteStatementLike } from '../../src/store/sqlite/driver.ts'
import { sqlite } from '../../src/store/sqlite/index.ts'
import { type FakeChain, fakeChain, fakeRpc, type TestWorld, testWorld } from '../../src/testkit/index.ts'
import { ALICE, CAROL, ledger, pay, SCHEMA } from './demo-ledger.ts'

/**
 * A small run that meets every kind of commit, and a way to stand before and after each statement that the store sends
 * to SQLite. The same code runs in the test and in the processes that are killed.
 */

/** Called for the n-th statement, from 1; `work` runs it on `database`. Closing a database counts as a statement. */
export type Around = <T>(n: number, sql: string, work: () => T, database: SqliteDatabaseLike) => T

class CountedStatement implements SqliteStatementLike {
  readonly #inner: SqliteStatementLike
  readonly #around: <T>(work: () => T) => T

  constructor(inner: SqliteStatementLike, around: <T>(work: () => T) => T) {
    this.#inner = inner
    this.#around = around
  }

  run(...parameters: Parameters<SqliteStatementLike['run']>) {
    return this.#around(() => this.#inner.run(...parameters))
  }

  get(...parameters: Parameters<SqliteStatementLike['get']>) {
    return this.#around(() => this.#inner.get(...parameters))
  }

  all(...parameters: Parameters<SqliteStatementLike['all']>) {
    return this.#around(() => this.#inner.all(...parameters))
  }

  iterate(...parameters: Parameters<SqliteStatementLike['iterate']>) {
    return this.#around(() => this.#inner.iterate(...parameters))
  }

  setReadBigInts(on: boolean): void {
    this.#inner.setReadBigInts(on)
  }
}

/** An `open` of the store whose statements all pass through `around`, counted over every database that it opens. */
export function countedOpen(around: Around): (file: string) => SqliteDatabaseLike {
  let count = 0
  return (file) => {
    const inner = openDefault(file)
    const counted = <T>(sql: string, work: () => T) => around(++count, sql, work, inner)
    return {
      get isTransaction() {
        return inner.isTransaction
      },
      prepare: (sql) => new CountedStatement(inner.prepare(sql), (work) => counted(sql, work)),
      exec: (sql) => counted(sql, () => inner.exec(sql)),
      close: () => counted('close', () => inner.close()),
    }
  }
}

/**
 * What happens on the chain, phase by phase: final blocks behind a long empty stretch, so that marks are forgotten; live
 * blocks; a reorg that brings transactions back in other blocks; and enough blocks for everything to settle.
 */
const PHASES: readonly ((chain: FakeChain) => void)[] = [
  (chain) => {
    chain.mine([pay(5), pay(7, ALICE, CAROL)])
    chain.mineEmpty(270)
    chain.mine([pay(11)])
    chain.mineEmpty(6)
  },
  (chain) => {
    chain.mine([pay(13), pay(17)])
    chain.mine([pay(19)])
  },
  (chain) => void chain.reorg(2, { reinclude: 'lower-block', extraBlocks: 1, also: () => [pay(23)] }),
  (chain) => void chain.mineEmpty(9),
]

/**
 * The control: a watcher that writes on a connection of its own, outside the transaction, as no guard can see. It ends
 * well as long as nothing goes wrong.
 */
export function leaky(file: string): Watcher {
  const prepare = async () => {
    const db = openDefault(file)
    db.exec("INSERT INTO balances VALUES ('leaked', 1) ON CONFLICT (account) DO UPDATE SET amount = amount + 1")
    db.close()
  }
  return ledger({ prepare })
}

export const PHASE_COUNT = PHASES.length

/** The application's own tables, made before Tidemark first comes. */
export function prepareFile(file: string): void {
  const db = openDefault(file)
  db.exec(`PRAGMA journal_mode = WAL; ${SCHEMA}`)
  db.close()
}

export interface PlayOptions {
  readonly file: string
  /** The phase to begin in: it and those before it have happened on the chain already. Default 0. */
  readonly from?: number
  /** Days after the first process. */
  readonly later?: number
  readonly watcher?: Watcher
  readonly around?: Around
  readonly onPhase?: (phase: number) => void
}

/** A chain of which the phases up to `phase` have happened. The same calls give the same hashes in every process. */
export function chainAt(phase: number): FakeChain {
  const chain = fakeChain({ chainId: 7, finalized: { depth: 4 }, safe: { depth: 2 } })
  for (const happen of PHASES.slice(0, phase + 1)) happen(chain)
  return chain
}

/** Sessions in one phase: a failure costs one or two. */
const MAX_ROUNDS = 20

/**
 * One process: follows the chain from one phase to the last and stops. A restart has another seed and a later clock.
 * @returns the codes of what failed or halted on the way
 */
export async function play(options: PlayOptions): Promise<readonly string[]> {
  const { file, from = 0, later = 0, watcher = ledger(), around, onPhase } = options
  const world = testWorld({ seed: `process ${from} ${later}`, start: Date.UTC(2030, 0, 1 + later), autoAdvance: true })
  const chain = chainAt(from - 1)
  const open = around ? { open: countedOpen(around) } : {}
  const tidemark = createTidemark(
    defineConfig({
      store: sqlite({ file, world, ...open }),
      chains: { test: { id: 7, rpc: [fakeRpc(chain)], pollMs: 100, maxRange: 150 } },
      watchers: { ledger: watcher },
      retentionBlocks: 1,
    }),
    { world },
  )
  const failures: string[] = []
  tidemark.on('failing', ({ code }) => failures.push(code))
  tidemark.on('halted', ({ reason }) => failures.push(reason.code))
  for (let phase = from; phase < PHASE_COUNT; phase++) {
    PHASES[phase]?.(chain)
    onPhase?.(phase)
    await comeToRest(tidemark, world, failures)
  }
  await tidemark.stop()
  return failures
}

/** Sessions until one has nothing to complain of. What a session throws is what a cron job would see: it comes again. */
async function comeToRest(tidemark: Tidemark, world: TestWorld, failures: string[]): Promise<void> {
  for (let rounds = 0; rounds < MAX_ROUNDS; rounds++) {
    const before = failures.length
    await world.advance(60_000)
    try {
      await tidemark.runOnce({ budgetMs: 60_000 })
    } catch (error) {
      if (!TidemarkError.is(error)) throw error
      failures.push(error.code)
    }
    if (failures.length === before) return
  }
  throw new Error(`the run does not come to rest: ${failures.join()}`)
}
