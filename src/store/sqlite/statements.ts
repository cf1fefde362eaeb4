/**
 * What each statement of an SQL text begins with. SQLite's own parser cannot be asked without running the text, and a
 * search for the word COMMIT would find it in strings, comments and column names.
 *
 * Where this reader and SQLite could disagree it takes the stricter side: it never skips over a text that SQLite would
 * run. (`$name(…)` is one parameter to SQLite, whatever stands in the brackets; without that rule a quote in there would
 * hide the rest.)
 */
const TOKEN =
  /\s+|--[^\n]*|\/\*.*?(?:\*\/|$)|'[^']*'?|"[^"]*"?|`[^`]*`?|\[[^\]]*\]?|[$@#:][\w$:\u0080-\uffff]*(?:\([^\s)]*\))?|;|[A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*|./gs

const SPACE = /^(?:\s|--|\/\*|\ufeff)/

/** Words of one statement that are looked at: enough to know CREATE TEMP TRIGGER. */
const LEADING = 3

class StatementReader {
  readonly found: string[] = []
  #leading: string[] = []
  /** The last two tokens, for the end of a trigger. */
  #before = ''
  #last = ''

  take(token: string): void {
    if (token === ';') this.#endStatement()
    else if (this.#leading.length < LEADING) this.#leading.push(token.toUpperCase())
    this.#before = this.#last
    this.#last = token.toUpperCase()
  }

  end(): string[] {
    this.#close()
    return this.found
  }

  /** Inside a trigger a semicolon ends a step of its body; the trigger itself ends with `; END ;`. */
  #endStatement(): void {
    const bodyOpen = this.#isTrigger() && !(this.#last === 'END' && this.#before === ';')
    if (!bodyOpen) this.#close()
  }

  #isTrigger(): boolean {
    const [first, second, third] = this.#leading
    if (first !== 'CREATE') return false
    return second === 'TRIGGER' || ((second === 'TEMP' || second === 'TEMPORARY') && third === 'TRIGGER')
  }

  #close(): void {
    const [first] = this.#leading
    if (first !== undefined) this.found.push(first)
    this.#leading = []
    this.#last = ''
  }
}

/** The first word of every statement, in upper case. Empty statements are left out. */
export function firstWords(sql: string): string[] {
  const reader = new StatementReader()
  for (const [token] of sql.matchAll(TOKEN)) if (!SPACE.test(token)) reader.take(token)
  return reader.end()
}

const CONTROL: ReadonlySet<string> = new Set([
  'BEGIN',
  'COMMIT',
  'END',
  'ROLLBACK',
  'SAVEPOINT',
  'RELEASE',
  'ATTACH',
  'DETACH',
  'PRAGMA',
  'VACUUM',
])

/** The word of transaction control that a text begins a statement with, if any. */
export function controlWord(words: readonly string[]): string | undefined {
  return words.find((word) => CONTROL.has(word))
}

const SCHEMA: ReadonlySet<string> = new Set(['CREATE', 'DROP', 'ALTER', 'REINDEX', 'ANALYZE'])

/** Changes of the schema are not counted by `total_changes()`, so they are known by their word. */
export function changesSchema(words: readonly string[]): boolean {
  return words.some((word) => SCHEMA.has(word))
}
