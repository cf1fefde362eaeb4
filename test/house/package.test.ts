import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { installScripts, type Lock, lockDiffers, looseLock, type Manifest, unpinned } from './package-rules.ts'
import { root } from './tree.ts'

const manifest = JSON.parse(readFileSync(`${root}/package.json`, 'utf8')) as Manifest
const lock = JSON.parse(readFileSync(`${root}/package-lock.json`, 'utf8')) as Lock

describe('what npm ci installs is fixed', () => {
  test('direct dependencies are exact versions, and the lock holds the same ones', () => {
    expect(unpinned(manifest)).toEqual([])
    expect(lockDiffers(manifest, lock)).toEqual([])
  })

  test('every entry of the lock has version and digest, and names no host', () => {
    expect(Object.keys(lock.packages).length).toBeGreaterThan(10)
    expect(looseLock(lock)).toEqual([])
  })

  test('no package needs its install script: nothing compiles', () => {
    expect(installScripts(manifest, lock)).toEqual([])
  })

  test('control: a range, a stale lock, a loose entry and a new install script are found', () => {
    const wrong: Manifest = { dependencies: { a: '^1.0.0', b: '2.0.0' }, allowScripts: { b: true } }
    const entry = { version: '1.0.0', integrity: 'sha512-x' }
    const stale: Lock = {
      packages: {
        '': {},
        'node_modules/a': { ...entry, hasInstallScript: true },
        'node_modules/b': { ...entry, resolved: 'https://example.org/b.tgz' },
        'node_modules/a/node_modules/c': { version: '1.0.0' },
      },
    }
    expect(unpinned(wrong)).toEqual(['a@^1.0.0'])
    expect(lockDiffers(wrong, stale)).toEqual(['a', 'b'])
    expect(looseLock(stale)).toEqual(['node_modules/b', 'node_modules/a/node_modules/c'])
    expect(installScripts(wrong, stale)).toEqual(['a'])
  })
})
