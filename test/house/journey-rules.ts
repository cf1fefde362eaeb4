import { type Import, importsOf, resolveImport, type Tree, type Violation } from './tree.ts'

/** The folders in the order in which an event travels; a value import may only point to the same or an earlier one. */
const JOURNEY = ['chain', 'collect', 'dedup', 'handle', 'managed', 'outbox', 'queue', 'settle']

/** These wire things together and may import anything. */
const COMPOSERS = [/^src\/app\//, /^src\/index\.ts$/, /^src\/config\.ts$/, /^src\/store\/[^/]+\//, /^src\/testkit\//]

/** Free to be imported from everywhere. */
const CARRIERS = [/^src\/store\/store\.ts$/, /^src\/util\//, /^src\/errors\.ts$/]

const matches = (patterns: readonly RegExp[], path: string): boolean => patterns.some((pattern) => pattern.test(path))

const isComposer = (path: string): boolean => matches(COMPOSERS, path)

/** The core: what must run on any runtime. */
const isCore = (path: string): boolean => !/^src\/(app|testkit|store\/[^/]+)\//.test(path)

function rank(path: string): number {
  return JOURNEY.indexOf(path.split('/')[1] ?? '')
}

/** Why `from` may not load `to`; null when it may. */
function wrongDirection(from: string, to: string): string | null {
  if (matches(CARRIERS, to)) return null
  if (matches(CARRIERS, from)) return 'store/store.ts, util/ and errors.ts load only one another'
  if (rank(from) === -1) return 'this folder has no place in the journey'
  if (rank(to) === -1) return 'only app/, index.ts, config.ts, store/<db>/ and testkit/ may load it'
  return rank(to) <= rank(from) ? null : 'a value import may not point down the journey'
}

function valueImports(path: string, text: string): Import[] {
  return importsOf(path, text).filter((found) => !found.typeOnly)
}

/** Rule 1: value imports point up the journey. Lazy imports count too. */
export function importDirection(sources: Tree): Violation[] {
  const violations: Violation[] = []
  for (const [path, text] of sources) {
    if (isComposer(path)) continue
    for (const { specifier, line } of valueImports(path, text)) {
      const to = resolveImport(path, specifier)
      const why = to === null ? null : wrongDirection(path, to)
      if (why) violations.push({ path, line, what: `loads ${to}: ${why}` })
    }
  }
  return violations
}

/** What is loaded with a file, file by file. Packages keep their name. */
function loadGraph(sources: Tree): Map<string, string[]> {
  const edges = ([path, text]: [string, string]): [string, string[]] => {
    const now = valueImports(path, text).filter((found) => !found.lazy)
    return [path, now.map(({ specifier }) => resolveImport(path, specifier) ?? specifier)]
  }
  return new Map([...sources].map(edges))
}

/** Rule 1: no circles of value imports. Each circle is named once, by the first edge that closes it. */
export function importCycles(sources: Tree): Violation[] {
  const graph = loadGraph(sources)
  const done = new Set<string>()
  const violations: Violation[] = []
  const follow = (path: string, above: readonly string[]): void => {
    if (above.includes(path)) {
      const circle = [...above.slice(above.indexOf(path)), path]
      violations.push({ path, line: 1, what: `circle: ${circle.join(' -> ')}` })
    } else if (!done.has(path)) {
      for (const next of graph.get(path) ?? []) follow(next, [...above, path])
      done.add(path)
    }
  }
  for (const path of graph.keys()) follow(path, [])
  return violations
}

const BUILTIN =
  /^(node:|(assert|buffer|child_process|crypto|fs|http|https|net|os|path|process|stream|timers|url|util|worker_threads|zlib)(\/|$))/

/** Rule 4: the core names no module of Node, not even for its types. */
export function coreWithoutNode(sources: Tree): Violation[] {
  const violations: Violation[] = []
  for (const [path, text] of sources) {
    if (!isCore(path)) continue
    for (const { specifier, line } of importsOf(path, text)) {
      if (BUILTIN.test(specifier)) violations.push({ path, line, what: `the core imports ${specifier}` })
    }
  }
  return violations
}

/** Packages that the main entry may load: pure code without a connection, a file or a thread of its own. */
const MAIN_PACKAGES = /^(@noble\/hashes|abitype|ox|zod)(\/|$)/
const NOT_IN_MAIN = /^src\/(store\/[^/]+\/|testkit\/|app\/(cli|dashboard)\/)/

/** Rule 6: what the main entry loads, with the path that leads there. */
export function mainEntryLoads(sources: Tree, entry = 'src/index.ts'): Violation[] {
  const graph = loadGraph(sources)
  const seen = new Set<string>()
  const violations: Violation[] = []
  const follow = (path: string, above: readonly string[]): void => {
    if (seen.has(path)) return
    seen.add(path)
    const allowed = path.startsWith('src/') ? !NOT_IN_MAIN.test(path) : MAIN_PACKAGES.test(path)
    if (!allowed) violations.push({ path: above.at(-1) ?? entry, line: 1, what: `${[...above, path].join(' -> ')}` })
    for (const next of graph.get(path) ?? []) follow(next, [...above, path])
  }
  follow(entry, [])
  return violations
}
