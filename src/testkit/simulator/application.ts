import type { Watcher } from '../../handle/watch.ts'
import type { TotalsWriter } from '../../managed/totals.ts'
import { rows, type SqliteDb, totals, watch } from '../../store/sqlite/index.ts'
import type { SwarmOptions, WatcherKind } from './options.ts'
import type { Probe } from './probe.ts'
import { TOKEN } from './sim-chain.ts'

/** The name of the chain in the configuration of a run. */
export const CHAIN = 'sim'

/** The application of a run: what a user would write, with every effect told by the tables alone. */
export interface Application {
  /** SQL that makes the user's own tables. */
  readonly schema: string
  readonly watchers: Readonly<Record<string, Watcher>>
}

const EVENT = 'event Transfer(address indexed from, address indexed to, uint256 value)'

/** `balance += x` is what a second delivery breaks; the serial of the ledger shows the order of the calls. */
function schemaOf(name: WatcherKind): string {
  return `
  CREATE TABLE ${name}_balances (account TEXT PRIMARY KEY, amount INTEGER NOT NULL);
  CREATE TABLE ${name}_ledger (
    n INTEGER PRIMARY KEY AUTOINCREMENT, block_number INTEGER NOT NULL, block_hash TEXT NOT NULL, transaction_hash TEXT NOT NULL,
    log_index INTEGER NOT NULL, sender TEXT NOT NULL, receiver TEXT NOT NULL, amount INTEGER NOT NULL
  );
  CREATE TABLE ${name}_finals (n INTEGER PRIMARY KEY AUTOINCREMENT, entry INTEGER NOT NULL, block_number INTEGER NOT NULL);`
}

/** A table with one row, to be inserted again where a statement must fail. */
const ONCE = 'CREATE TABLE simulator_once (id INTEGER PRIMARY KEY); INSERT INTO simulator_once VALUES (1);'

export interface Transfer {
  readonly blockNumber: bigint
  readonly blockHash: string
  readonly transactionHash: string
  readonly logIndex: number
  readonly stableId: string
  readonly args: { readonly from: string; readonly to: string; readonly value: bigint }
}

export interface Memo {
  readonly n: number
  readonly stableId: string
}

/** A row at zero is taken away, so that "no row" comes back after an undo (C29). */
function credit(db: SqliteDb, name: string, account: string, amount: number): void {
  db.prepare(
    `INSERT INTO ${name}_balances (account, amount) VALUES (?, ?) ON CONFLICT (account) DO UPDATE SET amount = amount + excluded.amount`,
  ).run(account, amount)
  db.prepare(`DELETE FROM ${name}_balances WHERE account = ? AND amount = 0`).run(account)
}

function apply(db: SqliteDb, name: string, event: Transfer): Memo {
  const { from, to, value } = event.args
  credit(db, name, from, -Number(value))
  credit(db, name, to, Number(value))
  const added = db
    .prepare(
      `INSERT INTO ${name}_ledger (block_number, block_hash, transaction_hash, log_index, sender, receiver, amount) VALUES (?, ?, ?, ?, ?, ?, ?)`,
    )
    .run(event.blockNumber, event.blockHash, event.transactionHash, event.logIndex, from, to, value)
  return { n: Number(added.lastInsertRowid), stableId: event.stableId }
}

/** Undo must come newest first, with the memo of its own event, and never for a settled block. */
function checkUndo(db: SqliteDb, name: string, event: Transfer, memo: Memo, probe: Probe): void {
  const newest = db.prepare(`SELECT max(n) AS n FROM ${name}_ledger`).get()?.n
  const settled =
    db.prepare('SELECT settled FROM tidemark_watchers WHERE name = ?').get(`${name}/${CHAIN}`)?.settled ?? -1
  const at = `block ${event.blockNumber}, log ${event.logIndex}`
  if (memo.stableId !== event.stableId) probe.sawInside('undo', `${name}: undo of ${at} got the memo of another event`)
  if (newest !== memo.n)
    probe.sawInside('undo', `${name}: undo of ${at} is for entry ${memo.n} while entry ${newest} is newer`)
  if (Number(settled) >= Number(event.blockNumber))
    probe.sawInside('settled', `${name}: ${at} is undone although ${settled} is settled`)
}

function takeBack(db: SqliteDb, name: string, event: Transfer, memo: Memo): void {
  const { from, to, value } = event.args
  credit(db, name, to, -Number(value))
  credit(db, name, from, Number(value))
  db.prepare(`DELETE FROM ${name}_ledger WHERE n = ?`).run(memo.n)
}

function pay(db: SqliteDb, name: string, event: Transfer, memo: Memo): void {
  db.prepare(`INSERT INTO ${name}_finals (entry, block_number) VALUES (?, ?)`).run(memo.n, event.blockNumber)
}

export function common({ startBlock, maxEvents }: SwarmOptions) {
  return {
    on: { address: TOKEN, startBlock },
    events: { Transfer: { event: EVENT } },
    more: { batch: { maxEvents, maxMs: 100 }, handlerTimeout: 10_000 },
  } as const
}

