import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Equivalent, Mutation } from './mutation.ts'
import type { Caught } from './play.ts'

const PROOF = join(resolve(import.meta.dirname, '../..'), 'docs/proof.md')
const HEADING = '## Mutations'

export interface Outcome {
  readonly mutation: Mutation
  /** Null: it survived. */
  readonly caught: Caught | null
  /** Seeds that it had to survive. */
  readonly limit: number
  readonly seconds: number
}

/** One outcome, as it is printed when it comes in. */
export function line({ mutation, caught, limit, seconds }: Outcome): string {
  const how = caught
    ? `caught by seed ${caught.seed}, ${caught.kind}: ${caught.words.split('\n')[0]?.slice(0, 160)}`
    : `SURVIVED ${limit} seeds`
  return `${mutation.name} (${seconds.toFixed(1)} s): ${how}`
}

function row({ mutation, caught, seconds }: Outcome): string {
  const { name, breaks, why, store } = mutation
  const cells = [
    `\`${name}\`${store ? ', on PostgreSQL' : ''}`,
    breaks,
    why,
    caught ? String(caught.seed) : '**survived**',
    caught?.kind ?? '',
    seconds.toFixed(1),
  ]
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
}

/** The table of all outcomes, as Markdown. */
export function report(outcomes: readonly Outcome[]): string {
  const head = ['| mutation | breaks | what goes wrong | caught by seed | as | seconds |', '|---|---|---|---|---|---|']
  return [...head, ...outcomes.map(row)].join('\n')
}

function exceptions(outcomes: readonly Outcome[]): string[] {
  const more = outcomes.flatMap(({ mutation: { name, seeds } }) =>
    seeds ? [`- \`${name}\`: up to ${seeds.limit} seeds, since ${seeds.because}`] : [],
  )
  const given = outcomes.flatMap(({ mutation: { name, given } }) =>
    given ? [`- \`${name}\`: with options given by hand, since ${given.because}`] : [],
  )
  return more.length + given.length > 0 ? ['Exceptions:', '', ...more, ...given, ''] : []
}

function section(outcomes: readonly Outcome[], equivalent: readonly Equivalent[], seeds: number): string {
  const caught = outcomes.filter((outcome) => outcome.caught)
  const first = caught.filter((outcome) => outcome.caught?.seed === 1).length
  const highest = Math.max(0, ...caught.map((outcome) => outcome.caught?.seed ?? 0))
  return [
    HEADING,
    '',
    `The engine is broken on purpose in ${outcomes.length} ways, one at a time, and the simulator plays seeds 1, 2, 3 … on it until one fails,`,
    `at most ${seeds}. The engine as it is passes the same seeds. Caught: ${caught.length} of ${outcomes.length}; ${first} of them by the first seed, and none needed`,
    `a seed above ${highest}. Made by \`npm run mutate -- --write\`; the changes themselves are in \`scripts/mutations/\`.`,
    '',
    ...exceptions(outcomes),
    report(outcomes),
    '',
    'Seconds are real ones, on two cores, with the loading of the engine. "no progress" means that the broken engine did nothing for 20 s of real time.',
    '',
    'Some changes cannot be caught, since a second guard does the same work, or since they cost work and break no promise:',
    '',
    ...equivalent.map(({ name, file, because }) => `- ${name} (\`src/${file}\`): ${because}.`),
    '',
  ].join('\n')
}

/** Puts the section into docs/proof.md, in the place of the one before; the rest of the page stays. */
export function writeProof(outcomes: readonly Outcome[], equivalent: readonly Equivalent[], seeds: number): void {
  const page = existsSync(PROOF) ? readFileSync(PROOF, 'utf8') : '# Proof\n'
  const start = page.indexOf(`${HEADING}\n`)
  const next = start < 0 ? -1 : page.indexOf('\n## ', start + HEADING.length)
  const before = start < 0 ? `${page.trimEnd()}\n\n` : page.slice(0, start)
  const after = next < 0 ? '' : page.slice(next)
  writeFileSync(PROOF, before + section(outcomes, equivalent, seeds) + after)
  console.log('wrote docs/proof.md')
}
