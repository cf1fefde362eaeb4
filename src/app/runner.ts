import type { BlockRef } from '../chain/block.ts'
import type { Position, Source, SourceStep, WatchPlan } from '../collect/source.ts'
import { TidemarkError } from '../errors.ts'
import { type Batch, cutBefore, cutRest } from '../handle/batch.ts'
import { asTidemarkError, haltReason, judge, retryWait } from '../handle/failure.ts'
import { makeReady, type ReadyContext } from '../handle/ready.ts'
import { checkLowWater, checkRow, type Expected, type Run } from '../handle/run.ts'
import { type BatchOutcome, runBatch } from '../handle/run-batch.ts'
import { EventFailure } from '../handle/scope.ts'
import { forget, nextLowWater } from '../settle/prune.ts'
import { reorgAccepted, rollBack } from '../settle/rollback.ts'
import { settleThrough } from '../settle/settle.ts'
import type { HaltReason, WatcherRow } from '../store/store.ts'
import { wait } from '../util/op.ts'
import type { Seen } from './seen.ts'
import type { TidemarkEvents } from './types.ts'

export type StepKind = 'events' | 'undo' | 'settle' | 'forget' | 'idle' | 'stopped' | 'halted' | 'failing'

export interface StepResult {
  readonly did: StepKind
  readonly events: number
  /** Milliseconds until it is worth coming again; 0: at once; null: never by itself. */
  readonly waitMs: number | null
}

export type Emit = <K extends keyof TidemarkEvents>(type: K, event: TidemarkEvents[K]) => void

/** Told of each error that halts a watcher, and of the first of each row that it waits out. */
export type OnError = (watcher: string, error: TidemarkError) => void

export interface RunnerOptions {
  readonly run: Run
  readonly plan: WatchPlan
  readonly source: Source
  readonly ready: ReadyContext
  readonly retentionBlocks: number
  readonly emit: Emit
  readonly onError: OnError
  readonly seen: Seen
  /** Done once, after the source's first answer: keeps what tells this chain from another. */
  readonly rememberChain: () => Promise<void>
}

/** How often a watcher that is paused or halted looks whether it was resumed. */
const STOPPED_WAIT_MS = 1_000

type BlocksStep = Extract<SourceStep, { kind: 'blocks' }>

/**
 * One watcher as a step function: one bounded piece of work a call, nothing left running in between, and when to come
 * again. The daemon, `runOnce` and the simulator are loops around `step`.
 */
export class WatcherRunner {
  readonly name: string
  /** The passing error that is being waited out; null when all is well. */
  failing: { error: TidemarkError; tries: number } | null = null
  /** What the last step was, for the status view. */
  last: StepKind = 'idle'
  phase: 'backfill' | 'live' = 'backfill'
  /** The end block was reached and settled: nothing is left to do. */
  ended = false
  private readonly options: RunnerOptions
  private readonly run: Run
  /** Blocks that were fetched and readied, but not committed before the batch's time was over. */
  private carry: { batch: Batch; cursor: BlockRef; epoch: number } | null = null
  /** The row as last read: what a halt is written against. */
  private row: WatcherRow | null = null
  private chainKnown = false
  /** Whether marks below the low-water mark may be left; null: not looked yet what a process before this one left. */
  private pendingForget: boolean | null = null

  constructor(options: RunnerOptions) {
    this.options = options
    this.run = options.run
    this.name = options.run.watcher.name
  }

  /** Does the next bounded piece of work. Never throws: failures are halts or waits (P8, P11). */
  async step(signal?: AbortSignal): Promise<StepResult> {
    try {
      const result = await this.work(signal)
      this.recovered()
      this.last = result.did
      return result
    } catch (error) {
      return signal?.aborted ? { did: 'stopped', events: 0, waitMs: null } : await this.failed(error)
    }
  }

  private async work(signal?: AbortSignal): Promise<StepResult> {
    const row = await this.readRow()
    if (row.state !== 'running') return { did: 'stopped', events: 0, waitMs: STOPPED_WAIT_MS }
    checkLowWater(row)
    // Before anything new: the marks kept are bounded however fast blocks come in (P6).
    if (this.mustForget(row) && (await this.forgetOld(row))) return { did: 'forget', events: 0, waitMs: 0 }
    const carried = this.takeCarry(row)
    if (carried) return this.applyBatch(row, carried)
    const step = await this.options.source.next(this.options.plan, await this.position(row), signal)
    if (!this.chainKnown) await this.options.rememberChain()
    this.chainKnown = true
    return this.dispatch(row, step)
  }

