import { describe, expect, test } from 'vitest'
import { type BlockNumber, type BlockRef, blockNumber, hash } from './block.ts'
import { finalBlock, finalityRule, type Sighting, targetBlock } from './finality.ts'

const ref = (n: number, branch = 'a'): BlockRef => ({
  number: blockNumber(n),
  hash: hash(`0x${branch}${n.toString().padStart(63, '0')}`),
})
const seen = (head: number, finalized: number | null, more: Partial<Sighting> = {}): Sighting => ({
  head: ref(head),
  finalized: finalized === null ? null : ref(finalized),
  safe: null,
  tagSeen: finalized !== null,
  ...more,
})
const at = (n: number | null) => n as BlockNumber | null

describe('final', () => {
  test('a depth counts from the head; a chain shorter than it has nothing final', () => {
    const rule = finalityRule({ depth: 10 }, 0)
    expect(finalBlock(rule, seen(100, null), [])).toBe(90)
    expect(finalBlock(rule, seen(9, null), [])).toBe(null)
    expect(finalBlock(rule, seen(10, null), [])).toBe(0)
  })

  test('C30: the minimum depth holds whatever the tag says', () => {
    expect(finalBlock(finalityRule('tag', 64), seen(1000, 1000), [])).toBe(936)
    expect(finalBlock(finalityRule('tag', 64), seen(1000, 900), [])).toBe(900)
  })

  test('C40: a tag that never worked gives way to the configured depth, one that worked does not', () => {
    const rule = finalityRule({ fallbackDepth: 20 }, 0)
    expect(finalBlock(rule, seen(100, null), [])).toBe(80)
    expect(finalBlock(rule, seen(100, null, { tagSeen: true }), [])).toBe(null)
    expect(finalBlock(finalityRule('tag', 0), seen(100, null), [])).toBe(null)
  })

  test('a finalized block of another branch than ours does not count', () => {
    const rule = finalityRule('tag', 0)
    expect(finalBlock(rule, seen(100, 50), [ref(50, 'b')])).toBe(null)
    expect(finalBlock(rule, seen(100, 50), [ref(50, 'a')])).toBe(50)
    expect(finalBlock(rule, seen(100, 50), [ref(49, 'b')])).toBe(50)
  })
})

test('the target: one confirmation is the head itself, and a short chain has no target', () => {
  const view = seen(100, 60, { safe: ref(80) })
  expect(targetBlock('latest', view, at(60))).toBe(100)
  expect(targetBlock('safe', view, at(60))).toBe(80)
  expect(targetBlock('safe', seen(100, 60), at(60))).toBe(60)
  expect(targetBlock('finalized', view, at(60))).toBe(60)
  expect(targetBlock({ confirmations: 1 }, view, null)).toBe(100)
  expect(targetBlock({ confirmations: 6 }, view, null)).toBe(95)
  expect(targetBlock({ confirmations: 102 }, view, null)).toBe(null)
})
