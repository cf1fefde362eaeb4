import { describe, expect, test } from 'vitest'
import { hasWrongChecksum } from './checksum.ts'

/** The test cases of EIP-55 itself: all capitals, all small, and mixed. */
const CAPITALS = ['0x52908400098527886E0F7030069857D2E4169EE7', '0x8617E340B3D01FA5F11F306F4090FD50E238070D']
const SMALL = ['0xde709f2102306220921060314715629080e2fb77', '0x27b1fdb04752bbc536007a920d24acb045561c26']
const MIXED = [
  '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed',
  '0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359',
  '0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB',
  '0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb',
]

const ALL = [...CAPITALS, ...SMALL, ...MIXED]

/** Replaces one character, keeping the case of the others. */
function slip(text: string, at: number): string {
  const digit = text.charAt(at)
  const other = digit === '7' ? '8' : '7'
  return text.slice(0, at) + other + text.slice(at + 1)
}

const swapCase = (letter: string) => (letter === letter.toUpperCase() ? letter.toLowerCase() : letter.toUpperCase())

describe('the checksum of EIP-55', () => {
  test.each(ALL)('%s is right', (text) => {
    expect(hasWrongChecksum(text)).toBe(false)
  })

  test.each(MIXED)('%s in one case, whatever its prefix, claims no checksum', (text) => {
    for (const one of [text.toLowerCase(), text.toUpperCase(), `0x${text.slice(2).toUpperCase()}`])
      expect(hasWrongChecksum(one)).toBe(false)
  })

  test.each(MIXED)('%s with one letter in the other case is wrong', (text) => {
    const letters = [...text].flatMap((letter, at) => (at > 1 && /[a-f]/i.test(letter) ? [at] : []))
    for (const at of letters) {
      expect(hasWrongChecksum(text.slice(0, at) + swapCase(text.charAt(at)) + text.slice(at + 1))).toBe(true)
    }
  })

  test('nearly every slip of one character is found', () => {
    const slips = MIXED.flatMap((text) => Array.from({ length: 40 }, (_, i) => slip(text, i + 2)))
    expect(slips.filter(hasWrongChecksum).length / slips.length).toBeGreaterThan(0.99)
  })

  test('what is no address is not judged here', () => {
    for (const text of ['', '0x', 'vitalik.eth', `${MIXED[0]}0`, MIXED[0]?.slice(2) ?? '']) {
      expect(hasWrongChecksum(text)).toBe(false)
    }
  })
})
