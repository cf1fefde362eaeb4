import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type BlockRef, blockNumber, type Hash, hash } from './block.ts'
import { commonAncestor, linkedPrefix, orphaned } from './reorg.ts'

const block = (n: number, branch: string): BlockRef & { parentHash: Hash } => ({
  number: blockNumber(n),
  hash: hash(`0x${branch}${n.toString().padStart(63, '0')}`),
  parentHash: hash(
    `0x${branch}${Math.max(0, n - 1)
      .toString()
      .padStart(63, '0')}`,
  ),
})

function search(trail: readonly BlockRef[], chain: (n: number) => Hash | null): BlockRef | null {
  const known = new Map<number, Hash | null>()
  for (let rounds = 0; rounds < 1000; rounds++) {
    const found = commonAncestor(trail, known, 4)
    if (found.kind === 'found') return found.block
    if (found.kind === 'none') return null
    expect(found.numbers.length).toBeGreaterThan(0)
    for (const n of found.numbers) known.set(n, chain(n))
  }
  throw new Error('the search does not end')
}

test('property: the ancestor is the newest remembered block below the fork, for any trail, fork and head', () => {
  const seed = 20240601
  fc.assert(
    fc.property(fc.uniqueArray(fc.nat(300), { maxLength: 60 }), fc.nat(300), fc.nat(400), (heights, fork, head) => {
      const trail = heights.sort((a, b) => b - a).map((n) => block(n, 'a'))
      const chain = (n: number) => (n > head ? null : block(n, n <= fork ? 'a' : 'b').hash)
      const naive = Math.max(-1, ...heights.filter((n) => n <= fork && n <= head))
      expect(search(trail, chain)?.number ?? -1).toBe(naive)
      const given = orphaned(trail, naive < 0 ? null : block(naive, 'a'))
      expect(given.map((one) => one.number)).toEqual(heights.filter((n) => n > naive).sort((a, b) => a - b))
    }),
    { seed, numRuns: 300 },
  )
})

test('A to B to A: a branch that wins back is found by hash, not by having been seen', () => {
  const trail = [block(3, 'b'), block(2, 'b'), block(1, 'a')]
  expect(search(trail, (n) => block(n, 'a').hash)).toEqual(block(1, 'a'))
  expect(search(trail, (n) => block(n, n === 1 ? 'a' : 'b').hash)).toEqual(block(3, 'b'))
})

test('a line ends where a parent is missing, of another branch, or a height is left out', () => {
  const line = [block(5, 'a'), block(6, 'a'), block(7, 'b')]
  expect(linkedPrefix(block(4, 'a'), line)).toHaveLength(2)
  expect(linkedPrefix(block(4, 'b'), line)).toHaveLength(0)
  expect(linkedPrefix(null, [block(5, 'a'), null, block(6, 'a')])).toHaveLength(1)
  expect(linkedPrefix(block(4, 'a'), [block(6, 'a')])).toHaveLength(0)
})
