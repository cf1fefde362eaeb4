import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { commandTotals, succeeded, sum, type Totals, testTotals, totalsLine, type VitestReport } from './totals.ts'

/**
 * `npm test`: every check, one after the other, none left out because another failed. The last line holds the totals:
 * the tests one by one, each other check as one. `--all` adds three whole runs of the demo with fixed seeds.
 */
const CACHE = 'node_modules/.cache/tidemark'
const REPORT = `${CACHE}/vitest.json`
/** Read by `.ci/run`; written only at the very end. */
const TOTALS = `${CACHE}/totals.txt`
const DEMO_SEEDS = [1, 2, 3]

interface Check {
  readonly name: string
  readonly command: readonly string[]
  readonly count?: (exitCode: number) => Totals
}

function readReport(): VitestReport | null {
  try {
    return JSON.parse(readFileSync(REPORT, 'utf8')) as VitestReport
  } catch {
    return null
  }
}

const vitest = ['npx', '--no-install', 'vitest', 'run', '--allowOnly=false']

const checks: readonly Check[] = [
  { name: 'build', command: ['npm', 'run', '--silent', 'clean:build'] },
  { name: 'types', command: ['npm', 'run', '--silent', 'typecheck'] },
  { name: 'lint and format', command: ['npm', 'run', '--silent', 'lint'] },
  {
    name: 'tests',
    command: [...vitest, '--reporter=default', '--reporter=json', `--outputFile.json=${REPORT}`],
    count: (exitCode) => testTotals(readReport(), exitCode),
  },
  {
    name: '300 seeds',
    command: ['npm', 'run', '--silent', 'simulate', '--', '--seeds', '300', '--from', '1', '--workers', '2'],
  },
  { name: 'package', command: ['npm', 'run', '--silent', 'check:package'] },
  { name: 'dead code', command: ['npm', 'run', '--silent', 'check:dead'] },
  { name: 'size', command: ['npm', 'run', '--silent', 'check:size'] },
]

const demos: readonly Check[] = DEMO_SEEDS.map((seed) => ({
  name: `demo, seed ${seed}`,
  command: ['node', 'dist/app/cli/main.js', 'demo', '--seed', String(seed), '--json'],
}))

interface Outcome extends Totals {
  readonly name: string
  readonly seconds: number
}

function run(check: Check): Outcome {
  console.log(`\n--- ${check.name}`)
  const [program = '', ...args] = check.command
  const started = performance.now()
  const exitCode = spawnSync(program, args, { stdio: ['ignore', 'inherit', 'inherit'] }).status ?? 1
  const totals = (check.count ?? commandTotals)(exitCode)
  return { name: check.name, seconds: (performance.now() - started) / 1000, ...totals }
}

function main(): void {
  rmSync(CACHE, { recursive: true, force: true })
  mkdirSync(CACHE, { recursive: true })
  const all = process.argv.includes('--all') ? [...checks, ...demos] : checks
  const outcomes = all.map(run)
  console.log('')
  for (const outcome of outcomes) {
    const verdict = outcome.failed > 0 ? 'FAILED' : 'ok'
    console.log(`${verdict.padEnd(7)} ${outcome.name.padEnd(16)} ${outcome.seconds.toFixed(1).padStart(6)} s`)
  }
  const totals = sum(outcomes)
  writeFileSync(TOTALS, `${totalsLine(totals)}\n`)
  console.log(`\nTotals: ${totalsLine(totals)}`)
  process.exitCode = succeeded(totals) ? 0 : 1
}

main()
