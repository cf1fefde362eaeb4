import { afterEach, expect, test } from 'vitest'
import { describeMysql } from '../support/mysql.ts'
import { describePostgres } from '../support/postgres.ts'
import type { Kind } from './database.ts'
import { Stage } from './stage.ts'

let stage: Stage | undefined
afterEach(async () => {
  await stage?.close()
  stage = undefined
})

/**
 * The watchers of a process come and go by themselves: one may be asked for at the very moment when another one, the last
 * that was held, is given back. An answer that is lost then is worse than an error: the lease was taken, nobody has it, and
 * nobody else gets it before it expires.
 */
async function takeWhileOthersAreGivenBack(kind: Kind): Promise<void> {
  stage = await Stage.open(kind, 'leases together', { remember: false })
  const store = stage.database.store(60_000)
  await store.migrate('auto')
  for (let i = 0; i < 100; i++) {
    const [first, second] = [`first${i}/node`, `second${i}/node`]
    const held = await store.acquire(first)
    expect(held).not.toBeNull()
    const [, taken] = await Promise.all([held?.release(), store.acquire(second)])
    expect(taken, `round ${i}`).not.toBeNull()
    await taken?.release()
  }
}

describePostgres('leases of one process on PostgreSQL', () => {
  test('one is taken while the last one is given back', () => takeWhileOthersAreGivenBack('postgres'), 60_000)
})

describeMysql('leases of one process on MariaDB', () => {
  test('one is taken while the last one is given back', () => takeWhileOthersAreGivenBack('mysql'), 60_000)
})
