import { faultGroups } from '../faults.ts'
import { checkWatcher } from './checks.ts'
import { checkContent } from './content.ts'
import { fail, must } from './failure.ts'
import type { Inspector, WatcherState } from './inspector.ts'
import { mayBeWrong, type SwarmOptions } from './options.ts'
import type { Probe } from './probe.ts'
import type { SimChain } from './sim-chain.ts'

/** Watches the database over a run: knows what it held at the last look, and which halts have a reason. */
export class Guardian {
  /** Watchers that stopped for good, with the reason that the plan gave them. */
  readonly ended = new Set<string>()
  readonly #options: SwarmOptions
  readonly #chain: SimChain
  readonly #probe: Probe
  readonly #before = new Map<string, WatcherState>()
  /** Fencing tokens in the order in which they were seen. */
  readonly #tokens = new Map<string, string[]>()
  /** Where the cursors stood that a person moved back. */
  readonly #moved = new Map<string, number>()
  readonly #tampered = new Set<string>()

  constructor(options: SwarmOptions, chain: SimChain, probe: Probe) {
    this.#options = options
    this.#chain = chain
    this.#probe = probe
  }

  /** A cursor that was moved back by hand has not passed its old place yet. */
  get catchingUp(): boolean {
    return this.#moved.size > 0
  }

  moved(watcher: WatcherState): void {
    this.#moved.set(watcher.kind, watcher.cursor ?? 0)
    this.#tampered.add(watcher.kind)
  }

  /** @throws {SimulationFailure} when the database breaks a promise, or a watcher halted without a reason */
  look(inspector: Inspector): void {
    const seen = this.#probe.take()
    if (seen) fail(seen.kind, seen.words)
    if (!inspector.changed()) return
    for (const watcher of inspector.watchers()) this.#check(inspector, watcher)
  }

  #check(inspector: Inspector, now: WatcherState): void {
    const before = this.#before.get(now.kind)
    const moved = this.#moved.get(now.kind)
    const catchingUp = moved !== undefined
    this.#fencing(now)
    const tables = inspector.tables(now)
    checkWatcher({ options: this.#options, now, before, tables, catchingUp, tampered: this.#tampered.has(now.kind) })
    const line = now.cursor === null ? [] : this.#chain.lineTo(now.cursorHash)
    must(line !== null, 'cursor', () => `${now.kind}: the cursor ${now.cursor} has the hash of no block`)
    // A block that is not settled may hold a lie yet.
    const proven = mayBeWrong(this.#options) ? now.settled : now.cursor
    if (line && proven !== null) checkContent('content', line, now, tables, proven)
    if (now.state === 'halted') this.#judge(now)
    if (catchingUp && (now.cursor ?? 0) >= moved) this.#moved.delete(now.kind)
    this.#before.set(now.kind, now)
  }

  /** A token once replaced never comes back. */
  #fencing({ kind, token }: WatcherState): void {
    const seen = this.#tokens.get(kind) ?? []
    if (seen.at(-1) === token) return
    must(!seen.includes(token), 'fencing', () => `${kind}: the token ${token} of an earlier holder is back`)
    this.#tokens.set(kind, [...seen, token])
  }

  #judge({ kind, code }: WatcherState): void {
    if (this.#probe.hasProvoked(kind, code) || this.#wrongChain(code)) return
    must(this.#permits(kind, code), 'halt', () => `${kind} halted with ${code}, and nothing gave it a reason`)
    this.ended.add(kind)
  }

  /** With every URL serving another chain the watchers stop, and go on when they serve the right one. */
  #wrongChain(code: string): boolean {
    const wrong = this.#options.faults.every((faults) => faultGroups.wrongChain.some((name) => faults[name] !== undefined))
    return code === 'CHAIN_MISMATCH' && wrong
  }

  /** What a person may resume: the fault was the handler's, and it is over. */
  mayResume({ kind, state, code }: WatcherState): boolean {
    if (state !== 'halted') return state === 'paused'
    return !this.ended.has(kind) && (this.#probe.hasProvoked(kind, code) || this.#wrongChain(code))
  }

  #permits(kind: string, code: string): boolean {
    const cannotUndo = kind === 'confirmed'
    if (code === 'REORG_BELOW_CONFIRMATIONS') return cannotUndo && this.#chain.replacedConfirmed(this.#options.confirmations)
    if (code === 'SWEEP_DIFFERS') return cannotUndo && mayBeWrong(this.#options)
    return code === 'REORG_BELOW_FINALITY' && this.#chain.violated !== null
  }

  /** At the end: the whole of the final chain, once, and settled. */
  verdict(inspector: Inspector): void {
    for (const watcher of inspector.watchers()) {
      if (this.ended.has(watcher.kind)) continue
      checkContent('oracle', this.#chain.chain.canonical(), watcher, inspector.tables(watcher), watcher.cursor ?? -1)
    }
  }
}
