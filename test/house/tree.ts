import { readdirSync, readFileSync } from 'node:fs'
import { join, posix, relative, resolve, sep } from 'node:path'
import ts from 'typescript'

/** What the house rules look at: texts by path, relative to the checkout, with `/`. Rules are pure, so that a fake tree shows that they can fail. */
export type Tree = ReadonlyMap<string, string>

export interface Violation {
  readonly path: string
  readonly line: number
  readonly what: string
}

export interface Import {
  readonly specifier: string
  readonly line: number
  /** Erased by the compiler: `import type`, `export type … from`, `import('…').T`. */
  readonly typeOnly: boolean
  /** `import('…')` and `require('…')`: run later, not when the file is loaded. */
  readonly lazy: boolean
}

export const root = resolve(import.meta.dirname, '..', '..')

/** Folders that are no part of the sources: installed, built, or written by a run. */
const SKIPPED = new Set(['node_modules', 'dist', 'coverage', '.git', '.tidemark'])
const TEXT = /(\.(ts|mts|js|mjs|cjs|json|md|sol|yml|yaml|txt|html|css|svg|sh)|\/run|LICENSE|\.gitignore|\.npmrc)$/

export function tree(files: Readonly<Record<string, string>>): Tree {
  return new Map(Object.entries(files))
}

function walk(folder: string, found: string[]): string[] {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) {
      if (!SKIPPED.has(entry.name)) walk(path, found)
    } else if (entry.isFile() && TEXT.test(path)) found.push(path)
  }
  return found
}

/** Every text file of the checkout that `keep` accepts, sorted by path. */
export function readTree(keep: (path: string) => boolean): Tree {
  const paths = walk(root, [])
    .map((path) => relative(root, path).split(sep).join('/'))
    .filter(keep)
    .sort()
  return new Map(paths.map((path) => [path, readFileSync(join(root, path), 'utf8')]))
}

export const isTest = (path: string): boolean => /\.test(-d)?\.ts$/.test(path)

/** The shipped sources: `src` without tests. */
export function readSources(): Tree {
  return readTree((path) => path.startsWith('src/') && path.endsWith('.ts') && !isTest(path))
}

/** Parsed once for all rules of a test file; holds at most the checkout's sources and a few controls. */
const parsed = new Map<string, ts.SourceFile>()

export function parse(path: string, text: string): ts.SourceFile {
  const known = parsed.get(path)
  if (known?.text === text) return known
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.ES2023, true, ts.ScriptKind.TS)
  parsed.set(path, file)
  return file
}

export function lineOf(file: ts.SourceFile, node: ts.Node): number {
  return file.getLineAndCharacterOfPosition(node.getStart(file)).line + 1
}

/** Calls `see` for every node of the file, parents first. */
export function visit(file: ts.SourceFile, see: (node: ts.Node) => void): void {
  const step = (node: ts.Node): void => {
    see(node)
    ts.forEachChild(node, step)
  }
  ts.forEachChild(file, step)
}

function isLoadCall(node: ts.CallExpression): boolean {
  const callee = node.expression
  return callee.kind === ts.SyntaxKind.ImportKeyword || (ts.isIdentifier(callee) && callee.text === 'require')
}

type Found = Pick<Import, 'typeOnly' | 'lazy'> & { readonly specifier: ts.Node | undefined }

function importIn(node: ts.Node): Found | null {
  if (ts.isImportDeclaration(node)) {
    return { specifier: node.moduleSpecifier, typeOnly: node.importClause?.isTypeOnly ?? false, lazy: false }
  }
  if (ts.isExportDeclaration(node) && node.moduleSpecifier) {
    return { specifier: node.moduleSpecifier, typeOnly: node.isTypeOnly, lazy: false }
  }
  if (ts.isCallExpression(node) && isLoadCall(node)) {
    return { specifier: node.arguments[0], typeOnly: false, lazy: true }
  }
  if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) {
    return { specifier: node.argument.literal, typeOnly: true, lazy: false }
  }
  return null
}

/** `import { type A }` counts as a value import: the file is loaded all the same. */
export function importsOf(path: string, text: string): Import[] {
  const file = parse(path, text)
  const imports: Import[] = []
  visit(file, (node) => {
    const found = importIn(node)
    if (!found?.specifier || !ts.isStringLiteralLike(found.specifier)) return
    const { specifier, typeOnly, lazy } = found
    imports.push({ specifier: specifier.text, line: lineOf(file, node), typeOnly, lazy })
  })
  return imports
}

/** The path that a relative import names; null for a package. */
export function resolveImport(from: string, specifier: string): string | null {
  return specifier.startsWith('.') ? posix.join(posix.dirname(from), specifier) : null
}

/** Violations as lines to read; a rule is kept when the list is empty. */
export function show(violations: readonly Violation[]): string[] {
  return violations.map(({ path, line, what }) => `${path}:${line} ${what}`)
}
