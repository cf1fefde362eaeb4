import * as z from 'zod/mini'
import { TidemarkError } from './errors.ts'
import { definitionOf } from './handle/flaw.ts'
import type { Watcher } from './handle/watch.ts'
import type { Store } from './store/store.ts'
import { nearest } from './util/nearest.ts'
import { trackObject, unreadOf } from './util/track-reads.ts'

/**
 * Configuration: one schema for `tidemark.config.ts`, environment and flags.
 *
 * Precedence, lowest first: default, file, environment (`TIDEMARK_LOG_LEVEL`), flag (`--log-level`). Only single values
 * can come from the environment and from flags (`scalarSettings`); chains, watchers and the store are code.
 */
export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

/** A provider of the EIP-1193 kind; what a viem client or a wallet offers fits. */
export interface Eip1193Provider {
  request(call: { method: string; params?: unknown }): Promise<unknown>
}

/** What viem's `http(url)` returns: a function that makes a provider. */
export type TransportFactory = (options: { readonly retryCount: number }) => Eip1193Provider

export type RpcProvider = Eip1193Provider | TransportFactory

export interface ChainInput {
  /** Chain id (EIP-155), a safe integer from 1. */
  readonly id: number
  /** Nodes in order of preference: http(s) URLs, EIP-1193 providers, viem transports. An undefined one is an error, not a node less. */
  readonly rpc: readonly (string | RpcProvider | undefined)[]
  /** `'tag'`: the chain's own `finalized` block. `{ depth }`: that many blocks behind the head. Default `'tag'`. */
  readonly finality?: 'tag' | { readonly depth: number } | undefined
  /** Undo is kept for at least so many blocks behind the head, whatever the tag says. 0 to 10,000. Default 0. */
  readonly minDepth?: number | undefined
  /** Milliseconds between two looks at the head. 50 to 600,000. Default 1,000. */
  readonly pollMs?: number | undefined
  /** Blocks asked for at once in backfill, at most. 1 to 1,000,000. Default 2,000. */
  readonly maxRange?: number | undefined
  /** Milliseconds until a request counts as failed. 100 to 600,000. Default 15,000. */
  readonly timeoutMs?: number | undefined
}

export interface ConfigInput {
  /** Where everything is kept: `sqlite({ file })` from `tidemark/sqlite`. */
  readonly store: Store
  readonly chains: Readonly<Record<string, ChainInput>>
  /** What `watch()` made, under the names that the cursors carry. */
  readonly watchers: Readonly<Record<string, Watcher>>
  /** `'check'` refuses to start on an older schema instead of migrating it. Default `'auto'`. */
  readonly migrate?: 'auto' | 'check' | undefined
  /** Marks are kept for so many blocks behind the settled line. From 1. Default 10,000. */
  readonly retentionBlocks?: number | undefined
  /** Unsettled blocks a watcher may be ahead; at the limit it waits (P6). From 16. Default 20,000. */
  readonly undoLimitBlocks?: number | undefined
  /** Name of the running build, recorded with each commit; at most 100 characters. Default `''`. */
  readonly build?: string | undefined
  /**
   * Kept in the database at the first start; a process of another environment is refused (`ENVIRONMENT_MISMATCH`): a staging
   * process on the production database would take its watchers over. At most 100 characters. Default `''`: any.
   */
  readonly environment?: string | undefined
  /** Default `'info'`. */
  readonly logLevel?: LogLevel | undefined
  /** `'from-here'`: a changed filter is taken over from the cursor on. Meant for one start: `--accept from-here`. */
  readonly accept?: 'from-here' | undefined
}

export interface ChainConfig {
  readonly id: number
  readonly rpc: readonly (string | RpcProvider)[]
  readonly finality: 'tag' | { readonly depth: number }
  readonly minDepth: number
  readonly pollMs: number
  readonly maxRange: number
  readonly timeoutMs: number
}

/** A checked configuration with its defaults filled in. Made by `defineConfig`. */
export interface Config {
  readonly store: Store
  readonly chains: Readonly<Record<string, ChainConfig>>
  readonly watchers: Readonly<Record<string, Watcher>>
  readonly migrate: 'auto' | 'check'
  readonly retentionBlocks: number
  readonly undoLimitBlocks: number
  readonly build: string
  readonly environment: string
  readonly logLevel: LogLevel
  readonly accept?: 'from-here' | undefined
}

// ---------------------------------------------------------------------------------------------------- schema

const NAME = /^[a-z0-9][a-z0-9_.-]{0,62}$/i
const NAME_EXPECTED = "a name of 1 to 63 letters, digits, '_', '.' or '-' that begins with a letter or digit"
const STORE_VERBS = ['migrate', 'pendingSql', 'transact', 'read', 'acquire', 'holder', 'close']

