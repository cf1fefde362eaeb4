/**
 * What the statements of an SQL text begin with. The server cannot be asked without running the text, and a search for the
 * word COMMIT would find it in strings, comments and column names.
 *
 * Read as PostgreSQL's own scanner does with `standard_conforming_strings` on, which each transaction of Tidemark sets.
 */
const TOKEN =
  /[ \t\n\r\f\v]+|--[^\n\r]*|\/\*|[eE]'(?:[^'\\]|\\.|'')*'?|(?:[uU]&|[bBxXnN])?'(?:[^']|'')*'?|(?:[uU]&)?"(?:[^"]|"")*"?|\$(?:[A-Za-z_\u0080-\u{10ffff}][\w\u0080-\u{10ffff}]*)?\$|;|[A-Za-z_\u0080-\u{10ffff}][\w$\u0080-\u{10ffff}]*|./suy

/** Tokens of one statement that are looked at: enough for ROLLBACK TRANSACTION TO SAVEPOINT name. */
const LEADING = 6

/** The first tokens of a statement, words in upper case. */
export type Leading = readonly string[]

const DOLLAR = /^\$.*\$$/s

/** Past the end of a comment; they nest. */
function endOfComment(sql: string, from: number): number {
  let depth = 1
  let at = from
  while (depth > 0 && at < sql.length) {
    const pair = sql.slice(at, at + 2)
    if (pair === '/*') depth++
    if (pair === '*/') depth--
    at += pair === '/*' || pair === '*/' ? 2 : 1
  }
  return at
}

function endOfDollar(sql: string, from: number, tag: string): number {
  const end = sql.indexOf(tag, from)
  return end === -1 ? sql.length : end + tag.length
}

const isSpace = (token: string): boolean => token === '/*' || token.startsWith('--') || /^[ \t\n\r\f\v]/.test(token)

function* tokens(sql: string): Generator<string> {
  let at = 0
  while (at < sql.length) {
    TOKEN.lastIndex = at
    const token = TOKEN.exec(sql)?.[0] ?? sql.charAt(at)
    at += token.length
    if (token === '/*') at = endOfComment(sql, at)
    else if (DOLLAR.test(token)) at = endOfDollar(sql, at, token)
    if (!isSpace(token)) yield token
  }
}

/** The leading tokens of every statement of a text. Empty statements are left out. */
export function leadingWords(sql: string): Leading[] {
  const found: string[][] = []
  let open: string[] | undefined
  for (const token of tokens(sql)) {
    if (token === ';') open = undefined
    else if (open === undefined) {
      open = [token.toUpperCase()]
      found.push(open)
    } else if (open.length < LEADING) open.push(token.startsWith('"') ? token : token.toUpperCase())
  }
  return found
}

/** Words that begin or end a transaction, or a part of one. */
const CONTROL: ReadonlySet<string> = new Set([
  'BEGIN',
  'START',
  'COMMIT',
  'END',
  'ROLLBACK',
  'ABORT',
  'SAVEPOINT',
  'RELEASE',
])

/** What lives on in the session after the transaction, or takes the connection over: COPY waits for data of its own. */
const SESSION: ReadonlySet<string> = new Set([
  'PREPARE',
  'DEALLOCATE',
  'COPY',
  'LISTEN',
  'UNLISTEN',
  'DISCARD',
  'RESET',
])

/**
 * SET LOCAL ends with the transaction. SET CONSTRAINTS ALL would check the constraint that guards Tidemark's commit, and
 * without standard strings this reader would be wrong.
 */
function isSessionSet([first, second, third = '']: Leading): boolean {
  if (first !== 'SET') return false
  if (second === 'CONSTRAINTS') return third === 'ALL'
  return second !== 'LOCAL' || third.toUpperCase().includes('STANDARD_CONFORMING_STRINGS')
}

/** The words of a statement that a handler may not run, if the text holds one. */
export function refusedWords(statements: readonly Leading[]): string | undefined {
  const found = statements.find((one) => CONTROL.has(one[0] ?? '') || SESSION.has(one[0] ?? '') || isSessionSet(one))
  return found?.slice(0, 2).join(' ')
}

/** What Drizzle and Kysely send for a nested transaction, and savepoints written by hand. */
export type Nested =
  | { readonly verb: 'begin' | 'commit' | 'rollback' }
  | { readonly verb: 'savepoint' | 'release' | 'rollback to'; readonly name: string }

const NOISE: ReadonlySet<string> = new Set(['WORK', 'TRANSACTION'])
const WHOLE: Readonly<Record<string, 'begin' | 'commit' | 'rollback'>> = {
  BEGIN: 'begin',
  'START TRANSACTION': 'begin',
  COMMIT: 'commit',
  END: 'commit',
  ROLLBACK: 'rollback',
  ABORT: 'rollback',
}
const NAMED =
  /^(SAVEPOINT|RELEASE(?: SAVEPOINT)?|ROLLBACK TO(?: SAVEPOINT)?) ([A-Z_][A-Z0-9_]{0,62}|"[A-Za-z_][A-Za-z0-9_]{0,62}")$/

function withoutNoise(one: Leading): string {
  const [first = '', second = '', ...rest] = one
  return (NOISE.has(second) && first !== 'START' ? [first, ...rest] : one).join(' ')
}

/**
 * A text that is one statement of a nested transaction and nothing else. With a mode (`isolation level`, `read only`,
 * `and chain`) it is not one: a savepoint cannot have it.
 */
export function nestedStatement(statements: readonly Leading[]): Nested | undefined {
  const [one] = statements
  if (!one || statements.length !== 1 || one.length >= LEADING) return undefined
  const text = withoutNoise(one)
  const whole = WHOLE[text]
  if (whole) return { verb: whole }
  const [, verb = '', quoted = ''] = NAMED.exec(text) ?? []
  if (verb === '') return undefined
  // The server folds a name without quotes to lower case.
  const name = quoted.startsWith('"') ? quoted.slice(1, -1) : quoted.toLowerCase()
  const kind = verb.startsWith('SAVE') ? 'savepoint' : verb.startsWith('REL') ? 'release' : 'rollback to'
  return { verb: kind, name }
}
