import { expect, test } from 'vitest'
import { BoundedCache } from './cache.ts'

test('the least recently used goes first, by count and by weight', () => {
  const cache = new BoundedCache<string, number>(3, 100)
  for (const [i, key] of ['a', 'b', 'c'].entries()) cache.set(key, i, 10)
  cache.get('a')
  cache.set('d', 3, 10)
  expect(['a', 'b', 'c', 'd'].filter((key) => cache.get(key) !== undefined)).toEqual(['a', 'c', 'd'])
  cache.set('e', 4, 95)
  expect(cache.size).toBe(1)
})

test('an entry heavier than the whole cache is not kept, and does not empty it', () => {
  const cache = new BoundedCache<string, number>(3, 100)
  cache.set('a', 1, 10)
  cache.set('big', 2, 101)
  expect([cache.get('a'), cache.get('big'), cache.size]).toEqual([1, undefined, 1])
})
