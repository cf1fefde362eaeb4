import { describe, expect, test } from 'vitest'
import type { Watcher } from '../src/handle/watch.ts'
import { openDefault, type SqliteDatabaseLike } from '../src/store/sqlite/driver.ts'
import { type SqliteDb, watch } from '../src/store/sqlite/index.ts'
import { type TestWatcherOptions, testAddress, testWatcher } from '../src/testkit/index.ts'
import { differences } from '../src/testkit/replay/differences.ts'

// Handlers as users write them, good and bad, through the faults of the simulation (issue: "Four bad handlers").

const TOKEN = testAddress('TOKEN')
const EVENT = 'event Transfer(address indexed from, address indexed to, uint256 value)'
const SCHEMA = `
  CREATE TABLE accounts (account TEXT PRIMARY KEY, balance INTEGER NOT NULL);
  CREATE TABLE deposits (id INTEGER PRIMARY KEY AUTOINCREMENT, account TEXT NOT NULL, amount INTEGER NOT NULL, seen_at INTEGER, paid INTEGER);
`

interface Transfer {
  readonly event: { readonly args: { readonly to: string; readonly value: bigint } }
  readonly db: SqliteDb
}

const CREDIT =
  'INSERT INTO accounts (account, balance) VALUES (?, ?) ON CONFLICT (account) DO UPDATE SET balance = balance + excluded.balance'

function credit(db: Pick<SqliteDb, 'prepare'>, account: string, amount: bigint): void {
  db.prepare(CREDIT).run(account, amount)
}

function deposit(db: SqliteDb, account: string, amount: bigint, seenAt: number | null = null): number {
  const insert = db.prepare('INSERT INTO deposits (account, amount, seen_at) VALUES (?, ?, ?)')
  return Number(insert.run(account, amount, seenAt).lastInsertRowid)
}

/** What `handle` of a watcher does here, beside the deposit that every one of them writes. */
function ledger(
  harm: (scope: Transfer) => void,
  more: { prepare?: (scope: Pick<Transfer, 'event'>) => Promise<void> } = {},
): Watcher {
  return watch({
    on: { test: { address: TOKEN, startBlock: 1, at: 'latest' } },
    events: { Transfer: { event: EVENT } },
    ...(more as object),
    handle({ event, db }) {
      const id = deposit(db, event.args.to, event.args.value)
      harm({ event, db } as Transfer)
      return { id }
    },
    undo({ event, memo, db }) {
      db.prepare('DELETE FROM deposits WHERE id = ?').run(memo.id)
      db.prepare('UPDATE accounts SET balance = balance - ? WHERE account = ?').run(event.args.value, event.args.to)
      db.prepare(
        'DELETE FROM accounts WHERE balance = 0 AND NOT EXISTS (SELECT 1 FROM deposits WHERE deposits.account = accounts.account)',
      ).run()
    },
    final({ memo, db }) {
      db.prepare('UPDATE deposits SET paid = 1 WHERE id = ?').run(memo.id)
    },
  })
}

/** At `finalized`, where nothing is ever taken back. */
function withoutUndo({ definition }: Watcher): Watcher {
  const { undo: _undo, ...rest } = definition
  return { isTidemarkWatcher: true, definition: { ...rest, on: { test: { address: TOKEN, startBlock: 1 } } } }
}

const good = ledger(({ event, db }) => credit(db, event.args.to, event.args.value))

/** The sentences with which a watcher is refused. */
async function refusal(watcher: Watcher, options: TestWatcherOptions & { seeds?: number } = {}): Promise<string> {
  const { seeds = 10, ...more } = options
  const t = testWatcher(watcher, { name: 'deposits', schema: SCHEMA, ...more })
  try {
    await t.expectReplaySafe({ seeds })
    return 'nothing was found'
  } catch (error) {
    return (error as Error).message
  } finally {
    await t.close()
  }
}

/** A machine that is busy takes its time; nothing here waits for real time. */
const SLOW = { timeout: 120_000 }

