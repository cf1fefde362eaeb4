import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { TidemarkError } from '../errors.ts'
import { MAX_DEPTH, MAX_ENTRIES, MAX_TEXT, redact, redactError, redactStack, redactText } from './redact.ts'

const KEY = 'k3yThatNobodyMaySee0123456789'

/** Texts as libraries write them, each with the key in another place. */
const leaks: readonly string[] = [
  `request to https://eth.example/v3/${KEY} failed`,
  `HTTPS://ETH.EXAMPLE/v2/${KEY}`,
  `wss://node.example/ws?apikey=${KEY},retrying`,
  `connect postgres://admin:${KEY}@db.example:5432/app`,
  `{"url":"https:\\/\\/eth.example\\/${KEY}"}`,
  `{"url":"https://eth.example/${KEY}","code":1}`,
  `redirect=https%3A%2F%2Feth.example%2F${KEY}`,
  `(https://eth.example/${KEY})`,
  `https://user:pa"ss${KEY}@eth.example`,
  `admin:${KEY}@db.example refused`,
  `POST eth-mainnet.example.com/v2/${KEY} 429`,
  `password=${KEY}`,
  `"api_key": "${KEY}"`,
  `Authorization: Bearer ${KEY}`,
  `authorization: Basic ${KEY}==`,
  `secret = '${KEY}'`,
  `getaddrinfo ENOTFOUND ${KEY}.quick.example`,
  `first line\nhttps://eth.example/${KEY}\nlast line`,
]

function nestings(text: string): unknown[] {
  const error = new Error(text, { cause: Object.assign(new TypeError(text), { code: 'ECONNREFUSED' }) })
  const getter = Object.defineProperty({}, 'text', { enumerable: true, get: () => text })
  return [
    text,
    [text],
    { text },
    { [text]: 1 },
    { a: [{ b: text }] },
    error,
    { error },
    { cause: { cause: text } },
    getter,
  ]
}

describe('no form of a URL or credential gets through (P12)', () => {
  test.each(leaks)('%s', (text) => {
    for (const value of nestings(text)) expect(JSON.stringify(redact(value))).not.toContain(KEY)
    expect(redactStack(`Error: ${text}\n    at f (https://eth.example/${KEY}:1:1)`)).not.toContain(KEY)
  })

  test('control: the texts do hold the key, and ordinary text stays as it is', () => {
    for (const text of leaks) expect(text).toContain(KEY)
    const fine =
      'watcher deposits/ethereum at 0xabcdef0123456789abcdef0123456789: block 5, ratio 1:2, file src/app/cli/main.ts'
    expect(redactText(fine)).toBe(fine)
  })

  test('wherever a URL stands in a text, however long the text is', () => {
    const words = fc.string({ maxLength: 3_000 })
    fc.assert(
      fc.property(words, fc.constantFrom('https', 'ws', 'postgres', 'mysql+ssh'), words, (before, scheme, after) => {
        const text = redactText(`${before} ${scheme}://node.example/${KEY} ${after}`)
        expect(text).not.toContain(KEY)
        expect(text.length).toBeLessThanOrEqual(MAX_TEXT + 1)
      }),
    )
  })

  test('a text that is cut does not keep half of a password', () => {
    const text = `${'x'.repeat(4 * MAX_TEXT - 10)} a:${KEY}@host.example`
    expect(redactText(text, MAX_TEXT)).not.toContain(KEY.slice(0, 5))
  })

  test('what names call a secret is hidden whatever it looks like', () => {
    const names = [
      'password',
      'apiKey',
      'api_key',
      'authorization',
      'url',
      'databaseUrl',
      'clientSecret',
      'private_key',
      'token',
      'mnemonic',
    ]
    const shown = redact(Object.fromEntries(names.map((name) => [name, KEY])))
    expect(Object.values(shown as object)).toEqual(names.map(() => '<secret>'))
  })

  test('bytes, URL objects and functions are named, not shown', () => {
    const shown = redact({
      bytes: new Uint8Array(16),
      at: new URL('https://a.example/k'),
      f: () => KEY,
      map: new Map([[KEY, 1]]),
    })
    expect(shown).toEqual({ bytes: '<16 bytes>', at: '<url>', f: '<function>', map: '<1 entries>' })
  })
})

describe('what is printed is bounded and cannot harm the terminal', () => {
  test('a circle ends', () => {
    const circle: Record<string, unknown> = {}
    circle.self = circle
    const error = new Error('round') as Error & { cause: unknown }
    error.cause = error
    expect(JSON.stringify(redact(circle)).length).toBeLessThan(100)
    expect(JSON.stringify(redact(error))).toContain('<…>')
  })

  test('depth and number of entries', () => {
    let deep: unknown = 'bottom'
    for (let i = 0; i <= MAX_DEPTH; i++) deep = { deep }
    expect(JSON.stringify(redact(deep))).not.toContain('bottom')
    expect(redact(Array.from({ length: 1_000 }, (_, i) => i))).toHaveLength(MAX_ENTRIES)
  })

  test('control characters of a node are no commands to a terminal and no second log line', () => {
    expect(redactText('a\u001b[2Jb\r\nfake line\u009bc\u2028d')).toBe('a [2Jb fake line c d')
  })

  test('a getter that throws does not take the line with it', () => {
    const hostile = Object.defineProperty({ fine: 1 }, 'bad', {
      enumerable: true,
      get: () => {
        throw new Error('no')
      },
    })
    expect(redact(hostile)).toEqual({ fine: 1, bad: '<unreadable>' })
  })

  test('numbers that JSON does not know', () => {
    expect(redact({ big: 2n ** 70n, nan: Number.NaN, at: new Date(Number.NaN) })).toEqual({
      big: (2n ** 70n).toString(),
      nan: 'NaN',
      at: '<no date>',
    })
  })
})

describe('errors', () => {
  test('one of ours keeps code, sentence and values, and names its causes by class and code', () => {
    const cause = Object.assign(new TypeError(`fetch https://a.example/${KEY}`), { code: 'UND_ERR_SOCKET' })
    const error = new TidemarkError('RPC_UNREACHABLE', 'No node answered', { values: { chain: 'ethereum' }, cause })
    expect(redactError(error)).toEqual({
      code: 'RPC_UNREACHABLE',
      sentence: 'No node answered',
      values: { chain: 'ethereum' },
      cause: { class: 'TypeError', code: 'UND_ERR_SOCKET', sentence: 'fetch <url>' },
    })
  })

  test('a code that is a sentence is none', () => {
    expect(redactError(Object.assign(new Error('x'), { code: `see ${KEY} there` })).code).toBeUndefined()
  })
})
