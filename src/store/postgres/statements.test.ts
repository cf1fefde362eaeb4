import { describe, expect, test } from 'vitest'
import { leadingWords, nestedStatement, refusedWords } from './statements.ts'

const refused = (sql: string) => refusedWords(leadingWords(sql))
const nested = (sql: string) => nestedStatement(leadingWords(sql))

/** Spellings of a COMMIT that PostgreSQL runs. */
const HIDDEN = [
  'COMMIT',
  'commit;',
  '  \n\t CoMmIt ',
  '-- nothing here\nCOMMIT',
  '/* a /* nested */ comment */ COMMIT',
  'SELECT 1; COMMIT',
  ';;COMMIT',
  "SELECT 'a''b'; COMMIT",
  "SELECT E'\\''; COMMIT; --'",
  "SELECT 'it is \\'; COMMIT; --'",
  'SELECT $$ a $$; COMMIT',
  "SELECT $tag$ $$ ' $tag$; COMMIT",
  "SELECT $é$ ' $é$; COMMIT; --'",
  "SELECT $𝒳$ ' $𝒳$; COMMIT; --'",
  'SELECT "a;b""c"; COMMIT',
  'SELECT 1 AS a$b$; COMMIT; -- $b$',
  'SELECT U&"d\\0061t" FROM t; COMMIT',
  'SELECT 5/*x*/; COMMIT',
  'SELECT $1; COMMIT',
  'COMMIT /* and */ AND CHAIN',
  'END TRANSACTION',
  'ABORT; SELECT 1',
  "PREPARE TRANSACTION 'x'",
  "COMMIT PREPARED 'x'",
  'START TRANSACTION READ ONLY',
]

const SESSION = [
  'COPY t FROM STDIN',
  'LISTEN x',
  'UNLISTEN *',
  'DISCARD ALL',
  'RESET ALL',
  'PREPARE x AS SELECT 1',
  'SET search_path = x',
  'SET SESSION statement_timeout = 0',
  'SET TRANSACTION ISOLATION LEVEL SERIALIZABLE',
  'SET CONSTRAINTS ALL IMMEDIATE',
  'SET LOCAL "standard_conforming_strings" = off',
]

/** Texts that only look like it. */
const HARMLESS = [
  "SELECT 'COMMIT; ROLLBACK'",
  'SELECT 1 -- ; COMMIT',
  'SELECT 1 /* ; COMMIT /* ; */ ; COMMIT */',
  "SELECT $$; COMMIT $$, $x$ ; COMMIT $x$, E'\\'; COMMIT', \"; COMMIT\"",
  "INSERT INTO commits (begin) VALUES ('end')",
  'UPDATE t SET a = 1',
  'SET LOCAL statement_timeout = 0',
  'SET CONSTRAINTS mine IMMEDIATE',
  'DECLARE c CURSOR FOR SELECT 1',
  '',
]

describe('transaction control is found in every spelling, and nowhere else', () => {
  test.each([...HIDDEN, ...SESSION])('refused: %j', (sql) => {
    // A lone COMMIT is asked for as the end of a nested transaction first; there is none, so it is refused later.
    expect(refused(sql)).toBeDefined()
  })

  test.each(HARMLESS)('harmless: %j', (sql) => {
    expect(refused(sql)).toBeUndefined()
    expect(nested(sql)).toBeUndefined()
  })
})

describe('nested transactions as query builders send them', () => {
  test.each([
    ['begin', { verb: 'begin' }],
    ['START TRANSACTION', { verb: 'begin' }],
    ['begin work;', { verb: 'begin' }],
    ['commit', { verb: 'commit' }],
    ['END TRANSACTION', { verb: 'commit' }],
    ['rollback', { verb: 'rollback' }],
    ['savepoint sp1', { verb: 'savepoint', name: 'sp1' }],
    ['savepoint "Sp1"', { verb: 'savepoint', name: 'Sp1' }],
    ['release savepoint sp1', { verb: 'release', name: 'sp1' }],
    ['release "sp1"', { verb: 'release', name: 'sp1' }],
    ['rollback to savepoint sp1', { verb: 'rollback to', name: 'sp1' }],
    ['ROLLBACK TRANSACTION TO SAVEPOINT Sp1', { verb: 'rollback to', name: 'sp1' }],
  ])('%s', (sql, expected) => {
    expect(nested(sql)).toEqual(expected)
  })

  test.each([
    'begin isolation level serializable',
    'begin read only',
    'commit and chain',
    'begin; commit',
    'savepoint a b',
  ])('a savepoint cannot stand for: %s', (sql) => {
    expect(nested(sql)).toBeUndefined()
    expect(refused(sql)).toBeDefined()
  })
})
