import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createTidemark } from '../src/app/tidemark.ts'
import type { Logger } from '../src/app/types.ts'
import type { RpcCall } from '../src/chain/rpc.ts'
import { defineConfig } from '../src/config.ts'
import type { Watcher } from '../src/handle/watch.ts'
import { openDefault } from '../src/store/sqlite/driver.ts'
import { sqlite } from '../src/store/sqlite/index.ts'
import { type FakeNode, fakeChain, fakeNode, fakeRpc, testAddress, transfer } from '../src/testkit/index.ts'
import { root } from './house/tree.ts'
import { ledger } from './support/demo-ledger.ts'

/**
 * P12, over everything that Tidemark prints: the command line in processes of its own with everything that fails and
 * halts, and the library with a logger of its own. All of it is searched for URLs, keys, credentials, arguments and SQL
 * parameters. What is searched for is planted once by the test itself, so that a search that finds nothing means something.
 */
const TOKEN = testAddress('TOKEN')
const [SENDER, RECEIVER] = [`0x${'ab5e4d'.repeat(6)}cafe`, `0x${'d00dad'.repeat(6)}beef`] as const
const AMOUNT = 918_273_645_546_372_819n
const KEY = 'kh7Qz0tVw3xYp9Lm2Rb8'
const PASSWORD = 'pw-Zx81'
const USER = 'usr-Kd44'
const PARAMETER = 'parameter-77ab31'

/** What must be nowhere, by what it is. Matched without regard to case. */
const SECRETS: Readonly<Record<string, RegExp>> = {
  'the key of the URL': new RegExp(KEY, 'i'),
  'the password of the URL': new RegExp(PASSWORD, 'i'),
  'the user of the URL': new RegExp(USER, 'i'),
  'a URL of a node': /https?:\/\/(?!github\.com\/tidemark)/i,
  'the host of a node': /127\.0\.0\.1|rpc\.example/,
  'an address out of the arguments': new RegExp(`${SENDER.slice(2)}|${RECEIVER.slice(2)}`, 'i'),
  'an amount': new RegExp(`${AMOUNT}|${AMOUNT.toString(16)}|${AMOUNT.toLocaleString('en')}`, 'i'),
  'a parameter of SQL': new RegExp(PARAMETER, 'i'),
}

function leaks(text: string): string[] {
  return Object.entries(SECRETS).flatMap(([what, pattern]) => {
    const at = text.search(pattern)
    return at < 0 ? [] : [`${what}: …${text.slice(Math.max(0, at - 120), at + 60)}…`]
  })
}

const folder = mkdtempSync(join(tmpdir(), 'tidemark-secrets-'))
const database = join(folder, 'data.db')
let node: FakeNode
let url = ''

/** A node that quotes what it was asked, and the URL it was asked at, in each of its refusals. */
function chattyNode(): FakeNode {
  const chain = fakeChain({ chainId: 1, finalized: { depth: 2 } })
  for (let i = 0; i < 6; i++) chain.mine([transfer(TOKEN, SENDER, RECEIVER, AMOUNT)])
  const rpc = fakeRpc(chain)
  const chatty = (call: RpcCall) => {
    const message = `project ${url} of ${USER}:${PASSWORD}@rpc.example may not ask ${JSON.stringify(call.params)}`
    return { ok: false, error: { code: -32000, message, data: { url, key: KEY, topics: [SENDER, RECEIVER] } } } as const
  }
  for (const method of ['eth_getLogs', 'eth_getBlockByNumber']) rpc.times(2, method, 'any', chatty)
  return fakeNode(rpc)
}

