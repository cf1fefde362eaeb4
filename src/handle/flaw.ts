import { TidemarkError } from '../errors.ts'
import { checkDefinition } from './check-definition.ts'
import type { ErasedDefinition, Watcher } from './watch.ts'

/** What is wrong with what a user gave to `watch`; null: nothing. */
export function flawOf(definition: unknown): TidemarkError | null {
  try {
    checkDefinition(definition)
    return null
  } catch (error) {
    if (TidemarkError.is(error)) return error
    throw error
  }
}

/** In place of a watcher: whoever reads its definition gets the error, and adds the name if he knows it. */
export function flawed<Db>(flaw: TidemarkError): Watcher<Db> {
  return Object.freeze({
    isTidemarkWatcher: true as const,
    get definition(): never {
      throw flaw
    },
  })
}

/**
 * The definition of the watcher that is called `name`.
 * @throws {TidemarkError} `WATCHER_INVALID`, `WATCHER_UNDO_MISSING`, `ABI_INVALID`, `ABI_EVENT_MISSING`,
 *   `ABI_EVENT_AMBIGUOUS` or `EVENT_ARGS_INVALID`: with the watcher's name, what was given and what was expected
 */
export function definitionOf<Db>(name: string, watcher: Watcher<Db>): ErasedDefinition<Db> {
  try {
    return watcher.definition
  } catch (error) {
    if (!TidemarkError.is(error)) throw error
    const { code, sentence, values, stack, cause } = error
    const named = new TidemarkError(code, sentence, { values: { watcher: name, ...values }, cause })
    // Where `watch` was called says more than where its error was named.
    const calls = stack?.slice(stack.indexOf('\n    at ')) ?? ''
    named.stack = `${named.name}: ${named.message}${calls}`
    throw named
  }
}
