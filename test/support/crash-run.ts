import { createTidemark } from '../../src/app/tidemark.ts'
import { defineConfig } from '../../src/config.ts'
import type { Watcher } from '../../src/handle/watch.ts'
import { openDefault, type SqliteDatabaseLike, type SqliteStatementLike } from '../../src/store/sqlite/driver.ts'
import { sqlite } from '../../src/store/sqlite/index.ts'
import { type FakeChain, fakeChain, fakeRpc, testWorld } from '../../src/testkit/index.ts'
import { ALICE, CAROL, ledger, pay, SCHEMA } from './ledger.ts'

/**
 * A small run that meets every kind of commit, and a way to stand before and after each statement that the store sends
 * to SQLite. The same code runs in the test and in the processes that are killed.
 */

/** Called for the n-th statement, from 1; `work` runs it. Closing a database counts as a statement. */
export type Around = <T>(n: number, sql: string, work: () => T) => T

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
    const counted = <T>(sql: string, work: () => T) => around(++count, sql, work)
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
 * One process: follows the chain from one phase to the last and stops. A process that starts later has another seed and a
 * later clock, as a restart has.
 */
export async function play({ file, from = 0, watcher = ledger(), around, onPhase }: PlayOptions): Promise<void> {
  const world = testWorld({ seed: `process ${from}`, now: 1_700_000_000_000 + (from + (around ? 0 : 1)) * 86_400_000, autoAdvance: true })
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
  let failures = 0
  tidemark.on('failing', () => failures++)
  for (let phase = from; phase < PHASE_COUNT; phase++) {
    PHASES[phase]?.(chain)
    onPhase?.(phase)
    for (let rounds = 0, before = -1; before !== failures; rounds++) {
      if (rounds === MAX_ROUNDS) throw new Error('the run does not come to rest')
      before = failures
      await world.advance(60_000)
      await tidemark.runOnce({ budgetMs: 60_000 })
    }
  }
  await tidemark.stop()
}
