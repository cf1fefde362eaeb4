import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { inCopy } from './database.ts'
import type { Member, Place } from './member.ts'
import { LEASE_MS, type Stage, started, WATCHERS } from './stage.ts'
import { type Out, readDuties, readHistory } from './writers.ts'

/**
 * - `kill`: SIGKILL at any moment; `freeze`: SIGSTOP at any moment
 * - `prepare`, `handle`, `final`, `copy`: it freezes itself right before a transaction, in one with the effects written and
 *   the cursor row locked, in the second stage, in the middle of a COPY
 * - `stop`: in good order
 */
export type Act = 'kill' | 'freeze' | 'stop' | Place

/** The longest time that a watcher may be without a holder, in ms. */
export const LIMIT_MS: Readonly<Record<Act, number>> = {
  kill: 1_000,
  stop: 1_000,
  freeze: LEASE_MS + 1_000,
  prepare: LEASE_MS + 1_000,
  handle: LEASE_MS + 1_000,
  final: LEASE_MS + 1_000,
  copy: LEASE_MS + 1_000,
}

export interface Takeover {
  readonly act: Act
  readonly watcher: string
  readonly from: string
  readonly to: string
  readonly ms: number
  /** By how much this machine kept a timer waiting meanwhile: what it does to the test, it does to the processes. */
  readonly lateMs: number
}

/** A takeover takes a few turns of a process, each as late as the machine is; on a quiet one that is some milliseconds. */
export function tooLate({ act, ms, lateMs }: Takeover): boolean {
  return ms >= LIMIT_MS[act] + 3 * lateMs
}

/** Which watcher's work each place is in. */
const PLACES: Readonly<Record<Place, readonly string[]>> = {
  prepare: ['ledger', 'shown', 'credits'],
  handle: ['ledger', 'shown', 'credits'],
  final: ['shown'],
  copy: ['ledger'],
}

function isPlace(act: Act): act is Place {
  return act in PLACES
}

/** Puts processes out of work one after the other, and measures how long their watchers are without a holder. */
export class Play {
  readonly takeovers: Takeover[] = []
  /** Refusals told by processes that woke up in a transaction, or right before one. */
  lateWriters = 0
  readonly outs: Out[] = []
  private readonly stage: Stage
  /** Those that are out: brought back later. */
  private readonly out: (() => Promise<void>)[] = []
  private readonly mostOut: number

  /** @param mostOut how many processes may be out of work at the same time, while the next act begins */
  constructor(stage: Stage, mostOut: number) {
    this.stage = stage
    this.mostOut = mostOut
  }

  async run(acts: readonly Act[]): Promise<void> {
    for (const act of acts) {
      await this.act(act)
      while (this.out.length > this.mostOut) await this.out.shift()?.()
    }
    for (const back of this.out.splice(0)) await back()
  }

  /** The end: each hands over to those that are left. */
  async stopAll(): Promise<void> {
    for (const member of this.stage.members) {
      this.outs.push({ who: member.who, from: Date.now(), to: Number.POSITIVE_INFINITY })
      await member.stop()
    }
  }

  private async act(act: Act): Promise<void> {
    const { stage } = this
    const place = isPlace(act) ? stage.random.pick(PLACES[act]) : null
    const victim = await this.holderOf(place ? `${place}/node` : stage.random.pick(WATCHERS))
    await sleep(stage.random.int(0, 300))
    const lag = monitorEventLoopDelay({ resolution: 5 })
    lag.enable()
    const since = await putOut(act, place, victim)
    const out: Out = { who: victim.who, from: since, to: Number.POSITIVE_INFINITY }
    this.outs.push(out)
    if (act === 'copy' && (await inCopy(stage.database)) === 0) throw new Error('it does not stand inside a COPY')
    await this.measure(act, victim, since, lag)
    lag.disable()
    this.out.push(async () => {
      await this.bringBack(act, victim)
      out.to = Date.now()
    })
  }

  /** The process that has the watcher now and works. */
  private async holderOf(watcher: string): Promise<Member> {
    return this.stage.until(`a holder of ${watcher}`, async () => {
      const who = (await this.stage.duties()).get(watcher)?.who
      return this.stage.members.find((member) => member.who === who && member.works)
    })
  }

  /** Waits until all that the victim had is held by others. */
  private async measure(act: Act, victim: Member, since: number, lag: IntervalHistogram): Promise<void> {
    const { duties } = readDuties(await readHistory(this.stage.database))
    for (const watcher of WATCHERS) {
      const held = duties.findLast((duty) => duty.watcher === watcher && duty.takenAt <= since)
      if (held?.who !== victim.who) continue
      const next = await this.stage.taken(watcher, held.takenId)
      const ms = next.takenAt - since
      this.takeovers.push({ act, watcher, from: victim.who, to: next.who, ms, lateMs: lag.max / 1e6 })
    }
  }

  private async bringBack(act: Act, victim: Member): Promise<void> {
    await sleep(this.stage.random.int(0, 300))
    if (!victim.runs) return started(victim.start())
    const before = victim.of('refused').length
    victim.thaw()
    if (!isPlace(act)) return
    // It goes on where it stood, in a transaction or right before one, and must be told no.
    await victim.until('the refusal of its late commit', () => victim.of('refused').length > before)
    this.lateWriters += 1
  }
}

/** Answers when the process stopped working, ms since the epoch. */
async function putOut(act: Act, place: string | null, victim: Member): Promise<number> {
  if (isPlace(act)) return victim.freezeAt(act, place ?? '')
  const since = Date.now()
  if (act === 'kill') await victim.kill()
  if (act === 'stop') await victim.stop()
  if (act === 'freeze') victim.freeze()
  return since
}
