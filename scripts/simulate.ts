import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { parseArgs } from 'node:util'
import { type SimulateInput, type SimulationReport, shrink, simulate } from '../src/testkit/index.ts'
import { makeDatabase, PgDatabase, serverUrl } from '../src/testkit/simulator/postgres/database.ts'

/**
 * `npm run simulate -- --seeds 1000 --from 1 [--store postgres] [--workers 2] [--json] [--story] [--save FOLDER]`
 *
 * Runs seeds and tells which fail, each with the command that repeats it and a shrunk story. `--json`: the last line is
 * one object with the totals, and with a hash over the traces of all seeds in order. `--save` keeps shrunk runs as files
 * for `test/seeds`.
 *
 * `--store postgres`: on the server of TIDEMARK_TEST_POSTGRES, else the standard one of this host; each worker makes a
 * database of its own there, and drops it.
 */
const USAGE =
  'npm run simulate -- --seeds 1000 --from 1 [--store sqlite|postgres] [--workers 2] [--json] [--story] [--save FOLDER]'
/** Failures that are shrunk and told; the others are only named. */
const TOLD = 3
/** A long run says how far it is. */
const TOLD_EVERY = 1_000

interface Settings {
  readonly from: number
  readonly seeds: number
  readonly workers: number
  readonly json: boolean
  readonly story: boolean
  readonly save: string | undefined
  readonly store: string
  /** Which worker this process is; undefined: the parent. */
  readonly worker: number | undefined
}

type Line = Omit<SimulationReport, 'story'>
type Where = Pick<SimulateInput, 'database'>

function whole(text: string, name: string, min: number): number {
  const value = Number(text)
  if (Number.isSafeInteger(value) && value >= min) return value
  console.error(`--${name} takes a whole number from ${min}, got ${text}\n${USAGE}`)
  process.exit(2)
}

function known(store: string): string {
  if (store === 'sqlite' || store === 'postgres') return store
  console.error(`--store takes sqlite or postgres, got ${store}\n${USAGE}`)
  process.exit(2)
}

function settings(): Settings {
  const text = (fallback: string) => ({ type: 'string', default: fallback }) as const
  const flag = { type: 'boolean', default: false } as const
  const options = {
    from: text('1'),
    seeds: text('100'),
    workers: text('2'),
    json: flag,
    story: flag,
    save: { type: 'string' },
    store: text('sqlite'),
    worker: { type: 'string' },
  } as const
  const { values } = parseArgs({ options })
  const { json, story, save } = values
  const store = known(values.store)
  const workers = whole(values.workers, 'workers', 1)
  const worker = values.worker === undefined ? undefined : whole(values.worker, 'worker', 0)
  return {
    from: whole(values.from, 'from', 0),
    seeds: whole(values.seeds, 'seeds', 1),
    workers,
    json,
    story,
    save,
    store,
    worker,
  }
}

/** The seeds of one worker: every n-th, so that both have as much to do. */
function work({ from, seeds, workers, worker = 0, store }: Settings): Promise<void> {
  return onDatabase(store, async (where) => {
    for (let seed = from + worker; seed < from + seeds; seed += workers) {
      const { story: _, ...line } = await simulate({ seed, ...where })
      process.stdout.write(`${JSON.stringify(line)}\n`)
    }
  })
}

/** Gives `play` what runs on this kind of database need, and takes it away afterwards. */
async function onDatabase(store: string, play: (where: Where) => Promise<void>): Promise<void> {
  if (store === 'sqlite') return play({})
  const made = await makeDatabase(serverUrl(process.env))
  try {
    const database = await PgDatabase.open(made.url)
    await play({ database }).finally(() => database.close())
  } finally {
    await made.drop()
  }
}