/** A value that passes `test`; `expected` is what the error says the key takes. */
function value<T>(expected: string, test: (value: unknown) => boolean) {
  return z.custom<T>(test, expected)
}

function integer(min: number, max: number) {
  const expected = `an integer from ${min.toLocaleString('en')} to ${max.toLocaleString('en')}`
  return value<number>(expected, (got) => Number.isSafeInteger(got) && (got as number) >= min && (got as number) <= max)
}

function oneOf<T extends string>(...values: readonly T[]) {
  return value<T>(values.map((one) => `'${one}'`).join(' or '), (got) => values.includes(got as T))
}

function isObject(got: unknown): got is Record<string, unknown> {
  return typeof got === 'object' && got !== null && !Array.isArray(got)
}

function isStore(got: unknown): boolean {
  return isObject(got) && STORE_VERBS.every((verb) => typeof got[verb] === 'function')
}

function isHttpUrl(got: unknown): boolean {
  return typeof got === 'string' && /^https?:\/\//i.test(got) && URL.canParse(got)
}

/** A function is taken for a transport factory, `http(url)` of viem: what it makes is checked when it is first called. */
function isProvider(got: unknown): boolean {
  return typeof got === 'function' || (isObject(got) && typeof got.request === 'function')
}

const provider = value<string | RpcProvider>(
  'an http(s) URL or a provider with request(); undefined or empty means that the variable it reads is not set',
  (got) => isHttpUrl(got) || isProvider(got),
)

const finalityDepth = z.strictObject({ depth: integer(1, 1_000_000) }, 'an object')
const finality = z.union([z.literal('tag'), finalityDepth], "'tag' or { depth: blocks }, from 1")

const chain = z.strictObject(
  {
    id: integer(1, Number.MAX_SAFE_INTEGER),
    rpc: z.array(provider, 'a list of http(s) URLs or providers').check(z.minLength(1, 'at least one URL or provider')),
    finality: z._default(finality, 'tag'),
    minDepth: z._default(integer(0, 10_000), 0),
    pollMs: z._default(integer(50, 600_000), 1_000),
    maxRange: z._default(integer(1, 1_000_000), 2_000),
    timeoutMs: z._default(integer(100, 600_000), 15_000),
  },
  'an object with id and rpc',
)

const shortText = value<string>(
  'a text of at most 100 characters',
  (got) => typeof got === 'string' && got.length <= 100,
)

const scalars = {
  migrate: z._default(oneOf('auto', 'check'), 'auto'),
  retentionBlocks: z._default(integer(1, 1_000_000_000), 10_000),
  undoLimitBlocks: z._default(integer(16, 10_000_000), 20_000),
  build: z._default(shortText, ''),
  environment: z._default(shortText, ''),
  logLevel: z._default(oneOf<LogLevel>('debug', 'info', 'warn', 'error'), 'info'),
  accept: z.optional(oneOf('from-here')),
}

function named<T extends z.ZodMiniType>(one: T, expected: string) {
  return z.record(z.string().check(z.regex(NAME)), one, {
    error: (issue) => (issue.code === 'invalid_key' ? NAME_EXPECTED : expected),
  })
}

const schema = z.strictObject(
  {
    store: value<Store>("a store, such as sqlite({ file: 'data.db' }) from 'tidemark/sqlite'", isStore),
    chains: named(chain, 'an object: a name for each chain'),
    watchers: named(
      value<Watcher>('a watcher made with watch()', (got) => isObject(got) && got.isTidemarkWatcher === true),
      'an object: a name for each watcher',
    ),
    ...scalars,
  },
  'an object',
)

// ---------------------------------------------------------------------------------------------------- errors

type Path = readonly PropertyKey[]

/** A key is the user's own text; one that could hold a URL is not repeated (P12). */
function keyText(key: PropertyKey): string {
  const text = String(key)
  return /^[\w.-]{1,63}$/.test(text) ? text : `<name of ${text.length} characters>`
}

/** `chains.ethereum.rpc[1]`. */
function pathText(path: Path): string {
  return path.map((key, i) => (typeof key === 'number' ? `[${key}]` : `${i ? '.' : ''}${keyText(key)}`)).join('')
}

function valueAt(input: unknown, path: Path): unknown {
  return path.reduce<unknown>((at, key) => (at as Record<PropertyKey, unknown> | undefined)?.[key], input)
}

