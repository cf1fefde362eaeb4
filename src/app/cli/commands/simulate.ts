import { existsSync } from 'node:fs'
import type { Config } from '../../../config.ts'
import { TidemarkError } from '../../../errors.ts'
import type { SqliteStore } from '../../../store/sqlite/index.ts'
import { schemaOf } from '../../../store/sqlite/scratch.ts'
import type { ReplayReport, ReplaySetup, SeedVerdict, SimulationOptions } from '../../../testkit/index.ts'
import { nearest } from '../../../util/nearest.ts'
import { thousands } from '../../terminal.ts'
import { type Call, textFlag } from '../command.ts'
import { EXIT } from '../exit-codes.ts'
import { loadProject } from '../load-config.ts'

const DEFAULT_SEEDS = 50
const MAX_SEED = 1_000_000_000
/** Failing seeds that are traced to their fault; the others are told as they are. */
const EXPLAINED = 3

/** The keys of the export `simulation`, with what each takes. */
const KEYS: Readonly<
  Record<keyof SimulationOptions, { readonly expected: string; readonly fits: (value: unknown) => boolean }>
> = {
  schema: { expected: 'SQL, or a function', fits: (value) => typeof value === 'string' || typeof value === 'function' },
  seed: { expected: 'a function', fits: (value) => typeof value === 'function' },
  generate: { expected: 'a function', fits: (value) => typeof value === 'function' },
  prepare: { expected: 'a function', fits: (value) => typeof value === 'function' },
  ignore: { expected: "a list such as ['accounts.updated_at', '*.id']", fits: isColumns },
}

function isColumn(text: unknown): boolean {
  return typeof text === 'string' && /^[^.,\s]+(\.[^.,\s]+)?$/.test(text)
}

function isColumns(value: unknown): boolean {
  return Array.isArray(value) && value.every(isColumn)
}

/** @throws {TidemarkError} `CONFIG_UNKNOWN_KEY`, `CONFIG_INVALID` */
function checkSimulation(exported: unknown): SimulationOptions {
  if (exported === undefined) return {}
  if (typeof exported !== 'object' || exported === null) {
    throw new TidemarkError('CONFIG_INVALID', "The export 'simulation' is not valid", {
      values: { got: typeof exported, expected: 'an object' },
    })
  }
  for (const [key, value] of Object.entries(exported)) {
    const known = KEYS[key as keyof SimulationOptions]
    if (!known) {
      const suggestion = nearest(key, Object.keys(KEYS))
      throw new TidemarkError('CONFIG_UNKNOWN_KEY', 'The export `simulation` has no such key', {
        values: { key: key.slice(0, 60), suggestion },
      })
    }
    if (value !== undefined && !known.fits(value)) {
      throw new TidemarkError('CONFIG_INVALID', `The setting 'simulation.${key}' is not valid`, {
        values: { got: typeof value, expected: known.expected },
      })
    }
  }
  return exported
}

function wholeFlag({ flags }: Call, name: string, min: number, fallback: number): number {
  const text = textFlag(flags, name)
  if (text === undefined) return fallback
  const value = /^\d{1,10}$/.test(text) ? Number(text) : -1
  if (value >= min && value <= MAX_SEED) return value
  throw new TidemarkError('FLAG_INVALID', `The flag --${name} is not valid`, {
    values: { expected: `an integer from ${min} to ${MAX_SEED}` },
  })
}

function ignoreFlag({ flags }: Call): string[] {
  const columns = textFlag(flags, 'ignore')?.split(',') ?? []
  if (columns.every(isColumn)) return columns
  throw new TidemarkError('FLAG_INVALID', 'The flag --ignore is not valid', {
    values: { expected: 'columns such as accounts.updated_at,*.id' },
  })
}

function chosen(config: Config, name: string | undefined): Config['watchers'] {
  if (name === undefined) return config.watchers
  const key = name.split('/')[0] ?? name
  const watcher = config.watchers[key]
  if (watcher) return { [key]: watcher }
  const known = Object.keys(config.watchers)
  throw new TidemarkError('WATCHER_UNKNOWN', 'There is no such watcher in the configuration', {
    values: { watcher: name.slice(0, 120), suggestion: nearest(key, known), known },
  })
}

