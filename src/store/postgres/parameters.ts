import { isStorableText } from './values.ts'

/** The protocol counts parameters in 16 bits; the driver would send the rest of the count without a word. */
const MOST_PARAMETERS = 65_535

/**
 * What the driver would change, or the server refuse so that the transaction is aborted, is refused before it is sent: a
 * text with a NUL, half a surrogate pair, more parameters than the protocol can count.
 * @throws {RangeError}
 */
export function checkParameters(sql: string, values: readonly unknown[] | undefined): void {
  checkText(sql, 'the statement')
  if (values === undefined) return
  if (values.length > MOST_PARAMETERS) {
    throw new RangeError(
      `a statement takes at most ${MOST_PARAMETERS} parameters, got ${values.length}: pass arrays, with unnest()`,
    )
  }
  for (const value of values) checkValue(value)
}

function checkValue(value: unknown): void {
  if (typeof value === 'string') checkText(value, 'a text parameter')
  else if (Array.isArray(value)) for (const one of value) checkValue(one)
}

function checkText(value: string, what: string): void {
  if (isStorableText(value)) return
  throw new RangeError(`${what} holds a NUL or half a surrogate pair, which PostgreSQL cannot keep: store it as bytes`)
}
