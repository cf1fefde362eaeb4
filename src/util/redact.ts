/**
 * P12: what may leave in logs and printed errors. Messages of other people's libraries quote the URL they called, with
 * the key in it; so everything that is printed passes through here. It errs on the side of hiding too much.
 */

/** Longest text that is passed on, in characters. */
export const MAX_TEXT = 2_000
/** Values nested deeper than this are shown as `<…>`; also what ends a circle. */
export const MAX_DEPTH = 5
/** Entries of one object or array that are passed on. */
export const MAX_ENTRIES = 100

/** `scheme://…` up to the next white space, also percent-encoded or with the slashes escaped as in JSON. */
const URL_TEXT = /\b[a-z][a-z0-9+.-]*(?::|%3a)(?:\/\/|%2f%2f|\\+\/\\+\/)\S*/gi
/** `user:password@host`, without a scheme. Lengths are bounded so that no text makes the search slow. */
const USER_INFO = /[^\s:@/"']{1,128}:[^\s@/"']{1,256}@[\w.-]+\S*/g
/** `host.tld/…key…`, without a scheme: a path with 16 or more characters of a key in it. */
const HOST_WITH_KEY = /\b[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}(?::\d{1,5})?\/\S{0,512}?[\w-]{16,}\S*/g
/** `password=…`, `api_key: …`, `"token":"…"`. */
const NAMED_SECRET =
  /((?:pass(?:word|wd|phrase)?|pwd|secret|token|api[-_ ]?key|access[-_ ]?key|private[-_ ]?key|mnemonic|credentials?)["']?\s*[=:]\s*)("[^"]*"?|'[^']*'?|[^\s,;&]+)/gi
const AUTHORIZATION =
  /\b(authorization["']?\s*[=:]\s*|bearer\s+|basic\s+)["']?(?:bearer\s+|basic\s+)?[\w+/.=~-]{6,}["']?/gi
/** Node puts the host behind its network codes; some providers put the key into the host name. */
const HOST_AFTER_CODE =
  /\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH)\s+[\w.:[\]-]+/g
/** Names whose values are never shown. */
const SECRET_NAME =
  /^(pass(word|wd|phrase)?|pwd|.*secret.*|.*password.*|(auth|access|refresh|bearer|fencing)?[-_]?token|.*api[-_]?key|.*private[-_]?key|mnemonic|authorization|cookie|credentials?|url|uri|dsn|connection[-_]?string|database[-_]?url)$/i
// Control characters move the cursor of a terminal and break a log line: a node's error text may hold them.
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is searched for
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g

function hide(text: string): string {
  return text
    .replace(URL_TEXT, '<url>')
    .replace(AUTHORIZATION, '$1<secret>')
    .replace(NAMED_SECRET, '$1<secret>')
    .replace(USER_INFO, '<url>')
    .replace(HOST_WITH_KEY, '<url>')
    .replace(HOST_AFTER_CODE, '$1 <host>')
}

/** Cuts at white space, so that no half of a URL or secret is left that the patterns would not know. */
function cutAtSpace(text: string, limit: number): string {
  if (text.length <= limit) return text
  const space = text.slice(0, limit).search(/\s\S*$/)
  return text.slice(0, Math.max(space, 0))
}

function shorten(text: string, limit: number): string {
  return text.length <= limit ? text : `${text.slice(0, limit)}…`
}

/** One line of text without URLs, credentials and control characters, at most `MAX_TEXT` characters. */
export function redactText(text: string, limit: number = MAX_TEXT): string {
  const bounded = text.length <= 4 * limit ? text : `${cutAtSpace(text, 4 * limit)}…`
  return shorten(hide(bounded.replace(CONTROL, ' ')), limit)
}

/** A stack trace, line by line; `file://` addresses of the program itself stay. */
export function redactStack(stack: string): string {
  const lines = stack
    .slice(0, 4 * MAX_TEXT)
    .split('\n')
    .slice(0, 30)
  return lines.map((line) => redactText(/^\s+at /.test(line) ? line.replace(/file:\/\//g, '') : line)).join('\n')
}

/** An error as public facts: its code or class, its text, its public values, and its causes in the same way. */
export interface RedactedError {
  readonly code?: string
  readonly class?: string
  readonly sentence: string
  readonly values?: unknown
  readonly cause?: unknown
}

interface ErrorLike {
  readonly name?: unknown
  readonly code?: unknown
  readonly message?: unknown
  readonly sentence?: unknown
  readonly values?: unknown
  readonly cause?: unknown
}

/** Codes are short words or numbers (`ECONNREFUSED`, `23505`, -32005); a longer text is not one. */
function codeOf(error: ErrorLike): string | undefined {
  const code = typeof error.code === 'number' ? String(error.code) : error.code
  return typeof code === 'string' && /^-?[\w.]{1,64}$/.test(code) ? code : undefined
}

export function redactError(error: ErrorLike, depth: number = MAX_DEPTH): RedactedError {
  const code = codeOf(error)
  const isOurs = typeof error.sentence === 'string'
  const text = isOurs ? error.sentence : error.message
  return {
    ...(code === undefined ? {} : { code }),
    ...(isOurs ? {} : { class: redactText(String(error.name ?? 'Error'), 64) }),
    sentence: redactText(String(text ?? '')),
    ...(isOurs && error.values !== undefined ? { values: redact(error.values, depth - 1) } : {}),
    ...(error.cause === undefined ? {} : { cause: redact(error.cause, depth - 1) }),
  }
}

function isError(value: object): value is ErrorLike {
  return value instanceof Error || Object.prototype.toString.call(value) === '[object Error]'
}

function redactEntry(owner: object, key: string, depth: number): unknown {
  try {
    const value = (owner as Record<string, unknown>)[key]
    const hidden = SECRET_NAME.test(key) && value !== null && value !== undefined && typeof value !== 'boolean'
    return hidden ? '<secret>' : redact(value, depth)
  } catch {
    // A getter of a foreign object that throws must not take the log line with it.
    return '<unreadable>'
  }
}

function redactObject(value: object, depth: number): unknown {
  if (value instanceof URL) return '<url>'
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? '<no date>' : value.toISOString()
  if (ArrayBuffer.isView(value)) return `<${value.byteLength} bytes>`
  if (depth <= 0) return '<…>'
  if (isError(value)) return redactError(value, depth)
  if (Array.isArray(value)) return value.slice(0, MAX_ENTRIES).map((item) => redact(item, depth - 1))
  if (value instanceof Map || value instanceof Set) return `<${value.size} entries>`
  const keys = Object.keys(value).slice(0, MAX_ENTRIES)
  return Object.fromEntries(keys.map((key) => [redactText(key, 64), redactEntry(value, key, depth - 1)]))
}

/** Any value as plain JSON without URLs and credentials, bounded in depth, entries and length. */
export function redact(value: unknown, depth: number = MAX_DEPTH): unknown {
  switch (typeof value) {
    case 'string':
      return redactText(value)
    case 'bigint':
      return shorten(value.toString(), 100)
    case 'number':
      return Number.isFinite(value) ? value : String(value)
    case 'boolean':
    case 'undefined':
      return value
    case 'object':
      return value === null ? null : redactObject(value, depth)
    default:
      return `<${typeof value}>`
  }
}
