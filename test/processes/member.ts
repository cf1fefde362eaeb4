import { type ChildProcess, fork } from 'node:child_process'
import { join } from 'node:path'
import { requireDist } from '../node/watcher-process.ts'
import type { Kind } from './database.ts'

/** What a process is started with. */
export interface WorkerSettings {
  readonly kind: Kind
  /** Its name, in the history and in the server's list of sessions. */
  readonly who: string
  readonly url: string
  readonly node: string
  readonly token: string
  readonly chainId: number
  readonly finality: number
  readonly leaseMs: number
  readonly startBlock?: number
  /** Loads everything and waits for `go`. */
  readonly waits?: boolean
  /** False: the control without a fence. */
  readonly fenced?: boolean
  /** Goes into `defineConfig` as it is. */
  readonly config?: Readonly<Record<string, unknown>>
}

/** Where a process can freeze itself in its own work. */
export type Place = 'prepare' | 'handle' | 'copy' | 'final'

interface Heard {
  readonly type: string
  readonly event: Readonly<Record<string, unknown>>
}

/** For each wait; a second or two on a quiet machine. */
const LIMIT_MS = 30_000

/** One process of several, to be killed, frozen and started again. */
export class Member {
  readonly settings: WorkerSettings
  readonly heard: Heard[] = []
  frozen = false
  /** How often it was started. */
  starts = 0
  private child: ChildProcess | null = null
  private waiters: (() => void)[] = []
  /** What it wrote to stderr, newest last, bounded: shown when it dies by itself. */
  private complaints = ''

  constructor(settings: WorkerSettings) {
    requireDist()
    this.settings = settings
  }

  get who(): string {
    return this.settings.who
  }

  get pid(): number {
    return this.child?.pid ?? 0
  }

  get runs(): boolean {
    return this.child !== null && this.child.exitCode === null && this.child.signalCode === null
  }

  get exitCode(): number | null {
    return this.child?.exitCode ?? null
  }

  /** Whether it runs and is not frozen. */
  get works(): boolean {
    return this.runs && !this.frozen
  }

  start(): this {
    const child = fork(join(import.meta.dirname, 'worker.mjs'), [JSON.stringify(this.settings)], {
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      execArgv: [],
      serialization: 'advanced',
    })
    child.stderr?.on('data', (text: Buffer) => {
      this.complaints = (this.complaints + text.toString()).slice(-4_000)
    })
    child.on('message', (message) => {
      this.heard.push(message as Heard)
      this.wake()
    })
    child.on('exit', () => this.wake())
    this.child = child
    this.starts += 1
    return this
  }

  /** How often a code was told, as refusal of a transaction or as a failure that is waited out. */
  codes(type: 'refused' | 'failing'): Record<string, number> {
    const counts: Record<string, number> = {}
    for (const { event } of this.heard.filter((one) => one.type === type)) {
      const code = String(event['code'])
      counts[code] = (counts[code] ?? 0) + 1
    }
    return counts
  }

  of(type: string): readonly Heard['event'][] {
    return this.heard.filter((one) => one.type === type).map(({ event }) => event)
  }

  /** @throws {Error} when the process ends before, or the time is over */
  async until(what: string, holds: () => boolean): Promise<void> {
    const limit = AbortSignal.timeout(LIMIT_MS)
    const late = new Promise<void>((resolve) => limit.addEventListener('abort', () => resolve(), { once: true }))
    while (!holds()) {
      if (!this.runs) throw new Error(`${this.who} ended while waiting for ${what}:\n${this.complaints}`)
      if (limit.aborted) throw new Error(`${this.who}: waited in vain for ${what}; heard ${this.describe()}`)
      await Promise.race([new Promise<void>((resolve) => this.waiters.push(resolve)), late])
    }
  }

  describe(): string {
    const count = (type: string) => this.of(type).length
    const kinds = [...new Set(this.heard.map(({ type }) => type))]
    return JSON.stringify({
      ...Object.fromEntries(kinds.map((type) => [type, count(type)])),
      codes: this.codes('failing'),
      refused: this.codes('refused'),
      halts: this.of('halted'),
      complaints: this.complaints,
    })
  }

  say(message: 'go' | { place: Place; watcher: string }): void {
    this.child?.send(message)
  }

  /** From outside, wherever it is. */
  freeze(): void {
    this.frozen = true
    process.kill(this.pid, 'SIGSTOP')
  }

  /** By itself, at a place in its work. Resolves when it stands still. */
  async freezeAt(place: Place, watcher: string): Promise<number> {
    const before = this.of('frozen').length
    this.say({ place, watcher })
    await this.until(`a freeze in ${place}`, () => this.of('frozen').length > before)
    this.frozen = true
    return Number(this.of('frozen').at(-1)?.['at'])
  }

  thaw(): void {
    if (!this.frozen) return
    this.frozen = false
    process.kill(this.pid, 'SIGCONT')
  }

  async kill(): Promise<void> {
    await this.end((child) => child.kill('SIGKILL'))
  }

  /** In good order. */
  async stop(): Promise<void> {
    this.thaw()
    await this.end((child) => child.send('stop'))
  }

  private async end(how: (child: ChildProcess) => unknown): Promise<void> {
    const { child } = this
    this.frozen = false
    if (!child || !this.runs) return
    const gone = new Promise((resolve) => child.once('exit', resolve))
    how(child)
    await gone
  }

  private wake(): void {
    for (const done of this.waiters.splice(0)) done()
  }
}
