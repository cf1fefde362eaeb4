/**
 * What each statement of an SQL text does to the transaction. The server cannot be asked without running the text, and a
 * search for the word COMMIT would find it in strings, comments and column names.
 *
 * Only kinds of statement that are known to leave the transaction open are let through: DDL, account management, LOCK
 * TABLES and many others commit without saying so, and MariaDB runs IF, LOOP and BEGIN NOT ATOMIC outside of procedures.
 */
export type Kind = 'read' | 'write' | 'opaque' | 'refused'

export interface Statement {
  /** First word, upper case; `(` for a bracketed SELECT. */
  readonly word: string
  /** `opaque`: it may hold a COMMIT that nobody sees, as the procedure of a CALL may. */
  readonly kind: Kind
}

/** Whether a backslash escapes the next character, in '…' and in "…": that depends on the `sql_mode` of the session. */
interface Reading {
  readonly single: boolean
  readonly double: boolean
}

const READINGS: readonly Reading[] = [
  { single: true, double: true },
  { single: true, double: false }, // ANSI_QUOTES: "…" is a name
  { single: false, double: false }, // NO_BACKSLASH_ESCAPES
]

const ESCAPED = { "'": String.raw`'(?:[^'\\]|\\.)*'?`, '"': String.raw`"(?:[^"\\]|\\.)*"?` } as const
const PLAIN = { "'": "'[^']*'?", '"': '"[^"]*"?' } as const

function tokensOf({ single, double }: Reading): RegExp {
  const parts = [
    String.raw`\s+`,
    String.raw`#[^\n]*`,
    // Two dashes are a comment only before a space or a control character.
    String.raw`--(?=[\s\x00-\x1f]|$)[^\n]*`,
    // The server runs what stands in such a comment.
    String.raw`/\*M?!`,
    String.raw`/\*.*?(?:\*/|$)`,
    single ? ESCAPED["'"] : PLAIN["'"],
    double ? ESCAPED['"'] : PLAIN['"'],
    '`[^`]*`?',
    String.raw`@@?[\w.$\u0080-\uffff]*`,
    String.raw`[A-Za-z_$\u0080-\uffff][\w$\u0080-\uffff]*`,
    '.',
  ]
  return new RegExp(parts.join('|'), 'gs')
}

const TOKENS = READINGS.map(tokensOf)
const SPACE = /^(?:\s|#|--|\/\*(?!M?!)|\ufeff)/
const EXECUTABLE = /^\/\*M?!/

/** The tokens of each statement, in upper case, without space and comments. */
function split(sql: string, tokens: RegExp): string[][] {
  const statements: string[][] = [[]]
  for (const [token] of sql.matchAll(tokens)) {
    if (SPACE.test(token)) continue
    if (token === ';') statements.push([])
    else statements.at(-1)?.push(token.toUpperCase())
  }
  return statements.filter((one) => one.length > 0)
}

const READS: ReadonlySet<string> = new Set([
  'SELECT',
  'WITH',
  'VALUES',
  'TABLE',
  '(',
  'SHOW',
  'EXPLAIN',
  'DESCRIBE',
  'DESC',
  'DO',
])
const WRITES: ReadonlySet<string> = new Set(['INSERT', 'UPDATE', 'DELETE', 'REPLACE'])

/** `SET @a = 1, @b = 2` alone: every other SET changes the session, or the next transaction. */
function setsVariablesOnly(tokens: readonly string[]): boolean {
  let depth = 0
  let expectName = true
  for (const token of tokens.slice(1)) {
    if (expectName && !/^@[^@]/.test(token)) return false
    expectName = depth === 0 && token === ','
    if (token === '(') depth++
    if (token === ')') depth--
  }
  return !expectName
}

/** Temporary tables are the only ones that are made and dropped without a COMMIT. */
function isTemporary(tokens: readonly string[]): boolean {
  return (tokens[0] === 'CREATE' || tokens[0] === 'DROP') && tokens[1] === 'TEMPORARY' && tokens[2] === 'TABLE'
}

function kindOf(tokens: readonly string[]): Kind {
  const word = tokens[0] as string
  if (tokens.some((token) => EXECUTABLE.test(token))) return 'refused'
  if (READS.has(word)) return 'read'
  if (WRITES.has(word) || isTemporary(tokens)) return 'write'
  if (word === 'CALL') return 'opaque'
  return word === 'SET' && setsVariablesOnly(tokens) ? 'read' : 'refused'
}

/** Every statement of the text, in each way in which a server could read it. Empty ones are left out. */
export function statementsOf(sql: string): readonly Statement[] {
  const ways = sql.includes('\\') ? TOKENS : TOKENS.slice(0, 1)
  return ways.flatMap((tokens) => split(sql, tokens).map((one) => ({ word: one[0] as string, kind: kindOf(one) })))
}

/** What Drizzle, Kysely and mysql2's own `beginTransaction` send for a transaction. */
export type Control =
  | { readonly verb: 'begin' | 'commit' | 'rollback' }
  | { readonly verb: 'savepoint' | 'release' | 'rollback-to'; readonly name: string }

const NAME = '[`"]?(?<name>\\w{1,64})[`"]?'
const CONTROLS: readonly (readonly [Control['verb'], RegExp])[] = (
  [
    ['begin', '(?:begin(?:\\s+work)?|start\\s+transaction)'],
    ['commit', 'commit(?:\\s+work)?'],
    ['rollback', 'rollback(?:\\s+work)?'],
    ['savepoint', `savepoint\\s+${NAME}`],
    ['release', `release\\s+savepoint\\s+${NAME}`],
    ['rollback-to', `rollback\\s+to\\s+(?:savepoint\\s+)?${NAME}`],
  ] as const
).map(([verb, pattern]) => [verb, new RegExp(`^\\s*${pattern}\\s*;?\\s*$`, 'i')])

/** The text as transaction control, when it is nothing else. */
export function controlOf(sql: string): Control | undefined {
  // Longer texts are none, and are not searched.
  if (sql.length > 200) return undefined
  for (const [verb, pattern] of CONTROLS) {
    const found = pattern.exec(sql)
    if (found) return { verb, name: found.groups?.['name'] ?? '' } as Control
  }
  return undefined
}
