import { type ErrorCode, TidemarkError } from '../errors.ts'
import type { HaltReason } from '../store/store.ts'
import { redactText } from '../util/redact.ts'

/** What to do about an error: wait and try again, stop until a person says so, or step back and read again at once. */
export type Verdict = 'retry' | 'halt' | 'stand-down'

const STAND_DOWN: ReadonlySet<ErrorCode> = new Set(['EPOCH_CHANGED', 'POSITION_MOVED', 'FENCED', 'COMMIT_UNKNOWN'])

/** Passing or permanent? By code alone (P11). */
export function judge(error: TidemarkError): Verdict {
  if (STAND_DOWN.has(error.code)) return 'stand-down'
  return error.kind === 'retries' ? 'retry' : 'halt'
}

/** Any thrown value as a TidemarkError: what has no code of ours is unexpected, and is retried slowly. */
export function asTidemarkError(error: unknown): TidemarkError {
  if (TidemarkError.is(error)) return error
  return new TidemarkError('UNEXPECTED', `An unexpected error: ${describe(error)}`, { cause: error })
}

function describe(error: unknown): string {
  return error instanceof Error ? error.name : typeof error
}

/** The reason kept in the watcher's row. Public facts only: the cause is not stored. */
export function haltReason(error: TidemarkError, at: number): HaltReason {
  return { code: error.code, sentence: error.sentence, next: error.next, values: error.values, at }
}

/** Shorter spellings are left: they would blank out half of any text, and tell nothing. */
const MIN_SECRET = 3
/** Spellings of one event's arguments that are looked for. */
const MAX_SPELLINGS = 400

/** A number in decimal and in hex, an address or bytes with and without 0x, a text as it is. */
function spellings(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(spellings)
  if (typeof value === 'object' && value !== null) return Object.values(value).flatMap(spellings)
  const text = String(value)
  const number = typeof value === 'bigint' || typeof value === 'number'
  const other = number ? value.toString(16).replace('-', '') : text.replace(/^0x/i, '')
  return [text, other].filter((one) => one.length >= MIN_SECRET)
}

/** Longer texts are looked for as they are: a pattern of 100,000 characters is refused by the runtime. */
const MAX_PATTERN = 1_000

/** In either case, and the digits of a number however they are grouped: `1,000`, `1_000`, `1.000`. */
function without(text: string, spelling: string): string {
  if (spelling.length > MAX_PATTERN) return text.replaceAll(spelling, '<argument>')
  const grouped = /^-?\d+$/.test(spelling)
  const pattern = grouped ? [...spelling].join("[,_.'\\s]?") : spelling.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
  return text.replace(new RegExp(pattern, 'gi'), '<argument>')
}

/** What may hold a piece of an argument in another spelling: quoted text, long hex and long numbers, base64. */
function blanked(text: string): string {
  return text
    .replace(/"[^"]*("|$)|`[^`]*(`|$)/g, '<text>')
    .replace(/\b(0x)?[0-9a-f]{16,}\b/gi, '<hex>')
    .replace(/\b[\w+/]{24,}={0,2}/g, '<text>')
    .replace(/\d[\d,._']{3,}\d/g, '<number>')
}

/**
 * The message of a user's error without the event's arguments and without URLs (P12): each spelling of an argument becomes
 * `<argument>`. Bounded to 500 characters.
 */
export function scrub(error: unknown, args: unknown): string {
  const message = error instanceof Error ? `${error.name}: ${error.message}` : `a thrown ${typeof error}`
  const all = [...new Set(spellings(args ?? []))].sort((a, b) => b.length - a.length).slice(0, MAX_SPELLINGS)
  return redactText(blanked(all.reduce(without, message))).slice(0, 500)
}

/** Frames of a stack that are shown: the user's code is on top. */
const MAX_FRAMES = 12
/** `at name (place:line:column)`, or without a name: nothing that a message could hold is taken for one. */
const FRAME = /^\s+at (?:([\w$.<>#[\] ]{1,120}) \()?([^()]+:\d+:\d+)\)?$/

function frameOf(line: string): string[] {
  const [, name, place] = FRAME.exec(line) ?? []
  if (place === undefined) return []
  const where = redactText(place.replace(/^file:\/\//, ''), 300)
  return [name === undefined ? where : `${blanked(redactText(name))} (${where})`]
}

/**
 * Where the user's code threw, line by line, for the log at level debug. The message on top is left out, with whatever lines
 * it has: it is shown scrubbed elsewhere (P12). Empty where the stack does not hold its message any more.
 */
export function framesOf(error: TidemarkError): readonly string[] {
  const { message, stack } = (error.cause instanceof Error ? error.cause : error) as Error
  const at = typeof stack === 'string' ? stack.indexOf(String(message)) : -1
  if (at < 0) return []
  const lines = (stack as string).slice(at + String(message).length).split('\n')
  return lines
    .slice(0, 2 * MAX_FRAMES)
    .flatMap(frameOf)
    .slice(0, MAX_FRAMES)
}

/** Growing waits with jitter: 250 ms, 500 ms, 1 s … to 15 s, each between a half and the whole of it. */
export function retryWait(tries: number, random: number): number {
  const whole = Math.min(15_000, 250 * 2 ** Math.min(tries - 1, 6))
  return Math.round(whole / 2 + (whole / 2) * random)
}
