import { scalarSettings } from '../../config.ts'
import type { CommandSpec, FlagSpec } from './command.ts'

const config: FlagSpec = {
  name: 'config',
  value: 'file',
  summary: 'configuration file (default: tidemark.config.ts, .mts, .js or .mjs here)',
}
const json: FlagSpec = { name: 'json', summary: 'print one JSON document' }

const SETTING_SUMMARY: Readonly<Record<string, string>> = {
  migrate: "'auto' or 'check': check refuses to start on an older schema",
  retentionBlocks: 'blocks behind the settled line for which marks are kept',
  undoLimitBlocks: 'unsettled blocks at which a watcher waits for finality',
  build: 'name of this build, recorded with each commit',
  environment: 'kept in the database at the first start; a process of another one is refused',
  logLevel: "'debug', 'info', 'warn' or 'error'",
  accept: "'from-here': use a changed filter from the cursor on",
}

/** A flag for each setting that can be overridden; the same table gives the environment variables. */
const settings: readonly FlagSpec[] = scalarSettings.map(({ key, flag, env }) => ({
  name: flag,
  value: 'value',
  summary: `${SETTING_SUMMARY[key] ?? key}${env ? ` (or ${env})` : ''}`,
}))
const logLevel = settings.filter((flag) => flag.name === 'log-level')

const by: readonly FlagSpec[] = [
  { name: 'actor', value: 'name', summary: 'who does this, for the audit table (default: your user name)' },
  { name: 'reason', value: 'text', summary: 'why, for the audit table' },
]

export const commands: readonly CommandSpec[] = [
  {
    name: 'run',
    summary: 'Follow the chains: backfill with progress, then live',
    args: [],
    flags: [config, ...settings],
    examples: [
      'tidemark run',
      'tidemark run --config deploy/tidemark.config.ts --migrate check',
      'tidemark run --accept from-here',
    ],
    load: async () => (await import('./commands/run.ts')).run,
  },
  {
    name: 'status',
    summary: 'Show where each watcher stands; works beside a running process',
    args: [],
    flags: [config, json, ...logLevel],
    examples: ['tidemark status', "tidemark status --json | jq '.watchers[].cursor.number'"],
    load: async () => (await import('./commands/status.ts')).status,
  },
  {
    name: 'resume',
    summary: 'Set a halted or paused watcher running again',
    args: ['NAME/CHAIN'],
    flags: [
      config,
      {
        name: 'accept-reorg',
        summary: 'give up orphaned blocks above the settled line; correct by hand what cannot be undone',
      },
      ...by,
      ...logLevel,
    ],
    examples: ['tidemark resume deposits/ethereum --reason "handler corrected in build 42"'],
    load: async () => (await import('./commands/resume.ts')).resume,
  },
  {
    name: 'rename',
    summary: 'Give a watcher a new name; its cursor and marks go with it',
    args: ['OLD/CHAIN', 'NEW/CHAIN'],
    flags: [config, ...by, ...logLevel],
    examples: ['tidemark rename deposits/ethereum credits/ethereum'],
    load: async () => (await import('./commands/rename.ts')).rename,
  },
  {
    name: 'restored',
    summary: 'Go on from a database that was restored from a backup',
    args: [],
    flags: [config, ...by, ...logLevel],
    examples: ['tidemark restored --reason "restored to 14:00 after the disk failed"'],
    load: async () => (await import('./commands/restored.ts')).restored,
  },
  {
    name: 'migrate',
    summary: "Bring Tidemark's own tables up to date",
    args: [],
    flags: [
      config,
      { name: 'check', summary: 'change nothing; end with exit code 3 when a migration is needed' },
      { name: 'sql', summary: 'change nothing; print the SQL for a person to run' },
      ...logLevel,
    ],
    examples: ['tidemark migrate', 'tidemark migrate --check', 'tidemark migrate --sql > migration.sql'],
    load: async () => (await import('./commands/migrate.ts')).migrate,
  },
  {
    name: 'demo',
    summary: 'A hostile chain, a watcher that is killed, an independent verdict',
    args: [],
    flags: [
      { name: 'seed', value: 'text', summary: 'repeat the run with this seed' },
      { name: 'blocks', value: 'number', summary: 'length of the chain' },
      { name: 'json', summary: 'print one JSON object as the last line' },
    ],
    examples: ['tidemark demo', 'tidemark demo --seed 42 --json'],
    load: async () => (await import('./commands/demo.ts')).demo,
  },
  {
    name: 'simulate',
    summary: 'Run your handlers through crashes, reorgs and lying nodes',
    args: [],
    flags: [
      config,
      { name: 'seeds', value: 'number', summary: 'how many runs, each with other faults (default: 50)' },
      { name: 'from', value: 'number', summary: 'the first seed (default: 1)' },
      { name: 'watcher', value: 'name', summary: 'only this watcher (default: all of them together)' },
      { name: 'ignore', value: 'columns', summary: 'columns that may differ: accounts.updated_at,*.id' },
      { name: 'json', summary: 'print one JSON object as the last line' },
    ],
    examples: [
      'tidemark simulate',
      'tidemark simulate --seeds 500 --json',
      'tidemark simulate --seeds 1 --from 7 --watcher deposits',
    ],
    load: async () => (await import('./commands/simulate.ts')).simulate,
  },
]
