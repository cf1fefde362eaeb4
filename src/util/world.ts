/**
 * The world: time, sleep, randomness. The only impure module; everything else takes a `World` as an argument,
 * so that the simulator and the tests can own the clock. A house test forbids the globals elsewhere.
 */
export interface World {
  /** Wall clock, milliseconds since the Unix epoch. May jump in both directions. */
  now(): number
  /** Monotonic clock in milliseconds. Never goes back; unrelated to the wall clock. */
  monotonic(): number
  /** Resolves after `ms` milliseconds, or at once when `signal` aborts. Never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
  /** A number in [0, 1). Used for jitter only, never for identity. */
  random(): number
  /** Cryptographically strong bytes: tokens and nonces. */
  randomBytes(length: number): Uint8Array
  /** True where time is simulated: what counts real time, as a watchdog does, has no place in such a world. */
  readonly simulated?: boolean
}

export const realWorld: World = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      if (signal?.aborted) return resolve()
      const done = () => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', done)
        resolve()
      }
      const timer = setTimeout(done, ms)
      signal?.addEventListener('abort', done, { once: true })
    }),
  random: () => Math.random(),
  randomBytes: (length) => globalThis.crypto.getRandomValues(new Uint8Array(length)),
}