/** What was given, without giving it away: a text is repeated only when it is a short word, and never where URLs stand. */
function gotText(got: unknown, path: Path): string {
  if (got === null || got === undefined || typeof got === 'boolean') return String(got)
  if (typeof got === 'number' || typeof got === 'bigint') return `${got}${typeof got === 'bigint' ? 'n' : ''}`
  if (typeof got !== 'string') return Array.isArray(got) ? `a list of ${got.length}` : `a value of type ${typeof got}`
  const mayShow = !path.includes('rpc') && path[0] !== 'store' && /^[a-z0-9-]{1,20}$/i.test(got)
  return mayShow ? `'${got}'` : `a text of ${got.length} characters`
}

function keysAt(path: Path): readonly string[] {
  if (path[0] !== 'chains') return Object.keys(schema.shape)
  return Object.keys(path.length > 2 ? finalityDepth.shape : chain.shape)
}

function unknownKey(key: string, path: Path): TidemarkError {
  const suggestion = nearest(key, keysAt(path))
  const hint = suggestion ? `; did you mean '${suggestion}'?` : ''
  return new TidemarkError('CONFIG_UNKNOWN_KEY', `There is no setting '${pathText([...path, key])}'${hint}`, {
    values: { key: pathText([...path, key]), suggestion, known: suggestion ? undefined : keysAt(path) },
  })
}

function invalid(path: string, got: string, expected: string): TidemarkError {
  return new TidemarkError('CONFIG_INVALID', `The setting '${path}' is not valid`, { values: { path, got, expected } })
}

/** A union says only that nothing fitted; an object was meant as the object form, so its own issues say more. */
function innerIssues(issue: z.core.$ZodIssue, input: unknown): readonly z.core.$ZodIssue[] {
  if (issue.code !== 'invalid_union' || !isObject(valueAt(input, issue.path))) return [issue]
  return (issue.errors.at(-1) ?? []).map((inner) => ({ ...inner, path: [...issue.path, ...inner.path] }))
}

/** The first problem, unknown keys before others: a misspelt key is also missed under its right name. */
function errorOf(issues: readonly z.core.$ZodIssue[], input: unknown): TidemarkError {
  const all = issues.flatMap((issue) => innerIssues(issue, input))
  const unknown = all.find((issue) => issue.code === 'unrecognized_keys')
  if (unknown?.code === 'unrecognized_keys') return unknownKey(unknown.keys[0] ?? '', unknown.path)
  const first = all[0]
  if (!first) return invalid('config', gotText(input, []), 'an object')
  const path = first.path.length ? pathText(first.path) : 'config'
  const got =
    first.code === 'invalid_key' ? keyText(first.path.at(-1) ?? '') : gotText(valueAt(input, first.path), first.path)
  return invalid(path, got, first.message)
}

// ---------------------------------------------------------------------------------------------------- define

/** Paths that were set by file, environment or flag. Under a shared symbol, so that two copies of the package agree. */
const GIVEN = Symbol.for('tidemark.config.given')

/** How deep tracking follows: a chain's finality has a key of its own; a store, a watcher, a list is one setting. */
const BRANCH_DEPTH: Readonly<Record<string, number>> = { chains: 3, watchers: 1 }

function isBranch(path: string, got: unknown): boolean {
  const parts = path.split('/')
  return parts.length <= (BRANCH_DEPTH[parts[0] ?? ''] ?? 0) && isObject(got)
}

function givenPaths(input: Readonly<Record<string, unknown>>, above = ''): string[] {
  return Object.keys(input).flatMap((key) => {
    const path = above ? `${above}/${key}` : key
    const got = input[key]
    if (got === undefined) return []
    return isBranch(path, got) ? givenPaths(got as Record<string, unknown>, path) : [path]
  })
}

function givenOf(config: object): readonly string[] {
  return (config as { [GIVEN]?: readonly string[] })[GIVEN] ?? givenPaths({ ...config })
}

/**
 * Checks a configuration and fills in the defaults. Reads nothing but its argument.
 * @throws {TidemarkError} `CONFIG_UNKNOWN_KEY` with a suggestion; `CONFIG_INVALID` with path, got and expected; what is wrong
 *   with the definition of a watcher, by its name (`definitionOf`)
 */
export function defineConfig(input: ConfigInput): Config {
  const result = schema.safeParse(input)
  if (!result.success) throw errorOf(result.error.issues, input)
  for (const [name, watcher] of Object.entries(result.data.watchers)) definitionOf(name, watcher)
  return Object.defineProperty(result.data satisfies Config, GIVEN, { value: givenOf(input) })
}

// ------------------------------------------------------------------------------------- environment and flags

type ScalarKey = keyof typeof scalars