describe('a good handler', SLOW, () => {
  test('passes, and the faults were really there', async () => {
    const t = testWatcher(good, { schema: SCHEMA })
    const report = await t.expectReplaySafe({ seeds: 8 })
    await t.close()
    expect(report).toMatchObject({ seeds: 8, failed: 0, verdict: 'equal', failures: [] })
    for (const key of ['events', 'reorgs', 'crashes', 'faults'] as const) expect(report[key], key).toBeGreaterThan(8)
  })

  test('passes with foreign keys to rows of a seed and to ids that the database makes', async () => {
    const schema = `
      CREATE TABLE owners (id INTEGER PRIMARY KEY AUTOINCREMENT, account TEXT NOT NULL UNIQUE);
      CREATE TABLE items (token INTEGER PRIMARY KEY, owner INTEGER NOT NULL REFERENCES owners (id), moved INTEGER NOT NULL DEFAULT (unixepoch()));`
    const items = watch({
      on: { test: { startBlock: 1 } },
      events: { Minted: { event: 'event Minted(address indexed to, uint256 token)' } },
      handle({ event, db }) {
        const { to, token } = event.args
        db.prepare('INSERT INTO owners (account) VALUES (?) ON CONFLICT DO NOTHING').run(to)
        db.prepare(
          'INSERT INTO items (token, owner) SELECT ?, id FROM owners WHERE account = ? ON CONFLICT (token) DO UPDATE SET owner = excluded.owner',
        ).run(token, to)
      },
    })
    const t = testWatcher(items, {
      schema,
      seed: ({ db }) => db.exec("INSERT INTO owners (account) VALUES ('the bank')"),
    })
    expect(await t.expectReplaySafe({ seeds: 4 })).toMatchObject({ failed: 0 })
    await t.close()
  })
})

describe('four bad handlers', SLOW, () => {
  let other: SqliteDatabaseLike
  const seed: TestWatcherOptions['seed'] = ({ file }) => {
    other = openDefault(file)
  }
  const OUTSIDE: readonly (readonly [where: string, watcher: Watcher])[] = [
    // An `await` that was left out: it writes when the transaction is over, however that ended.
    [
      'in a promise',
      ledger(({ event }) => void Promise.resolve().then(() => credit(other, event.args.to, event.args.value))),
    ],
    ['in prepare', ledger(() => {}, { prepare: async ({ event }) => credit(other, event.args.to, event.args.value) })],
  ]

  test.each(OUTSIDE)(
    '`balance += x` on another connection, %s: the row, the fault and the two balances are named',
    async (_where, watcher) => {
      const words = await refusal(withoutUndo(watcher), { seed })
      expect(words).toMatch(
        /table accounts, row account=0x[0-9a-f]{40}: balance is \d+ in the faulty run, \d+ in the clean one; first seen after: (the process was killed|COMMIT|the handler of deposits threw|the disk|another connection)/,
      )
      expect(words).toMatch(/repeat: expectReplaySafe\(\{ seeds: 1, from: \d+ \}\)/)
    },
  )

  test('a write on another connection inside the handler meets the lock, and the words say why', async () => {
    const words = await refusal(
      ledger(({ event }) => credit(other, event.args.to, event.args.value)),
      { seed },
    )
    expect(words).toMatch(
      /deposits\/test halted at Transfer in block \d+: the handler wrote on another connection while its transaction was open, and met the lock \(HANDLER_FAILED\)/,
    )
  })

  test('a call to the outside is counted, and never goes out', async () => {
    let sent = 0
    const real = globalThis.fetch
    globalThis.fetch = async () => {
      sent += 1
      return new Response()
    }
    const words = await refusal(
      ledger(({ event, db }) => {
        credit(db, event.args.to, event.args.value)
        void fetch('https://mail.example/send', { method: 'POST' })
      }),
    )
    globalThis.fetch = real
    expect(words).toMatch(
      /the handler of deposits called fetch \d+ times for \d+ events: a call to the outside is not taken back, and is made again when an event is handled again/,
    )
    const [, calls, events] = /fetch (\d+) times for (\d+) events/.exec(words) ?? []
    expect(Number(calls)).toBeGreaterThan(Number(events))
    expect(sent).toBe(0)
  })

  test('reading the clock: the column and the reason are named', async () => {
    const clock = ledger(({ event, db }) => {
      credit(db, event.args.to, event.args.value)
      db.prepare('UPDATE deposits SET seen_at = ? WHERE id = (SELECT max(id) FROM deposits)').run(Date.now())
    })
    const words = await refusal(clock)
    expect(words).toMatch(
      /table deposits, row account=\w+, amount=\d+, paid=1: seen_at is \d+ in one clean run, \d+ in another/,
    )
    expect(words).toMatch(
      /the handler of deposits read the clock \(Date\.now\(\) \w+( times)?\): it is another one when an event is handled again/,
    )
    expect(await refusal(clock, { ignore: ['deposits.seen_at'], seeds: 3 })).toBe('nothing was found')
  })

  test('swallowing an error: the event is named', async () => {
    const words = await refusal(
      ledger(({ event, db }) => {
        try {
          db.prepare('INSERT INTO accounts (account, balance) VALUES (?, ?)').run(event.args.to, event.args.value)
        } catch {
          // "it is there already": and its balance is not raised
        }
      }),
    )
    expect(words).toMatch(
      /deposits\/test halted at Transfer in block \d+: a statement failed, and the handler swallowed the error and went on \(HANDLER_SWALLOWED_ERROR\)/,
    )
    expect(words).toContain('A clean run of the same chain stops as well')
  })
})

