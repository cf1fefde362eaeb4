import { expect, test } from 'vitest'
import { benches, readOptions, runBenches } from '../bench/benches.ts'
import type { Figure } from '../bench/measure.ts'
import { tooLong } from './house/shape-rules.ts'
import { readTree, show } from './house/tree.ts'

/** Tiny sizes: the figures mean nothing, but the benches run, and the limits of the tables hold here too. */
async function figuresOf(name: string): Promise<{ figures: Figure[]; above: Figure[] }> {
  const lines: string[] = []
  const above = await runBenches(readOptions(['--only', name, '--json', '--size', 'tiny']), (line) => lines.push(line))
  return { figures: lines.map((line) => JSON.parse(line) as Figure), above }
}

test.each(benches.map(({ name }) => name))('%s runs, and prints figures that are numbers', async (name) => {
  const { figures, above } = await figuresOf(name)
  expect(figures.length).toBeGreaterThan(0)
  for (const figure of figures) {
    expect(figure).toMatchObject({ value: expect.any(Number), unit: expect.any(String) })
    expect(figure.name.startsWith(`${name}/`), figure.name).toBe(true)
    expect(figure.against === null).toBe(figure.ratio === null)
  }
  expect(above).toEqual([])
})

test('backfill in wide commits forgets as it goes: the marks stay within the retention, not within the chain', async () => {
  const { figures } = await figuresOf('memory')
  const marks = figures.find(({ name }) => name === 'memory/finalized/rows/tidemark_processed_events/peak')
  // Retention, the step of forgetting, and the widest commit; the chain has 1,200 events.
  expect(marks?.atMost).toBeLessThan(600)
  expect(marks?.value).toBeGreaterThan(150)
  expect(marks?.value).toBeLessThanOrEqual(marks?.atMost ?? 0)
})

test('an unknown bench, size or flag is refused', () => {
  expect(() => readOptions(['--only', 'speed'])).toThrow(/memory, commit, decode, identity, window/)
  expect(() => readOptions(['--size', 'huge'])).toThrow(/full, tiny/)
  expect(() => readOptions(['--jsn'])).toThrow(/--jsn/)
})

test('benches are held to the size of functions and files', () => {
  expect(show(tooLong(readTree((path) => path.startsWith('bench/'))))).toEqual([])
})
