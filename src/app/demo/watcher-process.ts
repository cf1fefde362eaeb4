import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { ChildMessage } from './child.ts'

/** The watcher in a process of its own, to be killed and started again. */
export class WatcherProcess {
  private readonly args: readonly string[]
  private readonly onMessage: (message: ChildMessage) => void
  private child: ChildProcess | null = null
  /** Whatever the process wrote to stderr, newest last, bounded: shown when it dies by itself. */
  private complaints = ''

  constructor(args: readonly string[], onMessage: (message: ChildMessage) => void) {
    this.args = args
    this.onMessage = onMessage
  }

  start(): void {
    const script = fileURLToPath(new URL('./child.js', import.meta.url))
    const child = fork(script, this.args, {
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      execArgv: [],
      serialization: 'advanced',
    })
    child.stderr?.on('data', (text: Buffer) => {
      this.complaints = (this.complaints + text.toString()).slice(-4_000)
    })
    child.on('message', (message) => this.onMessage(message as ChildMessage))
    this.child = child
  }

  /** What it said before it died by itself, or null while it lives. */
  diedSaying(): string | null {
    const child = this.child
    if (!child || (child.exitCode === null && child.signalCode === null)) return null
    return this.complaints || `exit code ${child.exitCode}`
  }

  /** Ends it as a power cut would: no handler runs, nothing is finished. */
  async kill(): Promise<void> {
    await this.end((child) => child.kill('SIGKILL'))
  }

  /** Asks it to stop in good order. */
  async stop(): Promise<void> {
    await this.end((child) => child.send('stop'))
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
