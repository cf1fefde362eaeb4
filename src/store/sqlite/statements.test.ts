import { describe, expect, test } from 'vitest'
import { openDefault } from './driver.ts'
import { changesSchema, controlWord, firstWords } from './statements.ts'

describe('transaction control is found wherever it begins a statement', () => {
  const control = [
    'COMMIT',
    'commit;',
    ' \n\t END TRANSACTION',
    '-- a comment\nROLLBACK',
    '/* one */ /* two */ SAVEPOINT x',
    ';;RELEASE x',
    'SELECT 1; COMMIT',
    "INSERT INTO t VALUES ('a;b'); COMMIT",
    "SELECT 'it''s'; BEGIN",
    'SELECT "a""b"; BEGIN IMMEDIATE',
    "SELECT `a`; ATTACH 'x' AS y",
    'SELECT [a]; DETACH y',
    'PRAGMA synchronous = OFF',
    'vacuum',
    '\ufeffCOMMIT',
    "SELECT $a('); COMMIT; --'",
    "SELECT @a(x'); COMMIT; --'",
    'SELECT 1 /* open; comment */; COMMIT',
    'CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END; COMMIT',
    'CREATE TEMP TRIGGER g AFTER INSERT ON t BEGIN SELECT CASE WHEN 1 THEN 2 END; SELECT 1; END; COMMIT',
  ]
  test.each(control)('%s', (sql) => {
    expect(controlWord(firstWords(sql))).toBeDefined()
  })
})

describe('what only looks like transaction control is let through', () => {
  const harmless = [
    '',
    '-- COMMIT',
    "SELECT 'a'; -- COMMIT",
    "SELECT '; COMMIT'",
    'SELECT "commit" FROM t',
    'SELECT 1 AS "; COMMIT"',
    '/* ; COMMIT; */ SELECT 1',
    'SELECT [; COMMIT]',
    'SELECT `; COMMIT`',
    'UPDATE t SET "end" = 1',
    'SELECT CASE WHEN 1 THEN 2 END',
    'INSERT INTO commits VALUES (1)',
    'CREATE TRIGGER g AFTER INSERT ON t BEGIN UPDATE t SET n = 1; DELETE FROM t; END',
    'CREATE TEMPORARY TRIGGER g AFTER INSERT ON t BEGIN SELECT CASE WHEN 1 THEN 2 END; END;',
    'REPLACE INTO t VALUES (1)',
  ]
  test.each(harmless)('%s', (sql) => {
    expect(controlWord(firstWords(sql))).toBeUndefined()
  })
})

describe("SQLite's own view of the odd ones", () => {
  test('a bracket after a parameter belongs to its name, so the quote in it opens no string', () => {
    const db = openDefault(':memory:')
    db.exec('BEGIN')
    db.exec("SELECT $a('); COMMIT; --'")
    expect(db.isTransaction).toBe(false) // it did commit: the reader must see it
    db.close()
  })

  test('a very long string costs no stack', () => {
    expect(firstWords(`SELECT '${'x'.repeat(2_000_000)}'; COMMIT`)).toEqual(['SELECT', 'COMMIT'])
  })
})

test('changes of the schema are known by their word', () => {
  expect(changesSchema(firstWords('SELECT 1; DROP TABLE t'))).toBe(true)
  expect(changesSchema(firstWords("INSERT INTO t VALUES ('DROP')"))).toBe(false)
})
