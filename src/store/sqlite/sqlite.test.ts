import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'vitest'
import { storeContract } from '../../testkit/store-contract.ts'
import { type SqliteDb, sqlite } from './index.ts'

const probe = {
  makeTable: (db: SqliteDb) => db.exec('CREATE TABLE numbers (n INTEGER PRIMARY KEY)'),
  insert: (db: SqliteDb, n: number) => db.prepare('INSERT INTO numbers (n) VALUES (?)').run(n),
  numbers: (db: SqliteDb) =>
    db
      .prepare('SELECT n FROM numbers ORDER BY n')
      .all()
      .map((row) => Number(row.n)),
  commit: (db: SqliteDb) => db.exec('COMMIT'),
}

async function onFile() {
  const folder = mkdtempSync(join(tmpdir(), 'tidemark-sqlite-'))
  const store = sqlite({ file: join(folder, 'test.db') })
  const close = async () => {
    await store.close()
    rmSync(folder, { recursive: true })
  }
  return { store, close }
}

async function inMemory() {
  const store = sqlite({ file: ':memory:' })
  return { store, close: () => store.close() }
}

storeContract('sqlite file', onFile, { test, probe })
storeContract('sqlite memory', inMemory, { test, probe })
