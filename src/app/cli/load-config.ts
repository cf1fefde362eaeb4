import { existsSync } from 'node:fs'
import { relative, resolve } from 'node:path'
import { type Config, type ConfigInput, defineConfig } from '../../config.ts'
import { TidemarkError } from '../../errors.ts'

export const CONFIG_FILES = [
  'tidemark.config.ts',
  'tidemark.config.mts',
  'tidemark.config.js',
  'tidemark.config.mjs',
] as const

function findFile(cwd: string, named: string | undefined): string {
  const candidates = named === undefined ? CONFIG_FILES : [named]
  const found = candidates.map((name) => resolve(cwd, name)).find((file) => existsSync(file))
  if (found) return found
  throw new TidemarkError('CONFIG_NOT_FOUND', 'There is no configuration file', { values: { looked: candidates } })
}

type ImportFile = (file: string) => Promise<unknown>

/**
 * What runs the file. TypeScript is transformed on the way, without type checks and without files left behind: the
 * cache of the transformer would keep a copy of whatever secrets the file holds (P12).
 *
 * `tidemark` inside the file is this very package, wherever the file lies: an error class or a store of a second copy
 * would be a stranger to this one.
 */
async function makeImporter(): Promise<ImportFile> {
  const [{ createJiti }, core, sqlite] = await Promise.all([
    import('jiti'),
    import('../../index.ts'),
    import('../../store/sqlite/index.ts'),
  ])
  const options = { fsCache: false, moduleCache: false, virtualModules: { tidemark: core, 'tidemark/sqlite': sqlite } }
  return (file) => createJiti(file, options).import(file, { default: true })
}

function brokenFile(file: string, cwd: string, cause: unknown): TidemarkError {
  return new TidemarkError('CONFIG_INVALID', 'The configuration file could not be run', {
    values: { file: relative(cwd, file) },
    cause,
  })
}

/**
 * The configuration of a project.
 * @throws {TidemarkError} `CONFIG_NOT_FOUND`; `CONFIG_INVALID` with the cause when the file throws; what `defineConfig` throws
 */
export async function loadConfig(cwd: string, named?: string): Promise<Config> {
  const file = findFile(cwd, named)
  const importFile = await makeImporter()
  let exported: unknown
  try {
    exported = await importFile(file)
  } catch (error) {
    throw TidemarkError.is(error) ? error : brokenFile(file, cwd, error)
  }
  // Checked here too: a plain object, or one that another version of the package has checked, is as good.
  return defineConfig(exported as ConfigInput)
}
