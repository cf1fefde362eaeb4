import { faultGroups } from '../faults.ts'
import type { Inspection } from './backend.ts'
import { checkForgotten, checkWatcher } from './checks.ts'
import { checkContent } from './content.ts'
import { fail, must } from './failure.ts'
import type { WatcherState, WatcherTables } from './inspector.ts'
import { mayBeWrong, type SwarmOptions } from './options.ts'
import type { Probe } from './probe.ts'
import { WENT_BACK } from './restores.ts'
import type { SimChain } from './sim-chain.ts'

/** Halts that a person ends with `--accept-reorg`. */
const ACCEPTABLE: readonly string[] = [
  'REORG_BELOW_CONFIRMATIONS',
  'REORG_BELOW_FINALITY',
  'REORG_IRREVERSIBLE',
  'SWEEP_DIFFERS',
]

/** What is still applied above a cursor that was moved back: a rollback may have ended between the two. */
function highestKept({ marks, trail }: WatcherTables): number {
  return Math.max(-1, ...marks.map(({ block }) => block), ...trail.keys())
}

interface Misplaced {
  readonly from: WatcherState
  readonly to: number
}

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
  /** The nonce of the last commit for each watcher. */
  readonly #nonces = new Map<string, string>()
  /** Commits were glanced at, and not all of it was looked at since. */
  #pending = false
  #wasPutBack = false
  /** Each watcher as it was before its epoch was raised last. */
  readonly #left = new Map<string, WatcherState>()
  readonly #misplaced = new Map<string, Misplaced>()
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

  /** Whether a person has touched any watcher and Tidemark has not followed yet. */
  get touched(): boolean {
    return this.#moved.size + this.#corrected.size + this.#misplaced.size > 0
  }

  /** An older copy of the database has taken the place of what was there: what was seen of it is worth nothing. */
  wentBack(): void {
    for (const known of [this.#before, this.#tokens, this.#nonces, this.#left]) known.clear()
    this.#pending = true
    this.#wasPutBack = true
  }

  /** Whether a person has touched the watcher and Tidemark has not followed yet. */
  busy({ kind }: WatcherState): boolean {
    return this.#moved.has(kind) || this.#corrected.has(kind)
  }

  /** The line that a watcher had applied before it went back last; null: that was not seen. */
  gaveUp(watcher: string): { readonly cursor: number; readonly hashes: ReadonlySet<string> } | null {
    const kind = watcher.slice(0, watcher.indexOf('/'))
    // Of a cursor that was moved back by hand Tidemark knows what is above it, and not how far it had come.
    const left = this.#tampered.has(kind) ? undefined : this.#left.get(kind)
    const line = left && this.#chain.lineTo(left.cursorHash)
    return line ? { cursor: line.length - 1, hashes: new Set(line.map(({ hash }) => hash)) } : null
  }

  /** A person has taken effects back, and Tidemark has not followed yet. */
  isCorrected({ kind }: WatcherState): boolean {
    return this.#corrected.has(kind)
  }

  /** A person has put the cursor below the low-water mark. */
  misplaced(watcher: WatcherState, to: number): void {
    this.#misplaced.set(watcher.kind, { from: watcher, to })
    this.#tampered.add(watcher.kind)
  }

  isMisplaced({ kind }: WatcherState): boolean {
    return this.#misplaced.has(kind)
  }

  /** @returns where the cursor stood before it was misplaced */
  putBack(kind: string): WatcherState {
    const { from } = this.#misplaced.get(kind) as Misplaced
    this.#misplaced.delete(kind)
    this.#before.set(kind, from)
    return from
  }

  moved(watcher: WatcherState): void {
    this.#moved.set(watcher.kind, watcher.cursor ?? 0)
    this.#tampered.add(watcher.kind)
  }

  corrected({ kind, epoch }: WatcherState): void {
    this.#corrected.set(kind, epoch)
  }

  /** @throws {SimulationFailure} when the database breaks a promise, or a watcher halted without a reason */
  look(inspector: Inspection): void {
    const seen = this.#probe.take()
    if (seen) fail(seen.kind, seen.words)
    if (!this.#pending && !inspector.changed()) return
    this.#pending = false
    for (const watcher of inspector.watchers()) this.#check(inspector, watcher)
  }

  /** As `look`, right after a commit: at the watchers that it was for. What it did to others is seen after the action. */
  glance(inspector: Inspection): void {
    if (!inspector.changed()) return
    this.#pending = true
    for (const watcher of inspector.watchers()) {
      const nonce = inspector.nonceOf(watcher)
      if (this.#nonces.get(watcher.kind) === nonce) continue
      this.#nonces.set(watcher.kind, nonce)
      this.#check(inspector, watcher)
    }
  }

  #check(inspector: Inspection, now: WatcherState): void {
    this.#fencing(now)
    this.#follow(inspector, now)
    const misplaced = this.#misplaced.get(now.kind)
    if (misplaced) this.#stands(now, misplaced)
    else if (!this.#corrected.has(now.kind)) this.#promises(inspector, now)
    this.#lines(now)
    if (now.state === 'halted') this.#judge(now)
    const before = this.#before.get(now.kind)
    if (before && now.epoch > before.epoch) this.#left.set(now.kind, before)
    this.#before.set(now.kind, now)
  }

  /** Below the low-water mark nothing can be told from what was done before: the cursor stays where it was put (P7). */
  #stands({ kind, cursor }: WatcherState, { to }: Misplaced): void {
    must(cursor === to, 'marks', () => `${kind}: went from ${to} to ${cursor}, below the low-water mark`)
  }

  /** What counts as final, and what may be acted on, by what the chain has shown so far. */
  #lines({ kind, finalized, settled, cursor }: WatcherState): void {
    const { floor, highest } = this.#chain
    const { irreversible, confirmations } = this.#options
    const final = Math.max(finalized ?? -1, settled ?? -1)
    must(final <= floor, 'settled', () => `${kind}: ${final} counts as final, and only ${floor} ever was`)
    const waits = kind === 'confirmed' && !irreversible
    const limit = waits ? highest - confirmations + 1 : kind === 'finalized' ? floor : highest
    must(
      cursor === null || cursor <= limit,
      'cursor',
      () => `${kind}: acted on block ${cursor}, and might act on ${limit} at most, under the highest head ${highest}`,
    )
  }

  /** A cursor that moves on stands on the block where it stood; and the operator's word was for one reorg. */
  #moves(now: WatcherState, line: readonly { readonly hash: string }[] | null): void {
    const { kind, epoch, cursor, state, code } = now
    const before = this.#before.get(kind)
    if (!before) return
    must(
      epoch === before.epoch || state !== 'running' || code === '',
      'halt',
      () => `${kind}: ${code} is still there in the epoch after it`,
    )
    if (epoch > before.epoch || before.cursor === null || (cursor ?? -1) <= before.cursor) return
    must(
      line?.[before.cursor]?.hash === before.cursorHash,
      'cursor',
      () => `${kind}: ${cursor} was applied, which does not stand on the cursor ${before.cursor}`,
    )
  }

  #promises(inspector: Inspection, now: WatcherState): void {
    const { kind } = now
    const tables = inspector.tables(now)
    const marks = { catchingUp: this.#moved.has(kind), tampered: this.#tampered.has(kind) }
    checkWatcher({ options: this.#options, now, before: this.#before.get(kind), tables, ...marks })
    const line = now.cursor === null ? [] : this.#chain.lineTo(now.cursorHash)
    must(line !== null, 'cursor', () => `${kind}: the cursor ${now.cursor} has the hash of no block`)
    this.#moves(now, line)
    // A block that is not settled may hold a lie yet.
    const proven = mayBeWrong(this.#options) ? now.settled : now.cursor
    if (line && proven !== null) checkContent('content', line, now, tables, proven)
  }

  /** What a person did is over once Tidemark has passed it. */
  #follow(inspector: Inspection, now: WatcherState): void {
    const before = this.#before.get(now.kind)
    const epoch = this.#corrected.get(now.kind)
    if (epoch !== undefined && now.epoch > epoch) this.#corrected.delete(now.kind)
    const moved = this.#moved.get(now.kind)
    if (moved === undefined) return
    const top = before && now.epoch > before.epoch ? highestKept(inspector.tables(now)) : moved
    if ((now.cursor ?? 0) >= top) this.#moved.delete(now.kind)
    else this.#moved.set(now.kind, top)
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
    if (this.#misplaced.has(kind) && code === 'CURSOR_BELOW_LOW_WATER') return
    if (this.#wasPutBack && code === WENT_BACK) return
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
    const mended = this.#probe.hasProvoked(kind, code) || this.#wrongChain(code) || code === 'CURSOR_BELOW_LOW_WATER'
    return !ACCEPTABLE.includes(code) && mended
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
  verdict(inspector: Inspection): void {
    for (const watcher of inspector.watchers()) {
      if (this.hasEnded(watcher)) continue
      const tables = inspector.tables(watcher)
      checkContent('oracle', this.#chain.chain.canonical(), watcher, tables, watcher.cursor ?? -1)
      checkForgotten(this.#options, watcher, tables)
    }
  }
}
