import { describe, expect, test } from 'vitest'
import { TidemarkError } from '../../errors.ts'
import { commitError, isConnectionLost, isConstraint, storeError, surroundingsError } from './mysql-errors.ts'

/** An error as the driver makes it for an answer of the server. */
const fromServer = (errno: number, sqlState: string) =>
  Object.assign(new Error('in whatever language'), { errno, sqlState, code: 'ER_SOMETHING', sql: 'SELECT secret' })

const fromNetwork = (code: string) => Object.assign(new Error('gone'), { code, fatal: true })

const codeOf = (error: unknown) => (TidemarkError.is(error) ? error.code : 'unchanged')

describe('what an error of the server means', () => {
  test.each([
    [1213, '40001', 'STORE_BUSY'],
    [1205, 'HY000', 'STORE_BUSY'],
    [1969, '70100', 'STORE_BUSY'],
    [1290, 'HY000', 'STORE_READ_ONLY'],
    [1792, '25006', 'STORE_READ_ONLY'],
    [1114, 'HY000', 'STORE_FULL'],
    [1040, '08004', 'STORE_FAILED'],
    [1146, '42S02', 'STORE_FAILED'],
    [1062, '23000', 'STORE_FAILED'],
  ])('%s %s: %s', (errno, state, code) => {
    const error = storeError(fromServer(errno, state))
    expect(codeOf(error)).toBe(code)
    // The driver hangs the statement with its values on it (P12).
    expect((error as TidemarkError).cause).not.toHaveProperty('sql')
  })

  test('a COMMIT is known to have failed only when the server said so; else only the database can tell', () => {
    expect(codeOf(commitError(fromServer(1213, '40001')))).toBe('STORE_BUSY')
    expect(codeOf(commitError(fromServer(1836, 'HY000')))).toBe('STORE_READ_ONLY')
    for (const unknown of [fromServer(1180, 'HY000'), fromServer(1317, '70100'), fromServer(1927, '70100')])
      expect(codeOf(commitError(unknown))).toBe('COMMIT_UNKNOWN')
    for (const code of ['PROTOCOL_CONNECTION_LOST', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT'])
      expect(codeOf(commitError(fromNetwork(code)))).toBe('COMMIT_UNKNOWN')
    expect(codeOf(commitError(new Error('something else')))).toBe('COMMIT_UNKNOWN')
  })

  test('a lost connection is known, whoever says it', () => {
    expect(isConnectionLost(fromNetwork('ECONNRESET'))).toBe(true)
    expect(isConnectionLost(fromServer(1927, '70100'))).toBe(true)
    expect(isConnectionLost(Object.assign(new Error('closed state'), { fatal: true }))).toBe(true)
    expect(isConnectionLost(fromServer(1062, '23000'))).toBe(false)
  })

  test("a statement's own failure is no failure of the surroundings, and errors of others pass unchanged", () => {
    expect(surroundingsError(fromServer(1062, '23000'))).toBeUndefined()
    expect([isConstraint(fromServer(1062, '23000')), isConstraint(fromServer(1264, '22003'))]).toEqual([true, true])
    expect(isConstraint(fromServer(1146, '42S02'))).toBe(false)
    const other = new RangeError('mine')
    expect(storeError(other)).toBe(other)
  })
})
