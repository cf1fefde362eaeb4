import { describe, expect, test } from 'vitest'
import { TidemarkError } from '../errors.ts'
import { framesOf, scrub } from './failure.ts'

const args = {
  to: '0xAbCdef0123456789abcdef0123456789ABCDEF01',
  amount: 1_234_567n,
  list: [{ note: 'pay (now)' }],
  flag: true,
}

test.each([
  ['an address in any case', 'no 0xabcdef0123456789abcdef0123456789abcdef01', 'no <argument>'],
  ['an address without 0x', 'ABCDEF0123456789ABCDEF0123456789ABCDEF01!', '<argument>!'],
  ['a number', '1234567 is too much', '<argument> is too much'],
  ['a number in hex', '0x12d687 and 12D687', '0x<argument> and <argument>'],
  [
    'a number in groups',
    "1,234,567 1_234_567 1.234.567 1'234'567 1 234 567",
    '<argument> <argument> <argument> <argument> <argument>',
  ],
  ['a text inside a list, with characters that patterns use', 'cannot pay (now)', 'cannot <argument>'],
])('%s does not get out with an error (P12)', (_what, message, clean) => {
  expect(scrub(new Error(message), args)).toBe(`Error: ${clean}`)
})

test('an argument too long for a pattern is hidden, and does not end in an error of its own', () => {
  for (const long of ['x'.repeat(300_000), `0x${'ab'.repeat(200_000)}`]) {
    expect(scrub(new Error(`bad ${long}!`), { long })).toBe('Error: bad <argument>!')
  }
})

test('control: what is no argument stays', () => {
  expect(scrub(new Error('no such table: deposits_123'), args)).toBe('Error: no such table: deposits_123')
})

describe('where an error was thrown, for the log at level debug', () => {
  const failed = (cause: unknown) => new TidemarkError('HANDLER_FAILED', 'The handle function threw', { cause })
  const SECRET = '0xabcdef0123456789abcdef0123456789abcdef01'

  test('file, line and function of the user, a dozen at most', () => {
    function creditAccount(): never {
      throw new Error('boom')
    }
    let thrown: unknown
    try {
      creditAccount()
    } catch (error) {
      thrown = error
    }
    const frames = framesOf(failed(thrown))
    expect(frames[0]).toMatch(/^creditAccount \(\S*scrub\.test\.ts:\d+:\d+\)$/)
    expect(frames.length).toBeGreaterThan(1)
    const deep = (n: number): unknown => (n === 0 ? new Error('deep') : [deep(n - 1)][0])
    Error.stackTraceLimit = 50
    expect(framesOf(failed(deep(40)))).toHaveLength(12)
    Error.stackTraceLimit = 10
  })

  test('the message is never among them, whatever its lines look like (P12)', () => {
    const lines = `no\n    at ${SECRET} (/app/x.ts:1:2)\n    at pay (${SECRET}:1:2)\nno`
    for (const error of [new Error(lines), new TypeError(lines), new Error(`${lines}\n${lines}`)]) {
      const frames = framesOf(failed(error))
      expect(frames.length).toBeGreaterThan(0)
      expect(frames.join()).not.toContain(SECRET)
    }
    // A message that was changed afterwards can no longer be told from the frames.
    const changed = new Error(lines)
    expect(changed.stack).toContain(SECRET)
    changed.message = 'changed'
    expect(framesOf(failed(changed))).toEqual([])
  })

  test('a name or a place that holds an argument, a key or a URL is hidden', () => {
    const at = (line: string) => framesOf(failed(Object.assign(new Error('m'), { stack: `Error: m\n    at ${line}` })))
    expect(at(`Object.${SECRET} (/app/x.ts:1:2)`)).toEqual(['Object.<hex> (/app/x.ts:1:2)'])
    expect(at('pay (https://host/v3/key:1:2)')).toEqual(['pay (<url>)'])
    expect(at('file:///app/x.ts:1:2')).toEqual(['/app/x.ts:1:2'])
    for (const odd of ['<anonymous>', 'eval at x (y)', `pay "${SECRET}" (/a:1:2)`, 'native'])
      expect(at(odd)).toEqual([])
  })

  test('a thrown value that is no error has only the frames of Tidemark’s own', () => {
    expect(framesOf(failed('text')).join()).toContain('scrub.test.ts')
  })
})
