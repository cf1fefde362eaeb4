import type { Watcher } from '../../../handle/watch.ts'
import { type PgDb, rows, totals, watch } from '../../../store/postgres/index.ts'
import {
  type Application,
  addSums,
  CHAIN,
  COLUMNS,
  checkPrepared,
  common,
  type Memo,
  preparing,
  rowOf,
  SUMS,
  type Transfer,
} from '../application.ts'
import type { SwarmOptions, WatcherKind } from '../options.ts'
import type { Probe } from '../probe.ts'
import { callAsync } from './misbehave.ts'

export const OWN_KINDS: readonly WatcherKind[] = ['undo', 'confirmed', 'finalized']

function tablesOf(name: WatcherKind): string {
  return `
  CREATE TABLE ${name}_balances (account text PRIMARY KEY, amount integer NOT NULL);
  CREATE TABLE ${name}_ledger (
    n integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, block_number integer NOT NULL, block_hash text NOT NULL,
    transaction_hash text NOT NULL, log_index integer NOT NULL, sender text NOT NULL, receiver text NOT NULL, amount integer NOT NULL
  );
  CREATE TABLE ${name}_finals (
    n integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, entry integer NOT NULL, block_number integer NOT NULL
  );`
}

/** The tables of all watchers that a run may have: made once for many runs. */
export const SCHEMA = `${OWN_KINDS.map(tablesOf).join('\n')}
  CREATE TABLE simulator_once (id integer PRIMARY KEY);
  INSERT INTO simulator_once VALUES (1);`

/** The managed tables, as the watchers declare them. */
export const MANAGED = ['undo_rows', 'managed_rows', 'managed_paid'].map((table) => ({ table, columns: COLUMNS }))

/** A row at zero is taken away, so that "no row" comes back after an undo (C29). */
async function credit(db: PgDb, name: string, account: string, amount: number): Promise<void> {
  await db.query(
    `INSERT INTO ${name}_balances AS held (account, amount) VALUES ($1, $2)
     ON CONFLICT (account) DO UPDATE SET amount = held.amount + excluded.amount`,
    [account, amount],
  )
  await db.query(`DELETE FROM ${name}_balances WHERE account = $1 AND amount = 0`, [account])
}

async function apply(db: PgDb, name: string, event: Transfer): Promise<Memo> {
  const { from, to, value } = event.args
  await credit(db, name, from, -Number(value))
  await credit(db, name, to, Number(value))
  const { rows: added } = await db.query<{ n: number }>(
    `INSERT INTO ${name}_ledger (block_number, block_hash, transaction_hash, log_index, sender, receiver, amount)
     VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING n`,
    [event.blockNumber, event.blockHash, event.transactionHash, event.logIndex, from, to, value],
  )
  return { n: added[0]?.n ?? 0, stableId: event.stableId }
}

/** Undo must come newest first, with the memo of its own event, and never for a settled block. */
async function checkUndo(db: PgDb, name: string, event: Transfer, memo: Memo, probe: Probe): Promise<void> {
  const { rows: found } = await db.query<{ newest: number | null; settled: number }>(
    `SELECT (SELECT max(n) FROM ${name}_ledger) AS newest,
       coalesce((SELECT settled FROM tidemark.watchers WHERE name = $1), -1)::integer AS settled`,
    [`${name}/${CHAIN}`],
  )
  const { newest = null, settled = -1 } = found[0] ?? {}
  const at = `block ${event.blockNumber}, log ${event.logIndex}`
  if (memo.stableId !== event.stableId) probe.sawInside('undo', `${name}: undo of ${at} got the memo of another event`)
  if (newest !== memo.n)
    probe.sawInside('undo', `${name}: undo of ${at} is for entry ${memo.n} while entry ${newest} is newer`)
  if (settled >= Number(event.blockNumber))
    probe.sawInside('settled', `${name}: ${at} is undone although ${settled} is settled`)
}

