import { existsSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { openDefault, type SqliteDatabaseLike } from '../../store/sqlite/driver.ts'
import { CrashDriver } from './crash-driver.ts'
import { Disk } from './disk.ts'
import type { Mishap } from './plan.ts'

// One small transaction on a real file, and each mishap at its statements: what is on the disk afterwards, and what the process sees.

let disk: Disk
let driver: CrashDriver
let struck: Mishap[]

beforeEach(() => {
  disk = new Disk()
  struck = []
  driver = new CrashDriver({ snapshot: () => disk.snapshot(), struck: (mishap) => struck.push(mishap) })
  const database = openDefault(disk.file)
  database.exec('PRAGMA journal_mode = WAL; CREATE TABLE t (n INTEGER)')
  database.close()
})

afterEach(() => {
  driver.kill()
  disk.remove()
})

/** Inserts 1 and 2 and commits. Answers the error that the process saw, by its SQLite code, or 'died'. */
function transaction(database: SqliteDatabaseLike): number | string | null {
  try {
    database.prepare('BEGIN IMMEDIATE').run()
    const insert = database.prepare('INSERT INTO t (n) VALUES (?)')
    insert.run(1)
    insert.run(2)
    database.prepare('COMMIT').run()
    return null
  } catch (error) {
    return driver.dead ? 'died' : Number((error as { errcode?: unknown }).errcode)
  }
}

function rows(): number {
  const database = openDefault(disk.file)
  const count = Number(database.prepare('SELECT count(*) AS n FROM t').get()?.n)
  database.close()
  return count
}

/** Mishap, n-th statement that counts: what the process saw, whether its transaction is still open, rows afterwards. */
const CASES: [Mishap, number, number | string | null, boolean, number][] = [
  ['die-before', 2, 'died', false, 0],
  ['die-after', 4, 'died', false, 2],
  ['die-before-commit', 1, 'died', false, 0],
  ['die-after-commit', 1, 'died', false, 2],
  ['power-before', 4, 'died', false, 0],
  ['power-after', 3, 'died', false, 0],
  ['power-after-commit', 1, 'died', false, 2],
  ['commit-answer-lost', 1, 1034, false, 2],
  ['commit-rolled-back', 1, 266, false, 0],
  ['commit-busy', 1, 5, true, 0],
  ['full', 2, 13, true, 0],
  ['full-rolled-back', 2, 13, false, 0],
  ['io-error', 1, 266, true, 0],
  ['io-error-rolled-back', 1, 266, false, 0],
  ['busy', 1, 5, false, 0],
  ['busy', 2, null, false, 2],
]

describe('a mishap leaves what it says', () => {
  for (const [mishap, at, seen, open, left] of CASES) {
    test(`${mishap} at ${at}`, () => {
      const database = driver.open(disk.file)
      driver.arm(mishap, at)
      expect(transaction(database)).toBe(seen)
      expect(database.isTransaction).toBe(open)
      if (driver.powerLost) disk.useSnapshot()
      expect(rows()).toBe(left)
      expect(struck).toEqual(seen === null ? [] : [mishap])
    })
  }
})

test('a dead process reaches the disk no more, and holds no lock', () => {
  const database = driver.open(disk.file)
  driver.arm('die-before-commit', 1)
  transaction(database)
  expect(() => database.exec('INSERT INTO t (n) VALUES (3)')).toThrow('the process is dead')
  expect(() => driver.open(disk.file)).toThrow('the process is dead')
  const other = openDefault(disk.file)
  other.exec('INSERT INTO t (n) VALUES (9)')
  other.close()
  expect(rows()).toBe(1)
})

test('a transaction is told when it begins and when it is on the disk, though the process never hears of it', () => {
  const told: string[] = []
  const began = () => told.push('began')
  const committed = () => told.push(`committed, ${rows()} rows`)
  driver = new CrashDriver({ snapshot: () => {}, struck: () => {}, began, committed })
  const database = driver.open(disk.file)
  driver.arm('commit-rolled-back', 1)
  expect(transaction(database)).toBe(266)
  driver.arm('die-after-commit', 1)
  expect(transaction(database)).toBe('died')
  expect(told).toEqual(['began', 'began', 'committed, 2 rows'])
})

test('a mishap strikes once, and disarming takes it back', () => {
  const database = driver.open(disk.file)
  driver.arm('busy', 1)
  expect(transaction(database)).toBe(5)
  expect(transaction(database)).toBeNull()
  driver.arm('die-before', 1)
  driver.disarm()
  expect(transaction(database)).toBeNull()
  expect(rows()).toBe(4)
})

test('the lock that is lost can be taken by another process', () => {
  const lock = driver.open(`${disk.file}-tidemark-lock`)
  lock.exec('PRAGMA busy_timeout = 100; PRAGMA journal_mode = MEMORY')
  lock.exec('BEGIN EXCLUSIVE')
  const other = openDefault(`${disk.file}-tidemark-lock`)
  other.exec('PRAGMA busy_timeout = 0')
  expect(() => other.exec('BEGIN EXCLUSIVE')).toThrow()
  driver.loseLock()
  other.exec('BEGIN EXCLUSIVE')
  other.close()
  expect(existsSync(disk.file)).toBe(true)
})
