import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { afterEach, describe, expect, test } from 'vitest'
import { openDefault } from '../src/store/sqlite/driver.ts'
import { fakeChain, fakeNode, fakeRpc, testAddress, transfer } from '../src/testkit/index.ts'
import { requireDist } from './node/watcher-process.ts'
import { describeMysql, makeDatabase } from './support/mysql.ts'
import { describePostgres, emptyDatabase } from './support/postgres.ts'

/** Each example runs as its first lines say, as a program of its own on the built package. */
const ROOT = join(import.meta.dirname, '..')
const JITI = join(dirname(createRequire(import.meta.url).resolve('jiti/package.json')), 'lib', 'jiti-cli.mjs')
const USDC = '0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48'
const [ANN, BOB] = [testAddress('ANN'), testAddress('BOB')]
/** For each wait: starting a program compiles it. */
const LIMIT_MS = 40_000

const ends: (() => unknown)[] = []
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

interface Program {
  readonly child: ChildProcess
  /** What it wrote, both streams. */
  output(): string
  exit(): Promise<number | null>
}

function run(example: string, env: Readonly<Record<string, string>>): Program {
  return start(example.endsWith('.cjs') ? [example] : [JITI, example], env)
}

function start(args: readonly string[], env: Readonly<Record<string, string>>): Program {
  requireDist()
  const child = spawn(process.execPath, args, {
    cwd: join(ROOT, 'examples'),
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let text = ''
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (data: Buffer) => (text += data.toString()))
  const ended = new Promise<number | null>((resolve) => child.once('close', () => resolve(child.exitCode)))
  ends.push(async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL')
    await ended
  })
  return { child, output: () => text, exit: () => ended }
}

/** Waits until something can be seen from outside. @throws with what the program wrote when it ends before */
async function until<T>(what: string, program: Program, look: () => Promise<T | null | false | undefined>): Promise<T> {
  const limit = performance.now() + LIMIT_MS
  for (;;) {
    const found = await look()
    if (found) return found
    const gone = program.child.exitCode !== null
    if (gone || performance.now() > limit) throw new Error(`In vain: ${what}.\n${program.output()}`)
    await sleep(25)
  }
}

async function postgresAt(schema: string) {
  const database = await emptyDatabase()
  ends.push(() => database.drop())
  const client = new pg.Client({ connectionString: database.url })
  // The database is dropped with whoever is connected.
  client.on('error', () => {})
  await client.connect()
  ends.push(() => client.end().catch(() => {}))
  await client.query(schema)
  return { url: database.url, client }
}

/** A chain behind a URL: three transfers to BOB, and a reorg that leaves one of them and adds one. */
async function chainWithReorg() {
  const chain = fakeChain({ chainId: 1 })
  const node = fakeNode(fakeRpc(chain))
  const url = await node.listen()
  ends.push(() => node.close())
  chain.mine([transfer(USDC, ANN, BOB, 5)])
  chain.mine([transfer(USDC, ANN, BOB, 7)])
  chain.mine([transfer(USDC, ANN, BOB, 11)])
  const reorg = () =>
    chain.reorg(2, { reinclude: 'none', also: (n) => (n === 2 ? [transfer(USDC, ANN, BOB, 100)] : []) })
  return { url, reorg }
}

/** Runs a watcher until the sum is that before the reorg, then after it, then ends it in good order. */
async function followed(example: string, schema: string, sum: string, env: Record<string, string> = {}) {
  const { url, client } = await postgresAt(schema)
  const chain = await chainWithReorg()
  const program = run(example, { DATABASE_URL: url, RPC_URL: chain.url, ...env })
  const reads = (wanted: string) => async () => {
    // The application may make its table only as it starts.
    const rows = await client.query(sum).then(
      (result) => result.rows,
      () => [],
    )
    return String(rows[0]?.sum) === wanted
  }
  await until('the sum before the reorg', program, reads('23'))
  chain.reorg()
  await until('the sum after the reorg', program, reads('105'))
  return { program, client }
}

async function endsWell(program: Program): Promise<void> {
  program.child.kill('SIGTERM')
  expect(await program.exit(), program.output()).toBe(0)
}

const BALANCES = 'CREATE TABLE balances (account text PRIMARY KEY, amount numeric(78,0) NOT NULL)'
const SERIAL = 'CREATE TABLE balances (id serial PRIMARY KEY, account text NOT NULL, amount bigint NOT NULL)'
/** No key on the account: a second effect would be seen. */
const PLAIN = 'CREATE TABLE balances (account varchar(42) NOT NULL, amount numeric(60,0) NOT NULL)'

