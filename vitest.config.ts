import { defineConfig } from 'vitest/config'

/** No retries and no shared state between files: a test that fails once is a failure. Long tests set their own time-out. */
export default defineConfig({
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    exclude: ['node_modules/**', 'dist/**'],
    pool: 'forks',
    maxWorkers: 2,
    retry: 0,
    testTimeout: 30_000,
    hookTimeout: 30_000,
    passWithNoTests: false,
  },
})
