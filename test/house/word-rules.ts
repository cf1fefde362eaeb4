import ts from 'typescript'
import { lineOf, parse, type Tree, type Violation, visit } from './tree.ts'

/** Says what is wrong with one piece of text of a source; null when nothing is. */
type Judge = (text: string, path: string) => string | null

function isText(node: ts.Node): node is ts.LiteralLikeNode {
  return (
    ts.isStringLiteralLike(node) ||
    node.kind === ts.SyntaxKind.TemplateHead ||
    node.kind === ts.SyntaxKind.TemplateMiddle ||
    node.kind === ts.SyntaxKind.TemplateTail
  )
}

function judgeTexts(sources: Tree, judge: Judge): Violation[] {
  const violations: Violation[] = []
  for (const [path, text] of sources) {
    const file = parse(path, text)
    visit(file, (node) => {
      const what = isText(node) ? judge(node.text, path) : null
      if (what) violations.push({ path, line: lineOf(file, node), what })
    })
  }
  return violations
}

const SQL =
  /\b(SELECT\s[\s\S]*\sFROM\s|INSERT\s+(OR\s+\w+\s+)?INTO\s|UPDATE\s+\S+\s+SET\s|DELETE\s+FROM\s|(CREATE|DROP|ALTER)\s+(TEMP\s+|UNIQUE\s+)?(TABLE|INDEX|TRIGGER|VIEW)\s|PRAGMA\s+\w|BEGIN\s+(IMMEDIATE|EXCLUSIVE)|ROLLBACK\s+TO\s|RELEASE\s+SAVEPOINT)/i

/** Where the user's application is played and judged from outside: that SQL is an application's, not the engine's. */
const PLAYS_THE_USER = /^src\/(app\/demo|testkit\/(simulator|replay))\//

/** Rule 2: SQL only in a store. */
export function sqlOutsideStores(sources: Tree): Violation[] {
  return judgeTexts(sources, (text, path) => {
    if (/^src\/store\/[^/]+\//.test(path) || PLAYS_THE_USER.test(path)) return null
    return SQL.test(text) ? `SQL outside src/store/<database>/: ${text.trim().slice(0, 40)}` : null
  })
}

const METHOD = /\b(eth|net|web3|anvil|evm|hardhat|debug|trace|txpool)_[a-z]\w*/

/** Rule 2: names of JSON-RPC methods only where JSON-RPC is spoken, and in the test kit's node. */
export function rpcOutsideRpc(sources: Tree): Violation[] {
  return judgeTexts(sources, (text, path) => {
    if (path === 'src/chain/rpc.ts' || path.startsWith('src/testkit/')) return null
    const method = METHOD.exec(text)
    return method ? `JSON-RPC method outside src/chain/rpc.ts: ${method[0]}` : null
  })
}

/** A driver or broker package, and the place that bears its name. */
const DRIVERS: readonly (readonly [RegExp, RegExp])[] = [
  [/^(node:sqlite|@photostructure\/sqlite|better-sqlite3|libsql)$/, /^src\/store\/sqlite\//],
  [/^(pg|pg-copy-streams|postgres)$/, /^src\/store\/postgres\//],
  [/^(mysql2|mysql2\/promise|mariadb)$/, /^src\/store\/mysql\//],
  [/^bullmq$/, /^src\/queue\/bullmq/],
  [/^(ioredis|redis)$/, /^src\/queue\/redis/],
  [/^(kafkajs|@confluentinc\/kafka-javascript)$/, /^src\/queue\/kafka/],
  [/^amqplib$/, /^src\/queue\/rabbitmq/],
]

function importedTexts(sources: Tree, judge: Judge): Violation[] {
  const violations: Violation[] = []
  for (const [path, text] of sources) {
    const file = parse(path, text)
    visit(file, (node) => {
      if (!ts.isStringLiteralLike(node) || !namesModule(node)) return
      const what = judge(node.text, path)
      if (what) violations.push({ path, line: lineOf(file, node), what })
    })
  }
  return violations
}

/** Whether a string stands where a module is named: an import, an export, or the first argument of a loading call. */
function namesModule(node: ts.StringLiteralLike): boolean {
  const parent = node.parent
  if (ts.isImportDeclaration(parent) || ts.isExportDeclaration(parent)) return true
  if (ts.isLiteralTypeNode(parent)) return ts.isImportTypeNode(parent.parent)
  return ts.isCallExpression(parent) && /(import|require|load|resolve)/i.test(parent.expression.getText())
}

/** Rule 2: a driver or broker package is named only in the adapter that bears its name. */
export function driversOutsideAdapters(sources: Tree): Violation[] {
  return importedTexts(sources, (name, path) => {
    const home = DRIVERS.find(([driver]) => driver.test(name))?.[1]
    return home && !home.test(path) ? `names ${name} outside its adapter` : null
  })
}
