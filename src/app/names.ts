import { TidemarkError } from '../errors.ts'
import { nearest } from '../util/nearest.ts'

/** Names that an error lists; a database holds more only in tests. */
const MAX_LISTED = 20
const EXPECTED = 'NAME/CHAIN, each of 1 to 100 letters, digits, `_`, `-` or `.`'

/** The known name that was meant: the same name on a chain, when the chain was left out, else the nearest. */
function meant(name: string, known: readonly string[]): string | undefined {
  return known.find((one) => one.startsWith(`${name}/`)) ?? nearest(name, known)
}

/** What is said about a name that no watcher has. @param known the names that there are */
export function unknownWatcher(name: string, known: readonly string[]): TidemarkError {
  const suggestion = meant(name, known)
  const hint = suggestion === undefined ? '' : `; did you mean '${suggestion}'?`
  const chainless = name.includes('/') ? '' : ' A watcher is named NAME/CHAIN.'
  return new TidemarkError('WATCHER_UNKNOWN', `There is no such watcher${hint}${chainless}`, {
    values: { watcher: name, known: known.slice(0, MAX_LISTED) },
  })
}

/**
 * Refuses a new name that no configuration can have: its row would be found by nobody.
 * @param formerly the name that it replaces, whose chain is suggested
 * @throws {TidemarkError} `WATCHER_INVALID`
 */
export function checkWholeName(name: string, formerly: string): void {
  if (/^[\w.-]{1,100}\/[\w.-]{1,100}$/.test(name)) return
  const chain = formerly.slice(formerly.lastIndexOf('/'))
  const hint = /^[\w.-]{1,100}$/.test(name) ? `; did you mean '${name}${chain}'?` : ''
  throw new TidemarkError('WATCHER_INVALID', `This cannot be the name of a watcher${hint}`, {
    values: { got: name.slice(0, 120), expected: EXPECTED },
  })
}
