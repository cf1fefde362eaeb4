import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Random } from '../../src/testkit/random.ts'
import { type Backend, backends } from '../support/stores.ts'
import type { NodeLog } from './anvil.ts'
import { MISSING, program, seed } from './installed.ts'
import { differences, expectedTables } from './naive-fold.ts'
import { Run, type Size, sizeOf } from './run.ts'
import { CREDITS, LEDGER, PAYOUTS, Stage, type Standings } from './stage.ts'
import { LOGS_A_BLOCK } from './story.ts'
import { type CompiledToken, compileToken, TRANSFER_TOPIC } from './token.ts'
import { requireDist } from './watcher-process.ts'

/** More empty blocks than finality is deep, so that everything before them settles. */
const EMPTY = 40
/** What a store behind a connection goes through by default, beside what SQLite does. */
const FEWER = 250
const MORE = 1_000
/** NODE_BLOCKS says how many blocks every store goes through. */
const sizeFor = ({ kind }: Backend): Size =>
  sizeOf(Number(process.env['NODE_BLOCKS'] ?? (kind === 'sqlite' ? MORE : FEWER)))
const ALL = [LEDGER, CREDITS, PAYOUTS]

function fullBlocks(logs: readonly NodeLog[]): number {
  const perBlock = new Map<string, number>()
  for (const log of logs) perBlock.set(log.blockHash, (perBlock.get(log.blockHash) ?? 0) + 1)
  return [...perBlock.values()].filter((count) => count >= LOGS_A_BLOCK).length
}

function figuresOf(stage: Stage, run: Run, status: Standings, logs: readonly NodeLog[]) {
  const counters = ALL.map((name) => status[name]?.counters)
  return {
    seed,
    blocks: status[LEDGER]?.cursor?.number ?? 0,
    blocksWith20Logs: fullBlocks(logs),
    logs: logs.length,
    ...stage.story.tally,
    kills: run.kills,
    eventsUndone: counters.map((one) => one?.undone ?? 0),
    reorgsSeen: counters.map((one) => one?.reorgs ?? 0),
    duplicates: counters.map((one) => one?.duplicates ?? 0),
    failures: Object.fromEntries(stage.watcher.failures),
  }
}

test.runIf(process.env.CI || program)('anvil is installed, where it must be', () => {
  expect(program, MISSING).not.toBeNull()
})

function onRealNode(backend: Backend): void {
  const size = sizeFor(backend)
  const large = size.blocks >= MORE
  let code: CompiledToken
  let stage: Stage | undefined

  beforeAll(() => {
    requireDist()
    code = compileToken()
  }, 60_000)

  afterAll(() => stage?.close())

  test('the rows are what the node says: at latest with undo, with confirmations, and when settled', async () => {
    console.log(`real node, ${backend.kind}: NODE_SEED=${seed}`)
    const started = performance.now()
    const random = new Random(seed)
    stage = await Stage.open(program as string, code, random.fork('story'), backend)
    const { story, watcher, node } = stage
    const run = new Run(stage, random.fork('run'), size)
    await run.play()

    const lastFull = await node.headNumber()
    await story.mineEmpty(EMPTY)
    await stage.caughtUp()
    const status = await stage.untilStatus(`everything up to ${lastFull} settled`, (now) =>
      ALL.every((name) => (now[name]?.settled ?? 0) >= lastFull),
    )
    await watcher.stop()

    const { tables, progress } = await stage.tables()
    const logs = await node.logs(story.token, TRANSFER_TOPIC, 0, lastFull + EMPTY)
    const figures = figuresOf(stage, run, status, logs)
    const seconds = Math.round((performance.now() - started) / 100) / 10
    console.log(`real node, ${backend.kind}: ${JSON.stringify({ ...figures, seconds })}`)

    expect(differences(expectedTables(logs, progress), tables)).toEqual([])
    for (const raw of ['ledger_transfers', 'credits', 'shown', 'payouts'])
      expect(tables[raw]?.length, raw).toBe(logs.length)
    const orphaned = Object.values(tables)
      .flat()
      .filter((line) => story.orphans.has(line.split(' ')[1] ?? ''))
    expect(orphaned).toEqual([])

    // That the run was as hostile as its name says.
    expect(figures.blocksWith20Logs).toBeGreaterThanOrEqual(size.blocks)
    expect(figures).toMatchObject({ reorgs: size.depths.length, deepest: 10, kills: size.kills, failures: {} })
    expect(story.orphans.size).toBeGreaterThan(large ? 50 : 10)
    for (const moved of ['otherBlock', 'otherIndex', 'otherContent', 'dropped', 'late'] as const) {
      expect(story.tally[moved], moved).toBeGreaterThan(large ? 10 : 0)
    }
    const [ledger, credits, payouts] = figures.eventsUndone
    expect([ledger, payouts].every((undone) => (undone ?? 0) > (large ? 300 : 20))).toBe(true)
    expect(credits).toBe(0)
  }, 300_000)
}

for (const backend of backends) {
  const { blocks, depths, kills } = sizeFor(backend)
  const what = `${blocks} blocks of 20 logs on a real node, ${depths.length} reorgs, ${kills} kills`
  if (program) backend.describe(what, () => onRealNode(backend))
  else describe.skip(`${backend.kind}: ${what}`, () => onRealNode(backend))
}

test('control: a row too many, a row too few and a wrong sum are seen', () => {
  const log: NodeLog = {
    address: `0x${'a'.repeat(40)}`,
    topics: [TRANSFER_TOPIC, `0x${'1'.padStart(64, '0')}`, `0x${'2'.padStart(64, '0')}`],
    data: '0x7',
    blockNumber: '0x5',
    blockHash: '0xb5',
    transactionHash: '0xc5',
    transactionIndex: '0x0',
    logIndex: '0x0',
  }
  const progress = { ledger: 5, credits: 5, payouts: 5, paid: 4 }
  const right = expectedTables([log, { ...log, logIndex: '0x1' }], progress)
  expect(right.payouts).toEqual([])
  expect(right.ledger_balances).toEqual([`0x${'1'.padStart(40, '0')} -14`, `0x${'2'.padStart(40, '0')} 14`])
  expect(differences(right, right)).toEqual([])
  const twice = [...(right.credits ?? []), right.credits?.[0] ?? '']
  expect(differences(right, { ...right, credits: twice })).toHaveLength(1)
  expect(differences(right, { ...right, shown: (right.shown ?? []).slice(1) })).toHaveLength(1)
  expect(differences(right, { ...right, ledger_balances: ['0x1 -15', '0x2 14'] }).length).toBeGreaterThan(0)
  expect(differences(right, { ...right, payouts: right.shown ?? [] })).toHaveLength(2)
})
