import { expect, test } from 'vitest'
import { createTidemark, defineConfig, TidemarkError } from '../../src/index.ts'
import type { Store } from '../../src/store/store.ts'
import { onBoth } from './on-both.ts'

const ROUNDS = 20

/** Starts a process of an environment, without watchers, on a store that stays open. Answers a code, or null. */
async function startAs(store: Store, environment: string): Promise<string | null> {
  const kept = Object.assign(Object.create(store) as Store, {
    migrate: store.migrate.bind(store),
    read: store.read.bind(store),
    transact: store.transact.bind(store),
    capabilities: store.capabilities,
    close: async () => {},
  })
  const tidemark = createTidemark(defineConfig({ store: kept, chains: {}, watchers: {}, environment }))
  try {
    await tidemark.start()
    return null
  } catch (error) {
    return TidemarkError.is(error) ? error.code : String(error)
  } finally {
    await tidemark.stop()
  }
}

onBoth(
  'two environments that come to a new database at the same instant',
  (test, open, kind) => {
    test('one names it, and the other one is refused', async () => {
      const stage = await open('environments', { remember: false })
      const stores = [stage.database.store(), stage.database.store()]
      await stores[0]?.migrate('auto')
      const table = kind === 'postgres' ? 'tidemark.meta' : 'tidemark_facts'
      for (let round = 0; round < ROUNDS; round++) {
        await stage.database.query(`DELETE FROM ${table} WHERE name IN ('environment', 'environment_claim')`)
        const codes = await Promise.all(
          stores.map((store, i) => startAs(store, ['production', 'staging'][i] as string)),
        )
        expect([...codes].sort(), `round ${round}`).toEqual(['ENVIRONMENT_MISMATCH', null])
      }
    }, 60_000)
  },
  test,
)