async function takeBack(db: PgDb, name: string, event: Transfer, memo: Memo): Promise<void> {
  const { from, to, value } = event.args
  await credit(db, name, to, -Number(value))
  await credit(db, name, from, Number(value))
  await db.query(`DELETE FROM ${name}_ledger WHERE n = $1`, [memo.n])
}

async function pay(db: PgDb, name: string, event: Transfer, memo: Memo): Promise<void> {
  await db.query(`INSERT INTO ${name}_finals (entry, block_number) VALUES ($1, $2)`, [memo.n, event.blockNumber])
}

function undoWatcher(options: SwarmOptions, probe: Probe): Watcher<PgDb> {
  const { on, events, more } = common(options)
  return watch({
    on: { [CHAIN]: { ...on, at: options.at } },
    events,
    tables: { rows: rows({ table: 'undo_rows', columns: COLUMNS }) },
    prepare: preparing('undo', probe),
    handle({ event, db, tables, prepared }) {
      checkPrepared('undo', event, prepared, probe)
      return callAsync(probe, 'undo', 'handle', db, () => {
        tables.rows.insert(rowOf(event))
        return apply(db, 'undo', event)
      })
    },
    undo({ event, db, memo }) {
      return callAsync(probe, 'undo', 'undo', db, async () => {
        await checkUndo(db, 'undo', event, memo, probe)
        await takeBack(db, 'undo', event, memo)
      })
    },
    final({ event, db, memo }) {
      return callAsync(probe, 'undo', 'final', db, () => pay(db, 'undo', event, memo))
    },
    ...more,
  })
}

function managedWatcher(options: SwarmOptions, probe: Probe): Watcher<PgDb> {
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
      return callAsync(probe, 'managed', 'handle', db, async () => {
        tables.rows.insert(rowOf(event))
        addSums(tables.sums, event)
      })
    },
    final({ event, db, tables }) {
      return callAsync(probe, 'managed', 'final', db, async () => tables.paid.insert(rowOf(event)))
    },
    ...more,
  })
}

/** Nothing is taken back: it waits for confirmations, or for finality. */
function onceWatcher(name: 'confirmed' | 'finalized', options: SwarmOptions, probe: Probe): Watcher<PgDb> {
  const { on, events, more } = common(options)
  const irreversible = name === 'confirmed' && options.irreversible
  const ahead = irreversible ? ('latest' as const) : { confirmations: options.confirmations }
  const at = name === 'finalized' ? ('finalized' as const) : ahead
  const handle = ({ event, db, prepared }: { event: Transfer; db: PgDb; prepared: string }) => {
    checkPrepared(name, event, prepared, probe)
    return callAsync(probe, name, 'handle', db, () => apply(db, name, event))
  }
  const final = ({ event, db, memo }: { event: Transfer; db: PgDb; memo: Memo }) =>
    callAsync(probe, name, 'final', db, () => pay(db, name, event, memo))
  const prepare = preparing(name, probe)
  const where = { [CHAIN]: { ...on, at } }
  const undo = irreversible ? ({ undo: 'irreversible' } as const) : {}
  if (!options.staged) return watch({ on: where, events, prepare, handle, ...undo, ...more })
  return watch({ on: where, events, prepare, handle, final, ...undo, ...more })
}

function watcherOf(kind: WatcherKind, options: SwarmOptions, probe: Probe): Watcher<PgDb> {
  if (kind === 'undo') return undoWatcher(options, probe)
  return kind === 'managed' ? managedWatcher(options, probe) : onceWatcher(kind, options, probe)
}

/** The application of `../application.ts`, on a `pg` client: the same tables and the same numbers. */
export function application(options: SwarmOptions, probe: Probe): Application {
  return {
    schema: SCHEMA,
    watchers: Object.fromEntries(options.watchers.map((kind) => [kind, watcherOf(kind, options, probe) as Watcher])),
  }
}
