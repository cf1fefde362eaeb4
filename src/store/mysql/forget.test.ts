import type { Connection } from 'mysql2/promise'
import { afterAll, afterEach, beforeAll, expect } from 'vitest'
import { connectToServer, describeMysql, makeDatabase, rowsOf, type TestDatabase } from '../../../test/support/mysql.ts'
import { codeOf } from '../../../test/support/mysql-handler.ts'
import { DeduplicationManager } from '../../dedup/deduplication-manager.ts'
import { wait } from '../../util/op.ts'
import { type MysqlStore, mysql } from './index.ts'

const ISOLATIONS = ['READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE'] as const
const BLOCK = 5
const event = {
  transactionHash: `0x${'01'.repeat(32)}`,
  logIndex: 0,
  blockNumber: BLOCK,
  blockHash: `0x${'02'.repeat(32)}`,
  address: `0x${'03'.repeat(20)}`,
  topics: [`0x${'04'.repeat(32)}`],
  data: '0x',
  n: 0,
} as const

let database: TestDatabase
let store: MysqlStore
const open: Connection[] = []
let dedup: DeduplicationManager<object, true>

async function begin(isolation: string): Promise<Connection> {
  const connection = await connectToServer(database.url)
  open.push(connection)
  await connection.query(`SET TRANSACTION ISOLATION LEVEL ${isolation}`)
  await connection.beginTransaction()
  // Where a transaction has a snapshot, this is when it is taken.
  await rowsOf(connection, 'SELECT * FROM calm')
  return connection
}

const credit = (connection: Connection) => () => connection.query('INSERT INTO credits () VALUES ()')
const credits = async () => Number((await rowsOf(database.outside, 'SELECT count(*) AS n FROM credits'))[0].n)

async function once(connection: Connection): Promise<string> {
  return (await dedup.once(connection, event, credit(connection))).outcome
}

/** Both steps of forgetting, without the wait between them: what holds must hold without it. */
async function forget(): Promise<void> {
  await store.transact((tx) => wait(tx.handled.raiseLowWater('default', 1, (BLOCK + 1) as never)))
  await store.transact((tx) => wait(tx.handled.deleteThrough('default', 1, BLOCK as never, 10)))
}

async function finish(connection: Connection): Promise<void> {
  await connection.commit()
  await connection.end()
}

