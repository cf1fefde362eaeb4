import { spawnSync } from 'node:child_process'
import { chmodSync, cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { commandTotals, succeeded, sum, testTotals, totalsLine, type VitestReport } from '../../scripts/totals.ts'
import { root } from './tree.ts'

function report(passed: number, failed: number, files: VitestReport['testResults'] = []): VitestReport {
  return { numPassedTests: passed, numFailedTests: failed, numPendingTests: 1, numTodoTests: 1, testResults: files }
}

describe('nothing passes by not running', () => {
  test('tests are counted one by one, other checks as one', () => {
    const totals = sum([testTotals(report(7, 2), 1), commandTotals(0), commandTotals(3)])
    expect(totalsLine(totals)).toBe('8 passed, 3 failed, 2 skipped')
    expect(succeeded(totals)).toBe(false)
  })

  test('no report, no test, and a bad exit code without a failed test are failures', () => {
    expect(testTotals(null, 0).failed).toBe(1)
    expect(testTotals(report(0, 0), 0).failed).toBe(1)
    expect(testTotals(report(5, 0), 1).failed).toBe(1)
    expect(succeeded(sum([]))).toBe(false)
    expect(succeeded(sum([testTotals(report(5, 0), 0)]))).toBe(true)
  })

  test('a file that does not load counts as a failure, one with a failed test is not counted twice', () => {
    const broken = { status: 'failed', assertionResults: [] }
    const red = { status: 'failed', assertionResults: [{ status: 'failed' }, { status: 'passed' }] }
    expect(testTotals(report(5, 1, [broken, red]), 1).failed).toBe(2)
  })
})

describe('.ci/run', () => {
  let folder = ''

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'tidemark-ci-'))
    mkdirSync(join(folder, '.ci'))
    cpSync(join(root, '.ci/run'), join(folder, '.ci/run'))
  })

  afterEach(() => rmSync(folder, { recursive: true, force: true }))

  /** Runs the real script with an `npm` that only does what the test says. */
  function runWith(ci: string, npmTest: string): { code: number | null; lines: string[] } {
    mkdirSync(join(folder, 'bin'))
    const npm = `#!/usr/bin/env bash\nif [ "$1" = ci ]; then ${ci}; fi\nif [ "$1" = test ]; then ${npmTest}; fi\n`
    writeFileSync(join(folder, 'bin/npm'), npm)
    chmodSync(join(folder, 'bin/npm'), 0o755)
    const path = `${join(folder, 'bin')}:${process.env.PATH}`
    const done = spawnSync('bash', [join(folder, '.ci/run')], { env: { ...process.env, PATH: path }, encoding: 'utf8' })
    return { code: done.status, lines: done.stdout.trimEnd().split('\n') }
  }

  const writes = (line: string, code: number): string =>
    `mkdir -p node_modules/.cache/tidemark; echo '${line}' > node_modules/.cache/tidemark/totals.txt; exit ${code}`

  test('ends with the totals of npm test, once', () => {
    const { code, lines } = runWith('exit 0', writes('412 passed, 0 failed, 3 skipped', 0))
    expect(code).toBe(0)
    expect(lines.filter((line) => /^\d+ passed/.test(line))).toEqual(['412 passed, 0 failed, 3 skipped'])
    expect(lines.at(-1)).toBe('412 passed, 0 failed, 3 skipped')
    expect(lines.some((line) => /^npm ci took \d+ s$/.test(line))).toBe(true)
  })

  test.each([
    ['npm ci fails', 'exit 1', writes('5 passed, 0 failed', 0), '0 passed, 1 failed'],
    ['npm test dies without totals', 'exit 0', 'exit 0', '0 passed, 1 failed'],
    ['a test fails', 'exit 0', writes('5 passed, 1 failed', 1), '5 passed, 1 failed'],
    ['nothing ran', 'exit 0', writes('0 passed, 0 failed', 0), '0 passed, 0 failed'],
    ['a bad exit code with good totals', 'exit 0', writes('5 passed, 0 failed', 1), '5 passed, 0 failed'],
  ])('control: fails when %s', (_, ci, npmTest, last) => {
    const { code, lines } = runWith(ci, npmTest)
    expect(code).not.toBe(0)
    expect(lines.at(-1)).toBe(last)
  })
})
