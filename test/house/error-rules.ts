import ts from 'typescript'
import { parse, type Tree, visit } from './tree.ts'

const ASKS = new Set(['has', 'is', 'includes', 'get', 'startsWith'])

/** Whether a string only asks for a code (`has(error, 'X')`, `=== 'X'`, `case 'X'`) or stands in a type. */
function onlyAsks(node: ts.Node): boolean {
  const parent = node.parent
  if (ts.isCaseClause(parent) || ts.isLiteralTypeNode(parent)) return true
  if (ts.isBinaryExpression(parent)) {
    return /^[!=]==?$/.test(parent.operatorToken.getText())
  }
  return (
    ts.isCallExpression(parent) &&
    ts.isPropertyAccessExpression(parent.expression) &&
    ASKS.has(parent.expression.name.text)
  )
}

/** Codes that no source raises: none but the table names them other than to ask for them. */
export function deadCodes(codes: readonly string[], sources: Tree): string[] {
  const raised = new Set<string>()
  for (const [path, text] of sources) {
    if (path === 'src/errors.ts') continue
    visit(parse(path, text), (node) => {
      if (ts.isStringLiteralLike(node) && !onlyAsks(node)) raised.add(node.text)
    })
  }
  return codes.filter((code) => !raised.has(code))
}
