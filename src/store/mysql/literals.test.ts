import fc from 'fast-check'
import type { Connection } from 'mysql2/promise'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connectToServer, describeMysql } from '../../../test/support/mysql.ts'
import { ownStatement } from './driver.ts'
import { bind, chunks, isStorableText, literal, type SqlValue } from './literals.ts'
import { Names } from './names.ts'
import { type Row, readBytes, readNumber, readText } from './values.ts'

const MODES = ['', 'NO_BACKSLASH_ESCAPES', 'ANSI_QUOTES,PIPES_AS_CONCAT', 'ORACLE', 'SIMULTANEOUS_ASSIGNMENT']
const CHARSETS = ['utf8mb4', 'latin1', 'gbk', 'sjis']

describe('statements are cut and filled', () => {
  test('names get their prefix and quotes', () => {
    expect(new Names('live_').fill('SELECT a FROM {watchers} WHERE {x} = 1')).toBe(
      'SELECT a FROM `live_watchers` WHERE `live_x` = 1',
    )
  })

  test('another number of values than places is an error of ours', () => {
    expect(() => bind(['a', 'b'], [])).toThrow(TypeError)
    expect(
      bind(
        ['a ', ' b ', ''],
        [
          1,
          [
            [2, null],
            ['x', 3n],
          ],
        ],
      ),
    ).toBe("a 1 b (2,NULL),(_utf8mb4 X'78',3)")
  })

  test('what is no whole number is refused', () => {
    for (const value of [0.5, Number.NaN, 2 ** 53, Number.POSITIVE_INFINITY])
      expect(() => literal(value)).toThrow(RangeError)
  })

  test('rows are cut into pieces of bounded rows and length, in order, and none is lost', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 600_000 }), { maxLength: 40 }), (sizes) => {
        const rows = sizes.map((size, i): SqlValue[] => [i, 'x'.repeat(size)])
        const pieces = chunks(rows)
        expect(pieces.flat()).toEqual(rows)
        for (const piece of pieces) {
          const length = piece.reduce((sum, [, text]) => sum + 2 * String(text).length, 0)
          expect(piece.length === 1 || length <= 1_000_000).toBe(true)
        }
      }),
      { numRuns: 30 },
    )
    expect(chunks(Array.from({ length: 2_500 }, (_, i) => [i])).map((piece) => piece.length)).toEqual([
      1_000, 1_000, 500,
    ])
    expect(chunks([])).toEqual([])
  })
})

describeMysql('values on mysql', (test) => {
  let connection: Connection
  beforeAll(async () => {
    connection = await connectToServer()
  })
  afterAll(() => connection.end())

  async function echo(...values: SqlValue[]): Promise<Row> {
    const sql = `SELECT ${values.map((value, i) => `${literal(value)} AS v${i}`).join(', ')}`
    const [rows] = await connection.query(ownStatement(sql))
    return (rows as Row[])[0] ?? {}
  }

  test('each value comes back as it was, under every sql_mode and character set of the connection', async () => {
    const text = fc.string({ unit: 'binary' }).filter(isStorableText)
    const awkward = fc.constantFrom("'", '\\', "\\'", '\0', '"', '\u00bf\\', '\u0080\u005c', '😀', '-- ', '/*', ';')
    const texts = fc.oneof(
      text,
      awkward,
      fc.tuple(text, awkward, text).map((parts) => parts.join('')),
    )
    const setting = fc.tuple(fc.constantFrom(...MODES), fc.constantFrom(...CHARSETS))
    await fc.assert(
      fc.asyncProperty(
        setting,
        texts,
        fc.uint8Array(),
        fc.maxSafeInteger(),
        async ([mode, charset], given, bytes, n) => {
          await connection.query(`SET sql_mode = '${mode}', character_set_client = ${charset}`)
          const row = await echo(given, bytes, n)
          expect(readText(row, 'v0')).toBe(given)
          expect(readBytes(row, 'v1')).toEqual(bytes)
          expect(readNumber(row, 'v2')).toBe(n)
        },
      ),
      { numRuns: 150 },
    )
  })
})
