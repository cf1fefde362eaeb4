import { describe, expect, test } from 'vitest'
import { TidemarkError } from '../../errors.ts'
import { isConstraint, LostConnection, saysRolledBack, sqlState, storeError, surroundingsError } from './pg-errors.ts'

/** An error as `pg` gives it, in a language nobody here reads. */
const answer = (code: string) => Object.assign(new Error('ein Fehler'), { code, severity: 'FEHLER' })

const codes: readonly (readonly [sqlstate: string, code: string, surroundings: boolean])[] = [
  ['40001', 'STORE_BUSY', true],
  ['40P01', 'STORE_BUSY', true],
  ['55P03', 'STORE_BUSY', true],
  ['57014', 'STORE_BUSY', true],
  ['53100', 'STORE_FULL', true],
  ['25006', 'STORE_READ_ONLY', true],
  ['53300', 'STORE_FAILED', true],
  ['57P01', 'STORE_FAILED', true],
  ['57P03', 'STORE_FAILED', true],
  ['08006', 'STORE_FAILED', true],
  ['58030', 'STORE_FAILED', true],
  ['42P01', 'STORE_FAILED', false],
  ['23505', 'STORE_FAILED', false],
  ['25P02', 'TRANSACTION_LOST', false],
]

describe('errors are known by SQLSTATE and errno, never by their English', () => {
  test.each(codes)('%s is %s', (sqlstate, code, surroundings) => {
    expect(storeError(answer(sqlstate))).toMatchObject({ code, values: { sqlstate } })
    expect(surroundingsError(answer(sqlstate)) !== undefined).toBe(surroundings)
  })

  test.each(['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENOENT'])(
    '%s is a lost connection, though it is five letters and more',
    (code) => {
      expect(sqlState(answer(code))).toBeUndefined()
      expect(storeError(answer(code))).toMatchObject({ code: 'STORE_FAILED', kind: 'retries' })
    },
  )

  test('what is not of the database comes back as it was', () => {
    const own = new TypeError('mine')
    expect(storeError(own)).toBe(own)
    const ours = new TidemarkError('FENCED', 'x')
    expect(storeError(ours)).toBe(ours)
    expect(surroundingsError(own)).toBeUndefined()
  })

  test('query builders wrap: the code is found inside, and Prisma puts it into meta', () => {
    expect(sqlState(new Error('Failed query', { cause: answer('40P01') }))).toBe('40P01')
    expect(sqlState(Object.assign(new Error('raw query failed'), { code: 'P2010', meta: { code: '23505' } }))).toBe(
      '23505',
    )
    expect(isConstraint(new Error('wrapped', { cause: answer('23503') }))).toBe(true)
  })

  test('messages hold no values of statements (P12)', () => {
    const error = Object.assign(answer('23505'), { detail: 'Key (account)=(alice) already exists.' })
    expect((storeError(error) as Error).message).not.toContain('alice')
  })
})

describe('an error of COMMIT', () => {
  test.each(['40001', '40P01', '23505', '23503', '22003', 'P0001', '55P03', '25P02'])('%s: rolled back', (code) => {
    expect(saysRolledBack(answer(code))).toBe(true)
  })

  test.each(['40003', '08007', '08006', '57P01', '57P02', '57014', '53100', '58030', 'XX000', 'ECONNRESET'])(
    '%s: nobody knows',
    (code) => {
      expect(saysRolledBack(answer(code))).toBe(false)
    },
  )

  test('a lost connection: nobody knows, whatever it was lost with', () => {
    expect(saysRolledBack(new LostConnection(answer('40001')))).toBe(false)
    expect(saysRolledBack(new Error('no code'))).toBe(false)
  })
})
