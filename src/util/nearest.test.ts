import fc from 'fast-check'
import { expect, test } from 'vitest'
import { editDistance, nearest } from './nearest.ts'

test('the distance is a metric', () => {
  const word = fc.string({ maxLength: 12 })
  fc.assert(
    fc.property(word, word, word, (a, b, c) => {
      expect(editDistance(a, a)).toBe(0)
      expect(editDistance(a, b)).toBe(editDistance(b, a))
      expect(editDistance(a, c)).toBeLessThanOrEqual(editDistance(a, b) + editDistance(b, c))
    }),
  )
})

test.each([
  ['pollMS', 'pollMs'],
  ['poll_ms', 'pollMs'],
  ['rpcUrl', 'rpc'],
  ['wathcers', 'watchers'],
  ['retention', 'retentionBlocks'],
])('%s was meant as %s', (given, meant) => {
  expect(nearest(given, ['chains', 'pollMs', 'retentionBlocks', 'rpc', 'watchers'])).toBe(meant)
})

test('nothing is suggested for what is far from all, or too long to compare', () => {
  expect(nearest('dashboard', ['rpc', 'id'])).toBeUndefined()
  expect(nearest('r'.repeat(65), ['r'.repeat(65)])).toBeUndefined()
})
