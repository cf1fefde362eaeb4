import { faultGroups } from '../faults.ts'
import { checkWatcher } from './checks.ts'
import { checkContent } from './content.ts'
import { fail, must } from './failure.ts'
import type { Inspector, WatcherState } from './inspector.ts'
import { mayBeWrong, type SwarmOptions } from './options.ts'
import type { Probe } from './probe.ts'
import type { SimChain } from './sim-chain.ts'

/** Halts that a person ends with `--accept-reorg`. */
const ACCEPTABLE: readonly string[] = [
  'REORG_BELOW_CONFIRMATIONS',
  'REORG_BELOW_FINALITY',
  'REORG_IRREVERSIBLE',
  'SWEEP_DIFFERS',
]

/** Watches the database over a run: knows what it held at the last look, and which halts have a reason. */
export class Guardian {
  readonly #options: SwarmOptions
  readonly #chain: SimChain
  readonly #probe: Probe
  readonly #before = new Map<string, WatcherState>()
  /** Fencing tokens in the order in which they were seen. */
  readonly #tokens = new Map<string, string[]>()
  /** Where the cursors stood that a person moved back. */
  readonly #moved = new Map<string, number>()
  readonly #tampered = new Set<string>()
  /** The epoch in which a person took effects back by hand: marks and effects agree again in the next one. */
  readonly #corrected = new Map<string, number>()

  constructor(options: SwarmOptions, chain: SimChain, probe: Probe) {
    this.#options = options
    this.#chain = chain
    this.#probe = probe
  }

  /** A person has corrected effects for the chain as it is now: it stands still until Tidemark has followed. */
  get correcting(): boolean {
    return this.#corrected.size > 0
  }

  /** Whether a person has touched the watcher and Tidemark has not followed yet. */
  busy({ kind }: WatcherState): boolean {
    return this.#moved.has(kind) || this.#corrected.has(kind)
  }

  moved(watcher: WatcherState): void {
    this.#moved.set(watcher.kind, watcher.cursor ?? 0)
    this.#tampered.add(watcher.kind)
  }

  corrected({ kind, epoch }: WatcherState): void {
    this.#corrected.set(kind, epoch)
  }

  /** @throws {SimulationFailure} when the database breaks a promise, or a watcher halted without a reason */
  look(inspector: Inspector): void {
    const seen = this.#probe.take()
    if (seen) fail(seen.kind, seen.words)
    if (!inspector.changed()) return
    for (const watcher of inspector.watchers()) this.#check(inspector, watcher)
  }

  #check(inspector: Inspector, now: WatcherState): void {
    this.#fencing(now)
    this.#follow(now)
    if (!this.#corrected.has(now.kind)) this.#promises(inspector, now)
    if (now.state === 'halted') this.#judge(now)
    this.#before.set(now.kind, now)
  }

  #promises(inspector: Inspector, now: WatcherState): void {
    const { kind } = now
    const tables = inspector.tables(now)
    const marks = { catchingUp: this.#moved.has(kind), tampered: this.#tampered.has(kind) }
    checkWatcher({ options: this.#options, now, before: this.#before.get(kind), tables, ...marks })
    const line = now.cursor === null ? [] : this.#chain.lineTo(now.cursorHash)
    must(line !== null, 'cursor', () => `${kind}: the cursor ${now.cursor} has the hash of no block`)
    // A block that is not settled may hold a lie yet.
    const proven = mayBeWrong(this.#options) ? now.settled : now.cursor
    if (line && proven !== null) checkContent('content', line, now, tables, proven)
  }

  /** What a person did is over once Tidemark has passed it. */
  #follow(now: WatcherState): void {
    const before = this.#before.get(now.kind)
    const epoch = this.#corrected.get(now.kind)
    if (epoch !== undefined && now.epoch > epoch) this.#corrected.delete(now.kind)
    const moved = this.#moved.get(now.kind)
    if (moved !== undefined && ((now.cursor ?? 0) >= moved || (before && now.epoch > before.epoch)))
      this.#moved.delete(now.kind)
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
  }

  /** With every URL serving another chain the watchers stop, and go on when they serve the right one. */
  #wrongChain(code: string): boolean {
    const wrong = this.#options.faults.every((faults) =>
      faultGroups.wrongChain.some((name) => faults[name] !== undefined),
    )
    return code === 'CHAIN_MISMATCH' && wrong
  }

  #permits(kind: string, code: string): boolean {
    const cannotUndo = kind === 'confirmed'
    const { irreversible, confirmations } = this.#options
    const violated = this.#chain.violated !== null
    if (code === 'REORG_BELOW_CONFIRMATIONS')
      return cannotUndo && !irreversible && this.#chain.replacedConfirmed(confirmations)
    if (code === 'REORG_IRREVERSIBLE') return cannotUndo && irreversible && this.#chain.reorgs > 0
    if (code === 'SWEEP_DIFFERS') return cannotUndo && mayBeWrong(this.#options)
    return code === 'REORG_BELOW_FINALITY' && violated
  }

  /** What a person may simply resume: the fault was the handler's or the provider's. */
  mayResume({ kind, state, code }: WatcherState): boolean {
    if (state !== 'halted') return state === 'paused'
    return !ACCEPTABLE.includes(code) && (this.#probe.hasProvoked(kind, code) || this.#wrongChain(code))
  }

  mayAccept(watcher: WatcherState): boolean {
    return watcher.state === 'halted' && ACCEPTABLE.includes(watcher.code) && !this.hasEnded(watcher)
  }

  /** The chain replaced what was settled: nothing can be given up there, so the watcher stays halted. */
  hasEnded({ state, code, settled }: WatcherState): boolean {
    return (
      state === 'halted' &&
      ACCEPTABLE.includes(code) &&
      this.#chain.violated !== null &&
      this.#chain.violated < (settled ?? -1)
    )
  }

  /** At the end: the whole of the final chain, once, and settled. */
  verdict(inspector: Inspector): void {
    for (const watcher of inspector.watchers()) {
      if (this.hasEnded(watcher)) continue
      checkContent('oracle', this.#chain.chain.canonical(), watcher, inspector.tables(watcher), watcher.cursor ?? -1)
    }
  }
}
