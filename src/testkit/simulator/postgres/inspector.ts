import type { Inspection, LeaseLine } from '../backend.ts'
import {
  type CommitLine,
  type EffectLine,
  type MarkLine,
  type RawWatcher,
  type RowLine,
  stateOf,
  type TotalLine,
  type WatcherState,
  type WatcherTables,
} from '../inspector.ts'
import { OWN_KINDS } from './application.ts'

const list = (name: string, sql: string) => `'${name}', (SELECT coalesce(json_agg(row), '[]') FROM (${sql}) AS row)`

const effectsOf = (name: string) => `
  SELECT n, block_number AS block, log_index AS "logIndex", sender, receiver, amount,
    block_number || '/' || block_hash || '/' || transaction_hash || '/' || log_index AS place
  FROM ${name}_ledger ORDER BY n`
const managedOf = (table: string) => `
  SELECT tidemark_block AS block, encode(tidemark_event, 'hex') AS stable, tidemark_ordinal AS ordinal, block AS hash, sender, receiver,
    amount::bigint AS amount
  FROM ${table} ORDER BY tidemark_block, tidemark_event, tidemark_ordinal`

const own = OWN_KINDS.flatMap((kind) => [
  list(`${kind}_ledger`, effectsOf(kind)),
  list(`${kind}_balances`, `SELECT account, amount FROM ${kind}_balances ORDER BY account`),
  list(`${kind}_finals`, `SELECT entry, block_number AS block FROM ${kind}_finals ORDER BY n`),
])

/** Everything that is committed, in one statement: on one snapshot, and in one round trip. */
const READ = `SELECT json_build_object(
  ${list(
    'watchers',
    `SELECT id, name, start_block AS "startBlock", cursor_block AS cursor, concat('0x', encode(cursor_hash, 'hex')) AS "cursorHash", epoch,
      encode(token, 'hex') AS token, settled, finalized, low_water AS "lowWater", state, reason, applied, undone, duplicates, reorgs
    FROM tidemark.watchers ORDER BY id`,
  )},
  ${list('nonces', "SELECT id, encode(nonce, 'hex') AS nonce, revision FROM tidemark.watchers ORDER BY id")},
  ${list(
    'marks',
    `SELECT watcher, block_number AS block, encode(stable_id, 'hex') AS stable,
      block_number || '/0x' || encode(block_hash, 'hex') || '/0x' || encode(transaction_hash, 'hex') || '/' || log_index AS place
    FROM tidemark.processed_events ORDER BY watcher, block_number, log_index`,
  )},
  ${list('kept', 'SELECT watcher, block_number AS block FROM tidemark.kept_events ORDER BY watcher, block_number, sequence')},
  ${list(
    'trail',
    `SELECT watcher, block_number AS block, '0x' || encode(block_hash, 'hex') AS hash
    FROM tidemark.unfinalized_blocks ORDER BY watcher, block_number`,
  )},
  ${list(
    'commits',
    `SELECT watcher, from_block AS first, to_block AS last, events, encode(digest, 'hex') AS digest
    FROM tidemark.commits ORDER BY watcher, from_block`,
  )},
  ${list('sums', 'SELECT account, amount::bigint AS amount, tidemark_additions AS additions FROM managed_sums ORDER BY account')},
  ${list(
    'changes',
    "SELECT watcher, block_number AS block FROM tidemark.total_changes WHERE table_name = 'managed_sums' ORDER BY watcher, block_number",
  )},
  ${list('chains', 'SELECT chain_id AS id FROM tidemark.chains')},
  ${['undo_rows', 'managed_rows', 'managed_paid'].map((table) => list(table, managedOf(table))).join(',\n  ')},
  ${own.join(',\n  ')}
)::text AS everything, (SELECT coalesce(json_object_agg(watcher, json_build_object('token', encode(token, 'hex'),
  'until', extract(epoch FROM expires_at) * 1000)), '{}') FROM tidemark.leases)::text AS leases`

type OfWatcher<T> = T & { readonly watcher: number }

/** A lease, and when it expires, in ms since the epoch. */
interface Held {
  readonly token: string
  readonly until: number
}

interface Everything {
  readonly watchers: readonly RawWatcher[]
  readonly nonces: readonly { readonly id: number; readonly nonce: string; readonly revision: number }[]
  readonly marks: readonly OfWatcher<MarkLine>[]
  readonly kept: readonly OfWatcher<{ readonly block: number }>[]
  readonly trail: readonly OfWatcher<{ readonly block: number; readonly hash: string }>[]
  readonly commits: readonly OfWatcher<CommitLine>[]
  readonly sums: readonly TotalLine[]
  readonly changes: readonly OfWatcher<{ readonly block: number }>[]
  readonly chains: readonly unknown[]
}

/** What a watcher's row holds that no check knows by name: it tells one commit from the next. */
export interface Version {
  readonly name: string
  readonly token: string
  readonly nonce: string
  readonly revision: number
}

/** @param name prepares it under this name */
export type Query = (text: string, values?: unknown[], name?: string) => Promise<readonly Record<string, unknown>[]>

