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

const MIN_SECRET = 3

function spellings(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(spellings)
  if (typeof value === 'object' && value !== null) return Object.values(value).flatMap(spellings)
  return [String(value)].filter((text) => text.length >= MIN_SECRET)
}

function escapeRegExp(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
}

/**
 * The message of a user's error without the event's arguments and without URLs (P12): each spelling of an argument becomes
 * `<argument>`. Bounded to 500 characters.
 */
export function scrub(error: unknown, args: unknown): string {
  const message = error instanceof Error ? `${error.name}: ${error.message}` : `a thrown ${typeof error}`
  const secrets = [...new Set(spellings(args ?? []))].sort((a, b) => b.length - a.length).slice(0, 200)
  const clean = secrets.reduce((text, secret) => text.replace(new RegExp(escapeRegExp(secret), 'gi'), '<argument>'), message)
  return redactText(clean).slice(0, 500)
}

/** Growing waits with jitter: 250 ms, 500 ms, 1 s … to 15 s, each between a half and the whole of it. */
export function retryWait(tries: number, random: number): number {
  const whole = Math.min(15_000, 250 * 2 ** Math.min(tries - 1, 6))
  return Math.round(whole / 2 + (whole / 2) * random)
}
