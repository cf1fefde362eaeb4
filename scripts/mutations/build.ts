import { cpSync, linkSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import ts from 'typescript'
import { type Mutation, mutate } from './mutation.ts'

/**
 * Copies of the engine, whole and broken, as JavaScript. They lie below `node_modules`, so that its packages are found, and
 * beside the cache of `npm test`, which that command empties.
 */
const root = resolve(import.meta.dirname, '../..')
const FOLDER = join(root, 'node_modules/.cache/tidemark-mutants')
const SOURCES = join(root, 'src')

/** As in tsconfig.json, for one file at a time. */
const OPTIONS: ts.CompilerOptions = {
  target: ts.ScriptTarget.ES2023,
  module: ts.ModuleKind.ESNext,
  verbatimModuleSyntax: true,
  rewriteRelativeImportExtensions: true,
}

function sourceFiles(): string[] {
  const all = readdirSync(SOURCES, { recursive: true, encoding: 'utf8' })
  return all.filter((path) => path.endsWith('.ts') && !/\.(test|test-d|d)\.ts$/.test(path))
}

function transpile(source: string, path: string): string {
  return ts.transpileModule(source, { compilerOptions: OPTIONS, fileName: path }).outputText
}

const outputOf = (path: string) => path.replace(/\.ts$/, '.js')

/** The sources as they were when the run began: whoever edits them meanwhile changes no verdict. */
export interface Build {
  readonly sources: ReadonlyMap<string, string>
  /** The folder that stands for `dist`, of the engine as it is. */
  readonly whole: string
}

function startFolder(name: string): string {
  const folder = join(FOLDER, name)
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  // Makes the files modules, and is read for the version.
  cpSync(join(root, 'package.json'), join(folder, 'package.json'))
  return join(folder, 'dist')
}

/** Translates the whole engine anew: a `dist` that was built before the last change would prove nothing. */
export function buildWhole(): Build {
  const sources = new Map(
    sourceFiles().map((path) => [path.replaceAll('\\', '/'), readFileSync(join(SOURCES, path), 'utf8')]),
  )
  const whole = startFolder('whole')
  for (const [path, source] of sources) {
    const file = join(whole, outputOf(path))
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, transpile(source, path))
  }
  return { sources, whole }
}

function sourceOf({ sources }: Build, { file, name }: Mutation): string {
  const source = sources.get(file)
  if (source === undefined) throw new Error(`mutation ${name} is stale: there is no src/${file}`)
  return source
}

export function brokenSource(build: Build, mutation: Mutation): string {
  return mutate(mutation, sourceOf(build, mutation))
}

/** A copy of the engine in which one file is broken. Answers the folder that stands for `dist`. */
export function buildMutant(build: Build, mutation: Mutation): string {
  const broken = transpile(brokenSource(build, mutation), mutation.file)
  const folder = startFolder(mutation.name)
  for (const path of build.sources.keys()) {
    const file = join(folder, outputOf(path))
    mkdirSync(dirname(file), { recursive: true })
    if (path === mutation.file) writeFileSync(file, broken)
    else linkSync(join(build.whole, outputOf(path)), file)
  }
  return folder
}

export function dropMutant({ name }: Mutation): void {
  rmSync(join(FOLDER, name), { recursive: true, force: true })
}

/** A host in which one file has another text. */
class OneFileHost implements ts.LanguageServiceHost {
  readonly #options: ts.CompilerOptions
  readonly #files: string[]
  #path = ''
  #text = ''
  #version = 0

  constructor(files: readonly string[]) {
    const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile)
    this.#options = {
      ...ts.convertCompilerOptionsFromJson(config.compilerOptions, root).options,
      noUnusedLocals: false,
      noUnusedParameters: false,
    }
    this.#files = files.map((file) => join(SOURCES, file))
  }

  show(path: string, text: string): void {
    this.#path = path
    this.#text = text
    this.#version += 1
  }

  getCompilationSettings = () => this.#options
  getScriptFileNames = () => this.#files
  // A text that was shown before may be another one now.
  getScriptVersion = (path: string) => (path === this.#path ? `${this.#version}` : '0')
  getScriptSnapshot = (path: string) => {
    const text = path === this.#path ? this.#text : ts.sys.readFile(path)
    return text === undefined ? undefined : ts.ScriptSnapshot.fromString(text)
  }
  getCurrentDirectory = () => root
  getDefaultLibFileName = ts.getDefaultLibFilePath
  fileExists = ts.sys.fileExists
  readFile = ts.sys.readFile
}

/**
 * What the compiler says of each broken file, by the mutation's name. A mutation that does not compile would be "caught" by
 * its own mistake, so it is none.
 */
export function compileErrors(build: Build, mutations: readonly Mutation[]): Map<string, string> {
  const host = new OneFileHost([...new Set(mutations.map(({ file }) => file))])
  const service = ts.createLanguageService(host)
  const errors = new Map<string, string>()
  for (const mutation of mutations) {
    const path = join(SOURCES, mutation.file)
    host.show(path, brokenSource(build, mutation))
    const found = [...service.getSyntacticDiagnostics(path), ...service.getSemanticDiagnostics(path)]
    const [first] = found
    if (first)
      errors.set(mutation.name, `${relative(root, path)}: ${ts.flattenDiagnosticMessageText(first.messageText, ' ')}`)
  }
  return errors
}
