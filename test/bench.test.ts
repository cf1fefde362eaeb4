import { expect, test } from 'vitest'
import { benches, readOptions, runBenches } from '../bench/benches.ts'
import type { Figure } from '../bench/measure.ts'
import { tooLong } from './house/shape-rules.ts'
import { readTree, show } from './house/tree.ts'

interface Run {
  readonly figures: readonly Figure[]
  readonly above: readonly Figure[]
}

/** Tiny sizes: the figures mean nothing, but the benches run, and the limits of the tables hold here too. */
async function run(name: string): Promise<Run> {
  const lines: string[] = []
  const above = await runBenches(readOptions(['--only', name, '--json', '--size', 'tiny']), (line) => lines.push(line))
  return { figures: lines.map((line) => JSON.parse(line) as Figure), above }
}

/** Memory is also a limit of the size of the heap, which says nothing in a test process: only the tables count here. */
const ofTables = ({ name }: Figure): boolean => name.includes('/rows/')

function check(name: string, { figures, above }: Run): void {
  expect(figures.length).toBeGreaterThan(0)
  for (const figure of figures) {
    expect(figure).toMatchObject({ value: expect.any(Number), unit: expect.any(String) })
    expect(figure.name.startsWith(`${name}/`), figure.name).toBe(true)
    expect(figure.against === null).toBe(figure.ratio === null)
  }
  expect(above.filter(ofTables)).toEqual([])
}

const others = benches.map(({ name }) => name).filter((name) => name !== 'memory')

test.each(others)('%s runs, and prints figures that are numbers', { timeout: 120_000 }, async (name) => {
  check(name, await run(name))
})

test('memory runs, and in backfill too the retention bounds the marks', { timeout: 120_000 }, async () => {
  const found = await run('memory')
  check('memory', found)
  const marks = found.figures.find(({ name }) => name === 'memory/finalized/rows/tidemark_processed_events/peak')
  // Retention, the step of forgetting, and the widest commit: far fewer than the 600 events of the chain.
  expect(marks?.atMost).toBeLessThan(450)
  expect(marks?.value).toBeGreaterThan(100)
  expect(marks?.value).toBeLessThanOrEqual(marks?.atMost ?? 0)
})

test('an unknown bench, size or flag is refused', () => {
  expect(() => readOptions(['--only', 'speed'])).toThrow(/memory, commit, protocol, decode, identity, window/)
  expect(() => readOptions(['--size', 'huge'])).toThrow(/full, tiny/)
  expect(() => readOptions(['--jsn'])).toThrow(/--jsn/)
})

test('benches are held to the size of functions and files', () => {
  expect(show(tooLong(readTree((path) => path.startsWith('bench/'))))).toEqual([])
})
