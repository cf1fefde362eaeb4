import type { ConfigInput } from '../../src/config.ts'

/**
 * A configuration in which every setting is given, none at its default. A test runs it and asks the tracker what was
 * never read; `test/config-keys.test.ts` fails when a new setting is missing here.
 */
export function everySetting(given: Pick<ConfigInput, 'store' | 'watchers'> & { rpc: string }): Required<ConfigInput> {
  return {
    store: given.store,
    chains: {
      ethereum: {
        id: 1,
        rpc: [given.rpc],
        finality: { depth: 2 },
        minDepth: 1,
        pollMs: 50,
        maxRange: 100,
        timeoutMs: 5_000,
      },
    },
    watchers: given.watchers,
    migrate: 'auto',
    retentionBlocks: 9_999,
    undoLimitBlocks: 16_000,
    build: 'build 7',
    environment: 'test',
    logLevel: 'error',
    accept: 'from-here',
  }
}
