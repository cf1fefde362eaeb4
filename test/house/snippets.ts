import { join } from 'node:path'
import ts from 'typescript'
import { program } from './program.ts'
import { root, type Tree } from './tree.ts'

/** A fenced `ts` block of a document; `line` is that of its first line of code. */
export interface Snippet {
  readonly path: string
  readonly line: number
  readonly code: string
}

/** Blocks fenced as `ts`, and only those: `text`, `sh` or `ts ignore` are not compiled. */
export function snippets(documents: Tree): Snippet[] {
  const found: Snippet[] = []
  for (const [path, text] of documents) {
    for (const match of text.matchAll(/^```ts[ \t]*\n([\s\S]*?)^```/gm)) {
      const line = text.slice(0, match.index).split('\n').length + 1
      found.push({ path, line, code: match[1] ?? '' })
    }
  }
  return found
}

/** Type errors of the snippets, each compiled as a module of its own, at the line of the document. */
export function snippetErrors(found: readonly Snippet[]): string[] {
  const files = new Map(found.map((snippet, index) => [join(root, `snippet-${index}.ts`), snippet]))
  const texts = new Map([...files].map(([file, snippet]) => [file, `${snippet.code}\nexport {}\n`]))
  const whole = program([], texts)
  return [...files].flatMap(([file, snippet]) => {
    const source = whole.getSourceFile(file)
    const problems = [...whole.getSyntacticDiagnostics(source), ...whole.getSemanticDiagnostics(source)]
    return problems.map((problem) => {
      const at = source && problem.start !== undefined ? source.getLineAndCharacterOfPosition(problem.start).line : 0
      return `${snippet.path}:${snippet.line + at} ${ts.flattenDiagnosticMessageText(problem.messageText, ' ')}`
    })
  })
}
