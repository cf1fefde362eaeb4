import { DatabaseSync } from '@photostructure/sqlite'
import { describe, expect, test } from 'vitest'
import { mark } from '../../testkit/store-cases/case.ts'
import { wait } from '../../util/op.ts'
import type { Mark } from '../store.ts'
import { sqlite } from './index.ts'

async function migrated() {
  const raw = new DatabaseSync(':memory:')
  const store = sqlite({ file: ':memory:', open: () => raw })
  await store.migrate('auto')
  const insert = (marks: readonly Mark[]) => store.transact((tx) => wait(tx.marks.insert(1, marks)))
  const count = () => Number(raw.prepare('SELECT count(*) AS n FROM tidemark_processed_events').get()?.n)
  return { raw, store, insert, count }
}

/** More than two statements of the largest size, and some that fill none. */
const MANY = 39

const marks = (count: number) => Array.from({ length: count }, (_, n) => mark(n >> 3, n))

describe('marks written several at a time', () => {
  test.each([0, 1, 15, 16, 31, 32, 35, 36, 38])(
    'one that was there, at place %i, is the only one that is not new',
    async (place) => {
      const { insert, count } = await migrated()
      const all = marks(MANY)
      expect(await insert([all[place] as Mark])).toEqual([true])
      expect(await insert(all)).toEqual(all.map((_, n) => n !== place))
      expect(count()).toBe(MANY)
      expect(await insert(all)).toEqual(all.map(() => false))
    },
  )

  test('one that comes twice in one call is new once, where it came first', async () => {
    const { insert, count } = await migrated()
    const all = marks(16)
    expect(await insert([...all.slice(0, 15), all[3] as Mark])).toEqual([...Array(15).fill(true), false])
    expect(count()).toBe(15)
  })

  test('each row is what its mark says, whatever was written beside it', async () => {
    const { store, insert } = await migrated()
    const all = marks(1_000)
    await insert(all)
    const found = await store.read((tx) => wait(tx.marks.between(1, 0 as never, 1_000 as never)))
    const byIndex = [...found].sort((a, b) => a.logIndex - b.logIndex)
    expect(byIndex).toEqual(all)
  })

  test('a row that breaks another constraint is an error, and no mark of the transaction stays', async () => {
    const { raw, insert, count } = await migrated()
    raw.exec(`CREATE TRIGGER refuse BEFORE INSERT ON tidemark_processed_events WHEN new.log_index = 20
      BEGIN SELECT RAISE(ABORT, 'refused'); END`)
    await expect(insert(marks(MANY))).rejects.toThrow()
    expect(count()).toBe(0)
    expect(await insert(marks(20))).toEqual(Array(20).fill(true)) // control: it is that row
  })

  test.each([1, 16])('%i outside a transaction are refused, and none is opened for them', async (number) => {
    const { raw, store, count } = await migrated()
    raw.exec('BEGIN')
    const tx = store.join(raw)
    raw.exec('COMMIT')
    expect(() => tx.marks.insert(1, marks(number))).toThrow(expect.objectContaining({ code: 'TRANSACTION_LOST' }))
    expect([raw.isTransaction, count()]).toEqual([false, 0])
  })
})
