import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  type Config,
  type ConfigInput,
  defineConfig,
  overrideConfig,
  scalarSettings,
  settingPaths,
  trackReads,
} from './config.ts'
import { type ErrorCode, TidemarkError } from './errors.ts'
import type { Watcher } from './handle/watch.ts'
import type { Store } from './store/store.ts'

// Only the shape of a store is looked at here; no verb is called.
const verbs = ['migrate', 'pendingSql', 'transact', 'read', 'join', 'acquire', 'holder', 'close']
const store = Object.fromEntries(verbs.map((verb) => [verb, () => undefined])) as unknown as Store
const deposits = { isTidemarkWatcher: true } as Watcher
const base = { store, chains: { ethereum: { id: 1, rpc: ['https://node.example/v3/key'] } }, watchers: { deposits } }

function refusal(build: () => unknown): TidemarkError {
  try {
    build()
  } catch (error) {
    if (TidemarkError.is(error)) return error
    throw error
  }
  throw new Error('was accepted')
}

function refused(input: unknown): TidemarkError {
  return refusal(() => defineConfig(input as ConfigInput))
}

function withChain(settings: Record<string, unknown>): unknown {
  return { ...base, chains: { ethereum: { ...base.chains.ethereum, ...settings } } }
}

function expectRefusal(error: TidemarkError, code: ErrorCode, values: Record<string, unknown>): void {
  expect(error.code).toBe(code)
  expect(error.values).toMatchObject(values)
}

describe('defaults', () => {
  test('are those that the documents name', () => {
    const config = defineConfig(base)
    expect(config).toMatchObject({
      migrate: 'auto',
      retentionBlocks: 10_000,
      undoLimitBlocks: 20_000,
      build: '',
      logLevel: 'info',
    })
    expect(config.accept).toBeUndefined()
    expect(config.chains.ethereum).toEqual({
      ...base.chains.ethereum,
      ...{ finality: 'tag', minDepth: 0, pollMs: 1_000, maxRange: 2_000, timeoutMs: 15_000 },
    })
  })

  test('stores, watchers and providers are passed on as they are, not copied', () => {
    const rpc = { request: async () => null }
    const config = defineConfig({ ...base, chains: { ethereum: { id: 1, rpc: [rpc] } } })
    expect([config.store, config.watchers.deposits, config.chains.ethereum?.rpc[0]]).toEqual([store, deposits, rpc])
    expect(config.store).toBe(store)
    expect(config.chains.ethereum?.rpc[0]).toBe(rpc)
  })

  test('a configuration that was checked already is accepted again, unchanged', () => {
    const config = defineConfig(withChain({ finality: { depth: 12 } }) as ConfigInput)
    expect(defineConfig(config)).toEqual(config)
  })
})

describe('an unknown key is an error with the nearest name', () => {
  test.each([
    ['at the top', { ...base, retentionBlock: 5 }, 'retentionBlock', 'retentionBlocks'],
    ['in a chain', withChain({ poll_ms: 5 }), 'chains.ethereum.poll_ms', 'pollMs'],
    ['where the name goes on', withChain({ rpcUrls: [] }), 'chains.ethereum.rpcUrls', 'rpc'],
    ['in the finality of a chain', withChain({ finality: { dept: 5 } }), 'chains.ethereum.finality.dept', 'depth'],
    ['and comes before the key that is missing for it', { store, chain: {}, watchers: {} }, 'chain', 'chains'],
  ])('%s', (_, input, key, suggestion) => {
    expectRefusal(refused(input), 'CONFIG_UNKNOWN_KEY', { key, suggestion })
  })

  test('without one near, the known names are listed', () => {
    expect(refused({ ...base, zzzzzzzz: 1 }).values.known).toContain('undoLimitBlocks')
  })
})

