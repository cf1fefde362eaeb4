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

/** Modules that a configuration may import by the name of their package. */
type Modules = Readonly<Record<string, object>>

/**
 * What runs the file. TypeScript is transformed on the way, without type checks and without files left behind: the
 * cache of the transformer would keep a copy of whatever secrets the file holds (P12).
 *
 * `tidemark` inside the file is this very package, wherever the file lies: an error class or a store of a second copy
 * would be a stranger to this one.
 */
async function makeImporter(more: Modules): Promise<ImportFile> {
  const [{ createJiti }, core, sqlite] = await Promise.all([
    import('jiti'),
    import('../../index.ts'),
    import('../../store/sqlite/index.ts'),
  ])
  const virtualModules = { tidemark: core, 'tidemark/sqlite': sqlite, ...more }
  const options = { fsCache: false, moduleCache: false, virtualModules }
  return (file) => createJiti(file, options).import(file)
}

function brokenFile(file: string, cwd: string, cause: unknown): TidemarkError {
  return new TidemarkError('CONFIG_INVALID', 'The configuration file could not be run', {
    values: { file: relative(cwd, file) },
    cause,
  })
}

export interface Project {
  readonly config: Config
  /** What the file exports by name. */
  readonly exports: Readonly<Record<string, unknown>>
}

async function importConfig(cwd: string, file: string, more: Modules): Promise<Readonly<Record<string, unknown>>> {
  const importFile = await makeImporter(more)
  try {
    return ((await importFile(file)) ?? {}) as Readonly<Record<string, unknown>>
  } catch (error) {
    throw TidemarkError.is(error) ? error : brokenFile(file, cwd, error)
  }
}

/**
 * The configuration of a project, with what its file exports beside it.
 * @param more modules that the file may import on top of `tidemark` and `tidemark/sqlite`
 * @throws {TidemarkError} `CONFIG_NOT_FOUND`; `CONFIG_INVALID` with the cause when the file throws; what `defineConfig` throws
 */
export async function loadProject(cwd: string, named?: string, more: Modules = {}): Promise<Project> {
  const exports = await importConfig(cwd, findFile(cwd, named), more)
  // Checked here too: a plain object, or one that another version of the package has checked, is as good.
  return { config: defineConfig((exports.default ?? exports) as unknown as ConfigInput), exports }
}

/** The configuration of a project. @throws as {@link loadProject} */
export async function loadConfig(cwd: string, named?: string): Promise<Config> {
  return (await loadProject(cwd, named)).config
}
