import type { At } from '../../src/collect/source.ts'
import { type SqliteDb, watch } from '../../src/store/sqlite/index.ts'
import {
  blockLabel,
  compareTables,
  eventsOf,
  type FakeLog,
  type Row,
  readTransfer,
  TRANSFER_TOPIC,
  type TransactionInput,
  testAddress,
  transfer,
  transferBalances,
} from '../../src/testkit/index.ts'
import { Harness, type HarnessOptions } from './harness.ts'

/** The application of the cases: it keeps entries and balances of one token, as a user would, and nothing more. */

export const TOKEN = testAddress('TOKEN')
export const BANK = testAddress('BANK')
export const ALICE = testAddress('ALICE')
export const BOB = testAddress('BOB')

/** `balance += x` is the very thing that a second delivery breaks; the serial of `entries` shows the order of the calls. */
export const SCHEMA = `
  CREATE TABLE IF NOT EXISTS balances (account TEXT PRIMARY KEY, amount INTEGER NOT NULL);
  CREATE TABLE IF NOT EXISTS entries (
    n INTEGER PRIMARY KEY AUTOINCREMENT, block_hash TEXT NOT NULL, transaction_hash TEXT NOT NULL,
    log_index INTEGER NOT NULL, receiver TEXT NOT NULL, amount INTEGER NOT NULL
  );
`

/** `T1` as a transaction hash that can be read again: its ASCII in front, zeros behind. */
export function hashOf(name: string): `0x${string}` {
  return `0x${Buffer.from(name, 'ascii').toString('hex').padEnd(64, '0')}`
}

function nameOf(hash: string): string {
  return Buffer.from(hash.slice(2), 'hex').toString('latin1').replace(/\0+$/, '')
}

/** Transaction `name` with some logs of its own. */
export function tx(name: string, ...logs: FakeLog[]): TransactionInput {
  return { hash: hashOf(name), logs }
}

/** Transaction `name`: the bank pays BOB, or someone else. */
export function pay(name: string, amount: number, to: string = BOB): TransactionInput {
  return tx(name, transfer(TOKEN, BANK, to, amount))
}

/** An event as the cases write it: `T1,0@101a`. */
export function place(event: { transactionHash: string; logIndex: number; blockHash: string }): string {
  return `${nameOf(event.transactionHash)},${event.logIndex}@${blockLabel(event.blockHash)}`
}

/** Adds to a balance; a row at zero is taken away, so that "no row" comes back after an undo. */
export function credit(db: SqliteDb, account: string, amount: number): void {
  db.prepare(
    'INSERT INTO balances (account, amount) VALUES (?, ?) ON CONFLICT (account) DO UPDATE SET amount = amount + excluded.amount',
  ).run(account, amount)
  db.prepare('DELETE FROM balances WHERE account = ? AND amount = 0').run(account)
}

export const TRANSFER_EVENT = 'event Transfer(address indexed from, address indexed to, uint256 value)'

export interface LedgerOptions extends Omit<HarnessOptions, 'watchers' | 'schema'> {
  readonly at: At
  readonly startBlock: number | 'now'
  readonly address?: string | readonly string[]
  /** Default: only at `latest`. */
  readonly undo?: boolean
  /** Called before the effects of an event, to fail there. */
  readonly before?: (at: string) => void
  readonly maxEvents?: number
}

function ledgerWatcher(options: LedgerOptions, calls: string[]) {
  const { at, startBlock, address = TOKEN, undo = at === 'latest', before, maxEvents } = options
  return watch({
    on: { test: { address, startBlock, at } },
    events: { Transfer: { event: TRANSFER_EVENT } },
    ...(maxEvents === undefined ? {} : { batch: { maxEvents } }),
    handle({ event, db }) {
      calls.push(place(event))
      before?.(place(event))
      const { from, to, value } = event.args
      const amount = Number(value)
      credit(db, from, -amount)
      credit(db, to, amount)
      const added = db
        .prepare(
          'INSERT INTO entries (block_hash, transaction_hash, log_index, receiver, amount) VALUES (?, ?, ?, ?, ?)',
        )
        .run(event.blockHash, event.transactionHash, event.logIndex, to, amount)
      return { entry: Number(added.lastInsertRowid) }
    },
    ...(undo ? { undo: takeBack } : {}),
  })
}

function takeBack({ event, memo, db }: { event: { args: unknown }; memo: unknown; db: SqliteDb }): void {
  const { from, to, value } = event.args as { from: string; to: string; value: bigint }
  credit(db, to, -Number(value))
  credit(db, from, Number(value))
  db.prepare('DELETE FROM entries WHERE n = ?').run((memo as { entry: number }).entry)
}

