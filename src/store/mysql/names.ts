import { TidemarkError } from '../../errors.ts'

const PREFIX = /^[A-Za-z][A-Za-z0-9_]{0,29}$/
/** Texts kept in their cut form. Own texts are a few dozen, and a few for each managed table. */
const MOST_TEXTS = 2_000

/**
 * The names of Tidemark's tables in one database: `{watchers}` in a statement becomes `tidemark_watchers`, quoted, or has
 * another prefix, so that two environments can share a database.
 */
export class Names {
  readonly prefix: string
  readonly #texts = new Map<string, readonly string[]>()

  /** @throws {TidemarkError} `CONFIG_INVALID` */
  constructor(prefix: string) {
    if (typeof prefix !== 'string' || !PREFIX.test(prefix)) {
      throw new TidemarkError(
        'CONFIG_INVALID',
        "mysql: 'prefix' must begin with a letter and hold letters, digits, _.",
        {
          values: { option: 'prefix', expected: 'at most 30 letters, digits and underscores' },
        },
      )
    }
    this.prefix = prefix
  }

  table(name: string): string {
    return `\`${this.prefix}${name}\``
  }

  /** The text with its table names filled in. */
  fill(text: string): string {
    return text.replace(/\{(\w+)\}/g, (_, name: string) => this.table(name))
  }

  /** The text with its table names filled in, cut at its question marks. */
  parts(text: string): readonly string[] {
    const known = this.#texts.get(text)
    if (known) return known
    if (this.#texts.size >= MOST_TEXTS) this.#texts.clear()
    const parts = this.fill(text).split('?')
    this.#texts.set(text, parts)
    return parts
  }
}
