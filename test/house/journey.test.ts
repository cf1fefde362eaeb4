import { describe, expect, test } from 'vitest'
import { coreWithoutNode, importCycles, importDirection, mainEntryLoads } from './journey-rules.ts'
import { readSources, show, tree } from './tree.ts'

const sources = readSources()

test('the sources are found: an empty tree would keep every rule', () => {
  expect(sources.size).toBeGreaterThan(10)
  expect(sources.has('src/errors.ts')).toBe(true)
})

describe('value imports point up the journey', () => {
  test('in src', () => {
    expect(show(importDirection(sources))).toEqual([])
  })

  test('control: down the journey, to a composer, from a carrier, and from an unknown folder are found', () => {
    const wrong = tree({
      'src/chain/a.ts': "import { x } from '../handle/b.ts'",
      'src/dedup/a.ts': "import { type X } from '../settle/b.ts'\nconst y = import('../store/sqlite/store.ts')",
      'src/util/a.ts': "import { x } from '../chain/b.ts'",
      'src/other/a.ts': "export * from '../chain/b.ts'",
    })
    expect(show(importDirection(wrong))).toEqual([
      'src/chain/a.ts:1 loads src/handle/b.ts: a value import may not point down the journey',
      'src/dedup/a.ts:1 loads src/settle/b.ts: a value import may not point down the journey',
      'src/dedup/a.ts:2 loads src/store/sqlite/store.ts: only app/, index.ts, config.ts, store/<db>/ and testkit/ may load it',
      'src/util/a.ts:1 loads src/chain/b.ts: store/store.ts, util/ and errors.ts load only one another',
      'src/other/a.ts:1 loads src/chain/b.ts: this folder has no place in the journey',
    ])
  })

  test('control: types, earlier folders, carriers and composers are free', () => {
    const right = tree({
      'src/chain/a.ts': "import type { X } from '../handle/b.ts'\nimport { invariant } from '../util/invariant.ts'",
      'src/handle/a.ts': "import { x } from '../chain/b.ts'\nimport { y } from './c.ts'",
      'src/store/sqlite/a.ts': "import { x } from '../../settle/b.ts'",
      'src/app/a.ts': "import { x } from '../testkit/b.ts'",
    })
    expect(importDirection(right)).toEqual([])
  })
})

describe('no circles of value imports', () => {
  test('in src', () => {
    expect(show(importCycles(sources))).toEqual([])
  })

  test('control: a circle through three files is found, one closed by a type is not', () => {
    const circle = { 'src/chain/a.ts': "import './b.ts'", 'src/chain/b.ts': "export * from './c.ts'" }
    expect(show(importCycles(tree({ ...circle, 'src/chain/c.ts': "import './a.ts'" })))).toEqual([
      'src/chain/a.ts:1 circle: src/chain/a.ts -> src/chain/b.ts -> src/chain/c.ts -> src/chain/a.ts',
    ])
    expect(importCycles(tree({ ...circle, 'src/chain/c.ts': "import type { A } from './a.ts'" }))).toEqual([])
  })
})

describe('the core imports no module of Node', () => {
  test('in src', () => {
    expect(show(coreWithoutNode(sources))).toEqual([])
  })

  test('control: with and without the prefix; app, stores and test kit may', () => {
    const wrong = tree({
      'src/chain/a.ts': "import type { Socket } from 'node:net'\nimport { readFileSync } from 'fs'",
      'src/app/a.ts': "import 'node:fs'",
      'src/store/sqlite/a.ts': "import 'node:fs'",
    })
    expect(show(coreWithoutNode(wrong))).toEqual([
      'src/chain/a.ts:1 the core imports node:net',
      'src/chain/a.ts:2 the core imports fs',
    ])
  })
})

describe('the main entry loads no driver, broker, dashboard, command line or module of Node', () => {
  test('from src/index.ts', () => {
    expect(sources.has('src/index.ts')).toBe(true)
    expect(show(mainEntryLoads(sources))).toEqual([])
  })

  test('control: found two imports away; a lazy import is no load', () => {
    const wrong = tree({
      'src/index.ts': "export * from './app/tidemark.ts'",
      'src/app/tidemark.ts': "import '../store/sqlite/store.ts'\nconst later = () => import('jiti')",
      'src/store/sqlite/store.ts': "import { DatabaseSync } from '@photostructure/sqlite'",
    })
    expect(show(mainEntryLoads(wrong))).toEqual([
      'src/app/tidemark.ts:1 src/index.ts -> src/app/tidemark.ts -> src/store/sqlite/store.ts',
      'src/store/sqlite/store.ts:1 src/index.ts -> src/app/tidemark.ts -> src/store/sqlite/store.ts -> @photostructure/sqlite',
    ])
  })
})
