import { TidemarkError } from '../errors.ts'
import { nearest } from './nearest.ts'

/**
 * A misspelt option must never be taken for an absent one: its default would be used in silence.
 * @throws {TidemarkError} `CONFIG_INVALID` when `given` is not an object, `CONFIG_UNKNOWN_KEY` for a name not in `known`
 */
export function refuseUnknownOptions(owner: string, given: object, known: readonly string[]): void {
  if (typeof given !== 'object' || given === null) {
    throw new TidemarkError('CONFIG_INVALID', `${owner} takes an object of options.`, { values: { owner } })
  }
  for (const key of Object.keys(given)) {
    if (known.includes(key)) continue
    const suggestion = nearest(key, known)
    const hint = suggestion ? `; did you mean '${suggestion}'?` : '.'
    throw new TidemarkError('CONFIG_UNKNOWN_KEY', `${owner} has no option '${key.slice(0, 60)}'${hint}`, {
      values: { owner, known },
    })
  }
}

/** @throws {TidemarkError} `CONFIG_INVALID`, saying what the option takes */
export function refuseOption(owner: string, option: string, got: unknown, expected: string): never {
  throw new TidemarkError('CONFIG_INVALID', `${owner}: '${option}' must be ${expected}.`, {
    values: { owner, option, expected, got: typeof got === 'number' ? String(got) : typeof got },
  })
}

/** A whole number from `min` to `max`. @throws {TidemarkError} `CONFIG_INVALID` */
export function wholeOption(owner: string, option: string, got: unknown, min: number, max: number): number {
  if (typeof got === 'number' && Number.isSafeInteger(got) && got >= min && got <= max) return got
  return refuseOption(owner, option, got, `a whole number from ${min} to ${max}`)
}