describe('other mistakes', SLOW, () => {
  test('an undo function that forgets a table', async () => {
    const forgets = ledger(({ event, db }) => credit(db, event.args.to, event.args.value))
    const bad = {
      ...forgets,
      definition: {
        ...forgets.definition,
        undo: ({ memo, db }: { memo: { id: number }; db: SqliteDb }) =>
          void db.prepare('DELETE FROM deposits WHERE id = ?').run(memo.id),
      },
    } as unknown as Watcher
    expect(await refusal(bad)).toMatch(
      /table accounts, row .*; first seen after: (a reorg replaced|the second reading)/,
    )
  })

  test('chance', async () => {
    const words = await refusal(
      ledger(({ event, db }) => credit(db, event.args.to, event.args.value + BigInt(Math.floor(Math.random() * 1e6)))),
      { seeds: 3 },
    )
    expect(words).toMatch(/the handler of deposits read a random value \(Math\.random\(\) /)
  })

  test('no table at all: the words say what is missing', async () => {
    expect(await refusal(good, { schema: '', seeds: 1 })).toContain(
      'The scratch database has no table of yours: give `schema`',
    )
  })
})

describe('control', SLOW, () => {
  test('a handler that is good and a run that is not compared alike: the comparison sees a single value', () => {
    const table = (balance: bigint) => ({
      name: 'accounts',
      columns: [column('account', 1), column('balance')],
      rows: [{ account: '0xa', balance }],
    })
    const sides = { actual: 'the faulty run', expected: 'the clean one' }
    expect(differences([table(15n)], [table(10n)], [], sides)).toEqual([
      'table accounts, row account=0xa: balance is 15 in the faulty run, 10 in the clean one',
    ])
    expect(differences([table(10n)], [table(10n)], [], sides)).toEqual([])
    expect(differences([table(15n)], [table(10n)], ['*.balance'], sides)).toEqual([])
  })

  test('the same seed finds the same, word for word', async () => {
    const find = () =>
      refusal(
        ledger(() => void fetch('https://mail.example/')),
        { seeds: 1 },
      )
    const words = await find()
    expect(words).toContain('called fetch')
    expect(await find()).toBe(words)
  })
})

function column(name: string, key = 0) {
  return { name, key, made: false, refersTo: null }
}

describe('testWatcher, step by step', () => {
  const ALICE = testAddress('ALICE')
  const BOB = testAddress('BOB')

  test('emit, mine, reorg, redeliver, crash, settle', async () => {
    const t = testWatcher(good, { schema: SCHEMA })
    const balances = async () =>
      Object.fromEntries((await t.rows('accounts')).map(({ account, balance }) => [account, Number(balance)]))
    t.emit('Transfer', { from: ALICE, to: BOB, value: 5n }).emit('Transfer', { from: BOB, to: ALICE, value: 2n })
    await t.mine()
    expect(await balances()).toEqual({ [BOB]: 5, [ALICE]: 2 })
    await t.redeliver()
    expect(await balances()).toEqual({ [BOB]: 5, [ALICE]: 2 })
    await t.reorg(1, { reinclude: 'shuffled' })
    expect(await balances()).toEqual({ [BOB]: 5, [ALICE]: 2 })
    for (const point of ['before-commit', 'after-commit', 'answer-lost'] as const) {
      await t.crash(point)
      await t.emit('Transfer', { from: ALICE, to: BOB, value: 1n }).mine()
    }
    expect(await balances()).toEqual({ [BOB]: 8, [ALICE]: 2 })
    await t.reorg(2, { reinclude: 'none' })
    expect(await balances()).toEqual({ [BOB]: 6, [ALICE]: 2 })
    await t.settle()
    expect(await t.sql('SELECT count(*) AS n FROM deposits WHERE paid = 1')).toEqual([{ n: 3 }])
    await t.close()
  })

  test('what it cannot do is refused in words', async () => {
    const t = testWatcher(good, { schema: SCHEMA })
    expect(() => t.emit('Transfre')).toThrow('the watcher has no event Transfre; it has Transfer')
    expect(() => t.emit('Transfer', { from: ALICE, to: BOB })).toThrow('there is no value for uint256')
    expect(() => testWatcher(good, { chain: 'base' })).toThrow('the watcher does not run on base; it runs on test')
    await t.close()
  })

  test('a halt is thrown with its reason', async () => {
    const t = testWatcher(
      ledger(({ db }) => db.exec('INSERT INTO nowhere VALUES (1)')),
      { schema: SCHEMA },
    )
    t.emit('Transfer', { from: ALICE, to: BOB, value: 5n })
    await expect(t.mine()).rejects.toThrow(/watcher\/test halted at Transfer in block 1: .*HANDLER_FAILED/)
    await t.close()
  })
})
