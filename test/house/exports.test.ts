import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { publicSurface } from './exports.ts'
import { ENTRIES } from './program.ts'
import { root } from './tree.ts'

const pinned = JSON.parse(readFileSync(`${root}/test/house/exports.json`, 'utf8')) as Record<string, unknown>
const manifest = JSON.parse(readFileSync(`${root}/package.json`, 'utf8')) as { exports: Record<string, unknown> }

test('a public name comes or goes only together with exports.json (npm run update:exports)', {
  timeout: 120_000,
}, () => {
  const surface = publicSurface()
  expect(Object.keys(surface)).toEqual(Object.keys(ENTRIES))
  expect(surface).toEqual(pinned)
})

test('every subpath of package.json is pinned, and none beside them', () => {
  const subpaths = Object.keys(manifest.exports).filter((key) => !key.endsWith('.json'))
  expect(subpaths.map((key) => `tidemark${key.slice(1)}`)).toEqual(Object.keys(ENTRIES))
})
