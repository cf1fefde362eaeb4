import { describe, expect, test } from 'vitest'
import { Random } from './random.ts'

const draw = (random: Random, count = 20) => Array.from({ length: count }, () => random.int(0, 1_000_000))

describe('seeded randomness', () => {
  test('the same seed repeats, another seed does not', () => {
    expect(draw(new Random(7))).toEqual(draw(new Random('7')))
    expect(draw(new Random(7))).not.toEqual(draw(new Random(8)))
  })

  test('the numbers of a seed never change between releases: stored seeds must keep their story', () => {
    expect(draw(new Random(1), 4)).toMatchInlineSnapshot(`
      [
        791115,
        320756,
        511521,
        370084,
      ]
    `)
    expect(draw(new Random(1).fork('faults'), 2)).toMatchInlineSnapshot(`
      [
        834481,
        365009,
      ]
    `)
  })

  test('a fork does not depend on what was drawn or forked before it', () => {
    const busy = new Random('s')
    draw(busy, 100)
    busy.fork('other').next()
    expect(draw(busy.fork('mine'))).toEqual(draw(new Random('s').fork('mine')))
    expect(draw(busy.fork('mine'))).not.toEqual(draw(busy.fork('mine2')))
  })

  test('labels that look alike give streams that do not', () => {
    const firsts = Array.from({ length: 2_000 }, (_, i) => new Random('s').fork(`call ${i}`).next())
    expect(new Set(firsts).size).toBe(2_000)
    const mean = firsts.reduce((sum, value) => sum + value, 0) / firsts.length
    expect(Math.abs(mean - 0.5)).toBeLessThan(0.03)
    expect(Math.abs(firsts.filter((value) => value < 0.1).length - 200)).toBeLessThan(60)
  })

  test('int reaches both bounds and nothing outside', () => {
    const seen = new Set(Array.from({ length: 400 }, (_, i) => new Random(i).int(-1, 2)))
    expect([...seen].sort()).toEqual([-1, 0, 1, 2])
    expect(() => new Random(1).int(2, 1)).toThrow(RangeError)
    expect(() => new Random(1).int(0, 0.5)).toThrow(RangeError)
  })

  test('chance 0 is never and chance 1 is always', () => {
    const random = new Random(3)
    const tries = Array.from({ length: 500 }, () => [random.chance(0), random.chance(1)])
    expect(tries.some(([never]) => never)).toBe(false)
    expect(tries.every(([, always]) => always)).toBe(true)
  })

  test('shuffle keeps every element and leaves the list alone', () => {
    const list = Object.freeze([1, 2, 3, 4, 5, 6, 7, 8])
    const shuffled = new Random(4).shuffle(list)
    expect(shuffled).not.toEqual(list)
    expect([...shuffled].sort()).toEqual(list)
    expect(() => new Random(1).pick([])).toThrow(RangeError)
    expect(new Random(1).bytes(16)).toHaveLength(16)
  })
})
