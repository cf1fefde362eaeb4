import { describe, expect, test } from 'vitest'
import { controlOf, statementsOf } from './statements.ts'

const kinds = (sql: string) => [...new Set(statementsOf(sql).map(({ kind }) => kind))]

const REFUSED = [
  'COMMIT',
  'commit;',
  '  \n\t/* a */ -- b\n # c\n COMMIT WORK',
  'COMMIT AND CHAIN',
  'ROLLBACK TO x',
  'START TRANSACTION READ ONLY',
  'BEGIN NOT ATOMIC COMMIT; END',
  'IF 1 THEN COMMIT; END IF',
  'lbl: LOOP COMMIT; LEAVE lbl; END LOOP',
  'SELECT 1; COMMIT',
  "SELECT ';'; COMMIT",
  'SELECT 1 -- x\n; COMMIT',
  'SELECT 1 --x\n; COMMIT',
  '/*! COMMIT */',
  '/*!50000 COMMIT */',
  '/*M! COMMIT */',
  'SELECT 1 /*!; COMMIT */',
  'SET autocommit = 1',
  'SET @a = 1, autocommit = 1',
  'SET @a = (SELECT 1, 2), SESSION autocommit = 1',
  'SET @@autocommit = 1',
  'SET SESSION TRANSACTION READ ONLY',
  'SET STATEMENT max_statement_time = 1 FOR COMMIT',
  'XA START "x"',
  'LOCK TABLES a WRITE',
  'UNLOCK TABLES',
  'CREATE TABLE a (b INT)',
  'CREATE TABLE temporary (b INT)',
  'DROP TABLE a',
  'ALTER TABLE a ADD b INT',
  'TRUNCATE a',
  'ANALYZE TABLE a',
  "EXECUTE IMMEDIATE 'COMMIT'",
  "PREPARE s FROM 'COMMIT'",
  'EXECUTE s',
  'FLUSH TABLES',
  'GRANT ALL ON *.* TO a',
  'LOAD DATA INFILE "a" INTO TABLE b',
  'RELEASE SAVEPOINT tidemark_handler',
]

/** How the text reads depends on the session's `sql_mode`: refused, since in one of the readings it commits. */
const DOUBTFUL = ["SELECT '\\'; COMMIT; -- '", 'SELECT "\\"; COMMIT; -- "', "SELECT 'a\\\\'; COMMIT"]

const ALLOWED: readonly (readonly [sql: string, kind: string])[] = [
  ['SELECT 1', 'read'],
  ["SELECT 'COMMIT; ROLLBACK'", 'read'],
  ["SELECT 'it''s; COMMIT'", 'read'],
  ['SELECT "COMMIT;" AS `;COMMIT`', 'read'],
  ['SELECT 1 /* ; COMMIT */', 'read'],
  ['SELECT 1 # ; COMMIT', 'read'],
  ['SELECT 1 -- ; COMMIT', 'read'],
  ['(SELECT 1) UNION (SELECT 2)', 'read'],
  ['WITH a AS (SELECT 1) SELECT * FROM a', 'read'],
  ['SELECT * FROM a FOR UPDATE', 'read'],
  ['SHOW WARNINGS', 'read'],
  ['DO 1', 'read'],
  ['SET @a = 1', 'read'],
  ['SET @a := f(1, 2), @b = 3;', 'read'],
  ['INSERT INTO a VALUES (1)', 'write'],
  ['UPDATE a SET commit = 1', 'write'],
  ['/* x */ DELETE FROM a', 'write'],
  ['REPLACE INTO a VALUES (1)', 'write'],
  ['CREATE TEMPORARY TABLE a (b INT)', 'write'],
  ['DROP TEMPORARY TABLE a', 'write'],
  ['CALL f()', 'opaque'],
]

describe('what a statement does to the transaction', () => {
  test.each(REFUSED)('refused: %s', (sql) => expect(kinds(sql)).toContain('refused'))
  test.each(DOUBTFUL)('refused, since it depends on sql_mode: %s', (sql) => expect(kinds(sql)).toContain('refused'))
  test.each(ALLOWED)('%s', (sql, kind) => expect(kinds(sql)).toEqual([kind]))

  test('an empty text holds no statement', () => expect(statementsOf(' ; /* */ ;')).toEqual([]))

  test('what Drizzle and Kysely send for nested transactions is known, and nothing else is', () => {
    expect(controlOf('begin')).toMatchObject({ verb: 'begin' })
    expect(controlOf('START TRANSACTION ;')).toMatchObject({ verb: 'begin' })
    expect(controlOf('savepoint sp1')).toEqual({ verb: 'savepoint', name: 'sp1' })
    expect(controlOf('release savepoint `sp1`')).toEqual({ verb: 'release', name: 'sp1' })
    expect(controlOf('rollback to savepoint sp1')).toEqual({ verb: 'rollback-to', name: 'sp1' })
    expect(controlOf('rollback to `sp1`')).toEqual({ verb: 'rollback-to', name: 'sp1' })
    for (const sql of [
      'commit and chain',
      'begin; commit',
      'start transaction read only',
      'select 1',
      'rollback and release',
    ])
      expect(controlOf(sql)).toBeUndefined()
  })
})
