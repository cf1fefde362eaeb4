import { copyFileSync, rmSync } from 'node:fs'
import { afterEach, expect, test } from 'vitest'
import { fakeChain } from '../src/testkit/index.ts'
import { differences, ledger, pay, SCHEMA } from './support/demo-ledger.ts'
import { Harness } from './support/harness.ts'

/** Backup and restore as docs/operations.md says it: cursor, marks and effects go back together. */
const open: Harness[] = []
afterEach(async () => {
  for (const h of open.splice(0)) await h.close()
})

test('a backup that was made while the watcher ran is restored, and what came after it is applied again', async () => {
  const chain = fakeChain({ chainId: 7, finalized: { depth: 4 } })
  const h = new Harness({ chain, watchers: { ledger: ledger() }, schema: SCHEMA })
  open.push(h)
  const backup = `${h.file}.backup`
  chain.mine([pay(1)])
  await h.settle()
  // The watcher's own connection is open, and its commits are in the log file.
  h.sql((db) => db.exec(`VACUUM INTO '${backup}'`))
  chain.mine([pay(2)])
  chain.mine([pay(4)])
  chain.mineEmpty(8)
  await h.settle()
  await h.world.advance(1_000)
  await h.settle()
  const before = h.sql((db) => differences(chain, db))
  await h.tidemark.stop()
  for (const part of ['', '-wal', '-shm']) rmSync(h.file + part, { force: true })
  copyFileSync(backup, h.file)
  // Control: the comparison sees that the restored database lacks something.
  expect([before, h.sql((db) => differences(chain, db)).length > 0]).toEqual([[], true])
  await h.restart()
  await h.settle()
  await h.world.advance(1_000)
  await h.settle()
  expect(h.sql((db) => differences(chain, db))).toEqual([])
  expect(h.events.filter(({ type }) => type === 'halted' || type === 'failing')).toEqual([])
})
