import { type ChildProcess, fork } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { TidemarkEvents } from '../../src/app/types.ts'

type Message = { [K in keyof TidemarkEvents]: { type: K; event: TidemarkEvents[K] } }[keyof TidemarkEvents]

/** Said by a test that cannot begin. */
export function requireDist(): void {
  const entry = join(import.meta.dirname, '..', '..', 'dist', 'index.js')
  if (!existsSync(entry))
    throw new Error('dist is missing: this test runs the built package. Run "npm run build" first.')
}

interface Waiter {
  readonly condition: () => boolean
  readonly done: () => void
}

/** The watcher in a process of its own, to be killed and started again. */
export class WatcherProcess {
  /** Last block applied, by watcher, as heard. */
  readonly cursor = new Map<string, number>()
  /** Code of the reason, by watcher. */
  readonly halted = new Map<string, string>()
  /** Codes of passing failures, with how often each was told. */
  readonly failures = new Map<string, number>()
  /** Commits since it was last started: it is killed at work, not while it starts. */
  commits = 0
  undone = 0
  private readonly args: readonly string[]
  private child: ChildProcess | null = null
  private waiters: Waiter[] = []
  /** What it wrote to stderr, newest last, bounded: shown when it dies by itself. */
  private complaints = ''

  constructor(args: readonly string[]) {
    this.args = args
  }

  start(): void {
    const script = join(import.meta.dirname, 'watcher.mjs')
    const child = fork(script, this.args, {
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      execArgv: [],
      serialization: 'advanced',
    })
    child.stderr?.on('data', (text: Buffer) => {
      this.complaints = (this.complaints + text.toString()).slice(-4_000)
    })
    child.on('message', (message) => this.heard(message as Message))
    child.on('exit', () => this.wake())
    this.commits = 0
    this.child = child
  }

  /**
   * Waits until something heard makes the condition true.
   * @throws {Error} when the process dies by itself, a watcher halts that should not, or the time is over
   */
  async until(what: string, condition: () => boolean, limitMs = 60_000): Promise<void> {
    if (condition()) return
    let timer: NodeJS.Timeout | undefined
    const met = new Promise<void>((done) => this.waiters.push({ condition: () => condition() || this.isStuck(), done }))
    const late = new Promise<void>((done) => {
      timer = setTimeout(done, limitMs)
    })
    await Promise.race([met, late])
    clearTimeout(timer)
    if (condition()) return
    if (this.isGone()) throw new Error(`The watcher died by itself while waiting for ${what}:\n${this.complaints}`)
    if (this.halted.size > 0) throw new Error(`Halted while waiting for ${what}: ${this.describe()}`)
    throw new Error(`Waited ${limitMs} ms in vain for ${what}. Heard so far: ${this.describe()}`)
  }

  describe(): string {
    const { cursor, halted, failures, commits } = this
    return JSON.stringify({ cursor: [...cursor], halted: [...halted], failures: [...failures], commits })
  }

  /** As a power cut would: no handler runs, nothing is finished. */
  async kill(): Promise<void> {
    await this.end((child) => process.kill(child.pid as number, 'SIGKILL'))
  }

  /** In good order. */
  async stop(): Promise<void> {
    await this.end((child) => child.send('stop'))
  }

  private heard(message: Message): void {
    const { type, event } = message
    if (type === 'applied') {
      this.commits++
      this.cursor.set(event.watcher, event.to)
    }
    if (type === 'undone') {
      this.undone += event.events
      this.cursor.set(event.watcher, event.to ?? 0)
    }
    if (type === 'halted') this.halted.set(event.watcher, event.reason.code)
    if (type === 'failing') this.failures.set(event.code, (this.failures.get(event.code) ?? 0) + 1)
    this.wake()
  }

  private wake(): void {
    const met = this.waiters.filter((waiter) => waiter.condition())
    this.waiters = this.waiters.filter((waiter) => !met.includes(waiter))
    for (const waiter of met) waiter.done()
  }

  private isStuck(): boolean {
    return this.isGone() || this.halted.size > 0
  }

  private isGone(): boolean {
    return this.child !== null && (this.child.exitCode !== null || this.child.signalCode !== null)
  }

  private async end(how: (child: ChildProcess) => unknown): Promise<void> {
    const child = this.child
    this.child = null
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const gone = new Promise((resolve) => child.once('exit', resolve))
    how(child)
    await gone
  }
}