describeMysql('forgetting against an old transaction on mysql (P7)', (test) => {
  beforeAll(async () => {
    database = await makeDatabase()
    store = mysql({ url: database.url })
    dedup = new DeduplicationManager<object, true>({ store: store as never, chainId: 1 })
    await store.migrate('auto')
    await database.outside.query('CREATE TABLE calm (id INT PRIMARY KEY) ENGINE = InnoDB')
    await database.outside.query('CREATE TABLE credits (id INT AUTO_INCREMENT PRIMARY KEY) ENGINE = InnoDB')
  })
  afterEach(async () => {
    // A test that failed has not ended its transactions.
    for (const connection of open.splice(0)) connection.destroy()
    await database.empty(['credits', 'calm'])
  })
  afterAll(async () => {
    await store.close()
    await database.drop()
  })

  test.for(ISOLATIONS)('%s: an event that was done and forgotten meanwhile is not new', async (isolation) => {
    await dedup.markEventProcessed(event)
    const old = await begin(isolation)
    await forget()
    expect(await once(old)).toBe('too-old')
    await finish(old)
    expect(await credits()).toBe(0)
  })

  test('REPEATABLE READ: a plain SELECT still reads the low-water mark of its snapshot (control: the trap)', async () => {
    const old = await begin('REPEATABLE READ')
    await forget()
    const low = 'SELECT low_water FROM tidemark_low_waters'
    expect(await rowsOf(old, low)).toEqual([])
    expect(await rowsOf(old, `${low} LOCK IN SHARE MODE`)).toEqual([{ low_water: BLOCK + 1 }])
    await finish(old)
  })

  test.for(ISOLATIONS)(
    '%s: an event that is being done keeps its mark from being forgotten unseen',
    async (isolation) => {
      const old = await begin(isolation)
      expect(await once(old)).toBe('done')
      const forgotten = forget()
      const second = await begin(isolation)
      const again = once(second)
      await finish(old)
      // Whether it came before or after the forgetting: not a second time.
      expect(['duplicate', 'too-old']).toContain(await again)
      await finish(second)
      await forgotten
      expect(await credits()).toBe(1)
    },
  )

  test('READ COMMITTED: loops that mark and then move their cursor do not end in a deadlock (C59)', async () => {
    const loops = Array.from({ length: 4 }, async (_, i) => {
      const connection = await begin('READ COMMITTED')
      const own = { ...event, transactionHash: `0x${`0${i + 1}`.repeat(32)}` as const }
      const { outcome } = await dedup.once(connection, own, credit(connection))
      await dedup.setCursor(connection, { number: 100 + i, hash: event.blockHash })
      await finish(connection)
      return outcome
    })
    expect(await Promise.all(loops)).toEqual(['done', 'done', 'done', 'done'])
  })

  test('once in a connection without a transaction writes nothing', async () => {
    expect(await codeOf(once(database.outside))).toBe('NOT_IN_TRANSACTION')
    expect(await credits()).toBe(0)
  })

  test.for([
    [['CREATE TABLE made (a INT)'], 'TRANSACTION_LOST'],
    [['COMMIT', 'START TRANSACTION'], 'HANDLER_ENDED_TRANSACTION'],
  ] as const)('work that ends the transaction inside once is noticed: %s', async ([texts, code]) => {
    const old = await begin('READ COMMITTED')
    const work = dedup.once(old, event, async () => {
      for (const text of texts) await old.query(text)
    })
    expect(await codeOf(work)).toBe(code)
    await finish(old)
  })

  test('two deliveries at once: the work is done once, and neither fails', async () => {
    for (let round = 0; round < 10; round++) {
      const deliveries = [0, 1, 2].map(async () => {
        const connection = await begin('READ COMMITTED')
        const outcome = await once(connection)
        await finish(connection)
        return outcome
      })
      const outcomes = await Promise.all(deliveries)
      expect(outcomes.filter((one) => one === 'done')).toHaveLength(round === 0 ? 1 : 0)
    }
    expect(await credits()).toBe(1)
  })

  test('claims: one of many gets it, another one after it has expired by the clock of the database', async () => {
    const key = { scope: 's', chainId: 1, key: 'k' }
    const claim = (byte: number, leaseMs: number) =>
      store.transact((tx) => wait(tx.handled.claim(key, BLOCK as never, new Uint8Array(16).fill(byte), leaseMs, 1)))
    expect((await Promise.all([1, 2, 3].map((byte) => claim(byte, 600_000)))).sort()).toEqual([
      'claimed',
      'claimed',
      'new',
    ])
    await database.outside.query('UPDATE tidemark_handled_events SET claimed_until = claimed_until - 600000')
    expect(await store.read((tx) => wait(tx.handled.expired('s', 5)))).toEqual([{ chainId: 1, key: 'k' }])
    expect(await claim(4, 600_000)).toBe('taken-over')
    expect(await store.read((tx) => wait(tx.handled.expired('s', 5)))).toEqual([])
    const finish = (byte: number) => store.transact((tx) => wait(tx.handled.finish(key, new Uint8Array(16).fill(byte))))
    expect([await finish(1), await finish(4), await finish(4)]).toEqual([false, true, false])
    expect([await claim(5, 1), await store.read((tx) => wait(tx.handled.find(key)))]).toEqual(['done', 'done'])
    const unclaim = store.transact((tx) => wait(tx.handled.unclaim(key, new Uint8Array(16).fill(4))))
    expect(await unclaim).toBe(false)
  })
})
