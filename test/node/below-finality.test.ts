import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Random } from '../../src/testkit/random.ts'
import type { NodeLog } from './anvil.ts'
import { program, seed } from './installed.ts'
import { differences, expectedTables, type Tables } from './naive-fold.ts'
import { CREDITS, LEDGER, PAYOUTS, Stage } from './stage.ts'
import { type CompiledToken, compileToken, TRANSFER_TOPIC } from './token.ts'
import { requireDist } from './watcher-process.ts'

const BLOCKS = 60
/** Deeper than the 12 confirmations of one watcher, and above the finality of the others, 16 blocks deep. */
const BELOW_CONFIRMATIONS = 14
const BELOW_FINALITY = 30
const ALL = [LEDGER, CREDITS, PAYOUTS]

function only(tables: Tables, wanted: (table: string) => boolean): Tables {
  return Object.fromEntries(Object.entries(tables).filter(([table]) => wanted(table)))
}
const isCredit = (table: string) => table.startsWith('credit')

/** The node does not keep its promise of finality: `anvil_reorg` takes any depth. */
describe.runIf(program)('a real node goes back below what counted as final', () => {
  let code: CompiledToken
  let stage: Stage

  beforeAll(async () => {
    requireDist()
    code = compileToken()
    stage = await Stage.open(program as string, code, new Random(seed).fork('below'))
  }, 60_000)

  afterAll(() => stage?.close())

  function nodeLogs(): Promise<NodeLog[]> {
    return stage.node.headNumber().then((head) => stage.node.logs(stage.story.token, TRANSFER_TOPIC, 0, head))
  }

  async function untilHalted(codes: Readonly<Record<string, string>>): Promise<void> {
    const halted = await stage.untilStatus(
      'halts',
      (status) => Object.keys(codes).every((name) => status[name]?.health === 'halted'),
      true,
    )
    const found = Object.keys(codes).map((name) => [name, halted[name]?.reason?.code])
    expect(Object.fromEntries(found)).toEqual(codes)
  }

  /** The tables against logs of the node as it was, for those tables; each watcher as far as it had come. */
  async function lost(logs: readonly NodeLog[], wanted: (table: string) => boolean): Promise<string[]> {
    const { tables, progress } = await stage.tables()
    return differences(only(expectedTables(logs, progress), wanted), tables)
  }

  test('each watcher halts at its own line, loses nothing, and goes on when the node is right again', async () => {
    console.log(`below finality: NODE_SEED=${seed}`)
    const { story, watcher } = stage
    for (let i = 0; i < BLOCKS; i++) await story.mine()
    watcher.start()
    await stage.caughtUp()
    const right = await story.keep()
    const first = await nodeLogs()

    // Deeper than the confirmations, above finality: one halts, the others undo it and go on.
    await story.reorg(BELOW_CONFIRMATIONS)
    await story.mine()
    await untilHalted({ [CREDITS]: 'REORG_BELOW_CONFIRMATIONS' })
    const before = await stage.caughtUp([LEDGER, PAYOUTS])
    const second = await nodeLogs()
    expect(before[LEDGER]?.counters.undone).toBeGreaterThan(0)
    expect(await lost(second, (table) => !isCredit(table))).toEqual([])
    expect(await lost(first, isCredit)).toEqual([])

    // Deeper than finality: nothing can be taken back, so nothing is.
    await story.wipe(BELOW_FINALITY)
    await story.mineEmpty(2)
    const codes = {
      [LEDGER]: 'REORG_BELOW_FINALITY',
      [CREDITS]: 'REORG_BELOW_CONFIRMATIONS',
      [PAYOUTS]: 'REORG_BELOW_FINALITY',
    }
    await untilHalted(codes)
    const intact = async () => [...(await lost(second, (table) => !isCredit(table))), ...(await lost(first, isCredit))]
    expect(await intact()).toEqual([])

    // A halt outlives the process; resumed while the node is still wrong, each halts again and loses nothing.
    await watcher.kill()
    watcher.start()
    await untilHalted(codes)
    await watcher.kill()
    for (const name of ALL) await stage.resume(name)
    watcher.start()
    await untilHalted(codes)
    expect(await intact()).toEqual([])

    // The node comes to its senses: with the operator's word all go on, and nothing is missing or doubled.
    await watcher.stop()
    await story.restore(right)
    for (let i = 0; i < 4; i++) await story.mine()
    for (const name of ALL) await stage.resume(name)
    watcher.halted.clear()
    watcher.start()
    await stage.caughtUp()
    await watcher.stop()
    expect(await stage.differences()).toEqual([])
  }, 180_000)
})