function chainsOf(config: Config, watchers: Config['watchers']): ReplaySetup['chains'] {
  const used = new Set(Object.values(watchers).flatMap((watcher) => Object.keys(watcher.definition.on)))
  return Object.fromEntries(
    [...used].flatMap((name) => {
      const chain = config.chains[name]
      // One that is not configured is refused with the watchers, by its name.
      return chain ? [[name, { id: chain.id, finality: chain.finality === 'tag' ? 'tag' : 'depth' }] as const] : []
    }),
  )
}

/** The tables of the configured file, without their data: it is only ever read. */
function schemaFor(config: Config, { schema }: SimulationOptions): SimulationOptions['schema'] {
  if (schema !== undefined) return schema
  const { file } = config.store as Partial<SqliteStore>
  if (file === undefined || !existsSync(file)) return undefined
  const statements = schemaOf(file)
  return (db) => {
    for (const sql of statements) db.exec(sql)
  }
}

async function setupOf(call: Call): Promise<ReplaySetup> {
  const testkit = await import('../../../testkit/index.ts')
  const { config, exports } = await loadProject(call.io.cwd, textFlag(call.flags, 'config'), {
    'tidemark/testkit': testkit,
  })
  if (config.store.kind !== 'sqlite') {
    throw new TidemarkError('CONFIG_INVALID', 'Handlers are simulated on SQLite so far', {
      values: { path: 'store', got: config.store.kind, expected: 'sqlite' },
    })
  }
  const watchers = chosen(config, textFlag(call.flags, 'watcher'))
  if (Object.keys(watchers).length === 0)
    throw new TidemarkError('CONFIG_INVALID', 'There is no watcher to run', { values: { path: 'watchers' } })
  const simulation = checkSimulation(exports.simulation)
  const schema = schemaFor(config, simulation)
  const ignore = [...(simulation.ignore ?? []), ...ignoreFlag(call)]
  return {
    ...simulation,
    ...(schema === undefined ? {} : { schema }),
    ignore,
    watchers,
    chains: chainsOf(config, watchers),
  }
}

/** The command that repeats one seed. */
function repeatOf({ flags }: Call, seed: number): string {
  const kept = ['config', 'watcher', 'ignore'].flatMap((name) => {
    const value = textFlag(flags, name)
    return value === undefined ? [] : [`--${name} ${value}`]
  })
  return ['tidemark simulate --seeds 1', `--from ${seed}`, ...kept].join(' ')
}

function tell(call: Call, { seed, findings }: SeedVerdict): void {
  if (findings.length === 0) return
  call.io.stdout.write(
    `seed ${seed}:\n${findings.map((line) => `  ${line}\n`).join('')}  repeat: ${repeatOf(call, seed)}\n`,
  )
}

function summary(report: ReplayReport): string {
  const counts = (['steps', 'events', 'reorgs', 'crashes', 'faults'] as const).map(
    (key) => `${thousands(report[key])} ${key}`,
  )
  const outcome =
    report.failed === 0
      ? 'your tables are those of a clean run, each time'
      : `${thousands(report.failed)} seeds differ from a clean run`
  return `${thousands(report.seeds)} seeds, ${counts.join(', ')}: ${outcome}.\n`
}

/**
 * `tidemark simulate [--seeds N] [--from N] [--watcher NAME] [--ignore columns] [--json]`: exit code 0 when every seed leaves
 * the tables of a clean run, 5 when one does not. The configured database is never written, and no node is asked.
 */
export async function simulate(call: Call): Promise<number> {
  const range = {
    seeds: wholeFlag(call, 'seeds', 1, DEFAULT_SEEDS),
    from: wholeFlag(call, 'from', 0, 1),
    explain: EXPLAINED,
  }
  const setup = await setupOf(call)
  const { runReplays } = await import('../../../testkit/replay/replays.ts')
  const { failures: _, ...report } = await runReplays(setup, { ...range, onSeed: (verdict) => tell(call, verdict) })
  call.io.stdout.write(call.flags.json === true ? `${JSON.stringify(report)}\n` : summary({ ...report, failures: [] }))
  return report.failed === 0 ? EXIT.ok : EXIT.different
}
