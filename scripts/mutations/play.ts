import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { SwarmOptions } from '../../src/testkit/simulator/options.ts'

const WORKER = join(import.meta.dirname, 'worker.mjs')

/** A run that tells nothing new for so long hangs. Real time: the slowest sound run takes a small part of it. */
const SILENCE_MS = 20_000
/** A run that goes on telling and does not end. */
const ENDLESS_MS = 120_000
/** Loading the engine. */
const START_MS = 60_000

/** The first seed that failed, and how. */
export interface Caught {
  readonly seed: number
  /** As the simulator names it, or `no progress`, `no end`, `process ended`. */
  readonly kind: string
  readonly words: string
}

export interface Played {
  readonly caught: Caught | null
  /** Seeds that were played to their end. */
  readonly seeds: number
  /** Real seconds. */
  readonly seconds: number
  /** Of the slowest seed. */
  readonly slowest: number
}

export interface Play {
  /** The folder that stands for `dist`. */
  readonly dist: string
  readonly seeds: readonly number[]
  readonly options: Partial<SwarmOptions>
  /** The database of the run. Default: a SQLite file of its own. */
  readonly url?: string | undefined
}

type Message =
  | { readonly ready: true }
  | { readonly alive: true }
  | {
      readonly seed: number
      readonly ok: boolean
      readonly kind: string
      readonly words: string
      readonly seconds: number
    }

/** One worker process and what it has told so far. */
class Watched {
  readonly #play: Play
  readonly #started = performance.now()
  readonly #child: ChildProcess
  readonly #end: (played: Played | Error) => void
  #timer: NodeJS.Timeout | undefined
  #errors = ''
  #ready = false
  #ended = false
  #played = 0
  #slowest = 0
  #seedStarted = 0

  constructor(play: Play, end: (played: Played | Error) => void) {
    this.#play = play
    this.#end = end
    const input = JSON.stringify({ seeds: play.seeds, options: play.options })
    // A url may hold a password: it is no argument, which every process of the machine may read.
    this.#child = spawn(process.execPath, ['--no-warnings', WORKER, play.dist, input], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, TIDEMARK_MUTANT_DATABASE: play.url ?? '' },
    })
    this.#child.stderr?.on('data', (chunk: Buffer) => {
      this.#errors = (this.#errors + chunk.toString()).slice(-2_000)
    })
    const lines = createInterface({ input: this.#child.stdout as NodeJS.ReadableStream })
    lines.on('line', (line) => this.#hear(JSON.parse(line) as Message))
    lines.on('close', () => this.#exited())
    this.#wait(START_MS, 'no progress')
  }

  get #seed(): number {
    return this.#play.seeds[this.#played] ?? 0
  }

  #wait(ms: number, kind: string): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#giveUp(kind), ms)
  }

  #hear(message: Message): void {
    if ('ready' in message) this.#ready = true
    else if ('seed' in message) return this.#over(message)
    if (!('alive' in message)) this.#seedStarted = performance.now()
    const left = this.#seedStarted + ENDLESS_MS - performance.now()
    if (left < SILENCE_MS) this.#wait(Math.max(0, left), 'no end')
    else this.#wait(SILENCE_MS, 'no progress')
  }

  #over(message: Extract<Message, { seed: number }>): void {
    const { seed, ok, kind, words, seconds } = message
    this.#slowest = Math.max(this.#slowest, seconds)
    if (!ok) return this.#finish({ seed, kind, words })
    this.#played += 1
    this.#seedStarted = performance.now()
    this.#wait(SILENCE_MS, 'no progress')
    if (this.#played === this.#play.seeds.length) this.#finish(null)
  }

  /** A broken engine that never comes to rest fails as surely as one that says so. */
  #giveUp(kind: string): void {
    if (!this.#ready) return this.#stop(new Error(`the copy of the engine did not load: ${this.#play.dist}`))
    const words =
      kind === 'no end' ? `went on for ${ENDLESS_MS / 1000} s` : `nothing happened for ${SILENCE_MS / 1000} s`
    this.#finish({ seed: this.#seed, kind, words })
  }

  /** The process ended by itself before it had told how the seed went: an error that nothing caught. */
  #exited(): void {
    if (!this.#ready) return this.#stop(new Error(`the copy of the engine does not load: ${this.#errors.trim()}`))
    const words =
      this.#errors
        .trim()
        .split('\n')
        .find((line) => /Error/.test(line)) ?? 'the process ended'
    this.#finish({ seed: this.#seed, kind: 'process ended', words })
  }

  #finish(caught: Caught | null): void {
    const seconds = (performance.now() - this.#started) / 1000
    this.#stop({ caught, seeds: this.#played, seconds, slowest: this.#slowest })
  }

  #stop(result: Played | Error): void {
    if (this.#ended) return
    this.#ended = true
    clearTimeout(this.#timer)
    this.#child.kill('SIGKILL')
    this.#end(result)
  }
}

/** Plays seeds on a copy of the engine until one fails. @throws {Error} when the copy does not load */
export function play(what: Play): Promise<Played> {
  return new Promise((resolve, reject) => {
    new Watched(what, (result) => (result instanceof Error ? reject(result) : resolve(result)))
  })
}

/** Works through a list, so many at a time, in order. */
export async function inParallel<T, R>(
  items: readonly T[],
  width: number,
  work: (item: T) => Promise<R>,
): Promise<R[]> {
  const results: R[] = []
  let next = 0
  const worker = async () => {
    while (next < items.length) {
      const i = next++
      results[i] = await work(items[i] as T)
    }
  }
  await Promise.all(Array.from({ length: width }, worker))
  return results
}
