import { mkdtempSync } from 'node:fs'
import { test } from 'vitest'
import { openDefault } from '../src/store/sqlite/driver.ts'
import { chainAt, play, prepareFile } from './support/crash-run.ts'
import { differences } from './support/ledger.ts'
test('x', async () => {
  const folder = mkdtempSync('/tmp/zz-')
  const file = `${folder}/a.db`
  prepareFile(file)
  const all: string[] = []
  let t = performance.now()
  await play({ file, around: (n, sql, work) => { all.push(sql); return work() } })
  console.log(all.length, performance.now() - t)
  console.log(all.map((s) => s.trim().slice(0, 60).replaceAll('\n', ' ')).join('\n'))
  for (let i = 0; i < 3; i++) {
  const f2 = `${folder}/b${i}.db`
  prepareFile(f2)
  t = performance.now()
  await play({ file: f2 })
  console.log(performance.now() - t)
  }
  const db = openDefault(file)
  console.log(differences(chainAt(3), db))
  console.log(db.prepare('select * from tidemark_watchers').all(), db.prepare('select count(*) n from tidemark_processed_events').all())
})
