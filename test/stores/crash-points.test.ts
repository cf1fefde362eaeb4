import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Watcher } from '../../src/handle/watch.ts'
import type { Cut } from '../support/cutting-pool.ts'
import { ledgerOn, makeLedgerTables } from '../support/store-ledger.ts'
import { differing, type End, endState, expireLeases, type Played, play } from '../support/store-run.ts'
import { type Backend, type Database, servers } from '../support/stores.ts'

/**
 * The connection to the server is cut before and after each statement that the store sends, and for each COMMIT also while
 * it is being carried out. A run of all points takes an hour, so every n-th is gone through, counted so that the kinds
 * change, and by default the process lives through one break at each kind of statement; `CRASH_POINTS=all` goes through all of them, `CRASH_POINTS=200` through about 200 deaths and 100 breaks.
 */
const WANTED = process.env['CRASH_POINTS']
const ALL = WANTED === 'all'
/** Points of each store: where the process dies, where it lives on, and COMMITs that are under way. */
const DEATHS = ALL ? Number.POSITIVE_INFINITY : Number(WANTED ?? 16)
const BREAKS = DEATHS / 2
const COMMITS = WANTED === undefined ? 6 : DEATHS / 10
const CONTROLS = 4
const LIMIT_MS = WANTED === undefined ? 180_000 : 7_200_000

interface Point extends Cut {
  readonly sql: string
}

function pointsOf(statements: readonly string[]): Point[] {
  return statements.flatMap((sql, i) => [
    { n: i + 1, when: 'before' as const, sql },
    { n: i + 1, when: 'after' as const, sql },
  ])
}

function commitsOf(statements: readonly string[]): Point[] {
  const all = statements.map((sql, i) => ({ n: i + 1, when: 'unanswered' as const, sql }))
  return all.filter(({ sql }) => /^(XA )?COMMIT\b/.test(sql))
}

/** About `count` of them, evenly; the step is odd, so that what comes in twos is met in both ways. */
function chosen(points: readonly Point[], count: number, offset: number): readonly Point[] {
  if (count >= points.length) return points
  const step = Math.max(1, Math.floor(points.length / count)) | 1
  return points.filter((_, i) => i % step === offset % step)
}

/** One cut before each kind of statement, at its middle occurrence: so that none is left out, however many there are. */
function ofEachKind(points: readonly Point[]): readonly Point[] {
  const kindOf = ({ sql }: Point) =>
    sql
      .replace(/\s+/g, ' ')
      .replace(/X?'[^']*'|\d+/g, '')
      .trim()
      .slice(0, 60)
  const kinds = new Map<string, Point[]>()
  for (const point of points.filter(({ when }) => when === 'before')) {
    kinds.set(kindOf(point), [...(kinds.get(kindOf(point)) ?? []), point])
  }
  return [...kinds.values()].map((all) => all[all.length >> 1] as Point)
}

function label({ n, when, sql }: Point): string {
  return `${when} statement ${n}: ${sql.replace(/\s+/g, ' ').trim().slice(0, 60)}`
}

const KINDS = [
  /CREATE TABLE.*transfers/,
  /^(XA )?COMMIT\b/,
  /INSERT INTO.*leases/,
  /INTO.*processed_events/,
  /INTO balances/,
  /INTO payouts/,
  /DELETE FROM .*kept_events.* block_number > /,
  /DELETE FROM .*kept_events.* block_number <= /,
  /low_water = /,
  /DELETE FROM .*processed_events/,
  /DELETE FROM .*leases/,
]

/** Writes outside the transaction, as no guard can see. It ends well as long as nothing goes wrong. */
function leaky(database: Database): Watcher {
  const { backend } = database
  const prepare = async () => void (await database.rows(backend.addTo('balances', 'account', 'amount'), 'leaked', 1))
  return ledgerOn(backend, { prepare })
}

function lab(backend: Backend) {
  const made: { database?: Database } = {}
  const database = () => made.database as Database
  const open = async () => {
    made.database = await backend.database()
    await makeLedgerTables(database())
  }
  /** A run on an empty database that nothing disturbs. */
  const clean = async (watcher?: Watcher): Promise<Played & { end: End }> => {
    await database().empty(['transfers'])
    const played = await play(database(), watcher ? { watcher } : {})
    return { ...played, end: await endState(database()) }
  }
  /** A run that is cut at a point, and the next process. Answers what became of the first one. */
  const cutAt = async (cut: Point, lives: boolean, watcher?: Watcher): Promise<Played> => {
    await database().empty(['transfers'])
    const more = watcher ? { watcher } : {}
    const played = await play(database(), { cut, lives, ...more })
    if (lives) return played
    await expireLeases(database())
    await play(database(), { from: played.phase, ...more })
    return played
  }
  return { open, database, clean, cutAt, close: () => made.database?.drop() }
}

