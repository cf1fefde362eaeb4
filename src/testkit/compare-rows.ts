/** Comparing what a database holds with what it must hold, in words. Shares no code with Tidemark, as the oracle. */

export type Row = Readonly<Record<string, unknown>>

export interface CompareOptions {
  /** Columns to leave out, for what the database makes itself: `created_at`, `*.id`, `accounts.id`. */
  readonly ignore?: readonly string[]
  /** Columns that name a row, so that a difference can be told column by column. Default: none, rows are compared whole. */
  readonly key?: readonly string[]
  /** The table's name, in the words and for `ignore`. Default `rows`. */
  readonly table?: string
  /** Differences told at most; the rest is counted. Default 20. */
  readonly limit?: number
}

/** One spelling for equal values: whole numbers as `5`, bytes as hex, times in ISO form. Text stays text. */
export function spell(value: unknown): string {
  if (value === null || value === undefined) return 'null'
  if (typeof value === 'bigint') return value.toString()
  // Minus zero is another value than zero: an undo that loses it has changed the row.
  if (typeof value === 'number') return Object.is(value, -0) ? '-0' : String(value)
  if (value instanceof Uint8Array) return `0x${[...value].map((byte) => byte.toString(16).padStart(2, '0')).join('')}`
  if (value instanceof Date) return value.toISOString()
  return (
    JSON.stringify(value, (_, inner: unknown) => (typeof inner === 'bigint' ? inner.toString() : inner)) ??
    String(value)
  )
}

interface Spelled {
  readonly columns: ReadonlyMap<string, string>
  readonly text: string
}

function spellRow(row: Row, ignored: (column: string) => boolean): Spelled {
  const columns = new Map<string, string>()
  for (const column of Object.keys(row).sort()) if (!ignored(column)) columns.set(column, spell(row[column]))
  return { columns, text: [...columns].map(([column, value]) => `${column}: ${value}`).join(', ') }
}

/** Whether a column is left out: `created_at`, `*.created_at` and `table.created_at` name it. */
export function ignores(options: CompareOptions): (column: string) => boolean {
  const table = options.table ?? 'rows'
  const patterns = options.ignore ?? []
  return (column) => [column, `*.${column}`, `${table}.${column}`].some((form) => patterns.includes(form))
}

function groupBy(rows: readonly Spelled[], name: (row: Spelled) => string): Map<string, Spelled[]> {
  const groups = new Map<string, Spelled[]>()
  for (const row of rows) {
    const group = groups.get(name(row))
    if (group) group.push(row)
    else groups.set(name(row), [row])
  }
  return groups
}

function times(count: number): string {
  return count === 1 ? 'once' : `${count} times`
}

/** Rows as a multiset: which are missing, which are too many. */
function compareWhole(table: string, expected: readonly Spelled[], actual: readonly Spelled[]): string[] {
  const wanted = groupBy(expected, (row) => row.text)
  const found = groupBy(actual, (row) => row.text)
  return [...new Set([...wanted.keys(), ...found.keys()])].sort().flatMap((text) => {
    const should = wanted.get(text)?.length ?? 0
    const is = found.get(text)?.length ?? 0
    if (should === is) return []
    if (is === 0) return [`${table}: missing: {${text}}${should > 1 ? ` (${times(should)})` : ''}`]
    if (should === 0) return [`${table}: not expected: {${text}}${is > 1 ? ` (${times(is)})` : ''}`]
    return [`${table}: {${text}} is there ${times(is)}, expected ${times(should)}`]
  })
}

function differingColumns(should: Spelled, is: Spelled): string[] {
  return [...new Set([...should.columns.keys(), ...is.columns.keys()])]
    .filter((column) => should.columns.get(column) !== is.columns.get(column))
    .map(
      (column) =>
        `${column} is ${is.columns.get(column) ?? 'absent'}, expected ${should.columns.get(column) ?? 'absent'}`,
    )
}

/** Rows with a name: those on both sides column by column, the others whole. A name that occurs twice is compared whole. */
function compareKeyed(
  table: string,
  expected: readonly Spelled[],
  actual: readonly Spelled[],
  key: readonly string[],
): string[] {
  const nameOf = (row: Spelled) => key.map((column) => `${column}: ${row.columns.get(column) ?? 'null'}`).join(', ')
  const wanted = groupBy(expected, nameOf)
  const found = groupBy(actual, nameOf)
  return [...new Set([...wanted.keys(), ...found.keys()])].sort().flatMap((name) => {
    const should = wanted.get(name) ?? []
    const is = found.get(name) ?? []
    const [one, other] = [should[0], is[0]]
    if (should.length !== 1 || is.length !== 1 || !one || !other) return compareWhole(table, should, is)
    const columns = differingColumns(one, other)
    return columns.length > 0 ? [`${table} {${name}}: ${columns.join('; ')}`] : []
  })
}

function limited(differences: readonly string[], limit: number): string[] {
  if (differences.length <= limit) return [...differences]
  return [...differences.slice(0, limit), `… and ${differences.length - limit} more`]
}

/**
 * Compares two sets of rows, without regard to their order.
 * @returns the differences in words; an empty list means equal
 */
export function compareRows(expected: readonly Row[], actual: readonly Row[], options: CompareOptions = {}): string[] {
  const ignored = ignores(options)
  const table = options.table ?? 'rows'
  const should = expected.map((row) => spellRow(row, ignored))
  const is = actual.map((row) => spellRow(row, ignored))
  const key = options.key ?? []
  const differences = key.length > 0 ? compareKeyed(table, should, is, key) : compareWhole(table, should, is)
  return limited(differences, options.limit ?? 20)
}

/** Compares several tables by name. A table on one side only counts as empty on the other. */
export function compareTables(
  expected: Readonly<Record<string, readonly Row[]>>,
  actual: Readonly<Record<string, readonly Row[]>>,
  options: Omit<CompareOptions, 'table' | 'key'> & { readonly keys?: Readonly<Record<string, readonly string[]>> } = {},
): string[] {
  const tables = [...new Set([...Object.keys(expected), ...Object.keys(actual)])].sort()
  const { keys, limit, ...rest } = options
  const differences = tables.flatMap((table) => {
    const key = keys?.[table]
    return compareRows(expected[table] ?? [], actual[table] ?? [], {
      ...rest,
      table,
      limit: Number.POSITIVE_INFINITY,
      ...(key ? { key } : {}),
    })
  })
  return limited(differences, limit ?? 20)
}
