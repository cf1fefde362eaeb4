import { TidemarkError } from '../errors.ts'

/**
 * A worded assertion, on in production. It names a bug in Tidemark, never bad input: bad input has its own code.
 * @throws {TidemarkError} `INVARIANT_BROKEN`; the open transaction is rolled back, so nothing is lost.
 */
export function invariant(condition: unknown, sentence: string, values?: Record<string, unknown>): asserts condition {
  if (!condition) throw new TidemarkError('INVARIANT_BROKEN', sentence, values ? { values } : {})
}