describe('a bad value is refused with path, got and expected', () => {
  test.each([
    ['store of undefined', { ...base, store: undefined }, 'store', 'undefined'],
    ['watcher that watch() did not make', { ...base, watchers: { a: {} } }, 'watchers.a', 'a value of type object'],
    [
      'watcher name with a slash',
      { ...base, watchers: { 'a/b': deposits } },
      'watchers.<name of 3 characters>',
      '<name of 3 characters>',
    ],
    ['chain id as text', withChain({ id: '1' }), 'chains.ethereum.id', "'1'"],
    ['chain id above 2^53', withChain({ id: 2 ** 53 }), 'chains.ethereum.id', '9007199254740992'],
    ['no node', withChain({ rpc: [] }), 'chains.ethereum.rpc', 'a list of 0'],
    [
      'node of an undefined variable',
      withChain({ rpc: ['http://a.example', undefined] }),
      'chains.ethereum.rpc[1]',
      'undefined',
    ],
    ['node of an empty variable', withChain({ rpc: [''] }), 'chains.ethereum.rpc[0]', 'a text of 0 characters'],
    ['depth 0', withChain({ finality: { depth: 0 } }), 'chains.ethereum.finality.depth', '0'],
    ['finality of another word', withChain({ finality: 'safe' }), 'chains.ethereum.finality', "'safe'"],
    ['fraction', withChain({ minDepth: 1.5 }), 'chains.ethereum.minDepth', '1.5'],
    ['bigint', { ...base, retentionBlocks: 5n }, 'retentionBlocks', '5n'],
    ['below the minimum', { ...base, undoLimitBlocks: 15 }, 'undoLimitBlocks', '15'],
    ['no object at all', 5, 'config', '5'],
  ])('%s', (_, input, path, got) => {
    const error = refused(input)
    expectRefusal(error, 'CONFIG_INVALID', { path, got })
    expect(error.values.expected).toMatch(/\w/)
  })

  test('each bound is the one written down', () => {
    const bounds = { minDepth: [0, 10_000], pollMs: [50, 600_000], maxRange: [1, 1_000_000], timeoutMs: [100, 600_000] }
    for (const [key, [min = 0, max = 0]] of Object.entries(bounds)) {
      for (const good of [min, max]) expect(() => defineConfig(withChain({ [key]: good }) as ConfigInput)).not.toThrow()
      for (const bad of [min - 1, max + 1]) expect(refused(withChain({ [key]: bad })).values.path).toContain(key)
    }
  })

  test('no text of the configuration that could be a secret is repeated (P12)', () => {
    const secret = fc.stringMatching(/^[a-z0-9]{21,40}$/)
    const spoil = [
      (text: string) => withChain({ rpc: [text] }),
      (text: string) => withChain({ rpc: [`ws://host.example/${text}`] }),
      (text: string) => withChain({ rpc: `https://host.example/${text}` }),
      (text: string) => ({ ...base, store: `postgres://user:${text}@host/db` }),
      (text: string) => ({ ...base, logLevel: text }),
      (text: string) => ({ ...base, [`https://host.example/${text}`]: 1 }),
      (text: string) => ({ ...base, chains: { [`https://${text}`]: base.chains.ethereum } }),
    ]
    fc.assert(
      fc.property(secret, fc.constantFrom(...spoil), (text, make) => {
        const error = refused(make(text))
        expect(error.message).not.toContain(text)
        expect(JSON.stringify(error.values)).not.toContain(text)
      }),
    )
  })
})

