import { join } from 'node:path'
import ts from 'typescript'
import { root } from './tree.ts'

/** The subpaths of the package and the sources behind them, as `package.json` exports them. */
export const ENTRIES: Readonly<Record<string, string>> = {
  tidemark: 'src/index.ts',
  'tidemark/mysql': 'src/store/mysql/index.ts',
  'tidemark/postgres': 'src/store/postgres/index.ts',
  'tidemark/sqlite': 'src/store/sqlite/index.ts',
  'tidemark/testkit': 'src/testkit/index.ts',
}

/** The compiler options of the project, with the package's own name resolved to the sources. */
export function projectOptions(): ts.CompilerOptions {
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile)
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root)
  const paths = Object.fromEntries(Object.entries(ENTRIES).map(([name, path]) => [name, [join(root, path)]]))
  return { ...options, paths, noUnusedLocals: false, noUnusedParameters: false }
}

/** A program over files of the checkout and over texts that exist only in memory. */
export function program(paths: readonly string[], texts: ReadonlyMap<string, string> = new Map()): ts.Program {
  const options = projectOptions()
  const host = ts.createCompilerHost(options)
  const onDisk = { ...host }
  host.fileExists = (path) => texts.has(path) || onDisk.fileExists(path)
  host.readFile = (path) => texts.get(path) ?? onDisk.readFile(path)
  host.getSourceFile = (path, language, onError, fresh) => {
    const text = texts.get(path)
    if (text === undefined) return onDisk.getSourceFile(path, language, onError, fresh)
    return ts.createSourceFile(path, text, language)
  }
  return ts.createProgram([...paths, ...texts.keys()], options, host)
}
