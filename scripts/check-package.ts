import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

/**
 * Checks the package as it would be published: packed once, then looked at by publint and by are-the-types-wrong, and
 * loaded by `import` and by `require` from a folder outside the checkout. Needs `dist`, so build first.
 */
interface Manifest {
  readonly name: string
  readonly bin: Readonly<Record<string, string>>
  readonly exports: Readonly<Record<string, unknown>>
}

const root = resolve(import.meta.dirname, '..')

function run(what: string, program: string, args: readonly string[], cwd = root): string {
  const done = spawnSync(program, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
  if (done.status === 0) return done.stdout
  console.error(`${what} failed:\n${done.stdout}${done.stderr}`)
  throw new Error(`${what} failed`)
}

/** Packs without the `prepack` script: what was built and tested is what is looked at. */
function pack(into: string): string {
  const out = run('npm pack', 'npm', ['pack', '--ignore-scripts', '--json', '--pack-destination', into])
  const [packed] = JSON.parse(out) as { filename: string; size: number; entryCount: number }[]
  if (!packed) throw new Error('npm pack named no file')
  console.log(`packed ${packed.entryCount} files, ${(packed.size / 1024).toFixed(0)} kB`)
  return join(into, packed.filename)
}

/** Unpacks as `node_modules/<name>`, beside links to the dependencies that `npm ci` installed here. */
function installInto(folder: string, tarball: string, manifest: Manifest): string {
  const modules = join(folder, 'node_modules')
  const home = join(modules, manifest.name)
  mkdirSync(home, { recursive: true })
  run('tar', 'tar', ['-xzf', tarball, '--strip-components=1', '-C', home])
  symlinkSync(join(root, 'node_modules'), join(home, 'node_modules'), 'dir')
  return home
}

function entryPoints(manifest: Manifest): string[] {
  return Object.keys(manifest.exports)
    .filter((key) => !key.endsWith('.json'))
    .map((key) => manifest.name + key.slice(1))
}

function checkLoads(folder: string, manifest: Manifest): void {
  for (const entry of entryPoints(manifest)) {
    const empty = `if (Object.keys(m).length === 0) throw new Error('${entry} exports nothing')`
    run(`import of ${entry}`, 'node', ['--input-type=module', '-e', `import * as m from '${entry}'; ${empty}`], folder)
    run(
      `require of ${entry}`,
      'node',
      ['--input-type=commonjs', '-e', `const m = require('${entry}'); ${empty}`],
      folder,
    )
    console.log(`loads by import and by require: ${entry}`)
  }
}

function checkCommands(home: string, manifest: Manifest): void {
  for (const [name, file] of Object.entries(manifest.bin)) {
    if (!readFileSync(join(home, file), 'utf8').startsWith('#!/usr/bin/env node')) {
      throw new Error(`${name}: ${file} has no "#!/usr/bin/env node" line`)
    }
    run(`${name} --help`, 'node', [join(home, file), '--help'])
    console.log(`runs: ${name} --help`)
  }
}

function main(): void {
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Manifest
  const folder = mkdtempSync(join(tmpdir(), 'tidemark-package-'))
  try {
    const tarball = pack(folder)
    run('publint', 'npx', ['--no-install', 'publint', 'run', tarball, '--strict'])
    console.log('publint: no findings')
    run('are-the-types-wrong', 'npx', ['--no-install', 'attw', tarball, '--profile', 'esm-only'])
    console.log('are-the-types-wrong: no findings')
    const home = installInto(folder, tarball, manifest)
    checkLoads(folder, manifest)
    checkCommands(home, manifest)
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    process.exitCode = 1
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

main()
