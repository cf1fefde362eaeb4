import type { TotalChange } from '../store/totals.ts'
import { bytesToHex } from '../util/bytes.ts'
import { invariant } from '../util/invariant.ts'
import { decodeValue, encodeValue } from '../util/json.ts'

/** A key with each value in one spelling: bytes as lower-case hex, integers as bigint. Two spellings of a key are one row. */
export function plainKey(key: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(key).map(([name, value]) => [name, plain(value)]))
}

function plain(value: unknown): unknown {
  if (value instanceof Uint8Array) return bytesToHex(value)
  return typeof value === 'number' ? BigInt(value) : value
}

/** One text for each key, in the order of the given columns. */
export function keyText(columns: readonly string[], key: Readonly<Record<string, unknown>>): string {
  return encodeValue(columns.map((column) => key[column]))
}

/** Changes added up by key. */
export class ChangeSet {
  readonly #columns: readonly string[]
  readonly #changes = new Map<string, TotalChange>()

  /** @param columns those of the key */
  constructor(columns: readonly string[], changes: Iterable<TotalChange> = []) {
    this.#columns = columns
    for (const change of changes) this.add(change)
  }

  add(change: TotalChange): void {
    const text = keyText(this.#columns, change.key)
    const known = this.#changes.get(text)
    this.#changes.set(text, known ? summed(known, change) : change)
  }

  get(key: Readonly<Record<string, unknown>>): TotalChange | undefined {
    return this.#changes.get(keyText(this.#columns, key))
  }

  /** In the order of the keys, so that two writers meet in one order and cannot wait for each other (C59). */
  inOrder(): TotalChange[] {
    const entries = [...this.#changes].sort(([a], [b]) => (a < b ? -1 : 1))
    return entries.map(([, change]) => change)
  }
}

function summed(a: TotalChange, b: TotalChange): TotalChange {
  const add = Object.fromEntries(Object.entries(a.add).map(([sum, value]) => [sum, value + (b.add[sum] ?? 0n)]))
  return { key: a.key, add, additions: a.additions + b.additions }
}

export function negated({ key, add, additions }: TotalChange): TotalChange {
  const taken = Object.fromEntries(Object.entries(add).map(([sum, value]) => [sum, -value]))
  return { key, add: taken, additions: -additions }
}

/** One line: JSON writes a line break inside a text as an escape. */
export function encodeChanges(changes: readonly TotalChange[]): string {
  return encodeValue(changes)
}

/** @throws {TypeError | SyntaxError} when a line of `text` is not what `encodeChanges` writes */
export function decodeChanges(text: string): TotalChange[] {
  return text.split('\n').flatMap((line) => {
    const changes = decodeValue(line)
    invariant(Array.isArray(changes), 'a line of kept changes must be a list')
    return changes as TotalChange[]
  })
}
