import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import type { RpcCall, RpcOutcome } from '../../src/chain/rpc.ts'
import { hashText } from '../../src/handle/abi.ts'
import type { Watcher } from '../../src/handle/watch.ts'
import { rows } from '../../src/managed/rows.ts'
import { decodeInt256, decodeUint256 } from '../../src/store/sqlite/index.ts'
import { encodeParameters } from '../../src/testkit/encode.ts'
import { type FakeChain, FakeRpc, fakeChain, rawLog, testAddress, transfer } from '../../src/testkit/index.ts'
import { wait } from '../../src/util/op.ts'
import { ALICE, BOB, pay, TOKEN } from '../support/demo-ledger.ts'
import { StoreHarness } from '../support/store-harness.ts'
import { differences, ledgerOn, makeLedgerTables } from '../support/store-ledger.ts'
import { type AnyDb, type Backend, backends, type Database, type Definition } from '../support/stores.ts'

/**
 * Cases about values on their way into a database, each on every store: spellings, texts that a database does not take,
 * the largest numbers, more values than a statement can carry.
 *
 * Elsewhere: C57 (SQLite alone) in test/cases/storage.test.ts and src/store/sqlite/; what happens between connections in
 * storage-locks.test.ts.
 */

const MAX = 2n ** 256n - 1n
const REGISTRY = testAddress('registry')

/** An event `Named(string)` with these bytes, which need not be text. */
function named(bytes: string) {
  return rawLog(REGISTRY, [hashText('Named(string)')], encodeParameters([{ type: 'bytes' }], [`0x${bytes}`]))
}

/** A node that spells hex as some do: addresses with a checksum, hashes in capitals. */
class SpellingRpc extends FakeRpc {
  override async send(calls: readonly RpcCall[], signal?: AbortSignal): Promise<readonly RpcOutcome[]> {
    const outcomes = await super.send(calls, signal)
    return outcomes.map((one) => (one.ok ? { ok: true, result: capitals(one.result) } : one))
  }
}

const HEX_FIELDS = new Set(['address', 'transactionHash', 'blockHash'])

function capitals(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(capitals)
  if (typeof value !== 'object' || value === null || !('topics' in value)) return value
  const spell = ([name, one]: [string, unknown]) =>
    [name, HEX_FIELDS.has(name) ? `0x${String(one).slice(2).toUpperCase()}` : one] as const
  return Object.fromEntries(Object.entries(value).map(spell))
}

interface Named {
  readonly args: { readonly name: string }
  readonly data: string
}

const bytesOf = (hex: string) => Buffer.from(hex.slice(2), 'hex')
const REMOVE = 'DELETE FROM names WHERE raw = ?'
const KEEP = 'INSERT INTO names (label, raw) VALUES (?, ?)'

/** Keeps names in a table of its own; `label` says what of the name. */
function naming(backend: Backend, label: (name: string) => string, memos: string[]): Watcher {
  const own = (event: unknown) => event as Named
  return backend.watch({
    on: { test: { address: REGISTRY, startBlock: 1, at: 'latest' } },
    events: { Named: { event: 'event Named(string name)' } },
    tables: { named: rows({ table: 'named', columns: { label: 'text', raw: 'bytes' } }) },
    handle({ event, db, tables }: { event: unknown; db: AnyDb; tables: AnyDb }) {
      const { args, data } = own(event)
      tables.named.insert({ label: label(args.name), raw: data })
      const keep = function* () {
        yield* wait(backend.send(db, KEEP, label(args.name), bytesOf(data)))
        return { name: args.name }
      }
      return backend.drive(keep())
    },
    undo({ event, memo, db }: { event: unknown; memo: unknown; db: AnyDb }) {
      memos.push((memo as { name: string }).name)
      return backend.drive(wait(backend.send(db, REMOVE, bytesOf(own(event).data))))
    },
  } as unknown as Definition)
}

