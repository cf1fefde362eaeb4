import { describe, expect, test } from 'vitest'
import { rows, type SqliteDb, watch } from '../../src/store/sqlite/index.ts'
import { fakeChain, transfer } from '../../src/testkit/index.ts'
import { Harness } from '../support/harness.ts'
import { ALICE, BANK, BOB, ledger, pay, TOKEN, TRANSFER_EVENT, tx } from '../support/ledger.ts'

/** Cases about what was derived from an event: it must go with the event, and come back as it was. */

function chainAt(head: number) {
  const chain = fakeChain({ chainId: 1, finalized: { depth: 10 } })
  chain.mineEmpty(head)
  return chain
}

describe('C29 undo reaches the events but not what was derived from them', () => {
  const schema = `
    CREATE TABLE accounts (name TEXT PRIMARY KEY, amount INTEGER NOT NULL, changes INTEGER NOT NULL);
    CREATE TABLE days (day INTEGER PRIMARY KEY, total INTEGER NOT NULL);
  `
  type Before = { table: string; key: string | number; row: Record<string, string | number> | null }

  /** Reads a row, writes its successor, and answers what was there: null where there was nothing. */
  function change(db: SqliteDb, account: string, by: number): Before {
    const row = db.prepare('SELECT amount, changes FROM accounts WHERE name = ?').get(account) as any
    db.prepare('INSERT OR REPLACE INTO accounts VALUES (?, ?, ?)').run(
      account,
      (row?.amount ?? 0) + by,
      (row?.changes ?? 0) + 1,
    )
    return { table: 'accounts', key: account, row: row ? { ...row } : null }
  }

  function addToDay(db: SqliteDb, day: number, by: number): Before {
    const row = db.prepare('SELECT total FROM days WHERE day = ?').get(day) as any
    db.prepare('INSERT OR REPLACE INTO days VALUES (?, ?)').run(day, (row?.total ?? 0) + by)
    return { table: 'days', key: day, row: row ? { ...row } : null }
  }

  function restore(db: SqliteDb, { table, key, row }: Before): void {
    if (table === 'days') {
      if (row) db.prepare('UPDATE days SET total = ? WHERE day = ?').run(row.total as number, key)
      else db.prepare('DELETE FROM days WHERE day = ?').run(key)
    } else if (row)
      db.prepare('UPDATE accounts SET amount = ?, changes = ? WHERE name = ?').run(
        row.amount as number,
        row.changes as number,
        key,
      )
    else db.prepare('DELETE FROM accounts WHERE name = ?').run(key)
  }

  const movements = rows({ table: 'movements', columns: { receiver: 'text', amount: 'uint256' } })
  const watcher = watch({
    on: { test: { address: TOKEN, startBlock: 690, at: 'latest' } },
    events: { Transfer: { event: TRANSFER_EVENT } },
    tables: { movements },
    handle({ event, db, tables }) {
      const { from, to, value } = event.args
      tables.movements.insert({ receiver: to, amount: value })
      const amount = Number(value)
      const day = Math.floor(Number(event.blockNumber) / 100)
      return { before: [change(db, from, -amount), change(db, to, amount), addToDay(db, day, amount)] }
    },
    undo({ memo, db }) {
      for (const one of [...memo.before].reverse()) restore(db, one)
    },
  })
  const tables = (h: Harness) =>
    ['accounts', 'days', 'movements'].map((table) => h.rows(`SELECT * FROM ${table} ORDER BY 1, 2`))

  test('rows changed, rows created and a daily total are as before the block', async () => {
    /*
     *   698a { BANK → BOB 3 } ── 699a ── 700a { ALICE → BOB 5, twice }
     *                              └──── 700b ── 701b { BOB → BANK 1 }
     */
    const chain = chainAt(697)
    chain.mine([tx('T0', transfer(TOKEN, BANK, BOB, 3))])
    chain.mineEmpty(1)
    const h = new Harness({ chain, watchers: { derived: watcher }, schema })
    try {
      await h.settle()
      const before = tables(h)
      chain.fork(699, 'b')
      chain.mine([tx('T1', transfer(TOKEN, ALICE, BOB, 5), transfer(TOKEN, ALICE, BOB, 5))])
      await h.settle()
      expect(tables(h)).not.toEqual(before)
      expect(h.rows('SELECT total FROM days WHERE day = 7')).toEqual([{ total: 10 }])
      chain.mineEmpty(1, { branch: 'b' })
      chain.adopt('b')
      await h.settle()
      expect(tables(h)).toEqual(before)
      expect(h.rows(`SELECT * FROM accounts WHERE name = '${ALICE}'`)).toEqual([])
      chain.mine([tx('T2', transfer(TOKEN, BOB, BANK, 1))])
      await h.settle()
      expect(h.rows(`SELECT amount, changes FROM accounts WHERE name = '${BOB}'`)).toEqual([{ amount: 2, changes: 2 }])
      expect(h.rows('SELECT day, total FROM days ORDER BY day')).toEqual([
        { day: 6, total: 3 },
        { day: 7, total: 1 },
      ])
    } finally {
      await h.close()
    }
  })
})

