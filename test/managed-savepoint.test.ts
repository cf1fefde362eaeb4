import { expect, test } from 'vitest'
import { rows, watch } from '../src/store/sqlite/index.ts'
import { fakeChain } from '../src/testkit/index.ts'
import { Harness } from './support/harness.ts'
import { pay, TOKEN, TRANSFER_EVENT } from './support/ledger.ts'

const seen = rows({ table: 'seen', columns: { step: 'text' } })

function watcher(stage: 'handle' | 'final') {
  const work = ({ tables, savepoint }: { tables: any; savepoint: (fn: () => void) => void }) => {
    const attempt = (fn: () => void) => {
      try {
        savepoint(fn)
      } catch (error) {
        if ((error as Error).message !== 'no') throw error
      }
    }
    tables.seen.insert({ step: 'before' })
    attempt(() => {
      tables.seen.insert({ step: 'given up' })
      throw new Error('no')
    })
    attempt(() => {
      tables.seen.insert({ step: 'kept' })
      attempt(() => {
        tables.seen.insert({ step: 'given up inside' })
        throw new Error('no')
      })
    })
    tables.seen.insert({ step: 'after' })
  }
  return watch({
    on: { test: { address: TOKEN, startBlock: 1, at: { confirmations: 1 } } },
    events: { Transfer: { event: TRANSFER_EVENT } },
    tables: { seen },
    handle: (scope) => (stage === 'handle' ? work(scope) : undefined),
    final: (scope) => (stage === 'final' ? work(scope) : undefined),
  })
}

for (const stage of ['handle', 'final'] as const) {
  test(`managed rows written inside a savepoint go with it, in ${stage}`, async () => {
    const chain = fakeChain({ chainId: 1, finalized: { depth: 2 } })
    chain.mine([pay('T1', 1)])
    chain.mineEmpty(4)
    const h = new Harness({ chain, watchers: { seen: watcher(stage) } })
    try {
      await h.settle()
      expect(
        h
          .rows('SELECT step FROM seen')
          .map((row) => row.step)
          .sort(),
      ).toEqual(['after', 'before', 'kept'])
    } finally {
      await h.close()
    }
  })
}
