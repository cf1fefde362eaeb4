import ts from 'typescript'
import { lineOf, parse, type Tree, type Violation, visit } from './tree.ts'

export const LIMITS = {
  function: { max: 50, p90: 30, median: 12 },
  file: { max: 400, p90: 300 },
  /** Lines touched by a comment, in 100 lines of all sources together. */
  comments: { min: 8, max: 35 },
} as const

export interface Figures {
  readonly functions: { readonly count: number; readonly median: number; readonly p90: number; readonly max: number }
  readonly files: { readonly count: number; readonly median: number; readonly p90: number; readonly max: number }
  readonly commentsPer100: number
}

interface Measured {
  readonly path: string
  readonly line: number
  readonly name: string
  readonly lines: number
}

function lineCount(text: string): number {
  const lines = text.split('\n').length
  return text.endsWith('\n') ? lines - 1 : lines
}

/** A one-line callback is not counted: it would only flatter the median. */
function isCounted(node: ts.Node, lines: number): node is ts.FunctionLikeDeclaration {
  if (!ts.isFunctionLike(node) || !('body' in node) || !node.body) return false
  return lines > 1 || !(ts.isArrowFunction(node) || ts.isFunctionExpression(node))
}

function nameOf(node: ts.FunctionLikeDeclaration): string {
  if (node.name) return node.name.getText()
  return ts.isVariableDeclaration(node.parent) ? node.parent.name.getText() : ts.SyntaxKind[node.kind]
}

/** Length of every function with a body, nested ones too, without the comment above it. */
export function functionLengths(sources: Tree): Measured[] {
  const found: Measured[] = []
  for (const [path, text] of sources) {
    const file = parse(path, text)
    visit(file, (node) => {
      const line = lineOf(file, node)
      const lines = file.getLineAndCharacterOfPosition(node.getEnd()).line + 2 - line
      if (isCounted(node, lines)) found.push({ path, line, name: nameOf(node), lines })
    })
  }
  return found
}

/** Lines touched by a comment. Comments are trivia, so they are read off the gaps before the tokens. */
export function commentLines(path: string, text: string): number {
  const file = parse(path, text)
  const touched = new Set<number>()
  const step = (node: ts.Node): void => {
    const children = node.getChildren(file)
    if (children.length > 0) {
      children.forEach(step)
      return
    }
    const ranges = [
      ...(ts.getLeadingCommentRanges(text, node.pos) ?? []),
      ...(ts.getTrailingCommentRanges(text, node.pos) ?? []),
    ]
    for (const range of ranges) addLines(file, range, touched)
  }
  step(file)
  return touched.size
}

function addLines(file: ts.SourceFile, range: ts.TextRange, touched: Set<number>): void {
  const first = file.getLineAndCharacterOfPosition(range.pos).line
  const last = file.getLineAndCharacterOfPosition(range.end).line
  for (let line = first; line <= last; line++) touched.add(line)
}

/** Nearest-rank percentile; 0 for an empty list. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0
}

function spread(values: readonly number[]): Figures['functions'] {
  return {
    count: values.length,
    median: percentile(values, 0.5),
    p90: percentile(values, 0.9),
    max: percentile(values, 1),
  }
}

export function figures(sources: Tree): Figures {
  const lines = [...sources.values()].map(lineCount)
  const comments = [...sources].reduce((sum, [path, text]) => sum + commentLines(path, text), 0)
  const total = lines.reduce((a, b) => a + b, 0)
  return {
    functions: spread(functionLengths(sources).map((found) => found.lines)),
    files: spread(lines),
    commentsPer100: total === 0 ? 0 : Math.round((1000 * comments) / total) / 10,
  }
}

/** Functions and files above the hard limit, the longest first. */
export function tooLong(sources: Tree): Violation[] {
  const functions = functionLengths(sources)
    .filter((found) => found.lines > LIMITS.function.max)
    .sort((a, b) => b.lines - a.lines)
    .map(({ path, line, name, lines }) => ({ path, line, what: `${name} has ${lines} lines` }))
  const files = [...sources]
    .map(([path, text]) => ({ path, line: 1, lines: lineCount(text) }))
    .filter((found) => found.lines > LIMITS.file.max)
    .map(({ path, line, lines }) => ({ path, line, what: `the file has ${lines} lines` }))
  return [...functions, ...files]
}
