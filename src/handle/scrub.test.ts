import { expect, test } from 'vitest'
import { scrub } from './failure.ts'

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