const NOTHING: Everything = {
  watchers: [],
  nonces: [],
  marks: [],
  kept: [],
  trail: [],
  commits: [],
  sums: [],
  changes: [],
  chains: [],
}

/** Reads all tables at once, whenever something may have changed, and answers from what it has read. */
export class PgInspector implements Inspection {
  readonly #query: Query
  readonly #now: () => number
  #text = ''
  #seen = ''
  #found: Everything = NOTHING
  #leases: ReadonlyMap<string, Held> = new Map()
  /** The rows of the watchers at the reading before the last. */
  #before: readonly Version[] = []

  /** @param now the time of the run, in ms since the epoch */
  constructor(query: Query, now: () => number) {
    this.#query = query
    this.#now = now
  }

  async refresh(): Promise<void> {
    const [row] = await this.#query(READ, [], 'everything')
    this.#before = this.versions()
    this.#leases = new Map(Object.entries(JSON.parse(String(row?.leases)) as Record<string, Held>))
    const text = String(row?.everything)
    if (text === this.#text) return
    this.#text = text
    this.#found = JSON.parse(text) as Everything
  }

  changed(): boolean {
    const changed = this.#text !== this.#seen
    this.#seen = this.#text
    return changed
  }

  /** The rows that changed between the last two readings. */
  changedRows(): Version[] {
    const before = new Map(this.#before.map((one) => [one.name, JSON.stringify(one)]))
    return this.versions().filter((one) => before.get(one.name) !== JSON.stringify(one))
  }

  versions(): Version[] {
    const { watchers, nonces } = this.#found
    return watchers.map(({ name, token }, i) => {
      const { nonce = '', revision = 0 } = nonces[i] ?? {}
      return { name, token, nonce, revision }
    })
  }

  leases(): ReadonlyMap<string, LeaseLine> {
    const now = this.#now()
    return new Map([...this.#leases].map(([watcher, { token, until }]) => [watcher, { token, expired: until <= now }]))
  }

  get knowsChain(): boolean {
    return this.#found.chains.length > 0
  }

  linesOf(watcher: string) {
    return this.#found.watchers.find(({ name }) => name === watcher)
  }

  nonceOf({ id }: WatcherState): string {
    return String(this.#found.nonces.find((one) => one.id === id)?.nonce)
  }

  watchers(): WatcherState[] {
    return this.#found.watchers.map(stateOf)
  }

  tables({ id, kind }: WatcherState): WatcherTables {
    const { marks, kept, trail, commits, sums, changes } = this.#found
    const of = <T extends { readonly watcher: number }>(all: readonly T[]) => all.filter((one) => one.watcher === id)
    const table = <T>(name: string) =>
      ((this.#found as unknown as Record<string, readonly T[]>)[name] ?? []) as readonly T[]
    const balances = table<{ account: string; amount: number }>(`${kind}_balances`)
    return {
      marks: of(marks),
      effects: table<EffectLine>(`${kind}_ledger`),
      balances: new Map(balances.map(({ account, amount }) => [account, amount])),
      finals: table<WatcherTables['finals'][number]>(`${kind}_finals`),
      rows: table<RowLine>(`${kind}_rows`),
      paid: table<RowLine>(`${kind}_paid`),
      totals: kind === 'managed' ? { lines: sums, kept: of(changes).map(({ block }) => block) } : null,
      kept: of(kept).map(({ block }) => block),
      trail: new Map(of(trail).map(({ block, hash }) => [block, hash])),
      commits: of(commits),
    }
  }

  async moveCursor({ id }: Pick<WatcherState, 'id'>, block: number, hash: string): Promise<void> {
    const sql = "UPDATE tidemark.watchers SET cursor_block = $1, cursor_hash = decode($2, 'hex') WHERE id = $3"
    await this.#query(sql, [block, hash.slice(2), id])
    await this.refresh()
  }

  async takeBack(name: string, effects: readonly EffectLine[]): Promise<void> {
    const sums = new Map<string, number>()
    for (const { sender, receiver, amount } of effects) {
      sums.set(sender, (sums.get(sender) ?? 0) + amount)
      sums.set(receiver, (sums.get(receiver) ?? 0) - amount)
    }
    // One statement is one commit. A row that is deleted and one that is changed are never the same.
    const sql = `
      WITH change AS (SELECT * FROM unnest($1::text[], $2::integer[]) AS change (account, amount)),
      gone AS (DELETE FROM ${name}_ledger WHERE n = ANY ($3::integer[])),
      empty AS (DELETE FROM ${name}_balances AS held USING change
        WHERE held.account = change.account AND held.amount + change.amount = 0)
      INSERT INTO ${name}_balances AS held (account, amount)
        SELECT change.account, change.amount FROM change LEFT JOIN ${name}_balances AS old USING (account)
        WHERE coalesce(old.amount, 0) + change.amount <> 0
      ON CONFLICT (account) DO UPDATE SET amount = held.amount + excluded.amount`
    await this.#query(sql, [[...sums.keys()], [...sums.values()], effects.map(({ n }) => n)])
    await this.refresh()
  }

  close(): void {}
}
