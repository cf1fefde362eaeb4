import { connectAdmin } from '../../app/tidemark.ts'
import type { TestWorld } from '../test-world.ts'
import { CHAIN } from './application.ts'
import type { Backend, Inspection } from './backend.ts'
import { contentDifference } from './content.ts'
import type { Guardian } from './guardian.ts'
import type { EffectLine, WatcherState, WatcherTables } from './inspector.ts'
import { mayBeWrong, type SwarmOptions } from './options.ts'
import { WENT_BACK } from './restores.ts'
import type { SimChain } from './sim-chain.ts'

export interface OperatorGround {
  readonly options: SwarmOptions
  readonly clock: TestWorld
  readonly backend: Backend
  readonly chain: SimChain
  readonly guardian: Guardian
}

/** What a person needs to look, and to change something; longer than any process goes without a look at the chain. */
const PERSON_MS = 2_000

const BY = { actor: 'simulator', reason: 'the plan says so' }

/** The person beside the processes: pauses, resumes, corrects by hand, and moves cursors where the documents allow it. */
export class Operator {
  readonly #ground: OperatorGround

  constructor(ground: OperatorGround) {
    this.#ground = ground
  }

  async #admin(work: (admin: ReturnType<typeof connectAdmin>) => Promise<void>): Promise<void> {
    const { backend, clock } = this.#ground
    const store = backend.personStore(clock)
    await work(connectAdmin(store, { world: clock }))
    await store.close()
  }

  /** Resumes what is paused, what a handler's fault halted, and, with hand and word, what a reorg halted. */
  async resume(inspector: Inspection): Promise<string | undefined> {
    const { guardian } = this.#ground
    const said: string[] = []
    if (inspector.watchers().some(({ code }) => code === WENT_BACK)) said.push(await this.#restored(inspector))
    for (const watcher of inspector.watchers()) {
      if (guardian.isMisplaced(watcher)) said.push(await this.#putBack(inspector, watcher))
      const reorged = guardian.mayAccept(watcher)
      if (!reorged && !guardian.mayResume(watcher)) continue
      // By then every process looks at the chain anew: a correction is right for the chain that it was made for.
      if (reorged) await this.#ground.clock.sleep(PERSON_MS)
      const corrected = reorged ? await this.#correct(inspector, watcher) : 0
      // The word is for a reorg that a person sees: where the old branch has won back meanwhile, there is none. A word that
      // was given before a pause is gone with it, and is given again.
      const acceptReorg = reorged && (watcher.kind !== 'confirmed' || corrected > 0 || guardian.isCorrected(watcher))
      await this.#admin((admin) => admin.resume(`${watcher.kind}/${CHAIN}`, BY, { acceptReorg }))
      said.push(
        acceptReorg
          ? `accepted the reorg of ${watcher.kind}, ${corrected} entries taken back by hand`
          : `resumed ${watcher.kind}`,
      )
    }
    await inspector.refresh()
    return said.length > 0 ? said.join(', ') : undefined
  }

  /** Says that the database was put back on purpose. */
  async #restored(inspector: Inspection): Promise<string> {
    await this.#admin((admin) => admin.restored(BY))
    await inspector.refresh()
    return 'said that the database was restored'
  }

  /** Takes back by hand what a watcher without undo did in blocks that are gone, or are to be applied again. */
  async #correct(inspector: Inspection, watcher: WatcherState): Promise<number> {
    const { guardian } = this.#ground
    if (watcher.kind !== 'confirmed') return 0
    const tables = inspector.tables(watcher)
    const gone = tables.effects.filter(
      (effect) => effect.block > (watcher.settled ?? -1) && this.#isWrong(watcher, tables, effect),
    )
    await inspector.takeBack(watcher.kind, gone)
    if (gone.length > 0) guardian.corrected(watcher)
    return gone.length
  }

  /** Orphaned by now; or above the block to which the second reading goes back, when it is right about a difference. */
  #isWrong(watcher: WatcherState, tables: WatcherTables, { block, place }: EffectLine): boolean {
    const { chain } = this.#ground
    // Where the cursor's own branch is gone as well, that is what the word is used for.
    const orphaned = chain.chain.blockByNumber(watcher.cursor ?? 0)?.hash !== watcher.cursorHash
    if (watcher.code !== 'SWEEP_DIFFERS' || orphaned)
      return chain.chain.blockByNumber(block)?.hash !== place.split('/')[1]
    const last = Math.min(chain.floor, watcher.cursor ?? -1)
    return block > (watcher.above ?? -1) && contentDifference(chain.chain.canonical(), watcher, tables, last) !== null
  }

  async pause(inspector: Inspection, kind: string): Promise<string | undefined> {
    const found = inspector.watchers().find((watcher) => watcher.kind === kind)
    if (found?.state !== 'running') return 'it does not run'
    await this.#admin((admin) => admin.pause(`${kind}/${CHAIN}`, BY))
    await inspector.refresh()
    return undefined
  }

  /**
   * Back to a block that is applied and not settled, while the cursor's own branch is the canonical one. Not where a block
   * may have been applied wrongly: what was left out would come late, out of its order.
   */
  async moveCursor(
    inspector: Inspection,
    kind: string,
    { back, below }: { back: number; below: boolean },
  ): Promise<string> {
    const { chain, clock, guardian, options } = this.#ground
    await clock.sleep(PERSON_MS)
    const found = inspector.watchers().find((watcher) => watcher.kind === kind)
    if (below) return this.#misplace(inspector, found, back)
    if (!found || found.cursor === null || mayBeWrong(options) || guardian.busy(found)) return 'not now'
    const lowest = Math.max(found.settled ?? 0, found.lowWater ?? 0, found.startBlock)
    const target = chain.chain.blockByNumber(Math.max(found.cursor - back, lowest))
    const own = chain.chain.blockByNumber(found.cursor)?.hash === found.cursorHash
    if (!own || !target || target.number >= found.cursor) return 'there is nowhere to go back to'
    guardian.moved(found)
    await inspector.moveCursor(found, target.number, target.hash)
    return `from ${found.cursor} to ${target.number}`
  }

  /** By mistake, to where marks are forgotten: the watcher must stop before it applies anything (C65). */
  async #misplace(inspector: Inspection, found: WatcherState | undefined, back: number): Promise<string> {
    const { chain, guardian } = this.#ground
    const target = found?.lowWater && chain.chain.blockByNumber(Math.max(found.startBlock, found.lowWater - back))
    if (!found || !target || guardian.busy(found) || guardian.isMisplaced(found)) return 'nothing was forgotten yet'
    guardian.misplaced(found, target.number)
    await inspector.moveCursor(found, target.number, target.hash)
    return `from ${found.cursor} to ${target.number}`
  }

  async #putBack(inspector: Inspection, { kind }: WatcherState): Promise<string> {
    const { cursor, cursorHash, ...before } = this.#ground.guardian.putBack(kind)
    await inspector.moveCursor(before, cursor ?? 0, cursorHash)
    return `put the cursor of ${kind} back to ${cursor}`
  }
}