function amounts(backend: Backend): Watcher {
  const columns = { amount: 'uint256', half: 'int256' } as const
  return backend.watch({
    on: { test: { address: TOKEN, startBlock: 1, at: 'latest' } },
    events: { Transfer: { event: 'event Transfer(address indexed from, address indexed to, uint256 value)' } },
    tables: { amounts: rows({ table: 'amounts', columns }) },
    handle({ event, db, tables }: { event: { args: { value: bigint } }; db: AnyDb; tables: AnyDb }) {
      const { value } = event.args
      tables.amounts.insert({ amount: value, half: -(value >> 1n) - 1n })
      return backend.drive(wait(backend.send(db, 'INSERT INTO exact (digits) VALUES (?)', String(value)))) as never
    },
    undo: () => backend.drive(wait(undefined)),
  } as unknown as Definition)
}

/** Rows of the managed table alone, so that a block may hold very many events. */
function rawRows(backend: Backend): Watcher {
  return backend.watch({
    on: { test: { address: TOKEN, startBlock: 1, at: 'latest' } },
    events: { Transfer: { event: 'event Transfer(address indexed from, address indexed to, uint256 value)' } },
    tables: { many: rows({ table: 'many', columns: { receiver: 'text', amount: 'uint256' } }) },
    handle({ event, tables }: { event: { args: { to: string; value: bigint } }; tables: AnyDb }) {
      tables.many.insert({ receiver: event.args.to, amount: event.args.value })
    },
    // A function, so that the events are kept for it; the rows are taken back by themselves.
    undo: () => {},
    handlerTimeout: 60_000,
    batch: { maxMs: 60_000, maxEvents: 50_000 },
  } as unknown as Definition)
}

