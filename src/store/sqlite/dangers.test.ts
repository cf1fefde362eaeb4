import { existsSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from '@photostructure/sqlite'
import { afterEach, describe, expect, test } from 'vitest'
import { TidemarkError } from '../../errors.ts'
import { mark, number } from '../../testkit/store-cases/case.ts'
import { wait } from '../../util/op.ts'
import type { Tx } from '../store.ts'
import {
  type SqliteDatabaseLike,
  type SqliteOptions,
  type SqliteStatementLike,
  type SqliteStore,
  sqlite,
} from './index.ts'

const folders: string[] = []
const stores: SqliteStore[] = []

function newFile(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tidemark-sqlite-'))
  folders.push(folder)
  return join(folder, 'test.db')
}

afterEach(async () => {
  for (const store of stores.splice(0)) await store.close()
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
})

/** A store and the driver's database under it. */
function open(file: string, options: Partial<SqliteOptions> = {}, driver: { readOnly?: boolean } = {}) {
  const opened: { raw?: SqliteDatabaseLike } = {}
  const store = sqlite({
    file,
    open: (path) => {
      const database = new DatabaseSync(path, driver)
      if (path === file) opened.raw = database
      return database
    },
    ...options,
  })
  stores.push(store)
  return { store, opened }
}

async function migrated(file = newFile(), options: Partial<SqliteOptions> = {}) {
  const { store, opened } = open(file, options)
  await store.migrate('auto')
  return { store, file, raw: opened.raw as SqliteDatabaseLike }
}

/** The real database, with a say in what `prepare` answers. */
function facade(
  real: InstanceType<typeof DatabaseSync>,
  prepare: (sql: string, statement: SqliteStatementLike) => SqliteStatementLike,
): SqliteDatabaseLike {
  const database = real
  return {
    get isTransaction() {
      return database.isTransaction
    },
    prepare: (sql) => prepare(sql, database.prepare(sql)),
    exec: (sql) => database.exec(sql),
    close: () => database.close(),
  }
}

async function failure(work: Promise<unknown>): Promise<TidemarkError> {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (!TidemarkError.is(error)) throw new Error(`expected a TidemarkError, got ${String(error)}`)
  return error
}

const writeMark = (n: number) =>
  function* (tx: Tx<unknown>) {
    return yield* wait(tx.marks.insert(1, [mark(n, n)]))
  }

describe('settings that a power cut asks about', () => {
  test('they are on, in the file and on the connection', async () => {
    const { raw } = await migrated(newFile(), { busyTimeoutMs: 1234 })
    const read = (pragma: string) => Object.values(raw.prepare(`PRAGMA ${pragma}`).get() ?? {})[0]
    const found = [
      'journal_mode',
      'synchronous',
      'foreign_keys',
      'recursive_triggers',
      'busy_timeout',
      'wal_autocheckpoint',
    ].map(read)
    expect(found).toEqual(['wal', 2, 1, 1, 1234, 10_000])
  })

  test('a database that does not take one is refused', async () => {
    const file = newFile()
    const stubborn = (path: string) => {
      const database = new DatabaseSync(path)
      database.exec('BEGIN') // inside a transaction SQLite ignores the change of synchronous and foreign_keys
      return database
    }
    expect((await failure(open(file, { open: stubborn }).store.migrate('auto'))).code).toBe('STORE_FAILED')
  })
})

describe('a file that is not there or not ours', () => {
  test.each([undefined, '', '  '])('a forgotten variable (%j) never becomes a new file', (file) => {
    expect(() => sqlite({ file })).toThrow(expect.objectContaining({ code: 'STORE_URL_UNDEFINED' }))
  })

  test('looking makes no file', async () => {
    const file = newFile()
    const { store } = open(file)
    expect((await failure(store.migrate('check'))).code).toBe('STORE_MIGRATION_NEEDED')
    expect(await store.pendingSql()).toContain('CREATE TABLE tidemark_processed_events')
    expect(existsSync(file)).toBe(false)
  })

  test('a missing folder is named, and not made', async () => {
    const file = join(newFile(), 'deeper', 'test.db')
    const error = await failure(open(file).store.migrate('auto'))
    expect([error.code, error.values.folder]).toEqual(['STORE_FAILED', join(file, '..')])
    expect(existsSync(join(file, '..'))).toBe(false)
  })

  test('a file of another kind is left as it is', async () => {
    const file = newFile()
    writeFileSync(file, 'not a database, and not a short text either. '.repeat(200))
    const error = await failure(open(file).store.migrate('auto'))
    expect([error.code, error.sentence]).toEqual(['STORE_FAILED', 'The file is not an SQLite database'])
  })

  test('a read-only file', async () => {
    const { store: owner, file } = await migrated()
    const { store } = open(file, {}, { readOnly: true })
    expect((await store.migrate('check')).applied).toEqual([])
    expect((await failure(store.transact(writeMark(1)))).code).toBe('STORE_READ_ONLY')
    expect(await owner.read((tx) => wait(tx.marks.count(1)))).toBe(0)
  })

  test('a full disk rolls back whole, and the store goes on when there is room again', async () => {
    const { store, raw } = await migrated()
    const limit = (pages: number) => raw.exec(`PRAGMA max_page_count = ${pages}`)
    limit(Number(raw.prepare('PRAGMA page_count').get()?.page_count) + 2)
    const many = Array.from({ length: 2000 }, (_, n) => mark(n, n))
    const fill = () => store.transact((tx) => wait(tx.marks.insert(1, many)))
    expect((await failure(fill())).code).toBe('STORE_FULL')
    expect(await store.read((tx) => wait(tx.marks.count(1)))).toBe(0)
    limit(1_000_000)
    await fill()
    expect(await store.read((tx) => wait(tx.marks.count(1)))).toBe(2000)
  })

  test("a full disk met by a handler is the disk's failure, not the handler's, even when swallowed", async () => {
    const { store, raw } = await migrated()
    raw.exec('CREATE TABLE big (b BLOB)')
    raw.exec(`PRAGMA max_page_count = ${Number(raw.prepare('PRAGMA page_count').get()?.page_count) + 2}`)
    const work = store.transact(function* (tx) {
      const scope = tx.openScope({ mayWrite: true, values: {}, deadline: Number.POSITIVE_INFINITY })
      try {
        scope.db.prepare('INSERT INTO big VALUES (zeroblob(100000))').run()
      } catch {
        // swallowed
      }
      yield* wait(scope.close('returned'))
    })
    expect((await failure(work)).code).toBe('STORE_FULL')
  })
})

describe('versions of the schema', () => {
  const setMeta = (raw: SqliteDatabaseLike, name: string, value: number) =>
    raw.prepare('UPDATE tidemark_meta SET value = ? WHERE name = ?').run(value, name)

  test('a database of a newer version is refused by every way in', async () => {
    const { store, raw } = await migrated()
    setMeta(raw, 'schema_version', 99)
    setMeta(raw, 'oldest_code', 98)
    for (const mode of ['auto', 'check'] as const) expect((await failure(store.migrate(mode))).code).toBe('STORE_NEWER')
  })

  test('a newer database that still admits this version runs, so a deploy can be taken back', async () => {
    const { store, raw } = await migrated()
    setMeta(raw, 'schema_version', 99)
    expect(await store.migrate('auto')).toEqual({ from: 99, to: 99, applied: [] })
    expect((await store.migrate('check')).applied).toEqual([])
  })

  test('the printed SQL, run by hand, is the whole migration', async () => {
    const file = newFile()
    const sql = await open(file).store.pendingSql()
    const byHand = new DatabaseSync(file)
    byHand.exec(sql)
    byHand.close()
    expect((await open(file).store.migrate('check')).applied).toEqual([])
    await open(file).store.transact(writeMark(1))
  })
})

describe('read first, then write (C57)', () => {
  test('a write transaction takes the lock at once, and busy is its own code', async () => {
    const { store, file } = await migrated(newFile(), { busyTimeoutMs: 20 })
    const other = new DatabaseSync(file)
    other.exec('BEGIN IMMEDIATE')
    let ran = false
    const work = store.transact(function* (tx) {
      ran = true
      return yield* wait(tx.marks.count(1))
    })
    expect((await failure(work)).code).toBe('STORE_BUSY')
    expect(ran).toBe(false) // never half-way
    other.exec('COMMIT')
    other.close()
    expect(await store.transact(writeMark(1))).toEqual([true])
  })

  test('a deferred transaction that upgrades fails at once, whatever the time-out (control)', async () => {
    const { file, store } = await migrated()
    const deferred = new DatabaseSync(file, { timeout: 60_000 })
    deferred.exec('BEGIN')
    deferred.prepare('SELECT count(*) FROM tidemark_processed_events').get()
    await store.transact(writeMark(1))
    expect(() => deferred.exec("INSERT INTO tidemark_chains VALUES (1, x'00')")).toThrow('locked')
    deferred.close()
  })
})

describe('COMMIT that does not answer well', () => {
  test('a deferred foreign key is the handler’s failure and rolls back', async () => {
    const { store, raw } = await migrated()
    raw.exec(
      'CREATE TABLE a (n INTEGER PRIMARY KEY); CREATE TABLE b (n REFERENCES a (n) DEFERRABLE INITIALLY DEFERRED)',
    )
    const work = store.transact(function* (tx) {
      yield* wait(tx.marks.insert(1, [mark(1, 1)]))
      raw.exec('INSERT INTO b VALUES (5)')
    })
    expect((await failure(work)).code).toBe('HANDLER_FAILED')
    expect(await store.read((tx) => wait(tx.marks.count(1)))).toBe(0)
  })

  test('a COMMIT that happened although it failed is unknown, never repeated', async () => {
    const file = newFile()
    await migrated(file)
    const lying = (path: string) =>
      facade(new DatabaseSync(path), (sql, statement) => {
        if (sql !== 'COMMIT') return statement
        const run = () => {
          statement.run()
          throw Object.assign(new Error('disk I/O error'), { errcode: 10 })
        }
        return { ...statement, run }
      })
    const { store } = open(file, { open: lying })
    expect((await failure(store.transact(writeMark(1)))).code).toBe('COMMIT_UNKNOWN')
    expect(await store.read((tx) => wait(tx.marks.count(1)))).toBe(1)
  })
})

describe("the application's own transaction", () => {
  test('the parts join it, and refuse a connection without one', async () => {
    const { store, file } = await migrated()
    const own = new DatabaseSync(file)
    expect(() => store.join(own)).toThrow(expect.objectContaining({ code: 'NOT_IN_TRANSACTION' }))
    own.exec('BEGIN IMMEDIATE')
    expect(store.join(own).handled.insert({ scope: 's', chainId: 1, key: 'k' }, number(1), 1)).toBe('new')
    own.exec('ROLLBACK')
    own.exec('BEGIN IMMEDIATE')
    expect(store.join(own).handled.insert({ scope: 's', chainId: 1, key: 'k' }, number(1), 1)).toBe('new')
    expect(store.join(own).handled.insert({ scope: 's', chainId: 1, key: 'k' }, number(1), 1)).toBe('done')
    own.exec('COMMIT')
    own.close()
    expect(await store.read((tx) => wait(tx.handled.count('s')))).toBe(1)
  })

  test('a link to the file is the same file to the lease', async () => {
    const { store, file } = await migrated()
    symlinkSync(file, `${file}.link`)
    const { store: other } = open(`${file}.link`)
    const lease = await store.acquire('w/ethereum')
    expect(lease).not.toBeNull()
    expect(await other.acquire('w/ethereum')).toBeNull()
    await store.close()
    expect(await other.acquire('w/ethereum')).not.toBeNull()
    expect(readdirSync(join(file, '..')).filter((name) => name.includes('lock'))).toEqual(['test.db-tidemark-lock'])
  })
})
