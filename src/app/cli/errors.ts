import { TidemarkError } from '../../errors.ts'
import { MAX_DEPTH, redactError, redactStack, redactText } from '../../util/redact.ts'
import { painter } from '../terminal.ts'
import type { Io } from './io.ts'

/** `ECONNREFUSED: connect failed`, or the class where there is no code. */
function causeLine(cause: unknown): string {
  if (typeof cause !== 'object' || cause === null) return redactText(String(cause))
  const { code, class: name, sentence } = redactError(cause)
  return `${[name === 'Error' && code ? undefined : name, code].filter(Boolean).join(' ')}: ${sentence}`
}

/** Causes down to a bound; a circle ends there too. */
function causes(error: unknown): unknown[] {
  const found: unknown[] = []
  for (
    let at = (error as { cause?: unknown })?.cause;
    at !== undefined && found.length < MAX_DEPTH;
    at = (at as { cause?: unknown })?.cause
  ) {
    found.push(at)
  }
  return found
}

/** The first line of the message is the sentence with its values. */
function headOf(error: TidemarkError): string {
  return redactText(error.message.slice(0, error.message.indexOf('\n  code: ')))
}

function linesOf(error: unknown): string[] {
  if (TidemarkError.is(error))
    return [`error ${error.code}: ${headOf(error)}`, `next: ${error.next}`, `docs: ${error.link}`]
  return [
    `error ${causeLine(error)}`,
    'next: Run again with --log-level debug for the stack trace, and report it when it looks like a bug.',
  ]
}

function stacksOf(error: unknown): string[] {
  return [error, ...causes(error)].flatMap((one) => (one instanceof Error && one.stack ? [redactStack(one.stack)] : []))
}

/**
 * Prints an error for a person: what, with which values, what next, where to read on; then its causes. Always text on
 * stderr, also with --json, so that stdout holds documents only. Stack traces only when debugging.
 */
export function printError(error: unknown, io: Io, debug: boolean): void {
  const paint = painter(io.stderr, io.env)
  const [head = '', ...rest] = linesOf(error)
  const why = causes(error).map((cause) => `cause: ${causeLine(cause)}`)
  const stacks = debug ? stacksOf(error) : []
  io.stderr.write(`${[paint('red', head), ...[...why, ...rest].map((line) => `  ${line}`), ...stacks].join('\n')}\n`)
}
