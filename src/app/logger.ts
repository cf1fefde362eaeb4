import type { LogLevel } from '../config.ts'
import { redact, redactText } from '../util/redact.ts'
import type { World } from '../util/world.ts'
import type { Paint, Style } from './terminal.ts'
import type { Logger } from './types.ts'

const RANK: Readonly<Record<LogLevel, number>> = { debug: 0, info: 1, warn: 2, error: 3 }
const STYLE: Readonly<Record<LogLevel, Style>> = { debug: 'dim', info: 'green', warn: 'yellow', error: 'red' }
/** Keys of a JSON line that values may not take. */
const RESERVED = ['time', 'level', 'message']

export interface LoggerOptions {
  readonly level: LogLevel
  /** `human`: one readable line. `json`: one JSON object a line, for log collectors. */
  readonly format: 'human' | 'json'
  readonly world: World
  /** Takes one whole line, without the line break. */
  readonly write: (line: string) => void
  readonly paint?: Paint
}

type Values = Readonly<Record<string, unknown>>

/** `key=word` or `key="some words"`; anything structured as JSON. */
function humanValue(value: unknown): string {
  if (typeof value === 'string' && /^[\w./:@<>+-]+$/.test(value)) return value
  return JSON.stringify(value) ?? 'undefined'
}

function humanValues(values: Values): string {
  const shown = Object.entries(values).filter(([, value]) => value !== undefined)
  return shown.map(([key, value]) => ` ${key}=${humanValue(value)}`).join('')
}

/** A value called like a reserved key is kept under `name_`: nothing that was logged may replace time or level. */
function jsonValues(values: Values): Values {
  return Object.fromEntries(
    Object.entries(values).map(([key, value]) => [RESERVED.includes(key) ? `${key}_` : key, value]),
  )
}

/**
 * Log lines of a process: `time level sentence key=value …` for a person, JSON lines otherwise. Every text passes
 * through `util/redact.ts` (P12), so a caller may hand over an error as it is. Times are UTC.
 */
export class LineLogger implements Logger {
  readonly #options: LoggerOptions

  constructor(options: LoggerOptions) {
    this.#options = options
  }

  log(level: LogLevel, sentence: string, values: Values = {}): void {
    if (RANK[level] < RANK[this.#options.level]) return
    const safe = redact(values) as Values
    const line =
      this.#options.format === 'json' ? this.#json(level, sentence, safe) : this.#human(level, sentence, safe)
    this.#options.write(line)
  }

  #time(): string {
    return new Date(this.#options.world.now()).toISOString()
  }

  #json(level: LogLevel, sentence: string, values: Values): string {
    return JSON.stringify({ time: this.#time(), level, message: redactText(sentence), ...jsonValues(values) })
  }

  #human(level: LogLevel, sentence: string, values: Values): string {
    const paint: Paint = this.#options.paint ?? ((_, text) => text)
    const time = paint('dim', this.#time().slice(11, 23))
    return `${time} ${paint(STYLE[level], level.padEnd(5))} ${redactText(sentence)}${paint('dim', humanValues(values))}`
  }
}