export const COLUMNS = { block: 'text', sender: 'text', receiver: 'text', amount: 'uint256' } as const

export const SUMS = { table: 'managed_sums', key: { account: 'text' }, sum: { amount: 'int256' } } as const

/** What a transfer does to the sums of both accounts, which may be one (C71). */
export function addSums(sums: TotalsWriter<typeof SUMS.key, typeof SUMS.sum>, { args }: Transfer): void {
  sums.add({ account: args.from }, { amount: -args.value })
  sums.add({ account: args.to }, { amount: args.value })
}

export function rowOf({ blockHash, args }: Transfer) {
  return { block: blockHash, sender: args.from, receiver: args.to, amount: args.value }
}

/** `prepare` tells which event it was called for; the handler compares. */
export function preparing(name: WatcherKind, probe: Probe) {
  return async ({ event }: { event: Pick<Transfer, 'stableId'> }): Promise<string> => {
    await probe.prepare(name)
    return event.stableId
  }
}

export function checkPrepared(name: WatcherKind, event: Transfer, prepared: string, probe: Probe): void {
  if (prepared !== event.stableId)
    probe.sawInside('content', `${name}: a handler got what was prepared for another event`)
}

/** Everything at once: own SQL with a memo, managed rows, an undo function, a second stage. */
function undoWatcher(options: SwarmOptions, probe: Probe): Watcher<SqliteDb> {
  const { on, events, more } = common(options)
  return watch({
    on: { [CHAIN]: { ...on, at: options.at } },
    events,
    tables: { rows: rows({ table: 'undo_rows', columns: COLUMNS }) },
    prepare: preparing('undo', probe),
    handle({ event, db, tables, prepared }) {
      checkPrepared('undo', event, prepared, probe)
      return probe.call('undo', 'handle', db, () => {
        tables.rows.insert(rowOf(event))
        return apply(db, 'undo', event)
      })
    },
    undo({ event, db, memo }) {
      return probe.call('undo', 'undo', db, () => {
        checkUndo(db, 'undo', event, memo, probe)
        takeBack(db, 'undo', event, memo)
      })
    },
    final({ event, db, memo }) {
      return probe.call('undo', 'final', db, () => pay(db, 'undo', event, memo))
    },
    ...more,
  })
}

function managedWatcher(options: SwarmOptions, probe: Probe): Watcher<SqliteDb> {
  const { on, events, more } = common(options)
  return watch({
    on: { [CHAIN]: { ...on, at: 'latest' } },
    events,
    tables: {
      rows: rows({ table: 'managed_rows', columns: COLUMNS }),
      paid: rows({ table: 'managed_paid', columns: COLUMNS }),
      sums: totals(SUMS),
    },
    undo: 'managed',
    prepare: preparing('managed', probe),
    handle({ event, db, tables, prepared }) {
      checkPrepared('managed', event, prepared, probe)
      return probe.call('managed', 'handle', db, () => {
        tables.rows.insert(rowOf(event))
        addSums(tables.sums, event)
      })
    },
    final({ event, db, tables }) {
      return probe.call('managed', 'final', db, () => tables.paid.insert(rowOf(event)))
    },
    ...more,
  })
}

/** Nothing is taken back: it waits for confirmations, or for finality. */
function onceWatcher(name: 'confirmed' | 'finalized', options: SwarmOptions, probe: Probe): Watcher<SqliteDb> {
  const { on, events, more } = common(options)
  const irreversible = name === 'confirmed' && options.irreversible
  const ahead = irreversible ? ('latest' as const) : { confirmations: options.confirmations }
  const at = name === 'finalized' ? ('finalized' as const) : ahead
  const handle = ({ event, db, prepared }: { event: Transfer; db: SqliteDb; prepared: string }) => {
    checkPrepared(name, event, prepared, probe)
    return probe.call(name, 'handle', db, () => apply(db, name, event))
  }
  const final = ({ event, db, memo }: { event: Transfer; db: SqliteDb; memo: Memo }) =>
    probe.call(name, 'final', db, () => pay(db, name, event, memo))
  const prepare = preparing(name, probe)
  const where = { [CHAIN]: { ...on, at } }
  const undo = irreversible ? ({ undo: 'irreversible' } as const) : {}
  if (!options.staged) return watch({ on: where, events, prepare, handle, ...undo, ...more })
  return watch({ on: where, events, prepare, handle, final, ...undo, ...more })
}

function watcherOf(kind: WatcherKind, options: SwarmOptions, probe: Probe): Watcher<SqliteDb> {
  if (kind === 'undo') return undoWatcher(options, probe)
  return kind === 'managed' ? managedWatcher(options, probe) : onceWatcher(kind, options, probe)
}

/** The application with the watchers that a run drew. */
export function application(options: SwarmOptions, probe: Probe): Application {
  const own = options.watchers.filter((kind) => kind !== 'managed')
  return {
    schema: `${own.map(schemaOf).join('\n')}\n${ONCE}`,
    watchers: Object.fromEntries(options.watchers.map((kind) => [kind, watcherOf(kind, options, probe) as Watcher])),
  }
}