describePostgres('examples on PostgreSQL', () => {
  test.each([
    ['drizzle/watcher.ts', BALANCES],
    ['kysely/watcher.ts', BALANCES],
  ])('%s follows a reorg and ends in good order', { timeout: 90_000 }, async (example, schema) => {
    const { program } = await followed(example, schema, 'SELECT sum(amount) FROM balances')
    await endsWell(program)
  })

  test('fastify: the pool and the logger of the application, and the routes beside', { timeout: 90_000 }, async () => {
    const { program, client } = await followed('fastify/app.ts', '', 'SELECT sum(amount) FROM received', { PORT: '0' })
    const address = /Server listening at (http:[^"]+)/.exec(program.output())?.[1]
    const answer = await fetch(`${address}/received/${BOB}`)
    expect(await answer.json()).toEqual({ amount: '105' })
    const status = (await (await fetch(`${address}/status`)).json()) as { watchers: { health: string }[] }
    expect(status).toMatchObject({ running: true, watchers: [{ name: 'balances/ethereum' }] })
    await endsWell(program)
    const { rows } = await client.query('SELECT count(*)::int AS left FROM tidemark.leases')
    expect(rows).toEqual([{ left: 0 }])
  })

  test('nestjs: CommonJS, and starts and stops with the application', { timeout: 90_000 }, async () => {
    const schema = 'CREATE TABLE transfers (id text PRIMARY KEY, amount numeric(78,0) NOT NULL)'
    const { program } = await followed('nestjs/main.cjs', schema, 'SELECT sum(amount) FROM transfers')
    program.child.kill('SIGTERM')
    await program.exit()
    // Nest ends the process by the same signal, once its hooks are done.
    expect([program.child.exitCode, program.child.signalCode], program.output()).toEqual([null, 'SIGTERM'])
    expect(program.output()).toContain('stopped')
  })

  test.each([
    ['once-pg/once.ts', PLAIN],
    ['drizzle/once.ts', PLAIN],
    ['kysely/once.ts', PLAIN],
    ['prisma/once.ts', SERIAL],
  ])('%s: delivered twice, done once', { timeout: 90_000 }, async (example, schema) => {
    const { url, client } = await postgresAt(schema)
    const program = run(example, { DATABASE_URL: url })
    expect(await program.exit(), program.output()).toBe(0)
    expect(program.output()).toBe('done\nduplicate\n')
    expect((await client.query('SELECT account, amount::text FROM balances')).rows).toEqual([
      { account: 'bob', amount: '5' },
    ])
  })
})

describeMysql('examples on MariaDB', () => {
  test('once-mysql2/once.ts: delivered twice, done once', { timeout: 90_000 }, async () => {
    const database = await makeDatabase()
    ends.push(() => database.drop())
    await database.outside.query(PLAIN)
    const program = run('once-mysql2/once.ts', { DATABASE_URL: database.url })
    expect(await program.exit(), program.output()).toBe(0)
    expect(program.output()).toBe('done\nduplicate\n')
    const [rows] = await database.outside.query('SELECT account, CAST(amount AS CHAR) AS amount FROM balances')
    expect(rows).toEqual([{ account: 'bob', amount: '5' }])
  })
})

describe('examples on SQLite', () => {
  test('once-sqlite/once.ts: delivered twice, done once', { timeout: 90_000 }, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'tidemark-example-'))
    ends.push(() => rmSync(folder, { recursive: true, force: true }))
    const file = join(folder, 'app.db')
    const db = openDefault(file)
    db.exec(PLAIN)
    const program = run('once-sqlite/once.ts', { DATABASE_FILE: file })
    expect(await program.exit(), program.output()).toBe(0)
    expect(program.output()).toBe('done\nduplicate\n')
    expect(db.prepare('SELECT account, amount FROM balances').all()).toEqual([{ account: 'bob', amount: 5 }])
    db.close()
  })
})

describe('examples/leaderboard', () => {
  test('its sums are those of a clean run, whatever fails meanwhile', async () => {
    const main = join(ROOT, 'dist', 'app', 'cli', 'main.js')
    // Seed 17 once wrote the changes of one block in two commits, below a cursor that was moved back.
    const flags = ['simulate', '--config', 'leaderboard/tidemark.config.ts', '--seeds', '25', '--from', '1']
    const program = start([main, ...flags], {
      RPC_URL: 'http://127.0.0.1:1',
      DATABASE: join(tmpdir(), 'leaderboard.db'),
    })
    expect(await program.exit(), program.output()).toBe(0)
    expect(program.output()).toMatch(/^25 seeds, .* your tables are those of a clean run, each time\.$/m)
  })
})
