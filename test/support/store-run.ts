import type { Watcher } from '../../src/handle/watch.ts'
import { type FakeChain, fakeChain } from '../../src/testkit/index.ts'
import { type CuttingOptions, CuttingPool } from './cutting-pool.ts'
import { ALICE, CAROL, pay } from './demo-ledger.ts'
import { StoreHarness } from './store-harness.ts'
import { differences, ledgerOn } from './store-ledger.ts'
import type { Database, OpenOptions, Row } from './stores.ts'

/**
 * A small run on a store behind a connection that meets every kind of commit: final blocks behind a long empty stretch, so
 * that marks are forgotten; live blocks; a reorg that brings transactions back in other blocks; and enough blocks for
 * everything to settle.
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

/** A chain of which the phases up to `phase` have happened. The same calls give the same hashes each time. */
export function chainAt(phase: number): FakeChain {
  const chain = fakeChain({ chainId: 7, finalized: { depth: 4 }, safe: { depth: 2 } })
  for (const happen of PHASES.slice(0, phase + 1)) happen(chain)
  return chain
}

export interface FollowOptions {
  /** The phase to begin in: it and those before it have happened on the chain already. Default 0. */
  readonly from?: number
  readonly watcher?: Watcher
}

export interface Followed {
  /** What failed or halted on the way, and HELD where a lease that nobody keeps stood in the way. */
  readonly codes: readonly string[]
  /** The last phase that the chain has gone through. */
  readonly phase: number
}

/** One process: follows the chain from one phase to the last and stops; or to the moment of its death. */
export async function follow(
  database: Database,
  open: Partial<OpenOptions>,
  { from = 0, watcher = ledgerOn(database.backend) }: FollowOptions = {},
  dead: () => boolean = () => false,
): Promise<Followed> {
  const chain = chainAt(from - 1)
  const h = new StoreHarness({ database, chain, watchers: { ledger: watcher }, open, config: { retentionBlocks: 1 } })
  const codes: string[] = []
  let phase = from
  try {
    for (; phase < PHASE_COUNT; phase++) {
      PHASES[phase]?.(chain)
      codes.push(...(await h.comeToRest(dead, () => expireLeases(database))))
      if (dead()) break
    }
  } finally {
    await h.close()
  }
  return { codes, phase: Math.min(phase, PHASE_COUNT - 1) }
}

export interface PlayOptions extends CuttingOptions, FollowOptions {}

export interface Played extends Followed {
  readonly statements: readonly string[]
}

/** The same on a pool of the user's, which may be cut at a statement. */
export async function play(database: Database, options: PlayOptions = {}): Promise<Played> {
  const pool = new CuttingPool(database, options)
  try {
    const followed = await follow(database, { pool: pool.pool }, options, () => pool.dead)
    return { ...followed, statements: pool.statements }
  } finally {
    await pool.end()
  }
}

/** The lease of a process that is gone has run out; it need not be waited for. */
export async function expireLeases({ backend, rows }: Database): Promise<void> {
  const past = backend.kind === 'mysql' ? '1' : "clock_timestamp() - interval '1 second'"
  await rows(`UPDATE ${backend.own('leases')} SET expires_at = ${past}`)
}

// ---------------------------------------------------------------------------------------------------- end states

/** A state of the database as text can tell it, by table. */
export type End = Readonly<Record<string, readonly string[]>>

/** Counted by the database, or drawn at random. */
const LEFT_OUT = new Set(['watcher', 'repeats'])

function spelled(rows: readonly Row[]): string[] {
  const spell = (_: string, value: unknown) =>
    typeof value === 'object' && value !== null && 'type' in value && value.type === 'Buffer'
      ? Buffer.from((value as unknown as { data: number[] }).data).toString('hex')
      : value
  const kept = (row: Row) => Object.fromEntries(Object.entries(row).filter(([name]) => !LEFT_OUT.has(name)))
  return rows.map((row) => JSON.stringify(kept(row), spell)).sort()
}

/** How blocks were shared out among commits may differ; what they held together may not. */
function foldCommits(rows: readonly Row[]): string[] {
  const digest = Buffer.alloc(16)
  for (const row of rows)
    for (const [i, byte] of (row['digest'] as Buffer).entries()) digest[i] = (digest[i] as number) ^ byte
  const gaps = rows.filter((row, i) => i > 0 && row['from_block'] !== Number(rows[i - 1]?.['to_block']) + 1).length
  const events = rows.reduce((sum, row) => sum + Number(row['events']), 0)
  return [JSON.stringify([rows[0]?.['from_block'], rows.at(-1)?.['to_block'], gaps, events, digest.toString('hex')])]
}

/** Everything in which a run that was cut must agree with one that was not. Times, tokens and nonces are left out. */
export async function endState({ backend, rows }: Database): Promise<End> {
  const all = async (table: string, columns = '*') => spelled(await rows(`SELECT ${columns} FROM ${table}`))
  const watcher = `name, state, reason, cursor_block, cursor_hash, epoch, settled, finalized, low_water,
    applied, undone, duplicates, reorgs`
  return {
    balances: await all('balances'),
    payouts: await all('payouts'),
    transfers: await all('transfers', 'sender, receiver, amount, tidemark_block, tidemark_ordinal'),
    marks: await all(backend.own('processed_events')),
    kept: await all(backend.own('kept_events')),
    remembered: await all(backend.own('unfinalized_blocks')),
    watcher: await all(backend.own('watchers'), watcher),
    chains: await all(backend.own('chains')),
    leases: await all(backend.own('leases')),
    commits: foldCommits(
      await rows(`SELECT from_block, to_block, events, digest FROM ${backend.own('commits')} ORDER BY from_block`),
    ),
  }
}

/** Where an end state differs from the whole run's, or the user's tables from the oracle's. */
export async function differing(database: Database, end: End): Promise<string[]> {
  const found = await endState(database)
  const keys = Object.keys(end).filter((key) => JSON.stringify(found[key]) !== JSON.stringify(end[key]))
  return [...(await differences(database, chainAt(PHASE_COUNT - 1))), ...keys]
}
