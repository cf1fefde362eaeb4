import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { build } from 'vite'
import { afterAll, expect, test } from 'vitest'
import { root } from './house/tree.ts'
import { endState, pagesOf, readDisk } from './support/crash-disk.ts'
import { CrashLab, differing, distinct, label, oracle, type Point } from './support/crash-lab.ts'
import { leaky, PHASE_COUNT, play } from './support/crash-run.ts'

/**
 * A crash before and after every statement that the store sends to SQLite, migration and lease included. About 930
 * points at half a second a process would take minutes, so there are two ways:
 *
 * 1. Every point, in this process: the files are copied as they are at that instant, and a new instance goes on from the
 *    copy. Between two writes of SQLite all points leave the same bytes; the run that follows is a function of them and
 *    of the chain, so each pair of bytes and chain is gone through once.
 * 2. Every n-th point, for real: a process sends itself SIGKILL there. What it leaves is compared with the copy of way 1
 *    at the same point, page by page and frame by frame, and a new instance goes on from it.
 *
 * That the comparison of way 2 can fail has a test of its own, and so has the comparison of the end states.
 */
const KILL_EVERY = 35
const PARALLEL = 2

const lab = new CrashLab()
/** Inside the checkout, so that the built program finds the packages. */
const built = join(root, 'node_modules', '.cache', `tidemark-crash-${process.pid}`)
afterAll(() => {
  lab.close()
  rmSync(built, { recursive: true, force: true })
})

const whole = lab.everyPoint()

test('the run meets every kind of commit', async () => {
  const { points, end } = await whole
  const statements = points.map(({ sql }) => sql.replace(/\s+/g, ' ').trim())
  for (const wanted of [
    /^CREATE TABLE tidemark_chains/,
    /^BEGIN EXCLUSIVE/,
    /^UPDATE tidemark_watchers SET token/,
    /^INSERT INTO tidemark_processed_events/,
    /^INSERT INTO payouts/,
    /^DELETE FROM tidemark_kept_events WHERE watcher = \? AND block_number > /,
    /^DELETE FROM tidemark_kept_events WHERE watcher = \? AND block_number <= /,
    /^UPDATE tidemark_watchers SET low_water = /,
    /^DELETE FROM tidemark_processed_events WHERE \(watcher, /,
    /^close$/,
  ]) {
    expect(
      statements.some((sql) => wanted.test(sql)),
      String(wanted),
    ).toBe(true)
  }
  expect(JSON.parse((end.watcher as string[])[0] ?? '')).toMatchObject({
    state: 'running',
    applied: 12,
    undone: 3,
    duplicates: 0,
    reorgs: 1,
    epoch: 1,
    low_water: 273,
    settled: 286,
  })
  expect(JSON.parse((end.watcher as string[])[0] ?? '').low_water).toBeGreaterThan(271)
  expect((end.marks as string[]).length).toBe(6) // of nine events on the final chain three were forgotten
})

test('a crash before or after any statement: the run that goes on ends as one that never crashed (P1, P2, P3)', async () => {
  const { points, end } = await whole
  expect(points.length).toBe(2 * (points.at(-1)?.n ?? 0))
  const states = distinct(points)
  console.log(
    `crash points: ${points.length}, before and after ${points.length / 2} statements; ${states.length} different`,
  )
  const wrong: string[] = []
  for (const point of states) {
    const file = lab.newFile(point.disk)
    const told = differing(await lab.resume(file, point.phase), end, file)
    if (told.length > 0) wrong.push(`${label(point)} ${told.join('; ')}`)
  }
  expect(wrong).toEqual([])
}, 60_000)

test('a crash at any statement, and the chain moves on before the next start', async () => {
  const { points } = await whole
  const wrong: string[] = []
  for (const point of distinct(points).filter(({ phase }) => phase + 1 < PHASE_COUNT)) {
    const file = lab.newFile(point.disk)
    await lab.resume(file, point.phase + 1)
    const told = oracle(file)
    if (told.length > 0) wrong.push(`${label(point)} ${told.join('; ')}`)
  }
  expect(wrong).toEqual([])
}, 60_000)

test('control: a write outside the transaction is found by the same comparison', async () => {
  const file = lab.newFile()
  await play({ file, watcher: leaky(file) })
  const end = endState(file)
  const wrong: string[] = []
  for (const point of distinct((await lab.everyPoint(leaky)).points)) {
    const copy = lab.newFile(point.disk)
    const found = await lab.resume(copy, point.phase, leaky)
    if (differing(found, end, copy).includes('balances')) wrong.push(label(point))
  }
  console.log(`control: ${wrong.length} states end differently, such as ${wrong[0]}`)
  expect(wrong.length).toBeGreaterThan(2)
}, 60_000)

const ENTRY = `
import { leaky, play } from ${JSON.stringify(join(root, 'test/support/crash-run.ts'))}
const [file = '', n, when, variant] = process.argv.slice(2)
const dieAt = (k, now) => {
  if (k !== Number(n) || now !== when) return
  process.kill(process.pid, 'SIGKILL')
  for (;;);
}
const around = (k, _sql, work) => {
  dieAt(k, 'before')
  const result = work()
  dieAt(k, 'after')
  return result
}
void play({ file, around, ...(variant === 'leaky' ? { watcher: leaky(file) } : {}) })
`

/** The run as one file of JavaScript: what a process costs is Node's own start. */
async function buildProgram(): Promise<string> {
  mkdirSync(built, { recursive: true })
  writeFileSync(join(built, 'entry.ts'), ENTRY)
  const output = { ssr: join(built, 'entry.ts'), outDir: join(built, 'out'), target: 'node20', minify: false }
  await build({ configFile: false, logLevel: 'silent', root, build: output, ssr: { noExternal: true } })
  return join(built, 'out', 'entry.js')
}

/** Runs a process that kills itself at a point. Answers the file that it leaves. */
async function killed(program: string, point: Pick<Point, 'n' | 'when'>, variant = 'good'): Promise<string> {
  const file = lab.newFile()
  const args = [program, file, String(point.n), point.when, variant]
  const child: ChildProcess = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'] })
  const [, signal] = await once(child, 'exit')
  if (signal !== 'SIGKILL') throw new Error(`the process was not killed at ${point.when} ${point.n}`)
  return file
}

/** Some work on each item, two at a time. */
async function inParallel<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const queue = [...items]
  const worker = async () => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item)
  }
  await Promise.all(Array.from({ length: PARALLEL }, worker))
}

