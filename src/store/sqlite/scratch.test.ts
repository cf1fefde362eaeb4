import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openDefault } from './driver.ts'
import { ScratchDatabase, schemaOf } from './scratch.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tidemark-scratch-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const SCHEMA = `
  CREATE TABLE owners (id INTEGER PRIMARY KEY AUTOINCREMENT, account TEXT UNIQUE, made_at TEXT DEFAULT CURRENT_TIMESTAMP);
  CREATE TABLE "odd ""name" (token INTEGER PRIMARY KEY, owner INTEGER REFERENCES owners, note TEXT DEFAULT 'now or never');
  CREATE INDEX by_owner ON "odd ""name" (owner);
  CREATE VIEW names AS SELECT account FROM owners;
  CREATE TRIGGER keep BEFORE DELETE ON owners BEGIN SELECT RAISE(ABORT, 'kept'); END;
  CREATE TABLE tidemark_watchers (name TEXT);
  CREATE VIRTUAL TABLE found USING fts5(text);
  INSERT INTO owners (account) VALUES ('0xa');`

function writeFile(): string {
  const file = join(folder, 'data.db')
  const db = openDefault(file)
  db.exec('PRAGMA journal_mode = WAL')
  db.exec(SCHEMA)
  db.close()
  return file
}

test("the user's schema is copied without data, without Tidemark's tables, and the file stays as it is", () => {
  const file = writeFile()
  const before = readFileSync(file)
  const statements = schemaOf(file)
  expect(readFileSync(file).equals(before)).toBe(true)
  const copy = new ScratchDatabase(join(folder, 'copy.db'))
  for (const sql of statements) copy.database.exec(sql)
  expect(copy.tables().map(({ name, rows }) => [name, rows.length])).toEqual([
    ['found', 0],
    ['odd "name', 0],
    ['owners', 0],
  ])
  expect(
    copy
      .query("SELECT name FROM sqlite_schema WHERE type IN ('view', 'trigger') OR name = 'by_owner' ORDER BY name")
      .map(({ name }) => name),
  ).toEqual(['by_owner', 'keep', 'names'])
  copy.close()
})

test('a file that is not there is not made', () => {
  expect(() => schemaOf(join(folder, 'none.db'))).toThrow()
  expect(existsSync(join(folder, 'none.db'))).toBe(false)
})

test('what the database makes by itself is known, and what a column refers to', () => {
  const scratch = new ScratchDatabase(writeFile())
  const columns = Object.fromEntries(
    scratch.tables().flatMap(({ name, columns: all }) => all.map((column) => [`${name}.${column.name}`, column])),
  )
  expect(columns['owners.id']).toMatchObject({ key: 1, made: true })
  expect(columns['owners.made_at']).toMatchObject({ made: true })
  expect(columns['owners.account']).toMatchObject({ made: false })
  // A key without AUTOINCREMENT may be the user's own number.
  expect(columns['odd "name.token']).toMatchObject({ key: 1, made: false })
  expect(columns['odd "name.note']).toMatchObject({ made: false })
  expect(columns['odd "name.owner']).toMatchObject({ refersTo: { table: 'owners', column: 'id' } })
  scratch.close()
})
