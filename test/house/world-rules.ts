import ts from 'typescript'
import { lineOf, parse, type Tree, type Violation, visit } from './tree.ts'

/** Globals that are time or randomness wherever they are named. */
const GLOBALS = new Set(['setTimeout', 'setInterval', 'setImmediate'])

/** Members that are, by the object they hang on. */
const MEMBERS = new Set([
  'Date.now',
  'Math.random',
  'performance.now',
  'performance.timeOrigin',
  'AbortSignal.timeout',
  'crypto.getRandomValues',
  'crypto.randomUUID',
  'crypto.randomBytes',
  'process.hrtime',
  'Atomics.wait',
])

/** Names that come from modules of Node. */
const IMPORTED = new Set(['randomBytes', 'randomUUID', 'randomInt', 'getRandomValues', 'hrtime'])

/** The one place where the real world is named. */
const WORLD = 'src/util/world.ts'

/** Last name of the left side: `crypto` in `globalThis.crypto.getRandomValues`. */
function owner(node: ts.Expression): string | null {
  if (ts.isIdentifier(node)) return node.text
  return ts.isPropertyAccessExpression(node) ? node.name.text : null
}

/** Whether an identifier is a use of a value of that name, and not a key, a member or a type. */
function isUse(node: ts.Identifier): boolean {
  const parent = node.parent
  if (ts.isPropertyAccessExpression(parent) && parent.name === node) return owner(parent.expression) === 'globalThis'
  if (ts.isPropertyAssignment(parent) || ts.isPropertySignature(parent) || ts.isMethodSignature(parent)) {
    return ts.isPropertyAssignment(parent) && parent.initializer === node
  }
  return !ts.isTypeQueryNode(parent) && !ts.isMethodDeclaration(parent) && !ts.isPropertyDeclaration(parent)
}

function named(node: ts.Node): string | null {
  if (ts.isPropertyAccessExpression(node)) {
    const name = `${owner(node.expression)}.${node.name.text}`
    return MEMBERS.has(name) ? name : null
  }
  if (ts.isIdentifier(node)) return GLOBALS.has(node.text) && isUse(node) ? node.text : null
  if (ts.isImportSpecifier(node)) {
    const name = (node.propertyName ?? node.name).text
    return IMPORTED.has(name) ? name : null
  }
  // `new Date(x)` only formats x; `new Date()` and `Date()` ask the clock.
  const asks = (ts.isNewExpression(node) || ts.isCallExpression(node)) && owner(node.expression) === 'Date'
  return asks && (node.arguments ?? []).length === 0 ? 'the current Date' : null
}

/** Rule 4: time, sleep and randomness come from `util/world.ts`. */
export function worldOutsideWorld(sources: Tree): Violation[] {
  const violations: Violation[] = []
  for (const [path, text] of sources) {
    if (path === WORLD) continue
    const file = parse(path, text)
    visit(file, (node) => {
      const what = named(node)
      if (what) violations.push({ path, line: lineOf(file, node), what: `${what}: take it from a World` })
    })
  }
  return violations
}

/** Globals of Node that other runtimes lack; the core does without. */
const NODE_GLOBALS = new Set(['process', 'Buffer', '__dirname', '__filename', 'require', 'global'])

/** Rule 4, second half: the core uses no global of Node. `globalThis.process?.…` asks first and is free. */
export function nodeGlobalsInCore(sources: Tree): Violation[] {
  const violations: Violation[] = []
  for (const [path, text] of sources) {
    if (/^src\/(app|testkit|store\/[^/]+)\//.test(path)) continue
    const file = parse(path, text)
    const own = new Set<string>()
    visit(file, (node) => {
      if ((ts.isParameter(node) || ts.isVariableDeclaration(node)) && ts.isIdentifier(node.name))
        own.add(node.name.text)
    })
    visit(file, (node) => {
      if (!ts.isIdentifier(node) || !NODE_GLOBALS.has(node.text) || own.has(node.text)) return
      const member = ts.isPropertyAccessExpression(node.parent) && node.parent.name === node
      if (!member && isUse(node))
        violations.push({ path, line: lineOf(file, node), what: `the core uses ${node.text}` })
    })
  }
  return violations
}
