/**
 * One call that several callers wait for. A caller that aborts leaves alone; when the last one has left, the call itself
 * is aborted, so nothing goes on running that nobody waits for.
 */
export class SharedCall<T> {
  #running: { readonly result: Promise<T>; readonly end: AbortController; waiting: number } | null = null

  /** Joins the call in flight, or starts `work`. @throws the signal's reason when `signal` aborts */
  async run(work: (signal: AbortSignal) => Promise<T>, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted()
    const running = this.#running ?? this.#start(work)
    running.waiting += 1
    try {
      return await untilAborted(running.result, signal)
    } finally {
      running.waiting -= 1
      if (running.waiting === 0 && signal?.aborted) running.end.abort(signal.reason)
    }
  }

  #start(work: (signal: AbortSignal) => Promise<T>): { result: Promise<T>; end: AbortController; waiting: number } {
    const end = new AbortController()
    const result = work(end.signal).finally(() => {
      if (this.#running === running) this.#running = null
    })
    // Whoever waits gets the error too; without this line a call that all have left would count as unhandled.
    result.catch(() => {})
    const running = { result, end, waiting: 0 }
    end.signal.addEventListener('abort', () => {
      if (this.#running === running) this.#running = null
    })
    this.#running = running
    return running
  }
}

function untilAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return work
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason)
    signal.addEventListener('abort', abort, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}
