import { createTidemark } from '../../app/tidemark.ts'
import { defineConfig } from '../../config.ts'
import type { TidemarkEvent } from '../../handle/event.ts'
import type { ChainBinding, Watcher } from '../../handle/watch.ts'
import type { SqliteDatabaseLike } from '../../store/sqlite/driver.ts'
import { sqlite } from '../../store/sqlite/index.ts'
import { ScratchDatabase } from '../../store/sqlite/scratch.ts'
import type { EventArgumentsInput } from '../encode.ts'
import type { FakeLog } from '../fake-log.ts'
import type { Random } from '../random.ts'

/** An event to be emitted: by its key in the watcher's `events`. */
export interface SimulatedEvent {
  readonly name: string
  /** By name; or a list, where an argument has no name. */
  readonly args: EventArgumentsInput
  /** Contract that emits it. Default: the first that the watcher names. */
  readonly address?: string
}

export interface GenerateContext {
  /** The watcher whose events are wanted: its key in the configuration. */
  readonly watcher: string
  readonly chain: string
  /** The keys of its `events`. */
  readonly events: readonly string[]
}

/** The database file of one run, before the first event. */
export interface SeedScope {
  readonly db: SqliteDatabaseLike
  /** Its path, for handlers that open a connection of their own. */
  readonly file: string
}

/** What a simulation must know of an application beside its watchers. Everything has a default. */
export interface SimulationOptions {
  /** Makes the application's tables: SQL, or a function. `tidemark simulate` copies those of the configured file when it is left out. */
  readonly schema?: string | ((db: SqliteDatabaseLike) => void)
  /** Puts rows into them that handlers need: accounts that foreign keys refer to. */
  readonly seed?: (scope: SeedScope) => void
  /** The events of one transaction. Everything random must come from `random`. Default: any event, values by type from small pools. */
  readonly generate?: (random: Random, context: GenerateContext) => readonly (SimulatedEvent | FakeLog)[]
  /** Takes the place of every `prepare`: what asks the network cannot run in simulated time. */
  readonly prepare?: (scope: { readonly watcher: string; readonly event: TidemarkEvent }) => unknown
  /** Columns that may differ: `accounts.updated_at`, `*.id`. Those that the database makes itself are left out anyway. */
  readonly ignore?: readonly string[]
}

export interface SimulatedChain {
  /** EIP-155 id. */
  readonly id: number
  readonly finality: 'tag' | 'depth'
}

/** Everything that the runs of one application have in common. */
export interface ReplaySetup extends SimulationOptions {
  /** By their keys in the configuration. */
  readonly watchers: Readonly<Record<string, Watcher>>
  /** Those that the watchers run on, by their keys. */
  readonly chains: Readonly<Record<string, SimulatedChain>>
  /** Folder for the databases. Default: memory of the machine where that is a folder. */
  readonly folder?: string
}

/** A watcher that waits for more confirmations is simulated with so many: no handler sees the difference. */
const MAX_CONFIRMATIONS = 3

/** The chain begins at block 0 here, and never ends. */
export function simulatedBinding(binding: ChainBinding): ChainBinding {
  const { address, at } = binding
  const short = typeof at === 'object' ? { confirmations: Math.min(at.confirmations, MAX_CONFIRMATIONS) } : at
  return { startBlock: 1, ...(address === undefined ? {} : { address }), ...(short === undefined ? {} : { at: short }) }
}

/** `on` of a watcher, as it is simulated. */
export function simulatedOn(watcher: Watcher): Watcher['definition']['on'] {
  return Object.fromEntries(
    Object.entries(watcher.definition.on).map(([chain, binding]) => [chain, simulatedBinding(binding)]),
  )
}

/** Whether a reorg, or a log found late, can be taken back. */
export function canUndo(watcher: Watcher, chain: string): boolean {
  const { undo, on } = watcher.definition
  const at = on[chain]?.at
  if (undo === 'irreversible') return at === undefined || at === 'finalized'
  return typeof at !== 'object' || undo !== undefined
}

function makeSchema(database: SqliteDatabaseLike, schema: SimulationOptions['schema']): void {
  if (typeof schema === 'string') database.exec(schema)
  else schema?.(database)
}

/**
 * A database with Tidemark's tables, the application's and its first rows. Tidemark's come first, since views and triggers of
 * the application may refer to them.
 */
export async function makeScratch(setup: SimulationOptions, file: string): Promise<ScratchDatabase> {
  const store = sqlite({ file })
  await store.migrate('auto')
  await store.close()
  const scratch = new ScratchDatabase(file)
  makeSchema(scratch.database, setup.schema)
  setup.seed?.({ db: scratch.database, file })
  return scratch
}

/** Refuses what no run could begin with. @throws {TidemarkError} of the watchers or chains */
export function checkSetup({ watchers, chains }: ReplaySetup): void {
  const store = sqlite({ file: ':memory:' })
  const rpc = [{ request: () => Promise.reject(new Error('nobody is asked')) }]
  const all = Object.entries(chains).map(([name, { id }]) => [name, { id, rpc }] as const)
  createTidemark(defineConfig({ store, chains: Object.fromEntries(all), watchers }))
}
