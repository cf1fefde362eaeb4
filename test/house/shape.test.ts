import { describe, expect, test } from 'vitest'
import { commentLines, figures, functionLengths, LIMITS, percentile, tooLong } from './shape-rules.ts'
import { readSources, show, tree } from './tree.ts'

const sources = readSources()
const shape = figures(sources)
console.log(`shape of src: ${JSON.stringify(shape)}`)

describe('functions and files stay short', () => {
  test('none above the hard limits', () => {
    expect(show(tooLong(sources))).toEqual([])
  })

  test('functions: median and ninth decile', () => {
    expect(shape.functions.count).toBeGreaterThan(20)
    expect(shape.functions.median).toBeLessThanOrEqual(LIMITS.function.median)
    expect(shape.functions.p90).toBeLessThanOrEqual(LIMITS.function.p90)
  })

  test('files: ninth decile', () => {
    expect(shape.files.p90).toBeLessThanOrEqual(LIMITS.file.p90)
  })

  test('control: 50 lines pass, 51 are found; nested functions count on their own', () => {
    const body = (lines: number): string => `${'  x()\n'.repeat(lines)}}`
    const files = tree({
      'src/chain/a.ts': `function fits() {\n${body(48)}`,
      'src/chain/b.ts': `/** Not\n * counted. */\nexport const long = () => {\n${body(49)}`,
      'src/chain/c.ts': '// a line\n'.repeat(401),
    })
    expect(show(tooLong(files))).toEqual([
      'src/chain/b.ts:3 long has 51 lines',
      'src/chain/c.ts:1 the file has 401 lines',
    ])
    const nested = 'function outer() {\n  items.map((x) => x + 1)\n  items.map((x) => {\n    return x\n  })\n}\n'
    expect(functionLengths(tree({ 'src/a.ts': nested })).map((found) => found.lines)).toEqual([6, 3])
  })
})

describe('comments', () => {
  test('there are enough to give reasons, and not so many that they hide the code', () => {
    expect(shape.commentsPer100).toBeGreaterThanOrEqual(LIMITS.comments.min)
    expect(shape.commentsPer100).toBeLessThanOrEqual(LIMITS.comments.max)
  })

  test('control: lines are counted once, strings that look like comments are not', () => {
    const text = '/** One\n * two */\nconst a = 1 // three\n\nconst b = "// not one" /* four */\n/* five */ // five\n'
    expect(commentLines('src/a.ts', text)).toBe(5)
    expect(figures(tree({ 'src/a.ts': 'const a = 1\n' })).commentsPer100).toBe(0)
  })

  test('control: percentiles by nearest rank', () => {
    expect([0.5, 0.9, 1].map((share) => percentile([4, 1, 3, 2, 10, 6, 5, 8, 7, 9], share))).toEqual([5, 9, 10])
  })
})
