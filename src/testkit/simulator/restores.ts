import type { Copies, Inspection } from './backend.ts'
import { must } from './failure.ts'
import type { Guardian } from './guardian.ts'
import type { WatcherState } from './inspector.ts'
import type { PlannedAction, SharedAction } from './plan.ts'
import type { SimProcess } from './process.ts'

const BUDGET_MS = 5_000
export const WENT_BACK = 'STORE_WENT_BACK'

export interface RestoreGround {
  readonly processes: readonly SimProcess[]
  readonly guardian: Guardian
  readonly copies: Copies | null
  readonly inspector: () => Inspection
  readonly refresh: () => Promise<void> | undefined
}

type RestoreAction = Extract<SharedAction, { kind: 'restore' }> & PlannedAction

const rowsOf = (inspector: Inspection) => new Map(inspector.watchers().map((row) => [row.kind as string, row]))

/** A database that is put back under a process which works on it (restore, failover to a replica that was behind). */
export class Restores {
  readonly #ground: RestoreGround

  constructor(ground: RestoreGround) {
    this.#ground = ground
  }

  /**
   * The process is held up at a request while a copy is made. It is put back at a later request, or, where the run ends before
   * that, between two runs.
   */
  async restore({ process: index, atRequest, more }: RestoreAction): Promise<string> {
    const { processes, guardian, copies } = this.#ground
    if (!copies || guardian.touched) return 'not now: a person is at work'
    const process = processes[index] as SimProcess
    if (process.dead) process.start()
    const first = process.gate.close(atRequest).then(() => true)
    const run = process.run(BUDGET_MS)
    const over = run.then(() => false)
    if (!(await Promise.race([first, over]))) return this.#nothing(process, run)
    await copies.keep()
    process.gate.open()
    const second = process.gate.close(more).then(() => true)
    if (await Promise.race([second, over])) return this.#putBack(process, copies, () => run)
    process.gate.open()
    // Whoever starts anew has seen nothing, and goes on with what is there.
    if (process.dead) return this.#nothing(process, run)
    return `${await run}; between two runs: ${await this.#putBack(process, copies, () => process.run(BUDGET_MS))}`
  }

  async #nothing(process: SimProcess, run: Promise<string>): Promise<string> {
    process.gate.open()
    return `${await run}; nothing was put back`
  }

  /** What the process has seen is gone: it may stop with the reason, and change nothing. */
  async #putBack(process: SimProcess, copies: Copies, goOn: () => Promise<string>): Promise<string> {
    const { guardian, inspector, refresh } = this.#ground
    await refresh()
    const newer = rowsOf(inspector())
    await copies.putBack()
    guardian.wentBack()
    await refresh()
    const older = [...rowsOf(inspector()).values()].filter((row) => isOlder(row, newer.get(row.kind)))
    // A commit whose answer was lost is one that the process has not seen.
    const unsure = process.struck
    process.disturbed = true
    process.gate.open()
    const outcome = await goOn()
    process.disturbed = false
    await refresh()
    const now = rowsOf(inspector())
    if (!unsure) for (const before of older) stands(before, now.get(before.kind))
    return `${outcome}; ${older.length} watchers are older than they were`
  }
}

/** Where the cursor is the same, what was decided before the restore is right after it, too. */
function isOlder(row: WatcherState, newer: WatcherState | undefined): boolean {
  return newer !== undefined && (row.epoch < newer.epoch || row.cursorHash !== newer.cursorHash)
}

function stands(before: WatcherState, now: WatcherState | undefined): void {
  const halted = now?.state === 'halted' && now.code === WENT_BACK && now.cursorHash === before.cursorHash
  must(halted || JSON.stringify(before) === JSON.stringify(now), 'fencing', () => {
    return `${before.kind}: a process went on with a database that was put back: ${JSON.stringify(before)} became ${JSON.stringify(now)}`
  })
}
