import { setTimeout as sleep } from 'node:timers/promises'
import type { Random } from '../../src/testkit/random.ts'
import { LEDGER, type Stage } from './stage.ts'

/** How much of it there is. */
export interface Size {
  /** Blocks of 20 logs, at least. */
  readonly blocks: number
  readonly kills: number
  /** Depths of the reorgs; each at least once. */
  readonly depths: readonly number[]
  /** Reorgs that follow the one before at once. */
  readonly hasty: number
  /** How likely it is that the head was applied before it is replaced, at the others. */
  readonly applied: number
}

const EACH_DEPTH = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]

/** From 1,000 blocks on everything is there twice. */
export function sizeOf(blocks: number): Size {
  if (blocks >= 1_000) return { blocks, kills: 5, depths: [...EACH_DEPTH, ...EACH_DEPTH], hasty: 4, applied: 0.85 }
  return { blocks, kills: 3, depths: [1, 2, 3, 5, 8, 10], hasty: 1, applied: 1 }
}

/** Blocks before the watcher first starts: its backfill. */
const historyOf = ({ blocks }: Size) => Math.ceil(blocks * 0.4)
/** Reorgs take blocks with 20 logs away, and put others there. */
const spareOf = ({ depths }: Size) => depths.reduce((sum, depth) => sum + depth, 0)

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

/** The reorgs in any order; some follow each other at once. The rest of the blocks is spread between them. */
function plan(random: Random, size: Size): Act[] {
  const depths = random.shuffle(size.depths)
  const hasty = new Set(random.shuffle(depths.map((_, i) => i).slice(1)).slice(0, size.hasty))
  const calm = depths.length - hasty.size
  const killed = new Set(random.shuffle(depths.map((_, i) => i).filter((i) => !hasty.has(i))).slice(0, size.kills - 1))
  const each = Math.ceil((size.blocks + spareOf(size) - historyOf(size)) / calm)
  return depths.map((depth, i) => ({
    depth,
    blocks: hasty.has(i) ? random.int(0, 1) : each,
    killAt: killed.has(i) ? random.int(1, each) : null,
    down: random.chance(0.5),
    applied: !hasty.has(i) && random.chance(size.applied),
  }))
}

/** The whole run: history, a kill in the middle of the backfill, then act after act. */
export class Run {
  kills = 0
  private readonly stage: Stage
  private readonly random: Random
  private readonly size: Size

  constructor(stage: Stage, random: Random, size: Size) {
    this.stage = stage
    this.random = random
    this.size = size
  }

  async play(): Promise<void> {
    const { story, watcher } = this.stage
    for (let i = 0; i < historyOf(this.size); i++) await story.mine()
    watcher.start()
    await this.killAtWork(this.random.int(1, 6))
    watcher.start()
    const acts = plan(this.random, this.size)
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
