import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Watcher } from '../../src/handle/watch.ts'
import { goodOn, ledgerOn, makeLedgerTables } from '../support/store-ledger.ts'
import { differing, type End, endState, type Followed, follow } from '../support/store-run.ts'
import { type Backend, type Database, servers } from '../support/stores.ts'
import { forwardAll, type TcpProxy, tcpProxy, type Verdict } from '../support/tcp-proxy.ts'

/**
 * COMMIT whose answer is lost, in the run of `crash-points.test.ts`, through a proxy that breaks the connection before or
 * after the server has seen it. The process lives on and must find out by itself what became of it: the effects are there
 * once. Every n-th COMMIT; `CRASH_POINTS=all` takes each.
 */
const STEP = process.env['CRASH_POINTS'] === 'all' ? 1 : 3
const LIMIT_MS = 240_000

interface Calls {
  handle: number
  undo: number
  final: number
}

function counting(backend: Backend, calls: Calls): Watcher {
  const counted = <S>(name: keyof Calls, stage: (scope: S) => unknown) => {
    return (scope: S) => {
      calls[name]++
      return stage(scope)
    }
  }
  const { handle, undo, final } = goodOn(backend)
  return ledgerOn(backend, {
    handle: counted('handle', handle),
    undo: counted('undo', undo),
    final: counted('final', final) as never,
  })
}

/** Looks at what goes by: which COMMIT it is, and whether its transaction is one of a watcher, since it wrote a nonce. */
class Counter {
  commits = 0
  guarded = 0
  /** Whether the COMMIT that was hit was one of a watcher; null: none was hit. */
  hit: boolean | null = null
  #nonce = false

  see(bytes: Buffer, target: number, fate: Verdict): Verdict {
    const text = bytes.toString('latin1')
    if (/BEGIN ISOLATION|START TRANSACTION|XA START/.test(text)) this.#nonce = false
    if (/SET nonce = /.test(text)) this.#nonce = true
    // The whole statement of one message: five bytes of either protocol stand before it.
    if (!/^(XA )?COMMIT\b/.test(text.slice(5))) return 'forward'
    if (this.#nonce) this.guarded++
    if (++this.commits !== target) return 'forward'
    this.hit = this.#nonce
    return fate
  }
}

interface Outcome extends Followed {
  readonly calls: Calls
  readonly counter: Counter
  readonly end: End
  /** Against the run in which nothing was lost. */
  readonly told: readonly string[]
}

for (const backend of servers) {
  backend.describe('COMMIT through a connection that breaks', () => {
    let database: Database
    let proxy: TcpProxy
    let base: Outcome

    async function runWith(target: number, fate: Verdict, watcher?: (calls: Calls) => Watcher): Promise<Outcome> {
      await database.empty(['transfers'])
      const calls = { handle: 0, undo: 0, final: 0 }
      const counter = new Counter()
      proxy.rule = (bytes) => counter.see(bytes, target, fate)
      const url = new URL(database.url)
      url.port = String(proxy.port)
      const through = { more: { url: url.href } }
      const followed = await follow(database, through, {
        watcher: (watcher ?? ((all) => counting(backend, all)))(calls),
      })
      proxy.rule = forwardAll
      const end = await endState(database)
      return { ...followed, calls, counter, end, told: base ? await differing(database, base.end) : [] }
    }

    /** Lets every n-th COMMIT of the run meet its fate. */
    async function eachCommit(fate: Verdict, check: (outcome: Outcome) => string[]): Promise<string[]> {
      const wrong: string[] = []
      let [hits, guarded] = [0, 0]
      for (let target = 1; target <= base.counter.commits; target += STEP) {
        const outcome = await runWith(target, fate)
        hits++
        if (outcome.counter.hit) guarded++
        const told = [...outcome.told, ...check(outcome)]
        if (outcome.counter.hit === null) told.push('it was not met')
        if (told.length > 0) wrong.push(`COMMIT ${target}: ${told.join('; ')}`)
      }
      console.log(
        `${backend.kind}: ${fate} at ${hits} of ${base.counter.commits} COMMITs, ${guarded} of them of a watcher`,
      )
      expect(guarded).toBeGreaterThan(2)
      return wrong
    }

    beforeAll(async () => {
      database = await backend.database()
      await makeLedgerTables(database)
      const { hostname: host, port } = new URL(database.url)
      proxy = await tcpProxy({ host, port: Number(port) })
      await runWith(0, 'forward') // makes the tables of Tidemark
      base = await runWith(0, 'forward')
    }, 60_000)
    afterAll(async () => {
      await proxy?.close()
      await database?.drop()
    })

    test('the run in which nothing is lost', () => {
      expect([base.codes, base.told, base.calls]).toEqual([[], [], { handle: 12, undo: 3, final: 9 }])
      expect(base.counter.guarded).toBeGreaterThan(10)
      expect(proxy.cuts).toBe(0)
    })

    test(
      'the answer is lost: the effects are there once, and no handler is called again',
      async () => {
        const wrong = await eachCommit('cut answer', ({ calls, codes, counter }) => {
          const again = JSON.stringify(calls) === JSON.stringify(base.calls) ? [] : ['a function was called again']
          // The nonce shows that it happened: nobody needs to hear of it. Elsewhere it is said, and done again harmlessly.
          const loud = counter.hit && codes.length > 0 ? [`it failed with ${codes.join()}`] : []
          return [...again, ...loud]
        })
        expect(wrong).toEqual([])
      },
      LIMIT_MS,
    )

    test(
      'it never reached the server: the position is read again, and the work is done once',
      async () => {
        const codes = new Set<string>()
        const wrong = await eachCommit('cut', (outcome) => {
          if (outcome.counter.hit) for (const code of outcome.codes) codes.add(code)
          return outcome.codes.length > 0 ? [] : ['nothing was said']
        })
        expect(wrong).toEqual([])
        expect([...codes]).toEqual(['COMMIT_UNKNOWN'])
      },
      LIMIT_MS,
    )

    test(
      'control: work that a COMMIT does not cover is found to be done twice',
      async () => {
        const leaky = () => {
          const prepare = async () =>
            void (await database.rows(backend.addTo('balances', 'account', 'amount'), 'leaked', 1))
          return ledgerOn(backend, { prepare })
        }
        const clean = await runWith(0, 'forward', leaky)
        const differs: number[] = []
        for (const target of [3, 4, 5]) {
          const { end } = await runWith(target, 'cut', leaky)
          expect(end['payouts']).toEqual(clean.end['payouts'])
          if (JSON.stringify(end['balances']) !== JSON.stringify(clean.end['balances'])) differs.push(target)
        }
        expect(differs.length).toBeGreaterThan(0)
      },
      LIMIT_MS,
    )
  })
}
