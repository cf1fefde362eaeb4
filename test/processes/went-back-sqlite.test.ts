import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { watch } from '../../src/store/sqlite/index.ts'
import { type FakeChain, fakeChain, testAddress, transfer } from '../../src/testkit/index.ts'
import { Harness } from '../support/harness.ts'

const TOKEN = testAddress('TOKEN')
const [ANN, BOB] = [testAddress('ANN'), testAddress('BOB')]
const by = { actor: 'test', reason: 'the file was put back' }

let harness: Harness | undefined
afterEach(async () => {
  await harness?.close()
  harness = undefined
})

function open(chain: FakeChain, meanwhile: (block: number) => void = () => {}): Harness {
  const counted = watch({
    on: { test: { address: TOKEN, startBlock: 1, at: 'latest' } },
    events: { Transfer: { event: 'event Transfer(address indexed from, address indexed to, uint256 value)' } },
    handle({ event, db }) {
      meanwhile(Number(event.blockNumber))
      db.prepare('INSERT INTO seen (block, amount) VALUES (?, ?)').run(Number(event.blockNumber), event.args.value)
    },
    undo({ event, db }) {
      db.prepare('DELETE FROM seen WHERE block = ?').run(Number(event.blockNumber))
    },
  })
  harness = new Harness({
    chain,
    watchers: { counted },
    schema: 'CREATE TABLE seen (block INTEGER NOT NULL, amount INTEGER NOT NULL)',
  })
  return harness
}

/**
 * Puts the content of the copy in the place of the file's, in one transaction of another connection: what a restore into an
 * open file does (`.restore`, the backup API). A file that is exchanged under an open connection is no database any more.
 */
function putBack(on: Harness, copy: string): void {
  on.sql((db) => {
    db.exec(`ATTACH '${copy}' AS copy; PRAGMA foreign_keys = OFF; BEGIN IMMEDIATE`)
    const tables = db.prepare("SELECT name FROM copy.sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    for (const { name } of tables.all()) {
      db.exec(`DELETE FROM main."${name}"; INSERT INTO main."${name}" SELECT * FROM copy."${name}"`)
    }
    db.exec('COMMIT')
  })
}

function mine(chain: FakeChain, blocks: number): void {
  for (let i = 0; i < blocks; i++) chain.mine([transfer(TOKEN, ANN, BOB, 1)])
}

const state = async (on: Harness) => {
  const [watcher] = (await on.tidemark.status()).watchers
  return [watcher?.health, watcher?.reason?.code ?? null, watcher?.cursor?.number ?? null]
}
const blocks = (on: Harness) => on.rows('SELECT block FROM seen ORDER BY block').map(({ block }) => Number(block))
const upTo = (n: number) => Array.from({ length: n }, (_, i) => i + 1)

test('a SQLite file that is put back under a process that works on it: halted, and right after `restored`', async () => {
  const chain = fakeChain({ chainId: 1 })
  const on = open(chain)
  mine(chain, 5)
  await on.settle()
  const copy = join(on.file, '..', 'copy.db')
  on.sql((db) => db.exec(`VACUUM INTO '${copy}'`))
  mine(chain, 5)
  await on.settle()
  expect(blocks(on)).toEqual(upTo(10))
  putBack(on, copy)
  mine(chain, 2)
  await on.settle()
  expect(await state(on)).toEqual(['halted', 'STORE_WENT_BACK', 5])
  expect(blocks(on)).toEqual(upTo(5))
  await on.tidemark.admin.restored(by)
  await on.settle()
  expect(blocks(on)).toEqual(upTo(12))
})

test('a file that is put back to just before the last commit of the process: halted as well', async () => {
  const chain = fakeChain({ chainId: 1 })
  const copy = () => join(on.file, '..', 'copy.db')
  const on = open(chain, (block) => {
    // What other connections see: the watcher is taken over, and this commit is not there yet.
    if (block === 6) on.sql((db) => db.exec(`VACUUM INTO '${copy()}'`))
  })
  mine(chain, 5)
  await on.settle()
  mine(chain, 1)
  // The process has not read its row since.
  const applied: number[] = []
  on.tidemark.on('applied', ({ to }) => {
    applied.push(to)
    putBack(on, copy())
  })
  await on.settle()
  expect([applied, blocks(on)]).toEqual([[6], upTo(5)])
  expect(await state(on)).toEqual(['halted', 'STORE_WENT_BACK', 5])
})

test('control: a copy that holds just what the file holds halts nobody', async () => {
  const chain = fakeChain({ chainId: 1 })
  const on = open(chain)
  mine(chain, 5)
  await on.settle()
  const copy = join(on.file, '..', 'copy.db')
  on.sql((db) => db.exec(`VACUUM INTO '${copy}'`))
  putBack(on, copy)
  mine(chain, 2)
  await on.settle()
  expect(blocks(on)).toEqual(upTo(7))
})