const program = buildProgram()

test(`SIGKILL at every ${KILL_EVERY}th point leaves what was copied there, and the run that goes on ends well`, async () => {
  const { points, end } = await whole
  const chosen = points.filter((_, i) => i % KILL_EVERY === 7)
  const path = await program
  const wrong: string[] = []
  const resumed = new Set<unknown>()
  await inParallel(chosen, async (point) => {
    const file = await killed(path, point)
    const told = pagesOf(readDisk(file)) === pagesOf(point.disk) ? [] : ['the files differ from the copy']
    // What is equal to the copy page by page need not be gone through twice.
    if (told.length > 0 || !resumed.has(point.disk))
      told.push(...differing(await lab.resume(file, point.phase), end, file))
    resumed.add(point.disk)
    if (told.length > 0) wrong.push(`${label(point)} ${told.join('; ')}`)
  })
  console.log(`SIGKILL: ${chosen.length} processes`)
  expect(wrong).toEqual([])
  expect(new Set(chosen.map(({ when }) => when)).size).toBe(2)
}, 120_000)

test('control: a process killed after a COMMIT leaves other pages than one killed before, and a leak shows', async () => {
  const { points } = await whole
  const path = await program
  const commit = points.filter(({ sql, phase }) => sql === 'COMMIT' && phase === 1).at(-1) as Point
  const before = points[points.indexOf(commit) - 1] as Point
  const left = pagesOf(readDisk(await killed(path, commit)))
  expect([left === pagesOf(commit.disk), left === pagesOf(before.disk)]).toEqual([true, false])
  const file = await killed(path, before, 'leaky')
  expect((await lab.resume(file, before.phase, leaky)).balances).not.toEqual((await whole).end.balances)
}, 60_000)