/** Every watcher fails in its own way, and puts all that it knows into its error. */
const WATCHERS = `
import { watch } from 'tidemark/sqlite'
const all = (event, db) => {
  const { from, to, value } = event.args
  return \`no \${from} \${to.toUpperCase()} \${to.slice(2)} \${value} \${value.toString(16)} 0x\${value.toString(16)} \${value.toLocaleString('en')} \` +
    JSON.stringify(event.args, (_, v) => typeof v === 'bigint' ? String(v) : v) + ' at ' + process.env.NODE_URL
}
const make = (more) => watch({
  on: { ethereum: { address: '${TOKEN}', startBlock: 1, at: 'latest' } },
  events: { Transfer: { event: 'event Transfer(address indexed from, address indexed to, uint256 value)' } },
  handle() {}, undo() {}, ...more,
})
export const throwing = make({ handle: ({ event }) => { throw new Error(all(event)) } })
export const caused = make({ handle: ({ event }) => { throw new Error('outer', { cause: new Error(all(event)) }) } })
export const odd = make({ handle: ({ event }) => { throw all(event) } })
export const named = make({ handle: ({ event }) => { throw Object.assign(new Error('x'), { name: all(event), code: all(event) }) } })
export const sql = make({ handle: ({ event, db }) => {
  db.exec('CREATE TABLE IF NOT EXISTS accounts (name TEXT PRIMARY KEY)')
  for (let i = 0; i < 2; i++) db.prepare('INSERT INTO accounts VALUES (?)').run('${PARAMETER}' + event.args.to)
} })
export const literal = make({ handle: ({ event, db }) => db.exec("INSERT INTO nowhere VALUES ('" + event.args.to + "')") })
export const swallowed = make({ handle: ({ event, db }) => { try { db.prepare('SELECT ?').get({ bad: all(event) }, all(event)) } catch {} } })
export const memo = make({ handle: ({ event }) => ({ fn: () => all(event), text: all(event) }) })
export const keyed = make({ key: (event) => { throw new Error(all(event)) } })
export const prepared = make({ prepare: async ({ event }) => { throw new Error(all(event)) } })
export const final = make({ final: ({ event }) => { throw new Error(all(event)) } })
`

const CONFIG = `
import { defineConfig } from 'tidemark'
import { sqlite } from 'tidemark/sqlite'
import * as watchers from './watchers'
const { NODE_URL, DEAD_URL, DATABASE } = process.env
export default defineConfig({
  store: sqlite({ file: DATABASE }),
  chains: { ethereum: { id: 1, rpc: [DEAD_URL, NODE_URL], pollMs: 50, timeoutMs: 2_000 } },
  watchers: { ...watchers },
})
`

beforeAll(async () => {
  node = chattyNode()
  url = `${await node.listen()}/v3/${KEY}`
  writeFileSync(join(folder, 'watchers.ts'), WATCHERS)
  writeFileSync(join(folder, 'tidemark.config.ts'), CONFIG)
})
afterAll(async () => {
  await node.close()
  rmSync(folder, { recursive: true, force: true })
})

interface Run {
  readonly text: string
  readonly code: number | null
}

/** The command line in a process of its own. `enough` says when it has printed what it should, and is stopped. */
async function tidemark(args: readonly string[], enough?: (text: string) => boolean): Promise<Run> {
  const dead = `http://${USER}:${PASSWORD}@rpc.example:1/${KEY}`
  const env = { ...process.env, NODE_URL: url, DEAD_URL: dead, DATABASE: database, FORCE_COLOR: '0' }
  const program = [join(root, 'node_modules/.bin/jiti'), join(root, 'src/app/cli/main.ts')]
  const child = spawn(process.execPath, [...program, ...args], { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] })
  let text = ''
  let stopped = false
  const take = (chunk: unknown) => {
    text += String(chunk)
    if (stopped || !enough?.(text)) return
    // Once: a second signal ends the process at once.
    stopped = child.kill('SIGTERM')
  }
  child.stdout.on('data', take)
  child.stderr.on('data', take)
  const [code] = await once(child, 'close')
  return { text, code: code as number | null }
}

const NAMES = ['throwing', 'caused', 'odd', 'named', 'sql', 'literal', 'swallowed', 'memo', 'keyed', 'final'] as const

test('control: the search finds each kind of secret', () => {
  const planted = [
    `x${KEY}`,
    `x ${PASSWORD}`,
    `${USER}:`,
    'see https://node.example/',
    'ECONNREFUSED 127.0.0.1:5',
    SENDER.toUpperCase(),
    `[${AMOUNT}]`,
    PARAMETER,
  ]
  expect(planted.map((text) => leaks(text).length)).toEqual(planted.map(() => 1))
  expect(leaks('docs: https://github.com/tidemark/tidemark/blob/main/docs/errors.md#x')).toEqual([])
})