  private async dispatch(row: WatcherRow, step: SourceStep): Promise<StepResult> {
    switch (step.kind) {
      case 'blocks':
        return this.applyBlocks(row, step)
      case 'rollback':
        return this.undo(row, step.to, step.why)
      case 'settle':
        return this.settle(row, step.upTo, step.finalized)
      case 'idle':
        return this.idle(row, step)
    }
  }

  private async readRow(): Promise<WatcherRow> {
    const { seen } = this.options
    const { name } = this
    const { row, older } = await this.run.store.read(function* (tx) {
      const found = yield* wait(tx.cursors.find(name))
      return { row: found, older: found ? yield* seen.look(tx, found) : null }
    })
    if (!row) throw new TidemarkError('FENCED', 'The watcher has no row any more', { values: { watcher: name } })
    this.row = row
    if (older) throw older
    return row
  }

  private async position(row: WatcherRow): Promise<Position> {
    const { store, id } = this.run
    const trail = await store.read((tx) => wait(tx.trail.list(id)))
    return {
      cursor: row.cursor,
      trail,
      settled: row.settled,
      finalized: row.finalized,
      reorgAccepted: reorgAccepted(row),
      applied: (from, to) => store.read((tx) => wait(tx.marks.between(id, from, to))),
    }
  }

  private takeCarry(row: WatcherRow): Batch | null {
    const carry = this.carry
    this.carry = null
    if (!carry || !row.cursor || carry.epoch !== row.epoch) return null
    return carry.cursor.number === row.cursor.number && carry.cursor.hash === row.cursor.hash ? carry.batch : null
  }

  private async applyBlocks(row: WatcherRow, step: BlocksStep): Promise<StepResult> {
    this.phase = step.phase
    const { events, failure } = await makeReady(this.options.ready, step.logs)
    const { phase, from, to, trail, finalized, head } = step
    const attempt = (this.failing?.tries ?? 0) + 1
    const whole: Batch = { phase, from, to, events, trail, finalized, head, attempt }
    if (!failure) return this.applyBatch(row, whole)
    const sound = cutBefore(whole, failure.block)
    if (sound) {
      const result = await this.applyBatch(row, sound)
      // What was cut for time comes first: the event that failed is met again after it.
      if (this.carry) return result
    }
    throw failure.error
  }

  /** A failed batch is cut before the block that failed, so that one bad event holds up nothing older than itself. */
  private async applyBatch(row: WatcherRow, batch: Batch): Promise<StepResult> {
    const expected: Expected = { cursor: row.cursor, epoch: row.epoch }
    try {
      const outcome = await runBatch(this.run, expected, batch)
      const rest = cutRest(batch, outcome.to)
      if (rest) this.carry = { batch: rest, cursor: outcome.to, epoch: row.epoch }
      return this.applied(batch, outcome)
    } catch (error) {
      if (!(error instanceof EventFailure)) throw error
      const sound = cutBefore(batch, error.block)
      if (sound && (await this.applySound(row, sound))) return { did: 'events', events: 0, waitMs: 0 }
      throw error.error
    }
  }

  /** Commits the blocks below a failure. Answers whether some of them are left, since time was over. */
  private async applySound(row: WatcherRow, sound: Batch): Promise<boolean> {
    const outcome = await runBatch(this.run, { cursor: row.cursor, epoch: row.epoch }, sound)
    this.applied(sound, outcome)
    return cutRest(sound, outcome.to) !== null
  }

  private applied(batch: Batch, outcome: BatchOutcome): StepResult {
    this.options.seen.committed()
    // What follows in this step, a halt above all, stands on the new cursor.
    if (this.row) this.row = { ...this.row, cursor: outcome.to }
    const { phase, from, head } = batch
    const { applied: events, duplicates, to } = outcome
    this.options.emit('applied', {
      watcher: this.name,
      phase,
      from,
      to: to.number,
      head: head.number,
      events,
      duplicates,
    })
    if (outcome.settled) this.options.emit('settled', { watcher: this.name, through: to.number, events })
    return { did: 'events', events, waitMs: 0 }
  }

  private async undo(row: WatcherRow, to: BlockRef | null, why: 'reorg' | 'sweep'): Promise<StepResult> {
    const outcome = await unwrap(rollBack(this.run, { cursor: row.cursor, epoch: row.epoch }, to, why))
    this.options.seen.committed()
    this.options.emit('undone', { watcher: this.name, to: to?.number ?? null, ...outcome, why })
    return { did: 'undo', events: 0, waitMs: 0 }
  }

