/** What one check, or the whole run, came to. */
export interface Totals {
  readonly passed: number
  readonly failed: number
  readonly skipped: number
}

/** The part of Vitest's JSON report that is read here. */
export interface VitestReport {
  readonly numPassedTests: number
  readonly numFailedTests: number
  readonly numPendingTests: number
  readonly numTodoTests: number
  readonly testResults: readonly {
    readonly status: string
    readonly assertionResults: readonly { readonly status: string }[]
  }[]
}

/** Files that failed without a failed test in them: they did not load, or a hook threw. */
function failedFiles(report: VitestReport): number {
  return report.testResults.filter(
    (file) => file.status === 'failed' && !file.assertionResults.some((test) => test.status === 'failed'),
  ).length
}

/**
 * Totals of the test run. A missing report, a run without tests, and a bad exit code without a failed test
 * (an unhandled error, a process that died) each count as a failure, so that nothing can pass by not running.
 */
export function testTotals(report: VitestReport | null, exitCode: number): Totals {
  if (!report) return { passed: 0, failed: 1, skipped: 0 }
  const passed = report.numPassedTests
  const failed = report.numFailedTests + failedFiles(report)
  const unseen = failed === 0 && (exitCode !== 0 || passed === 0) ? 1 : 0
  return { passed, failed: failed + unseen, skipped: report.numPendingTests + report.numTodoTests }
}

/** Totals of a check that is one command: it counts as one. */
export function commandTotals(exitCode: number): Totals {
  return exitCode === 0 ? { passed: 1, failed: 0, skipped: 0 } : { passed: 0, failed: 1, skipped: 0 }
}

export function sum(parts: readonly Totals[]): Totals {
  return parts.reduce(
    (a, b) => ({ passed: a.passed + b.passed, failed: a.failed + b.failed, skipped: a.skipped + b.skipped }),
    { passed: 0, failed: 0, skipped: 0 },
  )
}

/** `N passed, N failed`, with `, N skipped` where there are any. */
export function totalsLine(totals: Totals): string {
  return `${totals.passed} passed, ${totals.failed} failed${totals.skipped > 0 ? `, ${totals.skipped} skipped` : ''}`
}

/** Success is a claim about what ran: no failure is not enough, something must have passed. */
export function succeeded(totals: Totals): boolean {
  return totals.failed === 0 && totals.passed > 0
}