test('run at log level debug, with every endpoint and every watcher failing', async () => {
  const halted = (text: string) =>
    new Set([...text.matchAll(/"watcher":"(\w+)\/ethereum","reason"/g)].map(([, name]) => name))
  const enough = (text: string) => halted(text).size === NAMES.length && text.includes('PREPARE_FAILED')
  const { text, code } = await tidemark(['run', '--log-level', 'debug'], enough)
  expect(leaks(text)).toEqual([])
  expect(code).toBe(0)
  expect([...halted(text)].sort()).toEqual([...NAMES].sort())
  // What may be known is there: without it the search would prove nothing.
  expect(text).toContain('"block":1')
  expect(text).toContain('<argument>')
  // Where a handler threw: its file and line, without the message above them.
  expect(text).toMatch(
    /"where it failed","watcher":"throwing\/ethereum","code":"HANDLER_FAILED","stack":\["[^"]*watchers\.ts:\d+:\d+/,
  )
}, 60_000)

test('status, in words and as JSON, and the reasons that the database keeps', async () => {
  const runs = await Promise.all([tidemark(['status', '--log-level', 'debug']), tidemark(['status', '--json'])])
  for (const { text, code } of runs) {
    expect(leaks(text)).toEqual([])
    expect([code, text.includes('HANDLER_FAILED')]).toEqual([4, true])
  }
  const db = openDefault(database)
  const stored = [
    ...db.prepare('SELECT name, reason FROM tidemark_watchers').all(),
    ...db.prepare('SELECT * FROM tidemark_audit').all(),
  ]
  db.close()
  expect(leaks(inspect(stored, { maxStringLength: null, depth: null }))).toEqual([])
  expect(stored.filter((row) => row.reason !== null).length).toBe(NAMES.length)
}, 60_000)

const BROKEN: readonly string[] = [
  `throw new Error('cannot reach ' + process.env.NODE_URL + ' nor ' + process.env.DEAD_URL)`,
  `export default { store: {}, chains: { ethereum: { id: 1, rpc: [process.env.NODE_URL.replace('http', 'ftp')] } }, watchers: {} }`,
]

test('a configuration that cannot be used, with stack traces asked for', async () => {
  const runs = BROKEN.map((text, i) => {
    writeFileSync(join(folder, `broken${i}.ts`), text)
    return tidemark(['run', '--config', `broken${i}.ts`, '--log-level', 'debug'])
  })
  for (const { text, code } of await Promise.all(runs)) {
    expect(leaks(text)).toEqual([])
    expect([code, text.includes('CONFIG_INVALID')]).toEqual([2, true])
  }
}, 60_000)

/** Everything that the library hands out, as `console.log` would show it, causes and stacks included. */
class Overheard implements Logger {
  text = ''

  log(...line: unknown[]): void {
    this.text += `${inspect(line, { depth: null, maxStringLength: null, maxArrayLength: null })}\n`
  }
}

test('the library in a process of its own user: logger, events and status', async () => {
  const chain = fakeChain({ chainId: 1 })
  chain.mine([transfer(TOKEN, SENDER, RECEIVER, AMOUNT)])
  const other = fakeNode(fakeRpc(fakeChain({ chainId: 2 })))
  const good = fakeNode(fakeRpc(chain))
  const rpc = [`${await other.listen()}/v3/${KEY}`, `${await good.listen()}/v3/${KEY}`]
  const heard = new Overheard()
  const throwing = ledger({
    handle: ({ event }) => {
      throw new Error(`${inspect(event.args)} ${rpc}`)
    },
  })
  const failing = ledger({
    prepare: async ({ event }) => {
      throw new Error(`${inspect(event.args)} ${rpc}`)
    },
  })
  const store = sqlite({ file: join(folder, 'library.db') })
  const watchers = { throwing: on(throwing), failing: on(failing) }
  const tidemark = createTidemark(defineConfig({ store, chains: { ethereum: { id: 1, rpc } }, watchers }), {
    logger: heard,
  })
  for (const type of ['applied', 'settled', 'failing', 'halted'] as const)
    tidemark.on(type, (event) => heard.log(type, event))
  await tidemark.runOnce({ budgetMs: 30_000 })
  heard.log(await tidemark.status())
  await tidemark.stop()
  await Promise.all([good.close(), other.close()])
  expect(leaks(heard.text)).toEqual([])
  for (const code of ['HANDLER_FAILED', 'PREPARE_FAILED', 'CHAIN_MISMATCH']) expect(heard.text).toContain(code)
})

/** The demo's watcher on this test's contract and chain. */
function on(watcher: Watcher): Watcher {
  const binding = { address: TOKEN, startBlock: 1, at: 'latest' as const }
  return { ...watcher, definition: { ...watcher.definition, on: { ethereum: binding } } }
}