interface ScalarSetting {
  readonly key: ScalarKey
  readonly flag: string
  /** Null: not from the environment. */
  readonly env: string | null
}

function scalarSetting(key: ScalarKey): ScalarSetting {
  const words = key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
  // Accepting a changed filter is one decision about one change; a variable would go on accepting for ever.
  const env = key === 'accept' ? null : `TIDEMARK_${words.replaceAll('-', '_').toUpperCase()}`
  return { key, flag: words, env }
}

/** The settings that environment and flags may override, with their names there. */
export const scalarSettings: readonly ScalarSetting[] = (Object.keys(scalars) as ScalarKey[]).map(scalarSetting)

/** Kubernetes and Docker links set these for a service that is called "tidemark". */
const SERVICE_VARIABLE = /^TIDEMARK_(SERVICE|PORT)(_|$)/

function refuseUnknownVariables(env: Readonly<Record<string, string | undefined>>): void {
  const known = scalarSettings.flatMap((setting) => setting.env ?? [])
  for (const name of Object.keys(env)) {
    if (!name.startsWith('TIDEMARK_') || known.includes(name) || SERVICE_VARIABLE.test(name)) continue
    const suggestion = nearest(
      name.slice('TIDEMARK_'.length),
      known.map((one) => one.slice('TIDEMARK_'.length)),
    )
    const hint = suggestion ? `; did you mean TIDEMARK_${suggestion}?` : ''
    throw new TidemarkError('CONFIG_UNKNOWN_KEY', `There is no environment variable ${keyText(name)}${hint}`, {
      values: { known },
    })
  }
}

/** Settings that stay text when they look like a number. */
const TEXTS: readonly ScalarKey[] = ['build', 'environment']

/** The value of a setting written as text. `name` is the variable or flag, for the error. */
function scalarFromText(key: ScalarKey, text: string, name: string): unknown {
  const parsed = /^\d{1,16}$/.test(text) && !TEXTS.includes(key) ? Number(text) : text
  const result = scalars[key].safeParse(parsed)
  if (!result.success) throw invalid(name, gotText(text, [key]), result.error.issues[0]?.message ?? '')
  return result.data
}

export interface Overrides {
  /** An environment, for example `process.env`. A variable set to the empty text counts as not set. */
  readonly env?: Readonly<Record<string, string | undefined>>
  /** Values of flags by setting name. */
  readonly flags?: Readonly<Partial<Record<string, string>>>
}

/**
 * The configuration with environment variables over it, and flags over those. The command line calls this; a process
 * that embeds Tidemark decides for itself whether its environment counts.
 * @throws {TidemarkError} `CONFIG_UNKNOWN_KEY` for another `TIDEMARK_…` variable; `CONFIG_INVALID`
 */
export function overrideConfig(config: Config, { env = {}, flags = {} }: Overrides): Config {
  refuseUnknownVariables(env)
  const overrides: Record<string, unknown> = {}
  for (const { key, flag, env: variable } of scalarSettings) {
    const fromEnv = variable === null ? undefined : env[variable] || undefined
    const text = flags[key] ?? fromEnv
    if (text !== undefined)
      overrides[key] = scalarFromText(key, text, flags[key] === undefined ? (variable ?? key) : `--${flag}`)
  }
  const given = new Set([...givenOf(config), ...Object.keys(overrides)])
  return defineConfig(Object.defineProperty({ ...config, ...overrides }, GIVEN, { value: [...given] }))
}

// -------------------------------------------------------------------------------------------- keys never read

export interface TrackedConfig {
  /** Reads like the original; remembers what was read. */
  readonly config: Config
  /** Settings that were set (not defaulted) and not read since; `chains.base` when nothing of it was read. */
  unread(): string[]
}

const trackers = new WeakMap<Config, TrackedConfig>()

/** Follows the reads of a configuration. A tracked one answers with its own tracker, so that a program has one. */
export function trackReads(config: Config): TrackedConfig {
  const known = trackers.get(config)
  if (known) return known
  const given = givenOf(config)
  const { value: copy, reads } = trackObject(config, isBranch)
  const tracked = { config: copy, unread: () => unreadOf(given, reads).map((path) => path.replaceAll('/', '.')) }
  trackers.set(copy, tracked)
  return tracked
}

/** Every setting of the schema as a path, `*` standing for a name. The test on keys never read goes by this list. */
export function settingPaths(): string[] {
  const top = Object.keys(schema.shape).filter((key) => key !== 'chains' && key !== 'watchers')
  const chains = Object.keys(chain.shape).map((key) => `chains.*.${key}`)
  return [...top, 'watchers.*', ...chains]
}