describe('C71 a transfer to oneself', () => {
  /*
   *   100a { BANK → BOB 5 } ── 101a { BOB → BOB 5 }                 done
   *           └─────────────── 101b                                 undone
   *                            101a ── 102a                         done again
   */
  test('done, undone, done again: 5 at every step', async () => {
    const chain = chainAt(99)
    await ledger({ chain, at: 'latest', startBlock: 90 }, async (h) => {
      chain.mine([pay('T0', 5)])
      await h.settle()
      expect(h.balance(BOB)).toBe(5)
      chain.fork(100, 'b')
      chain.mine([tx('T1', transfer(TOKEN, BOB, BOB, 5))])
      await h.settle()
      expect([h.balance(BOB), h.entries().length]).toEqual([5, 2])
      chain.mineEmpty(1, { branch: 'b' })
      chain.adopt('b')
      await h.settle()
      expect([h.balance(BOB), h.entries().length]).toEqual([5, 1])
      chain.adopt('a')
      chain.mineEmpty(1)
      await h.settle()
      expect([h.balance(BOB), h.entries().length]).toEqual([5, 2])
      expect(h.marks()).toEqual(['T0,0@100a', 'T1,0@101a'])
      expect(await h.cursor()).toBe('102a')
      expect(await h.differences()).toEqual([])
    })
  })

  test('several changes of one row in one block: undo ends at the value before the first of them', async () => {
    /*
     *   100a { BANK → BOB 5 } ── 101a { BOB 8, then 0, then 4 } ── 102a { BOB 9 }
     *           └─────────────── 101b ── 102b ── 103b
     */
    const chain = chainAt(99)
    const watcher = watch({
      on: { test: { address: TOKEN, startBlock: 90, at: 'latest' } },
      events: { Transfer: { event: TRANSFER_EVENT } },
      // Last value wins: only undo in reverse order ends at the first one.
      handle({ event, db }) {
        const row = db.prepare('SELECT amount FROM latest WHERE name = ?').get(event.args.to)
        db.prepare('INSERT OR REPLACE INTO latest VALUES (?, ?)').run(event.args.to, Number(event.args.value))
        return { before: row ? Number(row.amount) : null }
      },
      undo({ event, memo, db }) {
        if (memo.before === null) db.prepare('DELETE FROM latest WHERE name = ?').run(event.args.to)
        else db.prepare('UPDATE latest SET amount = ? WHERE name = ?').run(memo.before, event.args.to)
      },
    })
    const schema = 'CREATE TABLE latest (name TEXT PRIMARY KEY, amount INTEGER NOT NULL)'
    const h = new Harness({ chain, watchers: { latest: watcher }, schema })
    const amounts = () => h.rows('SELECT amount FROM latest').map((row) => row.amount)
    try {
      chain.mine([pay('T0', 5)])
      await h.settle()
      chain.mine([pay('T1', 8), pay('T2', 0), pay('T3', 4)])
      chain.mine([pay('T4', 9)])
      await h.settle()
      expect(amounts()).toEqual([9])
      chain.reorg(2, { reinclude: 'none' })
      await h.settle()
      expect(amounts()).toEqual([5])
      // Control: taking back in the order of apply would have ended at 4.
      expect(h.events.find((one) => one.type === 'undone')?.event).toMatchObject({ events: 4 })
    } finally {
      await h.close()
    }
  })
})