for (const backend of backends) {
  backend.describe('values on their way into the database', () => {
    let database: Database
    let chain: FakeChain
    const ends: (() => Promise<void>)[] = []

    beforeAll(async () => {
      database = await backend.database()
      const { text, bytes, digits } = backend.types
      await makeLedgerTables(database)
      await database.rows(`CREATE TABLE names (label ${text} NOT NULL, raw ${bytes} NOT NULL)`)
      await database.rows(`CREATE TABLE exact (digits ${digits} NOT NULL)`)
    })
    afterEach(async () => {
      for (const end of ends.splice(0)) await end()
      await database.empty()
    })
    afterAll(() => database?.drop())

    function start(watcher: Watcher, rpc?: (chain: FakeChain) => FakeRpc): StoreHarness {
      chain = fakeChain({ chainId: 7, finalized: { depth: 6 } })
      const nodes = rpc ? { rpc: [rpc(chain)] } : {}
      const h = new StoreHarness({ database, chain, watchers: { ledger: watcher }, ...nodes })
      ends.push(() => h.close())
      return h
    }

    const count = async (table: string) => Number((await database.rows(`SELECT count(*) AS n FROM ${table}`))[0]?.['n'])
    const events = () => database.rows(`SELECT event_id, block_hash, transaction_hash FROM ${backend.own('events')}`)

    test('C46: one address in two spellings, in the filter and in the answers: one event, one stored spelling', async () => {
      const on = { test: { address: TOKEN.toUpperCase().replace('0X', '0x'), startBlock: 1, at: 'latest' as const } }
      const watcher = ledgerOn(backend, { on } as never)
      const h = start(watcher, (one) => new SpellingRpc(one, { label: 'capitals' }))
      chain.mine([pay(5)])
      chain.mine([pay(7)])
      await h.settle()
      const first = await events()
      // The same blocks from a node that spells them in small letters: nothing is new, also to a new process.
      await h.restart({ chains: { test: { id: 7, rpc: [new FakeRpc(chain)], pollMs: 100 } } })
      chain.mine([pay(11)])
      await h.settle()
      expect(h.codes()).toEqual([])
      expect(await differences(database, chain, ['balances', 'transfers'])).toEqual([])
      const all = await events()
      expect([first.length, all.length]).toEqual([2, 3])
      for (const row of all) for (const one of Object.values(row)) expect(one).toMatch(/^[-x0-9a-f]+$/)
    })

    test('C48: bytes that are no UTF-8, and a NUL: all are kept, told apart by their bytes, and undone', async () => {
      const memos: string[] = []
      const h = start(naming(backend, (name) => name.replaceAll('\0', ''), memos))
      const texts = ['a7', 'f09f8c', '6869', '610062', 'f09f9880']
      chain.mineEmpty(1)
      chain.mine(texts.map(named))
      await h.settle()
      expect(h.codes()).toEqual([])
      const expected = [
        { label: '\uFFFD', raw: 'a7' },
        { label: '\uFFFD', raw: 'f09f8c' },
        { label: 'hi', raw: '6869' },
        { label: 'ab', raw: '610062' },
        { label: '😀', raw: 'f09f9880' },
      ].map(({ label, raw }) => `${label} ${named(raw).data?.slice(2)}`)
      for (const table of ['names', 'named']) {
        const found = await database.rows(`SELECT label, raw FROM ${table}`)
        const told = found.map(({ label, raw }) => `${label} ${Buffer.from(raw as Uint8Array).toString('hex')}`)
        expect(told.sort(), table).toEqual([...expected].sort())
      }
      chain.reorg(1, { reinclude: 'none', extraBlocks: 1 })
      await h.settle()
      expect([await count('names'), await count('named')]).toEqual([0, 0])
      // What the handler left behind came back as it was, NUL and all, newest first.
      expect(memos).toEqual(['😀', 'a\0b', 'hi', '\uFFFD', '\uFFFD'])
    })

    test('a NUL that a handler stores as it is: kept to the byte, or a halt at its event with nothing lost', async () => {
      const h = start(naming(backend, (name) => name, []))
      chain.mine([named('6869')])
      chain.mine([named('610062'), named('6f6b')])
      await h.settle()
      if (backend.kind === 'mysql') {
        expect(h.codes()).toEqual([])
        expect((await database.rows('SELECT label FROM names')).map((row) => row['label'])).toEqual([
          'hi',
          'a\0b',
          'ok',
        ])
        return
      }
      // PostgreSQL has no NUL in a text, and what SQLite shows of one ends there: refused before it is sent.
      expect(h.codes()).toEqual(['HANDLER_FAILED'])
      expect((await database.rows('SELECT label FROM names')).map((row) => row['label'])).toEqual(['hi'])
      await h.restart({ watchers: { ledger: naming(backend, (name) => name.replaceAll('\0', '?'), []) } })
      await h.tidemark.admin.resume('ledger/test', { actor: 'ada', reason: 'cleans the text' })
      await h.settle()
      expect((await database.rows('SELECT label FROM names')).map((row) => row['label'])).toEqual(['hi', 'a?b', 'ok'])
    })

    test('2^256 − 1 and −2^255 go in and come out to the digit', async () => {
      const h = start(amounts(backend))
      chain.mine([MAX, 0n, 10n ** 77n, 1n].map((value) => transfer(TOKEN, ALICE, BOB, value)))
      await h.settle()
      expect(h.codes()).toEqual([])
      const found = await database.rows('SELECT amount, half FROM amounts ORDER BY amount')
      const read = (row: Record<string, unknown>) =>
        backend.kind === 'postgres'
          ? [BigInt(String(row['amount'])), BigInt(String(row['half']))]
          : [decodeUint256(String(row['amount'])), decodeInt256(String(row['half']))]
      // In the order of the numbers: that of the database itself.
      const ordered = [0n, 1n, 10n ** 77n, MAX]
      expect(found.map(read)).toEqual(ordered.map((value) => [value, -(value >> 1n) - 1n]))
      expect(read(found[3] ?? {})[1]).toBe(-(2n ** 255n))
      const exact = (await database.rows('SELECT digits FROM exact')).map((row) => BigInt(String(row['digits'])))
      expect(exact.sort((a, b) => (a < b ? -1 : 1))).toEqual(ordered)
    })

    test('a block with more values than a statement can carry (65,536 parameters), and its undo', async () => {
      const h = start(rawRows(backend))
      const EVENTS = 11_000 // 14 columns of a kept event, 6 of a mark, 6 of a managed row
      chain.mineEmpty(2)
      chain.mine(Array.from({ length: EVENTS }, (_, i) => pay(i + 1)))
      await h.settle()
      expect(h.codes()).toEqual([])
      const tables = [backend.own('processed_events'), backend.own('kept_events'), 'many']
      for (const table of tables) expect(await count(table), table).toBe(EVENTS)
      const distinct = await database.rows('SELECT count(DISTINCT amount) AS n FROM many')
      expect(Number(distinct[0]?.['n'])).toBe(EVENTS)
      chain.reorg(1, { reinclude: 'none', extraBlocks: 1 })
      await h.settle()
      for (const table of tables) expect(await count(table), table).toBe(0)
    }, 60_000)
  })
}