for (const backend of servers) {
  backend.describe('the connection is cut', () => {
    const { open, database, clean, cutAt, close } = lab(backend)
    let whole: Awaited<ReturnType<typeof clean>>

    beforeAll(async () => {
      await open()
      await clean() // the tables of Tidemark itself are made once: their steps have tests of their own
      whole = await clean()
    }, 60_000)
    afterAll(close)

    test('the run meets every kind of commit', () => {
      const statements = whole.statements.map((sql) => sql.replace(/\s+/g, ' '))
      for (const kind of KINDS)
        expect(statements.filter((sql) => kind.test(sql)).length, String(kind)).toBeGreaterThan(0)
      expect(whole.codes).toEqual([])
      expect(whole.end['marks']).toHaveLength(6) // of nine events on the final chain three were forgotten
      expect(JSON.parse(whole.end['watcher']?.[0] ?? '')).toMatchObject({
        state: 'running',
        applied: 12,
        undone: 3,
        duplicates: 0,
        reorgs: 1,
        epoch: 1,
        low_water: 273,
        settled: 286,
      })
    })

    /** Goes through the points. Answers what ended otherwise, and tells how often a process waited for its own lease. */
    async function wrongOf(points: readonly Point[], lives: boolean): Promise<string[]> {
      const wrong: string[] = []
      const held: string[] = []
      for (const point of points) {
        const { codes, statements } = await cutAt(point, lives)
        const told = await differing(database(), whole.end)
        if (statements.length < point.n) told.push('the run ended before')
        if (codes.includes('HELD')) held.push(label(point))
        // The lease of a process that could not give it back ends by itself.
        const kept = lives && /DELETE FROM .*leases/.test(point.sql)
        const counts = told.filter((one) => !(kept && one === 'leases'))
        if (counts.length > 0) wrong.push(`${label(point)} ${counts.join('; ')}`)
      }
      if (held.length > 0)
        console.log(`${backend.kind}: its own lease stood in the way ${held.length} times: ${held[0]}`)
      return wrong
    }

    test(
      'and the process dies with it: the next one ends as a run that was never cut (P1, P2, P3)',
      async () => {
        const points = pointsOf(whole.statements)
        const some = chosen(points, DEATHS, 7)
        console.log(`${backend.kind}: the process dies at ${some.length} of ${points.length} points`)
        expect(await wrongOf(some, false)).toEqual([])
      },
      LIMIT_MS,
    )

    test(
      'and the process lives: it ends as a run that was never cut',
      async () => {
        const points = pointsOf(whole.statements)
        const some = WANTED === undefined ? ofEachKind(points) : chosen(points, BREAKS, 30)
        console.log(`${backend.kind}: the process lives on after ${some.length} of ${points.length} points`)
        expect(await wrongOf(some, true)).toEqual([])
      },
      LIMIT_MS,
    )

    test(
      'while the server carries out COMMIT: the next process finds out what became of it',
      async () => {
        const points = commitsOf(whole.statements)
        const some = chosen(points, COMMITS, 2)
        console.log(`${backend.kind}: ${some.length} of ${points.length} COMMITs under way`)
        expect(await wrongOf(some, false)).toEqual([])
      },
      LIMIT_MS,
    )

    test(
      'control: a write on another connection is found by the same comparison',
      async () => {
        const watcher = leaky(database())
        const { statements, end } = await clean(watcher)
        const marked = pointsOf(statements).filter(({ sql }) => /INSERT INTO.*processed_events/s.test(sql))
        const found: string[] = []
        for (const point of chosen(marked, CONTROLS, 1)) {
          await cutAt(point, false, watcher)
          const { balances } = await endState(database())
          if (JSON.stringify(balances) !== JSON.stringify(end['balances'])) found.push(label(point))
        }
        console.log(`${backend.kind}: the leak shows at ${found.length} points, such as ${found[0]}`)
        expect(found.length).toBeGreaterThan(0)
      },
      LIMIT_MS,
    )
  })
}
