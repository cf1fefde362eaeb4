import type { ScratchColumn, ScratchTable } from '../../store/sqlite/scratch.ts'
import { ignores, type Row, spell } from '../compare-rows.ts'

/** How the two sides are called in the words. */
export interface Sides {
  /** `the faulty run`. */
  readonly actual: string
  /** `the clean one`. */
  readonly expected: string
}

/** A row as text, without the columns that may differ. */
interface Spelled {
  readonly columns: ReadonlyMap<string, string>
  readonly text: string
}

/** Differences told at most; the rest is counted. */
const MAX_TOLD = 5
/** Rows without a name that are paired with one another at most: pairing compares each with each. */
const MAX_PAIRED = 200

/** A number, hex or plain word as it is, other text in quotes. */
function plain(value: unknown): string {
  return typeof value === 'string' && /^[\w.:+-]{1,80}$/.test(value) ? value : spell(value)
}

function rowText(columns: ReadonlyMap<string, string>): string {
  return [...columns].map(([column, value]) => `${column}=${value}`).join(', ')
}

/** The columns of a table that are compared. */
function compared(table: ScratchTable, ignore: readonly string[]): ScratchColumn[] {
  const ignored = ignores({ table: table.name, ignore })
  return table.columns.filter(({ name, made }) => !made && !ignored(name))
}

/** Rows as text. What refers to an id of the database's making is told by the row that it refers to. */
class Speller {
  readonly #tables: ReadonlyMap<string, ScratchTable>
  readonly #ignore: readonly string[]
  readonly #known = new Map<string, ReadonlyMap<string, string>>()

  constructor(tables: readonly ScratchTable[], ignore: readonly string[]) {
    this.#tables = new Map(tables.map((table) => [table.name, table]))
    this.#ignore = ignore
  }

  rows(table: ScratchTable): Spelled[] {
    const columns = compared(table, this.#ignore)
    return table.rows.map((row) => {
      const spelled = new Map(columns.map((column) => [column.name, this.#value(column, row)]))
      return { columns: spelled, text: rowText(spelled) }
    })
  }

  #value({ name, refersTo }: ScratchColumn, row: Row): string {
    const value = plain(row[name])
    return (refersTo && this.#targets(refersTo.table, refersTo.column)?.get(value)) ?? value
  }

  /** Text of each row by an id that is not compared; null where the id itself is. */
  #targets(table: string, column: string): ReadonlyMap<string, string> | null {
    const target = this.#tables.get(table)
    const columns = target ? compared(target, this.#ignore) : []
    if (!target || columns.some(({ name }) => name === column)) return null
    const key = `${table} ${column}`
    const known = this.#known.get(key)
    if (known) return known
    const text = (row: Row) => `{${columns.map(({ name }) => `${name}=${plain(row[name])}`).join(', ')}}`
    const found = new Map(target.rows.map((row) => [plain(row[column]), text(row)]))
    this.#known.set(key, found)
    return found
  }
}

function count<T>(items: readonly T[], key: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>()
  for (const item of items) groups.set(key(item), [...(groups.get(key(item)) ?? []), item])
  return groups
}

/** Takes away what both sides have, as often as both have it. */
function onlyIn(one: readonly Spelled[], other: readonly Spelled[]): Spelled[] {
  const left = new Map([...count(other, ({ text }) => text)].map(([text, rows]) => [text, rows.length]))
  return one.filter(({ text }) => {
    const rest = left.get(text) ?? 0
    left.set(text, rest - 1)
    return rest <= 0
  })
}

function differing(a: Spelled, b: Spelled): string[] {
  return [...a.columns.keys()].filter((column) => a.columns.get(column) !== b.columns.get(column))
}

/** The row of the other side that this one most likely is: of the same name, else with the fewest other values. */
function partner(row: Spelled, others: readonly Spelled[], key: readonly string[]): Spelled | null {
  if (key.length > 0)
    return others.find((other) => key.every((column) => row.columns.get(column) === other.columns.get(column))) ?? null
  let best: Spelled | null = null
  let least = Math.ceil(row.columns.size / 2)
  for (const other of others.slice(0, MAX_PAIRED)) {
    const distance = differing(row, other).length
    if (distance < least) [best, least] = [other, distance]
  }
  return best
}

function changedWords(table: string, actual: Spelled, expected: Spelled, key: readonly string[], sides: Sides): string {
  const columns = differing(actual, expected)
  const name = key.length > 0 ? key : [...actual.columns.keys()].filter((column) => !columns.includes(column))
  const row = rowText(new Map(name.map((column) => [column, actual.columns.get(column) ?? ''])))
  const values = columns.map((column, i) => {
    const [is, should] = [actual.columns.get(column), expected.columns.get(column)]
    return i === 0
      ? `${column} is ${is} in ${sides.actual}, ${should} in ${sides.expected}`
      : `${column} is ${is}, ${should} in ${sides.expected}`
  })
  return `table ${table}, row ${row}: ${values.join('; ')}`
}

function tableWords(
  name: string,
  key: readonly string[],
  actual: readonly Spelled[],
  expected: readonly Spelled[],
  sides: Sides,
): string[] {
  const extra = onlyIn(actual, expected)
  let missing = onlyIn(expected, actual)
  const twice = new Set(expected.map(({ text }) => text))
  const words = extra.map((row) => {
    const other = partner(row, missing, key)
    missing = missing.filter((one) => one !== other)
    if (other) return changedWords(name, row, other, key, sides)
    return twice.has(row.text)
      ? `table ${name}, row ${row.text}: it is there more often in ${sides.actual} than in ${sides.expected}`
      : `table ${name}, row ${row.text}: it is in ${sides.actual}, and not in ${sides.expected}`
  })
  return [...words, ...missing.map((row) => `table ${name}, row ${row.text}: it is missing in ${sides.actual}`)]
}

function keyOf(table: ScratchTable, ignore: readonly string[]): string[] {
  const key = table.columns.filter(({ key: place }) => place > 0)
  const there = new Set(compared(table, ignore).map(({ name }) => name))
  return key.every(({ name }) => there.has(name)) ? key.map(({ name }) => name) : []
}

/**
 * Compares all tables of two databases of one application, without regard to the order of rows. Left out are the columns of
 * `ignore`, and those that the database fills by itself.
 * @returns the differences in words; an empty list means equal
 */
export function differences(
  actual: readonly ScratchTable[],
  expected: readonly ScratchTable[],
  ignore: readonly string[],
  sides: Sides,
): string[] {
  const [is, should] = [new Speller(actual, ignore), new Speller(expected, ignore)]
  const words = [...new Set([...expected, ...actual].map(({ name }) => name))].flatMap((name) => {
    const [one, other] = [actual.find((table) => table.name === name), expected.find((table) => table.name === name)]
    const known = one ?? other
    if (!known) return []
    return tableWords(name, keyOf(known, ignore), one ? is.rows(one) : [], other ? should.rows(other) : [], sides)
  })
  return words.length > MAX_TOLD ? [...words.slice(0, MAX_TOLD), `… and ${words.length - MAX_TOLD} more`] : words
}
