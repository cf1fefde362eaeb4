import { setTimeout as sleep } from 'node:timers/promises'
import type { Random } from '../../src/testkit/random.ts'
import { LEDGER, type Stage } from './stage.ts'

/** Blocks before the watcher first starts: its backfill. */
const HISTORY = 400
const BLOCKS = 1_100
const KILLS = 5
const DEPTHS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]

/** Blocks, and the reorg at their end. */
interface Act {
  readonly blocks: number
  readonly depth: number
  /** After how many of the blocks the watcher is killed; null: it is not. */
  readonly killAt: number | null
  /** Whether the reorg happens while nobody watches. */
  readonly down: boolean
  /** Whether the watcher has applied the head before it is replaced: all of it must be undone. */
  readonly applied: boolean
}

/** Twenty reorgs, each depth twice; some follow each other at once. The rest of the blocks is spread between them. */
function plan(random: Random): Act[] {
  const depths = [...random.shuffle(DEPTHS), ...random.shuffle(DEPTHS)]
  const hasty = new Set(random.shuffle(depths.map((_, i) => i).slice(1)).slice(0, 4))
  const calm = depths.length - hasty.size
  const killed = new Set(random.shuffle(depths.map((_, i) => i).filter((i) => !hasty.has(i))).slice(0, KILLS - 1))
  const each = Math.ceil((BLOCKS - HISTORY) / calm)
  return depths.map((depth, i) => ({
    depth,
    blocks: hasty.has(i) ? random.int(0, 1) : each,
    killAt: killed.has(i) ? random.int(1, each) : null,
    down: random.chance(0.5),
    applied: !hasty.has(i) && random.chance(0.85),
  }))
}

/** The whole run: history, a kill in the middle of the backfill, then act after act. */
export class Run {
  kills = 0
  private readonly stage: Stage
  private readonly random: Random

  constructor(stage: Stage, random: Random) {
    this.stage = stage
    this.random = random
  }

  async play(): Promise<void> {
    const { story, watcher } = this.stage
    for (let i = 0; i < HISTORY; i++) await story.mine()
    watcher.start()
    await this.killAtWork(this.random.int(1, 6))
    watcher.start()
    const acts = plan(this.random)
    for (const [i, act] of acts.entries()) {
      await this.act(act)
      if (i === acts.length / 2) await this.compareNow()
    }
  }

  private async act({ blocks, depth, killAt, down, applied }: Act): Promise<void> {
    const { story, watcher } = this.stage
    for (let i = 1; i <= blocks; i++) {
      await story.mine()
      if (i !== killAt) continue
      await this.killAtWork(1)
      if (!down) watcher.start()
    }
    const gone = killAt !== null && down
    if (applied && !gone) await this.headApplied()
    await story.reorg(depth)
    if (gone) watcher.start()
  }

  /** Kills it a random moment after its next commits: while it waits, reads, or is in the middle of a transaction. */
  private async killAtWork(commits: number): Promise<void> {
    const { watcher } = this.stage
    const from = watcher.commits
    await watcher.until(`${commits} commits to kill it after`, () => watcher.commits >= from + commits)
    await sleep(this.random.int(0, 60))
    await watcher.kill()
    this.kills++
  }

  /** In the middle of it all: what is applied and not settled must be right as well. */
  private async compareNow(): Promise<void> {
    await this.stage.caughtUp()
    const found = await this.stage.differences()
    if (found.length > 0) throw new Error(`The tables differ halfway:\n${found.join('\n')}`)
  }

  private async headApplied(): Promise<void> {
    const { node, watcher } = this.stage
    const head = await node.headNumber()
    await watcher.until(`the ledger at head ${head}`, () => watcher.cursor.get(LEDGER) === head)
  }
}
