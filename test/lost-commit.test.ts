import { afterAll, expect, test } from 'vitest'
import type { Watcher } from '../src/handle/watch.ts'
import { endState } from './support/crash-disk.ts'
import { CrashLab, differing, type Point } from './support/crash-lab.ts'
import { type Around, leaky, PHASE_COUNT, play } from './support/crash-run.ts'
import { good, ledger } from './support/demo-ledger.ts'

/**
 * COMMIT whose answer is lost, at each COMMIT of the run of `crash-points.test.ts` in turn. The process lives on and must
 * find out by itself what became of it: the effects are there once.
 */
const lab = new CrashLab()
afterAll(() => lab.close())

const whole = lab.everyPoint()

/** What becomes of a COMMIT. The driver's error is the same each time: SQLITE_IOERR. */
const FATES = {
  /** It reached SQLite; only the answer is lost. */
  reached: (work) => work(),
  /** SQLite rolled back, as it may after an error of the disk. */
  undone: (_, database) => database.exec('ROLLBACK'),
  /** SQLite refused, and the transaction is still open. */
  refused: () => {},
} as const satisfies Record<string, (work: () => unknown, database: Parameters<Around>[3]) => unknown>

type Fate = keyof typeof FATES

interface Calls {
  handle: number
  undo: number
  final: number
}

function counting(calls: Calls): Watcher {
  const counted = <S>(name: keyof Calls, stage: (scope: S) => unknown) => {
    return (scope: S) => {
      calls[name]++
      return stage(scope)
    }
  }
  const { handle, undo, final } = good
  return ledger({ handle: counted('handle', handle), undo: counted('undo', undo), final: counted('final', final) })
}

interface Outcome {
  readonly failures: readonly string[]
  readonly told: readonly string[]
  readonly calls: Calls
  /** Whether the COMMIT that was hit was one of a watcher: its transaction wrote a nonce. */
  readonly guarded: boolean
}

/** Lets the `hit`-th COMMIT meet its fate. `see` is told each statement, and `hit` when it is the one. */
function fated(hit: number, fate: Fate, see: (sql: string) => void = () => {}): Around {
  let commits = 0
  return (_, sql, work, database) => {
    see(sql)
    if (sql !== 'COMMIT' || ++commits !== hit) return work()
    see('hit')
    FATES[fate](work, database)
    throw Object.assign(new Error('disk I/O error'), { errcode: 10 })
  }
}

/** Goes on from the start of a phase and lets the `hit`-th COMMIT after it meet its fate. 0: none. */
async function runWith(phase: number, hit: number, fate: Fate): Promise<Outcome> {
  const { points, end } = await whole
  const file = lab.newFile(points.find((point) => point.phase === phase)?.disk)
  const calls = { handle: 0, undo: 0, final: 0 }
  let [nonce, guarded] = [false, false]
  const around = fated(hit, fate, (sql) => {
    if (sql.startsWith('BEGIN')) nonce = false
    if (/SET nonce = /.test(sql)) nonce = true
    if (sql === 'hit') guarded = nonce
  })
  const failures = await play({ file, from: phase, later: 1, watcher: counting(calls), around })
  return { failures, told: differing(endState(file), end, file), calls, guarded }
}

/** The COMMITs of one phase of the whole run. */
function commitsIn(points: readonly Point[], phase: number): number {
  return points.filter((point) => point.phase === phase && point.when === 'before' && point.sql === 'COMMIT').length
}

interface Found {
  readonly hit: number
  readonly wrong: readonly string[]
}

async function eachCommit(fate: Fate, check: (outcome: Outcome, base: Outcome) => string[]): Promise<Found> {
  const { points } = await whole
  const wrong: string[] = []
  let hits = 0
  for (let phase = 0; phase < PHASE_COUNT; phase++) {
    const base = await runWith(phase, 0, fate)
    expect([base.failures, base.told]).toEqual([[], []])
    for (let hit = 1; hit <= commitsIn(points, phase); hit++) {
      const outcome = await runWith(phase, hit, fate)
      hits++
      const told = [...outcome.told, ...check(outcome, base)]
      if (told.length > 0) wrong.push(`COMMIT ${hit} of phase ${phase}: ${told.join('; ')}`)
    }
  }
  return { hit: hits, wrong }
}

test('the answer to COMMIT is lost: the effects are there once, and no handler is called again', async () => {
  let guarded = 0
  const { hit, wrong } = await eachCommit('reached', (outcome, base) => {
    if (outcome.guarded) guarded++
    const again = JSON.stringify(outcome.calls) === JSON.stringify(base.calls) ? [] : ['a function was called again']
    // The nonce shows that it happened: nobody needs to hear of it. Elsewhere it is said, and done again harmlessly.
    const loud = outcome.guarded && outcome.failures.length > 0 ? [`it failed with ${outcome.failures.join()}`] : []
    return [...again, ...loud]
  })
  console.log(`lost answers: ${hit} COMMITs, ${guarded} of them of a watcher`)
  expect(wrong).toEqual([])
  expect(guarded).toBeGreaterThan(10)
}, 60_000)

test('COMMIT fails and SQLite rolls back: the position is read again, and the work is done once', async () => {
  const codes = new Set<string>()
  const { wrong } = await eachCommit('undone', ({ failures, guarded }) => {
    if (guarded) for (const code of failures) codes.add(code)
    return failures.length === 1 ? [] : [`failures: ${failures.join()}`]
  })
  expect(wrong).toEqual([])
  expect([...codes]).toEqual(['COMMIT_UNKNOWN'])
}, 60_000)

test('COMMIT is refused and the transaction stays open: it is rolled back, and the work is done once', async () => {
  const codes = new Set<string>()
  const { wrong } = await eachCommit('refused', ({ failures, guarded }) => {
    if (guarded) for (const code of failures) codes.add(code)
    return failures.length === 1 ? [] : [`failures: ${failures.join()}`]
  })
  expect(wrong).toEqual([])
  expect([...codes]).toEqual(['STORE_FAILED'])
}, 60_000)

test('control: work that a COMMIT does not cover is found to be done twice', async () => {
  const { points } = await whole
  const file = lab.newFile(points.find((point) => point.phase === 1)?.disk)
  // The third COMMIT of a process: after those of its registration and of the chain's first block.
  const around = fated(3, 'undone')
  await play({ file, from: 1, later: 1, watcher: leaky(file), around })
  const found = endState(file)
  const clean = lab.newFile(points.find((point) => point.phase === 1)?.disk)
  await play({ file: clean, from: 1, later: 1, watcher: leaky(clean) })
  expect(found.payouts).toEqual(endState(clean).payouts)
  expect(found.balances).not.toEqual(endState(clean).balances)
})
