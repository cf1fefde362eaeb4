import type { SwarmOptions } from '../../src/testkit/simulator/options.ts'
import type { ActionKind } from '../../src/testkit/simulator/plan.ts'

/** A text of a source file and what stands in its place in the broken engine. */
export interface Edit {
  /** Found wherever it stands once; white space and a comma before a closing bracket do not count. */
  readonly find: string
  readonly replace: string
}

/** One way in which the engine is broken on purpose. */
export interface Mutation extends Edit {
  readonly name: string
  /** The promise of docs/guarantees.md that is no longer kept. */
  readonly breaks: `P${number}`
  /** Below `src/`. */
  readonly file: string
  /** Further changes of the same file. */
  readonly also?: readonly Edit[]
  /** What goes wrong, in a sentence. */
  readonly why: string
  /** Seeds after which it counts as a survivor, where the usual number is too small, with the reason. */
  readonly seeds?: { readonly limit: number; readonly because: string }
  /** The database on which it is played. Default: SQLite. */
  readonly store?: 'postgres'
  /** Options that replace those of the seed, where few seeds draw what it takes, with the reason. */
  readonly given?: { readonly options: Partial<SwarmOptions>; readonly because: string }
}

/** These kinds of action, and no other. */
export function only(rates: Partial<Record<ActionKind, number>>): SwarmOptions['rates'] {
  return rates as SwarmOptions['rates']
}

/** A change that breaks no promise, or that a second guard makes up for: it cannot be caught, and why. */
export interface Equivalent {
  readonly name: string
  readonly file: string
  readonly because: string
}

const escaped = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')

/** The pattern of a text in which only words and signs count: a formatter must not make a mutation stale. */
function patternOf(find: string): RegExp {
  const tokens = find.match(/[\w$]+|\S/g) ?? []
  const parts = tokens.map((token) => (/[)\]}]/.test(token) ? `(?:,\\s*)?${escaped(token)}` : escaped(token)))
  return new RegExp(parts.join('\\s*'), 'g')
}

function replaceOnce(name: string, source: string, { find, replace }: Edit): string {
  const found = [...source.matchAll(patternOf(find))]
  const [match] = found
  if (!match || found.length !== 1) {
    throw new Error(
      `mutation ${name} is stale: its text stands ${found.length} times in the source: ${find.trim().slice(0, 80)}`,
    )
  }
  return source.slice(0, match.index) + replace + source.slice(match.index + match[0].length)
}

/** The broken source. @throws {Error} naming a mutation whose text does not stand exactly once */
export function mutate({ name, also = [], ...first }: Mutation, source: string): string {
  return [first, ...also].reduce((text, edit) => replaceOnce(name, text, edit), source)
}
