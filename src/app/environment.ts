import { TidemarkError } from '../errors.ts'
import type { Store } from '../store/store.ts'
import { wait } from '../util/op.ts'

const KEY = 'environment'
/** Written first by whoever names the database, so that two that come at once do it one after the other. */
const CLAIM = 'environment_claim'

/**
 * The first process that says its environment names the database; later ones must say the same, or nothing.
 * @throws {TidemarkError} `ENVIRONMENT_MISMATCH`
 */
export async function checkEnvironment(store: Store, environment: string): Promise<void> {
  if (environment === '') return
  const known = (await store.read((tx) => wait(tx.meta.get(KEY)))) ?? (await claim(store, environment))
  if (known === environment) return
  throw new TidemarkError('ENVIRONMENT_MISMATCH', 'The database belongs to another environment', {
    values: { database: known, configured: environment },
  })
}

function claim(store: Store, environment: string): Promise<string> {
  return store.transact(function* (tx) {
    yield* wait(tx.meta.set(CLAIM, environment))
    const known = yield* wait(tx.meta.get(KEY))
    if (known === null) yield* wait(tx.meta.set(KEY, environment))
    return known ?? environment
  })
}
