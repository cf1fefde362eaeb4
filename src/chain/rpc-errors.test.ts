import { existsSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import {
  asksForSmaller,
  isProviderFault,
  type Meaning,
  type RpcFailure,
  readRefusal,
  refusalError,
} from './rpc-errors.ts'

interface Recorded {
  readonly httpStatus: number | null
  readonly body: { readonly code?: number; readonly message: string; readonly data?: unknown }
  readonly meaning: Meaning
  readonly hint: Readonly<Record<string, string | number>> | null
}

const file = new URL('../../../shared/cases/rpc-errors.json', import.meta.url)
const recorded: readonly Recorded[] = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : []

function failureOf({ body, httpStatus }: Recorded): RpcFailure {
  return { ...body, ...(httpStatus === null ? {} : { status: httpStatus }) }
}

test('real refusals mean what they mean', () => {
  if (recorded.length === 0) return console.warn('NOT RUN: ../shared/cases/rpc-errors.json is missing')
  const wrong = recorded.filter((one) => readRefusal(failureOf(one)).meaning !== one.meaning)
  console.log(`refusals: ${recorded.length - wrong.length} of ${recorded.length} understood`)
  expect(wrong.map((one) => [one.body.message, one.meaning, readRefusal(failureOf(one)).meaning])).toEqual([])
})

test('C11: real hints are found, wherever they stand', () => {
  if (recorded.length === 0) return console.warn('NOT RUN: ../shared/cases/rpc-errors.json is missing')
  for (const one of recorded) {
    const { hint } = readRefusal(failureOf(one))
    if (one.hint?.from)
      expect(hint, one.body.message).toMatchObject({ from: Number(one.hint.from), to: Number(one.hint.to) })
    const limit = one.hint?.maxSpan ?? one.hint?.maxAddresses ?? one.hint?.maxBatch
    if (limit) expect(hint.limit, one.body.message).toBe(limit)
    if (one.hint?.backoffSeconds) expect(hint.waitMs).toBe(Number(one.hint.backoffSeconds) * 1000)
  }
})

describe('what follows from a meaning', () => {
  test('a rate limit never makes requests smaller; an honest fault of the caller is not retried smaller', () => {
    for (const failure of [
      { code: -32005, message: 'daily request count exceeded, request rate limited' },
      { code: -32602, message: 'invalid address' },
      { message: '', status: 429 },
    ]) {
      expect(asksForSmaller(readRefusal(failure))).toBe(false)
    }
    expect(
      asksForSmaller(readRefusal({ code: -32602, message: 'invalid params', data: 'range 100 exceeds limit of 10' })),
    ).toBe(true)
  })

  test('another provider is asked for faults of this one, not for faults of the request', () => {
    const fault = (failure: RpcFailure) => isProviderFault(refusalError('rpc[0]', 'eth_getLogs', failure))
    expect(fault({ message: '', meaning: 'unreachable' })).toBe(true)
    expect(fault({ code: -32601, message: 'Method not found' })).toBe(true)
    expect(fault({ code: -32000, message: 'unknown block' })).toBe(false)
    expect(fault({ code: -32005, message: 'query returned more than 10000 results' })).toBe(false)
  })

  test('P12: the words of the server are in no message', () => {
    const error = refusalError('rpc[0]', 'eth_getLogs', {
      code: -32000,
      message: 'key abc123secret at https://node.example/abc123secret',
    })
    expect(`${error.message} ${JSON.stringify(error.values)}`).not.toMatch(/abc123secret|example/)
  })
})
