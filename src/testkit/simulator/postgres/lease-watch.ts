import type { PgQueryConfig, PgResult } from '../../../store/postgres/driver.ts'
import { bytesToHex } from '../../../util/bytes.ts'
import type { LeaseLine } from '../backend.ts'
import type { FailureKind } from '../failure.ts'

export interface LeaseWatchOptions {
  /** Reads on a connection of its own: only what is committed. */
  readonly leaseOf: (watcher: string) => Promise<LeaseLine | null>
  readonly saw: (kind: FailureKind, words: string) => void
}

type Verb = 'take' | 'renew' | 'remove'

/** Which statement about leases it is; null: none. */
function verbOf(sql: string): Verb | null {
  const found = /\b(INSERT INTO|UPDATE|DELETE FROM) tidemark\.leases\b/i.exec(sql)?.[1]?.toUpperCase()
  if (found === undefined) return null
  return found === 'INSERT INTO' ? 'take' : found === 'UPDATE' ? 'renew' : 'remove'
}

function hexOf(value: unknown): string {
  return value instanceof Uint8Array ? bytesToHex(value).replace(/^0x/, '') : ''
}

/**
 * Looks at each statement of one process that changes a lease: it is taken when it is free or has expired, and renewed and
 * given back by its holder alone (P9). It shares no code with the leases of the store.
 */
export class LeaseWatch {
  /** Tokens of the leases that this process was given. */
  readonly tokens = new Set<string>()
  readonly #options: LeaseWatchOptions

  constructor(options: LeaseWatchOptions) {
    this.#options = options
  }

  async around({ text, values = [] }: PgQueryConfig, work: () => Promise<PgResult>): Promise<PgResult> {
    const verb = verbOf(text)
    if (!verb) return work()
    const watcher = String(values[0])
    const before = await this.#options.leaseOf(watcher)
    // The row may name the token before the answer is heard, and the answer may be lost.
    if (verb === 'take') this.tokens.add(hexOf(values[1]))
    const result = await work()
    if (result.rowCount) this.#changed(verb, watcher, before)
    return result
  }

  #changed(verb: Verb, watcher: string, before: LeaseLine | null): void {
    const { saw } = this.#options
    if (verb === 'take') {
      if (before && !before.expired) saw('fencing', `the lease of ${watcher} was taken before it had expired`)
    } else if (!before || !this.tokens.has(before.token)) {
      const what = verb === 'renew' ? 'renewed' : 'given back'
      saw('fencing', `the lease of ${watcher} was ${what} by a process that does not hold it`)
    }
  }
}