  private async settle(row: WatcherRow, upTo: BlockRef['number'], finalized: BlockRef['number']): Promise<StepResult> {
    const expected: Expected = { cursor: row.cursor, epoch: row.epoch }
    try {
      const outcome = await settleThrough(this.run, expected, upTo, finalized)
      this.options.seen.committed()
      this.options.emit('settled', { watcher: this.name, ...outcome })
      return { did: 'settle', events: 0, waitMs: 0 }
    } catch (error) {
      if (!(error instanceof EventFailure)) throw error
      const before = await this.rememberedBelow(error.block)
      if (before !== undefined && before > (row.settled ?? row.startBlock - 1)) {
        await unwrap(settleThrough(this.run, expected, before, finalized))
        this.options.seen.committed()
      }
      throw error.error
    }
  }

  /** The line may only stand on a remembered block: else, after a reorg, no common ancestor is left at or above it. */
  private async rememberedBelow(block: number): Promise<BlockRef['number'] | undefined> {
    const trail = await this.run.store.read((tx) => wait(tx.trail.list(this.run.id)))
    return trail.find((one) => one.number < block)?.number
  }

  private async idle(row: WatcherRow, step: Extract<SourceStep, { kind: 'idle' }>): Promise<StepResult> {
    if (step.why === 'finality-stalled') {
      throw new TidemarkError('UNSETTLED_LIMIT', 'Finality stalls, and undo has reached its limit', {
        values: { watcher: this.name },
      })
    }
    if (this.pendingForget === null && (await this.forgetOld(row))) return { did: 'forget', events: 0, waitMs: 0 }
    if (step.why === 'at-head' || step.why === 'not-final') this.phase = 'live'
    this.ended = step.why === 'ended'
    return { did: 'idle', events: 0, waitMs: step.waitMs }
  }

  private mustForget(row: WatcherRow): boolean {
    return this.pendingForget === true || nextLowWater(row, this.options.retentionBlocks) !== null
  }

  /** Answers whether there was anything to do. */
  private async forgetOld(row: WatcherRow): Promise<boolean> {
    const { worked, pending } = await forget(this.run, row, this.options.retentionBlocks, this.pendingForget ?? true)
    this.pendingForget = pending
    if (worked) this.options.seen.committed()
    return worked
  }

  private recovered(): void {
    if (!this.failing) return
    this.failing = null
    this.options.emit('recovered', { watcher: this.name })
  }

  private async failed(thrown: unknown): Promise<StepResult> {
    this.carry = null
    // The blocks below a failure may fail as well when they are run again.
    const error = asTidemarkError(thrown instanceof EventFailure ? thrown.error : thrown)
    const verdict = judge(error)
    if (verdict === 'halt') return this.halt(error)
    const tries = (this.failing?.tries ?? 0) + 1
    this.failing = { error, tries }
    if (tries === 1) this.options.onError(this.name, error)
    // Another run was here: the row is read again at once the first time, and with growing waits when it goes on.
    const waitMs = verdict === 'stand-down' && tries === 1 ? 0 : retryWait(tries, this.run.world.random())
    this.options.emit('failing', { watcher: this.name, code: error.code, sentence: error.sentence, tries, waitMs })
    this.last = 'failing'
    return { did: 'failing', events: 0, waitMs }
  }

  /**
   * Writes the reason into the row, unless another run holds it by now: a fenced run can meet errors that look permanent
   * and are not its own. When the reason cannot be written, the watcher waits and tries again: it cannot go on anyway.
   */
  private async halt(error: TidemarkError): Promise<StepResult> {
    const reason = haltReason(error, this.run.world.now())
    try {
      await writeHalt(this.run, this.row, reason)
    } catch (cause) {
      const passing = asTidemarkError(cause)
      return this.failed(
        passing.kind === 'retries'
          ? passing
          : new TidemarkError('STORE_FAILED', 'A halt could not be written', { cause }),
      )
    }
    if (error.code === 'STORE_WENT_BACK' && this.row) this.options.seen.accept(this.row)
    this.failing = null
    this.options.emit('halted', { watcher: this.name, reason })
    this.options.onError(this.name, error)
    this.last = 'halted'
    return { did: 'halted', events: 0, waitMs: STOPPED_WAIT_MS }
  }
}

/** The error at an event, without the block that it was tied to. */
async function unwrap<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    throw error instanceof EventFailure ? error.error : error
  }
}

function writeHalt(run: Run, seen: WatcherRow | null, reason: HaltReason): Promise<void> {
  return run.store.transact(function* (tx) {
    const row = yield* wait(tx.cursors.lock(run.id))
    if (seen) checkRow(run, row, { cursor: seen.cursor, epoch: seen.epoch })
    yield* wait(tx.cursors.change(run.id, { state: 'halted', reason, updatedAt: reason.at }))
  })
}
