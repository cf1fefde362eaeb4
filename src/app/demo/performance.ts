import type { FakeNode } from '../../testkit/fake-node.ts'
import type { Random } from '../../testkit/random.ts'
import type { World } from '../../util/world.ts'
import type { ChildMessage } from './child.ts'
import type { Counts, Screen } from './screen.ts'
import type { Beat, Story } from './story.ts'
import { WatcherProcess } from './watcher-process.ts'

export interface Stage {
  readonly story: Story
  readonly node: FakeNode
  readonly url: string
  readonly file: string
  /** Beats of the story. */
  readonly blocks: number
  readonly screen: Screen
  readonly world: World
  readonly random: Random
}

const BEAT_MS = 55
/** A watcher further behind than this is given a moment: what the demo shows happens at the head. */
const CLOSE = 3
/** The longest such moment. The chain does not wait for anybody for ever. */
const PATIENCE_MS = 4_000
/** A watcher is killed after so many commits of its own, or a few more. */
const KILL_AFTER = 4
/** Beats that have happened before the watcher first starts: its backfill. */
const HISTORY = 0.3
const KILLS = 6
/** How long the watcher may take to settle everything once the faults stop. */
const SETTLE_MS = 45_000

/** The demo from the first block to the last: mines, tells, kills, and waits until all is settled. */
export class Performance {
  readonly counts: Counts = { head: 0, cursor: 0, settled: 0, reorgs: 0, kills: 0, undone: 0 }
  /** The deepest reorg of the story. */
  deepest = 0
  private readonly stage: Stage
  private readonly watcher: WatcherProcess
  private halted: string | null = null
  private killsDue = 0
  /** Commits since the watcher was last started: it is killed at work, not while it starts. */
  private commits = 0

  constructor(stage: Stage) {
    this.stage = stage
    this.watcher = new WatcherProcess([stage.url, stage.file], (message) => this.heard(message))
  }

  /** @returns why it could not be finished, or null */
  async run(): Promise<string | null> {
    const { blocks, screen, random } = this.stage
    const history = Math.floor(blocks * HISTORY)
    for (let beat = 0; beat < history; beat++) this.beat()
    screen.tell(`a chain of ${this.stage.story.chain.head().number} blocks, and a node that lies, lags and breaks off`)
    this.watcher.start()
    const killAt = this.killMoments(history, blocks)
    for (let beat = history; beat < blocks; beat++) {
      await this.pause()
      this.beat()
      if (killAt.has(beat)) this.killsDue++
      await this.killIfDue(random.int(0, 4))
    }
    return this.finish()
  }

  private async pause(): Promise<void> {
    const { world, screen } = this.stage
    const until = world.monotonic() + PATIENCE_MS
    do {
      await world.sleep(BEAT_MS)
      screen.draw(this.counts)
    } while (this.counts.head - this.counts.cursor > CLOSE && world.monotonic() < until)
  }

  async end(): Promise<void> {
    await this.watcher.kill()
  }

  private killMoments(from: number, to: number): Set<number> {
    const moments = new Set<number>()
    const span = Math.max(1, Math.floor((to - from) / KILLS))
    for (let i = 0; i < KILLS; i++) moments.add(from + i * span + this.stage.random.int(0, span - 1))
    return moments
  }

  private beat(): void {
    const beat = this.stage.story.next()
    this.counts.head = this.stage.story.chain.head().number
    if (beat.did !== 'block') this.tellReorg(beat)
  }

  private tellReorg(beat: Beat): void {
    this.counts.reorgs++
    this.deepest = Math.max(this.deepest, beat.depth)
    const { screen } = this.stage
    screen.tell(`${screen.paint('yellow', 'reorg  ')} depth ${beat.depth} at block ${this.counts.head}, ${beat.words}`)
  }

  /** @param beats how much happens on the chain, reorgs included, while nobody is watching */
  private async killIfDue(beats: number): Promise<void> {
    const { screen, world, random } = this.stage
    if (this.killsDue === 0 || this.commits < KILL_AFTER) return
    this.killsDue--
    await world.sleep(random.int(0, BEAT_MS))
    await this.watcher.kill()
    this.counts.kills++
    screen.tell(
      `${screen.paint('red', 'SIGKILL')} the watcher, with the cursor at ${this.counts.cursor}; it starts again`,
    )
    for (let i = 0; i < beats; i++) this.beat()
    this.commits = -random.int(0, KILL_AFTER)
    this.watcher.start()
  }

  private heard(message: ChildMessage): void {
    const { screen } = this.stage
    if (message.type === 'applied') {
      this.counts.cursor = message.event.to
      this.commits++
    }
    if (message.type === 'settled') this.counts.settled = message.event.through
    if (message.type === 'undone') {
      this.counts.cursor = message.event.to ?? 0
      this.counts.undone += message.event.events
      screen.tell(`${screen.paint('cyan', 'undone ')} ${message.event.events} events of ${message.event.blocks} blocks`)
    }
    if (message.type === 'halted') this.halted = `${message.event.reason.code}: ${message.event.reason.sentence}`
  }

  private async finish(): Promise<string | null> {
    const { story, node, screen, world } = this.stage
    const last = story.chain.head().number
    node.rpc.stopFaults()
    story.settle()
    this.counts.head = story.chain.head().number
    screen.tell('the faults stop; everything must settle')
    const until = world.monotonic() + SETTLE_MS
    while (this.counts.cursor < this.counts.head || this.counts.settled < last) {
      const trouble = this.halted ?? this.watcher.diedSaying()
      if (trouble) return trouble
      if (world.monotonic() > until)
        return `not settled after ${SETTLE_MS / 1000} s: applied ${this.counts.cursor}, settled ${this.counts.settled}`
      await world.sleep(20)
      await this.killIfDue(0)
      screen.draw(this.counts)
    }
    await this.watcher.stop()
    return null
  }
}
