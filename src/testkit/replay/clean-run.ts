import type { ScratchTable } from '../../store/sqlite/scratch.ts'
import { STARTS } from './faulty-run.ts'
import type { Reached } from './observer.ts'
import type { ReplayChain } from './replay-chain.ts'
import type { ReplaySetup } from './setup.ts'
import { Stage, Trouble } from './stage.ts'

/** What a run without any fault leaves behind. */
export interface CleanRun {
  readonly tables: readonly ScratchTable[]
  readonly events: number
  readonly reached: readonly Reached[]
  /** Why it did not get to its end; null: it did. */
  readonly trouble: Trouble | null
}

/** The final chains once more: an honest node, one process that is never killed, each event once. */
export async function cleanRun(
  setup: ReplaySetup,
  chains: readonly ReplayChain[],
  seed: number | string,
  which: 'clean' | 'again',
): Promise<CleanRun> {
  const stage = await Stage.open(setup, chains, {
    seed: `${seed} ${which}`,
    start: STARTS[which],
    finality: 'tag',
    maxEvents: null,
    lies: 0,
    struck: () => {},
  })
  try {
    const trouble = await settled(stage)
    return { tables: await stage.tables(), events: stage.instance.events, reached: stage.observer.reached, trouble }
  } finally {
    await stage.close()
  }
}

async function settled(stage: Stage): Promise<Trouble | null> {
  try {
    await stage.settle(false)
    return null
  } catch (error) {
    if (!(error instanceof Trouble)) throw error
    return error
  }
}
