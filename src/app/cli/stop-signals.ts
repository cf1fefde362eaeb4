import { EXIT } from './exit-codes.ts'
import type { Io, StopSignal } from './io.ts'

/**
 * The first signal asks for a clean stop, the second ends at once. A terminal sends Ctrl-C to the whole process group,
 * and npm passes its own copy on: signals of one kind within `SAME_MS` count as one.
 */
const SAME_MS = 250

export class StopSignals {
  readonly #stop = new AbortController()
  readonly #io: Io
  readonly #off: () => void
  #first: { readonly signal: StopSignal; readonly at: number } | null = null
  #force: (code: number) => void = () => {}
  /** Resolves with the exit code when a second signal arrives. */
  readonly forced: Promise<number> = new Promise((resolve) => {
    this.#force = resolve
  })

  constructor(io: Io) {
    this.#io = io
    this.#off = io.onSignal((signal) => this.#on(signal))
  }

  /** Aborted by the first signal. */
  get stop(): AbortSignal {
    return this.#stop.signal
  }

  get first(): StopSignal | null {
    return this.#first?.signal ?? null
  }

  end(): void {
    this.#off()
  }

  #on(signal: StopSignal): void {
    const now = this.#io.world.monotonic()
    if (!this.#first) {
      this.#first = { signal, at: now }
      this.#stop.abort()
      return
    }
    if (this.#first.signal === signal && now - this.#first.at < SAME_MS) return
    this.#force(signal === 'SIGINT' ? EXIT.interrupted : EXIT.terminated)
  }
}
