import { parseArgs } from 'node:util'
import { EQUIVALENT, MUTATIONS } from './mutations/all.ts'
import { type Build, buildMutant, buildWhole, compileErrors, dropMutant } from './mutations/build.ts'
import { Databases } from './mutations/databases.ts'
import type { Mutation } from './mutations/mutation.ts'
import { inParallel, type Played, play } from './mutations/play.ts'
import { line, type Outcome, report, writeProof } from './mutations/report.ts'

/**
 * `npm run mutate`: breaks the engine in each of the ways of `scripts/mutations/`, one at a time, and lets the simulator
 * play seeds on it until one fails. A mutation that no seed catches is a hole in the proof: the command fails.
 *
 *   --only NAME   only mutations whose name holds this text; may be given more than once
 *   --seeds N     seeds 1 to N, where a mutation does not state its own number. Default 200
 *   --write       puts the table into docs/proof.md; needs all mutations
 *   --check       only sees whether each mutation still fits the sources and compiles
 *   --no-control  leaves out the run of the sound engine
 *   --json        the last line is { mutations, caught, survived, left }
 *
 * Mutations of leases and fencing are played on the PostgreSQL server of TIDEMARK_TEST_POSTGRES, else the standard one of this
 * host. Where none answers they are left out, which is said; with CI=true that is a failure.
 */
const SEEDS = 200
/** The same on PostgreSQL, where a seed takes seconds. */
const SERVER_SEEDS = 40
/** Worker processes at once: a machine of two cores. */
const WIDTH = 2

interface Options {
  readonly mutations: readonly Mutation[]
  readonly seeds: number
  readonly write: boolean
  readonly check: boolean
  readonly control: boolean
  readonly json: boolean
}

function readOptions(): Options {
  const flag = { type: 'boolean', default: false } as const
  const { values } = parseArgs({
    options: {
      only: { type: 'string', multiple: true },
      seeds: { type: 'string', default: String(SEEDS) },
      write: flag,
      check: flag,
      'no-control': flag,
      json: flag,
    },
  })
  const { only, write, check, json } = values
  const mutations = MUTATIONS.filter(({ name }) => only?.some((text) => name.includes(text)) ?? true)
  if (mutations.length === 0) throw new Error(`no mutation is called like ${only?.join(' or ')}`)
  if (write && only) throw new Error('--write needs all mutations: leave out --only')
  return { mutations, seeds: Number(values.seeds), write, check, control: !values['no-control'], json }
}

const upTo = (n: number) => Array.from({ length: n }, (_, i) => i + 1)

/** Stale mutations, those that do not compile, and names used twice are mistakes of this check, not holes. */
function checkMutations(build: Build, mutations: readonly Mutation[]): void {
  const names = new Set(mutations.map(({ name }) => name))
  if (names.size < mutations.length) throw new Error('two mutations have one name')
  const errors = compileErrors(build, mutations)
  if (errors.size > 0)
    throw new Error([...errors].map(([name, words]) => `mutation ${name} does not compile: ${words}`).join('\n'))
  console.log(
    `${mutations.length} mutations fit the sources and compile; ${EQUIVALENT.length} more are known to be equivalent`,
  )
}

/** The sound engine must pass what catches the broken ones. */
async function control(
  { whole }: Build,
  seeds: readonly number[],
  options: Mutation['given'],
  url?: string,
): Promise<Played> {
  const played = await play({ dist: whole, seeds, options: options?.options ?? {}, url })
  if (!played.caught) return played
  const { seed, kind, words } = played.caught
  throw new Error(`control: the engine as it is fails seed ${seed} (${kind}): ${words}`)
}

async function controlAll(build: Build, seeds: readonly number[]): Promise<void> {
  const shares = upTo(WIDTH).map((_, share) => seeds.filter((seed) => seed % WIDTH === share))
  const played = await inParallel(
    shares.filter((share) => share.length > 0),
    WIDTH,
    (share) => control(build, share, undefined),
  )
  const slowest = Math.max(...played.map((one) => one.slowest))
  console.log(
    `control: the engine as it is passes seeds 1 to ${seeds.length}; the slowest took ${slowest.toFixed(1)} s`,
  )
}

/** Tries one mutation. A seed that the control has not played yet is played on the sound engine, too. */
async function attempt(build: Build, mutation: Mutation, options: Options, url?: string): Promise<Outcome> {
  const limit = mutation.seeds?.limit ?? (url === undefined ? options.seeds : Math.min(options.seeds, SERVER_SEEDS))
  const dist = buildMutant(build, mutation)
  const played = await play({ dist, seeds: upTo(limit), options: mutation.given?.options ?? {}, url })
  dropMutant(mutation)
  const { caught, seconds } = played
  if (caught && options.control && (caught.seed > options.seeds || mutation.given || url !== undefined))
    await control(build, [caught.seed], mutation.given, url)
  const outcome: Outcome = { mutation, caught, limit, seconds }
  console.log(line(outcome))
  return outcome
}

/** What is played on a server needs one. Answers the mutations that can be tried. */
function playable(mutations: readonly Mutation[], databases: Databases | null): readonly Mutation[] {
  const left = mutations.filter(({ store }) => store && !databases)
  if (left.length === 0) return mutations
  const words = `no PostgreSQL server answers: ${left.length} mutations are NOT PLAYED: ${left.map(({ name }) => name).join(', ')}`
  if (process.env.CI) throw new Error(words)
  console.warn(words)
  return mutations.filter((mutation) => !left.includes(mutation))
}

async function attemptAll(build: Build, options: Options): Promise<Outcome[]> {
  const needed = options.mutations.some(({ store }) => store)
  const databases = needed ? await Databases.make(WIDTH) : null
  try {
    return await inParallel(playable(options.mutations, databases), WIDTH, (mutation) => {
      if (!mutation.store || !databases) return attempt(build, mutation, options)
      return databases.lend((url) => attempt(build, mutation, options, url))
    })
  } finally {
    await databases?.drop()
  }
}

async function main(): Promise<void> {
  const options = readOptions()
  const build = buildWhole()
  checkMutations(build, options.mutations)
  if (options.check) return
  // What is played on a server has its control there, with the seed that caught it.
  const onDefault = options.mutations.some(({ store }) => !store)
  if (!options.control) console.log('control: NOT RUN, as asked')
  else if (onDefault) await controlAll(build, upTo(options.seeds))
  const outcomes = await attemptAll(build, options)
  const survivors = outcomes.filter(({ caught }) => !caught)
  console.log(`\n${report(outcomes)}`)
  for (const { mutation, limit } of survivors)
    console.log(`SURVIVED ${limit} seeds: ${mutation.name} (${mutation.breaks}): ${mutation.why}`)
  if (options.write && outcomes.length < options.mutations.length) throw new Error('--write needs a PostgreSQL server')
  if (options.write) writeProof(outcomes, EQUIVALENT, options.seeds)
  const left = options.mutations.length - outcomes.length
  const caught = outcomes.length - survivors.length
  const figures = { mutations: outcomes.length, caught, survived: survivors.length, left }
  console.log(
    options.json
      ? JSON.stringify(figures)
      : `${figures.mutations} mutations, ${caught} caught, ${figures.survived} survived${left > 0 ? `, ${left} NOT PLAYED` : ''}`,
  )
  process.exitCode = survivors.length > 0 ? 1 : 0
}

await main()
