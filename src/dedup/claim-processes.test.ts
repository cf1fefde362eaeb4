import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'
import { afterEach, expect, test } from 'vitest'
import { openDefault } from '../store/sqlite/driver.ts'
import { sqlite } from '../store/sqlite/index.ts'

/** Claims between real processes on one file, by the real clock: P9 for work outside a transaction. */
const EVENTS = 40
const children: ChildProcess[] = []
const folders: string[] = []

afterEach(async () => {
  for (const child of children.splice(0)) {
    if (child.exitCode !== null || child.signalCode !== null) continue
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
})

const jiti = pathToFileURL(createRequire(import.meta.url).resolve('jiti')).href

/** A worker in a process of its own; each line that it prints is read in turn. */
class Worker {
  readonly #child: ChildProcess
  readonly #lines: AsyncIterator<string>

  constructor(file: string, body: string) {
    const code = `
      import jiti from ${JSON.stringify(jiti)}
      const load = (jiti.createJiti ?? jiti)(${JSON.stringify(import.meta.url)})
      const { sqlite } = await load.import('../store/sqlite/index.ts')
      const { openDefault } = await load.import('../store/sqlite/driver.ts')
      const { DeduplicationManager } = await load.import('./deduplication-manager.ts')
      const file = ${JSON.stringify(file)}
      const dedup = new DeduplicationManager({ store: sqlite({ file, busyTimeoutMs: 20_000 }), chainId: 1 })
      const db = openDefault(file)
      db.exec('PRAGMA busy_timeout = 20000')
      const event = (n) => ({ transactionHash: '0x' + n.toString(16).padStart(64, '0'), logIndex: n, blockNumber: 1 })
      /** The effect and the end of the claim in one transaction. Answers the code of what went wrong. */
      const finish = (n, claim) => {
        db.exec('BEGIN IMMEDIATE')
        try {
          db.prepare('INSERT INTO effects VALUES (?)').run(n)
          claim.done(db)
          db.exec('COMMIT')
        } catch (error) {
          db.exec('ROLLBACK')
          return error.code
        }
      }
      ${body}`
    const args = ['--input-type=module', '--eval', code]
    this.#child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] })
    children.push(this.#child)
    this.#lines = createInterface({ input: this.#child.stdout as NodeJS.ReadableStream })[Symbol.asyncIterator]()
  }

  async line(): Promise<unknown> {
    const { value } = await this.#lines.next()
    return JSON.parse(String(value))
  }

  go(): void {
    this.#child.stdin?.end('go\n')
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL')
    await once(this.#child, 'exit')
  }
}

/** Claims some events and then does nothing: until it is killed, or told to go on, which is then too late. */
const STUCK = (from: number, to: number) => `
  const claims = new Map()
  for (let n = ${from}; n < ${to}; n++) {
    const taken = await dedup.claim(event(n), { leaseMs: 300 })
    if (taken.outcome === 'claimed') claims.set(n, taken)
  }
  console.log(claims.size)
  process.stdin.once('data', () => {
    console.log(JSON.stringify([...claims].map(([n, claim]) => finish(n, claim) ?? 'done')))
    process.exit()
  })`

/** Goes round and round over all events until each is done by someone. What is held is left alone. */
const WORK = `
  console.log('"ready"')
  await new Promise((go) => process.stdin.once('data', go))
  const left = new Set(Array.from({ length: ${EVENTS} }, (_, n) => n))
  const told = { claimed: 0, takenOver: 0, held: 0, lost: 0 }
  while (left.size > 0) {
    for (const n of left) {
      const taken = await dedup.claim(event(n), { leaseMs: 10_000 })
      if (taken.outcome === 'held') told.held++
      else left.delete(n)
      if (taken.outcome !== 'claimed') continue
      told.claimed++
      if (taken.takenOver) told.takenOver++
      if (finish(n, taken)) told.lost++
    }
    // Waits for a lease to end; what is tested does not depend on how long.
    await new Promise((next) => setTimeout(next, 10))
  }
  console.log(JSON.stringify(told))
  process.exit()`

// Each starts Node and compiles the sources: seconds on a busy machine.
test('a killed worker, a late one and two live ones: each event has its effect once', {
  timeout: 120_000,
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tidemark-claims-'))
  folders.push(folder)
  const file = join(folder, 'test.db')
  const store = sqlite({ file })
  await store.migrate('auto')
  await store.close()
  const db = openDefault(file)
  db.exec('CREATE TABLE effects (event INTEGER NOT NULL)')

  const [killed, late] = [new Worker(file, STUCK(0, 5)), new Worker(file, STUCK(5, 12))]
  const workers = [new Worker(file, WORK), new Worker(file, WORK)]
  expect(await Promise.all([killed.line(), late.line()])).toEqual([5, 7])
  await killed.kill()
  expect(await Promise.all(workers.map((worker) => worker.line()))).toEqual(['ready', 'ready'])
  for (const worker of workers) worker.go()
  const told = (await Promise.all(workers.map((worker) => worker.line()))) as Record<string, number>[]
  const sum = (what: string) => told.reduce((all, one) => all + (one[what] ?? 0), 0)
  expect([sum('claimed'), sum('takenOver'), sum('lost')]).toEqual([EVENTS, 12, 0])

  late.go()
  expect(await late.line()).toEqual(Array.from({ length: 7 }, () => 'CLAIM_LOST'))
  const effects = db
    .prepare('SELECT event FROM effects ORDER BY event')
    .all()
    .map((row) => Number(row.event))
  db.close()
  expect(effects).toEqual(Array.from({ length: EVENTS }, (_, n) => n))
})
