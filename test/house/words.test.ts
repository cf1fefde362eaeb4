import { describe, expect, test } from 'vitest'
import { machineWords } from './machine-rules.ts'
import { readSources, readTree, show, tree } from './tree.ts'
import { driversOutsideAdapters, rpcOutsideRpc, sqlOutsideStores } from './word-rules.ts'
import { nodeGlobalsInCore, worldOutsideWorld } from './world-rules.ts'

const sources = readSources()

describe('SQL stands only in a store', () => {
  test('in src', () => {
    expect(show(sqlOutsideStores(sources))).toEqual([])
  })

  test('control: statements in strings and templates are found, prose and comments are not', () => {
    const wrong = tree({
      'src/dedup/a.ts': [
        "const a = 'select * from marks where id = 1'",
        'const b = `INSERT OR IGNORE INTO ` + a + ` values (1)`',
        "const c = 'update marks set n = 1'",
        "const d = 'Use ON CONFLICT DO NOTHING, or select another; INSERT OR ROLLBACK ends it. Delete the file.'",
        '// select 1 from t',
      ].join('\n'),
      'src/store/sqlite/a.ts': "const a = 'create table t (a)'",
    })
    expect(show(sqlOutsideStores(wrong)).map((line) => line.slice(0, 17))).toEqual([
      'src/dedup/a.ts:1 ',
      'src/dedup/a.ts:2 ',
      'src/dedup/a.ts:3 ',
    ])
  })
})

describe('JSON-RPC methods are named only in chain/rpc.ts and the test kit', () => {
  test('in src', () => {
    expect(show(rpcOutsideRpc(sources))).toEqual([])
  })

  test('control', () => {
    const wrong = tree({
      'src/collect/a.ts': "ask('eth_getLogs')",
      'src/chain/rpc.ts': "ask('eth_getLogs')",
      'src/testkit/a.ts': "answer('evm_mine')",
      'src/util/a.ts': "const word = 'method_name'",
    })
    expect(show(rpcOutsideRpc(wrong))).toEqual([
      'src/collect/a.ts:1 JSON-RPC method outside src/chain/rpc.ts: eth_getLogs',
    ])
  })
})

describe('a driver or broker is named only in its adapter', () => {
  test('in src', () => {
    expect(show(driversOutsideAdapters(sources))).toEqual([])
  })

  test('control: import, type import, and loading by a call', () => {
    const wrong = tree({
      'src/handle/a.ts': "import type { Client } from 'pg'\nconst sqlite = await import('@photostructure/sqlite')",
      'src/app/a.ts': "const driver = loadDriver('better-sqlite3')\nconst word = 'postgres'",
      'src/store/sqlite/a.ts': "import { DatabaseSync } from '@photostructure/sqlite'",
    })
    expect(show(driversOutsideAdapters(wrong))).toEqual([
      'src/handle/a.ts:1 names pg outside its adapter',
      'src/handle/a.ts:2 names @photostructure/sqlite outside its adapter',
      'src/app/a.ts:1 names better-sqlite3 outside its adapter',
    ])
  })
})

describe('time, sleep and randomness come from a World', () => {
  test('in src', () => {
    expect(show(worldOutsideWorld(sources))).toEqual([])
  })

  test('control: each global is found, also as a value; keys, types and new Date(x) are not', () => {
    const wrong = tree({
      'src/dedup/a.ts': [
        'const a = Date.now()',
        'const b = new Date()',
        'setTimeout(done, 1)',
        'const c = globalThis.crypto.getRandomValues(d)',
        'const e = { clock: Math.random }',
        'const f = [setInterval, globalThis.setImmediate]',
        'const g = AbortSignal.timeout(5)',
        "import { randomBytes } from 'node:crypto'",
        'interface World { now(): number; setTimeout(ms: number): void }',
        'const h = world.now() + world.random() + new Date(0).getTime()',
      ].join('\n'),
      'src/util/world.ts': 'export const now = () => Date.now()',
    })
    const lines = show(worldOutsideWorld(wrong)).map((line) => Number(/:(\d+)/.exec(line)?.[1]))
    expect(lines).toEqual([1, 2, 3, 4, 5, 6, 6, 7, 8])
  })
})

describe('the core uses no global of Node', () => {
  test('in src', () => {
    expect(show(nodeGlobalsInCore(sources))).toEqual([])
  })

  test('control: process and Buffer are found; a parameter or a member of that name is not', () => {
    const wrong = tree({
      'src/chain/a.ts': "const a = process.env.X\nconst b = Buffer.from('')\nconst c = jobs.process(1)",
      'src/chain/b.ts': 'export function run(process: () => void) {\n  process()\n}',
      'src/app/a.ts': 'process.exitCode = 1',
    })
    expect(show(nodeGlobalsInCore(wrong))).toEqual([
      'src/chain/a.ts:1 the core uses process',
      'src/chain/a.ts:2 the core uses Buffer',
    ])
  })
})

describe('nothing names a machine, a registry or how the text was made', () => {
  test('in the checkout', () => {
    expect(show(machineWords(readTree(() => true)))).toEqual([])
  })

  test('control', () => {
    const wrong = tree({
      'docs/a.md': `see ${'/wo'}rk/main and ${'/tm'}p/x\nfrom https://registry.${'npmjs'}.org/a\nfine: ../shared/corpus`,
      'src/a.ts': `// written by ${'Clau'}de\n// a database session`,
    })
    expect(show(machineWords(wrong)).map((line) => line.split(' ')[0])).toEqual([
      'docs/a.md:1',
      'docs/a.md:1',
      'docs/a.md:2',
      'src/a.ts:1',
    ])
  })
})
