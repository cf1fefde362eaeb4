import { describe, expect, test } from 'vitest'
import { EQUIVALENT, MUTATIONS } from '../../scripts/mutations/all.ts'
import { type Mutation, mutate } from '../../scripts/mutations/mutation.ts'
import { readSources } from './tree.ts'

const sources = readSources()

function staleness(mutation: Mutation): string | null {
  try {
    const source = sources.get(`src/${mutation.file}`) ?? ''
    return mutate(mutation, source) === source ? `mutation ${mutation.name} changes nothing` : null
  } catch (error) {
    return (error as Error).message
  }
}

const sound: Mutation = {
  name: 'one',
  breaks: 'P1',
  file: 'a.ts',
  find: 'if (a) return f(b, c)',
  replace: 'return 1',
  why: '',
}

describe('the engine can still be broken in each of the ways of scripts/mutations', () => {
  test('each text stands exactly once in its source', () => {
    expect(MUTATIONS.map(staleness).filter((words) => words !== null)).toEqual([])
  })

  test('there are enough of them, and each has a name, a promise and a reason of its own', () => {
    expect(MUTATIONS.length).toBeGreaterThanOrEqual(45)
    expect(new Set(MUTATIONS.map(({ name }) => name)).size).toBe(MUTATIONS.length)
    for (const { breaks, why } of MUTATIONS)
      expect([Number(breaks.slice(1)) <= 12, why.length > 20]).toEqual([true, true])
    for (const { file, because } of EQUIVALENT)
      expect([sources.has(`src/${file}`), because.length > 20]).toEqual([true, true])
  })

  test('control: a text that is gone, and one that stands twice, are found by the name of the mutation', () => {
    expect(() => mutate(sound, 'if (b) return f(b, c)')).toThrow('mutation one is stale: its text stands 0 times')
    expect(() => mutate(sound, 'if (a) return f(b, c)\nif (a) return f(b, c)')).toThrow('its text stands 2 times')
  })

  test('a text is found however it is formatted', () => {
    expect(mutate(sound, 'x\nif (a)\n  return f(\n    b,\n    c,\n  )\ny')).toBe('x\nreturn 1\ny')
  })
})