describe('precedence: default, file, environment, flag', () => {
  const file = defineConfig({ ...base, logLevel: 'warn' })

  test('each beats those before it', () => {
    expect(overrideConfig(file, {}).logLevel).toBe('warn')
    expect(overrideConfig(file, { env: { TIDEMARK_LOG_LEVEL: 'error' } }).logLevel).toBe('error')
    const both = { env: { TIDEMARK_LOG_LEVEL: 'error' }, flags: { logLevel: 'debug' } }
    expect(overrideConfig(file, both).logLevel).toBe('debug')
  })

  test('every scalar can be set by its variable and by its flag, and numbers arrive as numbers', () => {
    const texts = {
      migrate: 'check',
      retentionBlocks: '7',
      undoLimitBlocks: '16',
      build: '7',
      environment: '8',
      logLevel: 'debug',
      accept: 'from-here',
    }
    const values = { ...texts, retentionBlocks: 7, undoLimitBlocks: 16 }
    const env = Object.fromEntries(scalarSettings.flatMap(({ key, env }) => (env ? [[env, texts[key]]] : [])))
    expect(Object.keys(env)).toHaveLength(6)
    expect(overrideConfig(file, { flags: texts })).toMatchObject(values)
    const { accept, ...fromEnv } = values
    expect(overrideConfig(file, { env })).toMatchObject(fromEnv)
    expect(scalarSettings.find(({ key }) => key === 'accept')?.env, `a variable would ${accept} for ever`).toBeNull()
  })

  test('an empty variable counts as not set', () => {
    expect(overrideConfig(file, { env: { TIDEMARK_LOG_LEVEL: '' } }).logLevel).toBe('warn')
  })

  test('a bad value is refused under the name of the variable or flag', () => {
    const bad = (overrides: Parameters<typeof overrideConfig>[1]) =>
      refusal(() => overrideConfig(file, overrides)).values.path
    expect(bad({ env: { TIDEMARK_RETENTION_BLOCKS: '1e3' } })).toBe('TIDEMARK_RETENTION_BLOCKS')
    expect(bad({ flags: { logLevel: 'loud' } })).toBe('--log-level')
  })

  test('an unknown TIDEMARK_ variable is an error with a suggestion', () => {
    const error = refusal(() => overrideConfig(file, { env: { TIDEMARK_LOGLEVEL: 'debug' } }))
    expect(error.code).toBe('CONFIG_UNKNOWN_KEY')
    expect(error.sentence).toContain('did you mean TIDEMARK_LOG_LEVEL?')
  })

  test('variables that Kubernetes makes for a service called tidemark are not ours', () => {
    const env = {
      TIDEMARK_PORT: 'tcp://10.0.0.1:80',
      TIDEMARK_SERVICE_HOST: '10.0.0.1',
      TIDEMARK_PORT_80_TCP_ADDR: '10.0.0.1',
    }
    expect(overrideConfig(file, { env })).toEqual(file)
  })
})

describe('a key that is set and never read is found', () => {
  const input = withChain({ minDepth: 5, finality: { depth: 3 } }) as ConfigInput
  const all = ['chains', 'store', 'watchers']

  function readAll(config: Config): void {
    for (const chain of Object.values(config.chains)) void [chain.id, chain.rpc, chain.minDepth]
    void [config.store, { ...config.watchers }]
  }

  test('each set key is unread until it is read; defaulted keys do not count', () => {
    const { config, unread } = trackReads(defineConfig(input))
    expect(unread()).toEqual(all)
    readAll(config)
    expect(unread()).toEqual(['chains.ethereum.finality'])
    const { finality } = config.chains.ethereum ?? {}
    expect(unread()).toEqual(['chains.ethereum.finality.depth'])
    expect(finality).toEqual({ depth: 3 })
    expect(unread()).toEqual([])
  })

  test('a whole chain that nobody reads is named once', () => {
    const { config, unread } = trackReads(
      defineConfig({ ...base, chains: { ...base.chains, base: { id: 8453, rpc: ['http://b.example'] } } }),
    )
    void [config.store, config.watchers.deposits, config.chains.ethereum?.id, config.chains.ethereum?.rpc]
    expect(unread()).toEqual(['chains.base'])
  })

  test('what environment and flags set counts as set', () => {
    const { unread } = trackReads(
      overrideConfig(defineConfig(base), { env: { TIDEMARK_BUILD: 'b1' }, flags: { migrate: 'check' } }),
    )
    expect(unread()).toEqual(['build', 'chains', 'migrate', 'store', 'watchers'])
  })

  test('names may hold dots', () => {
    const { config, unread } = trackReads(defineConfig({ ...base, watchers: { 'a.b': deposits } }))
    readAll(config)
    expect(unread()).toEqual([])
  })

  test('a tracked configuration keeps its one tracker, so that two parts of a program share it', () => {
    const tracked = trackReads(defineConfig(base))
    expect(trackReads(tracked.config)).toBe(tracked)
  })

  test('the list of settings holds every key that the schema knows', () => {
    expect(settingPaths().sort()).toEqual(
      [
        'accept',
        'build',
        'environment',
        'logLevel',
        'migrate',
        'retentionBlocks',
        'store',
        'undoLimitBlocks',
        'watchers.*',
      ]
        .concat(
          ['finality', 'id', 'maxRange', 'minDepth', 'pollMs', 'rpc', 'timeoutMs'].map((key) => `chains.*.${key}`),
        )
        .sort(),
    )
  })
})