const MARKS = `SELECT block_number, '0x' || lower(hex(block_hash)) AS block_hash,
  '0x' || lower(hex(transaction_hash)) AS transaction_hash, log_index FROM tidemark_processed_events`

/** A case on its way: the engine on a real file, and what its database holds, in the words of the cases. */
export class Ledger extends Harness {
  /** Every call of the handler, in order: `T1,0@101a`. More than once is allowed; effects more than once are not. */
  readonly calls: readonly string[]
  private readonly ledger: LedgerOptions

  constructor(options: LedgerOptions) {
    const calls: string[] = []
    super({ seed: 1, ...options, watchers: { ledger: ledgerWatcher(options, calls) }, schema: SCHEMA })
    this.calls = calls
    this.ledger = options
  }

  /** Rows of `entries` in the order of the handler's calls: `T1,0@101a 5`. */
  entries(): string[] {
    return this.rows('SELECT * FROM entries ORDER BY n').map((row) => {
      const { transaction_hash, log_index, block_hash, amount } = row
      const event = {
        transactionHash: String(transaction_hash),
        logIndex: Number(log_index),
        blockHash: String(block_hash),
      }
      return `${place(event)} ${amount}`
    })
  }

  /** Rows of `tidemark_processed_events`, by block and index. */
  marks(): string[] {
    return this.rows(`${MARKS} ORDER BY block_number, transaction_hash, log_index`).map((row) =>
      place({
        transactionHash: String(row.transaction_hash),
        logIndex: Number(row.log_index),
        blockHash: String(row.block_hash),
      }),
    )
  }

  balance(account: string): number | null {
    const [row] = this.rows(`SELECT amount FROM balances WHERE account = '${account}'`)
    return row ? Number(row.amount) : null
  }

  /** Label of the block that the cursor stands on; null before the first. */
  async cursor(): Promise<string | null> {
    const { cursor } = await this.watcher()
    return cursor && blockLabel(cursor.hash)
  }

  async watcher() {
    const [watcher] = (await this.tidemark.status()).watchers
    if (!watcher) throw new Error('the watcher has no row yet')
    return watcher
  }

  /** Codes of what was reported under a type: `halted`, `failing`. */
  codes(type: 'halted' | 'failing'): unknown[] {
    return this.events
      .filter((one) => one.type === type)
      .map(({ event }) => event.code ?? (event.reason as { code: string }).code)
  }

  /** How the database differs from a naive replay of the final chain up to the cursor. Empty: it is right. */
  async differences(): Promise<string[]> {
    const { cursor, startBlock } = await this.watcher()
    const to = cursor?.number ?? -1
    const filter = { addresses: [TOKEN], topic0: TRANSFER_TOPIC, topicCount: 3, from: startBlock, to }
    return compareTables(expectedTables(this.ledger.chain, filter), {
      balances: this.rows('SELECT account, amount FROM balances'),
      entries: this.rows('SELECT block_hash, transaction_hash, log_index, receiver, amount FROM entries'),
      marks: this.rows(MARKS),
    })
  }

  /** Moves the cursor by hand, as an operator with a database shell would. */
  moveCursor(number: number): void {
    const hash = this.ledger.chain.blockByNumber(number)?.hash
    this.sql((db) =>
      db.exec(`UPDATE tidemark_watchers SET cursor_block = ${number}, cursor_hash = X'${hash?.slice(2)}'`),
    )
  }
}

function expectedTables(chain: LedgerOptions['chain'], filter: Parameters<typeof eventsOf>[1]): Record<string, Row[]> {
  const found = eventsOf(chain, filter).filter(({ log }) => log.data.length === 66)
  const places = found.map(({ block, log }) => {
    const { transactionHash: transaction_hash, logIndex: log_index } = log
    return { block_number: block.number, block_hash: block.hash, transaction_hash, log_index, moved: readTransfer(log) }
  })
  return {
    balances: [...transferBalances(chain, filter)].map(([account, amount]) => ({ account, amount })),
    entries: places.map(({ block_number: _, moved, ...one }) => ({
      ...one,
      receiver: moved?.to,
      amount: moved?.value,
    })),
    marks: places.map(({ moved: _, ...one }) => one),
  }
}

/** Runs a case and closes it, whatever happens. */
export async function ledger(options: LedgerOptions, work: (h: Ledger) => Promise<void>): Promise<void> {
  const h = new Ledger(options)
  try {
    await work(h)
  } finally {
    await h.close()
  }
}