/** Starts a worker and hands on its lines. Resolves with its exit code. */
function startWorker(
  worker: number,
  { from, seeds, workers, store }: Settings,
  onLine: (line: Line) => void,
): Promise<number> {
  const [jiti = '', script = ''] = process.argv
  const args = [
    '--from',
    String(from),
    '--seeds',
    String(seeds),
    '--workers',
    String(workers),
    '--worker',
    String(worker),
    '--store',
    store,
  ]
  const child = spawn(process.execPath, [...process.execArgv, ...entryOf(jiti, script), ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  createInterface({ input: child.stdout }).on('line', (text) => onLine(JSON.parse(text) as Line))
  return new Promise((resolve) => child.once('close', (code) => resolve(code ?? 1)))
}

/** How this process was started: by Node with a runner for TypeScript, which is found beside it. */
function entryOf(_node: string, script: string): string[] {
  return [join(import.meta.dirname, '../node_modules/jiti/lib/jiti-cli.mjs'), script]
}

async function allSeeds(settings: Settings): Promise<Map<number, Line>> {
  const lines = new Map<number, Line>()
  const take = (line: Line) => {
    lines.set(Number(line.seed), line)
    if (lines.size % TOLD_EVERY === 0) console.log(`${lines.size} seeds are played`)
    if (!line.ok) console.log(`seed ${line.seed} FAILED, ${line.failure?.kind}: ${line.failure?.words.split('\n')[0]}`)
  }
  const codes = await Promise.all(Array.from({ length: settings.workers }, (_, i) => startWorker(i, settings, take)))
  const lost = Array.from({ length: settings.seeds }, (_, i) => settings.from + i).filter((seed) => !lines.has(seed))
  if (lost.length > 0) console.log(`a worker ended early (exit codes ${codes.join(', ')}), at seed ${lost[0]}`)
  return lines
}

function totals({ from, seeds }: Settings, lines: ReadonlyMap<number, Line>) {
  const hash = createHash('sha256')
  const sum = { steps: 0, events: 0, reorgs: 0, crashes: 0, faults: 0 }
  let failed = 0
  for (let seed = from; seed < from + seeds; seed++) {
    const line = lines.get(seed)
    hash.update(`${seed} ${line?.traceHash ?? 'lost'}\n`)
    if (!line?.ok) failed += 1
    for (const key of Object.keys(sum) as (keyof typeof sum)[]) sum[key] += line?.[key] ?? 0
  }
  return { seeds, failed, ...sum, traceHash: hash.digest('hex') }
}

async function tell(seed: number, { save, store }: Settings, where: Where): Promise<void> {
  const on = store === 'sqlite' ? '' : ` --store ${store}`
  console.log(`\nseed ${seed}: npm run simulate -- --seeds 1 --from ${seed}${on} --story`)
  const shrunk = await shrink({ seed, ...where })
  if (!shrunk) return console.log('  it does not fail again: something outside the seed decides')
  console.log(`  shrunk to ${shrunk.plan.length} actions in ${shrunk.tries} runs:`)
  for (const line of shrunk.report.story) console.log(`  ${line}`)
  if (save === undefined) return
  mkdirSync(save, { recursive: true })
  const { options, plan, report } = shrunk
  const file = join(save, `${seed}.json`)
  writeFileSync(
    file,
    `${JSON.stringify({ seed, cause: 'write it here', failure: report.failure?.kind, options, plan }, null, 1)}\n`,
  )
  console.log(`  written to ${file}`)
}

async function main(): Promise<void> {
  const all = settings()
  if (all.worker !== undefined) return work(all)
  if (all.story)
    await onDatabase(all.store, async (where) => {
      for (let seed = all.from; seed < all.from + all.seeds; seed++)
        await simulate({ seed, ...where, onStep: (line) => console.log(line) })
    })
  const lines = await allSeeds(all)
  const failed = [...lines.values()]
    .filter((line) => !line.ok)
    .map((line) => Number(line.seed))
    .sort((a, b) => a - b)
  if (failed.length > 0)
    await onDatabase(all.store, async (where) => {
      for (const seed of failed.slice(0, TOLD)) await tell(seed, all, where)
    })
  const sums = totals(all, lines)
  console.log(
    all.json
      ? JSON.stringify(sums)
      : Object.entries(sums)
          .map(([key, value]) => `${key} ${value}`)
          .join(', '),
  )
  process.exitCode = sums.failed > 0 ? 1 : 0
}

await main()
