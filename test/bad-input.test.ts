import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, expect, test } from 'vitest'
import { createTidemark } from '../src/app/tidemark.ts'
import { defineConfig } from '../src/config.ts'
import { TidemarkError } from '../src/errors.ts'
import type { Watcher } from '../src/handle/watch.ts'
import { openDefault, type SqliteDatabaseLike } from '../src/store/sqlite/driver.ts'
import { sqlite, watch } from '../src/store/sqlite/index.ts'
import { type FakeChain, fakeChain, fakeNode, fakeRpc } from '../src/testkit/index.ts'
import { root } from './house/tree.ts'
import { differences, ledger, pay, SCHEMA } from './support/demo-ledger.ts'
import { Harness, type HarnessOptions } from './support/harness.ts'

/** What a user or an operator gets wrong, and what the surroundings do: each a clear error with a code, nothing lost. */
const open: Harness[] = []
afterEach(async () => {
  for (const h of open.splice(0)) await h.close()
})

const finality = { finalized: { depth: 3 } } as const

function harness(chain: FakeChain, options: Partial<HarnessOptions> = {}): Harness {
  const h = new Harness({ chain, watchers: { ledger: ledger() }, schema: SCHEMA, ...options })
  open.push(h)
  return h
}

/** A chain with two blocks of events, and a watcher that has applied them. */
async function running(options: Partial<HarnessOptions> = {}): Promise<{ h: Harness; chain: FakeChain }> {
  const chain = fakeChain({ chainId: 7, ...finality })
  const h = harness(chain, options)
  chain.mine([pay(1)])
  chain.mine([pay(2), pay(3)])
  await h.settle()
  return { h, chain }
}

async function endsWell(h: Harness, chain: FakeChain): Promise<void> {
  chain.mine([pay(5)])
  chain.mineEmpty(6)
  await h.world.advance(61_000)
  await h.settle()
  expect(h.sql((db) => differences(chain, db))).toEqual([])
}

function codes(h: Harness): unknown[] {
  return h.events.flatMap(({ type, event }) => {
    if (type === 'failing') return [event.code]
    return type === 'halted' ? [(event.reason as { code: string }).code] : []
  })
}

async function refusal(work: () => unknown): Promise<TidemarkError> {
  try {
    await work()
  } catch (error) {
    if (TidemarkError.is(error)) return error
    throw error
  }
  throw new Error('nothing was refused')
}

const transferEvent = {
  Transfer: { event: 'event Transfer(address indexed from, address indexed to, uint256 value)' },
} as const
const store = () => sqlite({ file: ':memory:' })
const chains = { test: { id: 7, rpc: ['http://127.0.0.1:1'] } }

const defined = (deposits: Watcher) => defineConfig({ store: store(), chains, watchers: { deposits } })

const REFUSED: readonly (readonly [what: string, code: string, tells: RegExp, work: () => unknown])[] = [
  [
    'a malformed ABI',
    'ABI_INVALID',
    /watcher="deposits".*event signature or ABI item/s,
    () =>
      defined(
        watch({
          on: { test: { startBlock: 1 } },
          events: { Transfer: { event: 'event Transfer(address indexed from, adress to' as string } },
          handle: () => {},
        }),
      ),
  ],
  [
    'a chain that is not configured',
    'WATCHER_UNKNOWN_CHAIN',
    /chain="test".*configured=\["other"\]/,
    () =>
      createTidemark(defineConfig({ store: store(), chains: { other: chains.test }, watchers: { ledger: ledger() } })),
  ],
  [
    "at: 'latest' without undo",
    'WATCHER_UNDO_MISSING',
    /watcher="deposits".*confirmations: n .*declare `undo`/s,
    () => defined(watch({ on: { test: { startBlock: 1, at: 'latest' } }, events: transferEvent, handle: () => {} })),
  ],
  [
    'an unknown key of the configuration',
    'CONFIG_UNKNOWN_KEY',
    /did you mean 'retentionBlocks'/,
    () => defineConfig({ store: store(), chains, watchers: {}, retensionBlocks: 5 } as never),
  ],
  [
    'an unknown key of a chain',
    'CONFIG_UNKNOWN_KEY',
    /chains\.test\.pollMS.*did you mean 'pollMs'/,
    () => defineConfig({ store: store(), chains: { test: { ...chains.test, pollMS: 5 } }, watchers: {} } as never),
  ],
  [
    'an undefined database URL',
    'STORE_URL_UNDEFINED',
    /a path or :memory:/,
    () => sqlite({ file: process.env.NO_SUCH_VARIABLE }),
  ],
  [
    'an undefined entry of rpc',
    'CONFIG_INVALID',
    /chains\.test\.rpc\[1\].*undefined/,
    () =>
      defineConfig({
        store: store(),
        chains: { test: { id: 7, rpc: ['http://127.0.0.1:1', process.env.NO_SUCH_VARIABLE] } },
        watchers: {},
      } as never),
  ],
]

test.each(REFUSED)('%s is refused before anything starts: %s', async (_what, code, tells, work) => {
  const error = await refusal(work)
  expect([error.code, error.kind]).toEqual([code, 'refused'])
  expect(error.message.replaceAll('\n', ' ')).toMatch(tells)
})

test('another chain id behind the URL: halted, nothing applied, and resumed after the correction (C20)', async () => {
  const chain = fakeChain({ chainId: 7, ...finality })
  const wrong = fakeChain({ chainId: 8 })
  wrong.mine([pay(9)])
  const h = harness(chain, { rpc: [fakeRpc(wrong)] })
  await h.settle()
  expect(codes(h)).toEqual(['CHAIN_MISMATCH'])
  const [status] = (await h.tidemark.status()).watchers
  expect([status?.health, status?.reason?.code, status?.cursor]).toEqual(['halted', 'CHAIN_MISMATCH', null])
  await h.restart({ chains: { test: { id: 7, rpc: [fakeRpc(chain)], pollMs: 100 } } })
  await h.tidemark.admin.resume('ledger/test', { actor: 'ada', reason: 'url corrected' })
  await endsWell(h, chain)
})

test('a chain of the same id with another history behind the URL: halted before anything is undone (C20)', async () => {
  const { h, chain } = await running()
  const before = h.rows('SELECT * FROM balances')
  const wrong = fakeChain({ chainId: 7, seed: 'another', ...finality })
  for (let i = 0; i < 9; i++) wrong.mine([pay(9)])
  await h.restart({ chains: { test: { id: 7, rpc: [fakeRpc(wrong)], pollMs: 100 } } })
  await h.settle()
  expect(codes(h)).toEqual(['CHAIN_MISMATCH'])
  expect(h.rows('SELECT * FROM balances')).toEqual(before)
  await h.restart()
  await h.tidemark.admin.resume('ledger/test', { actor: 'ada', reason: 'url corrected' })
  await endsWell(h, chain)
})

test('a URL that nobody listens on: failing, and it heals by itself when somebody does', async () => {
  const chain = fakeChain({ chainId: 7, ...finality })
  chain.mine([pay(1)])
  const h = harness(chain)
  const node = fakeNode(fakeRpc(chain))
  const url = await node.listen()
  await node.close()
  const config = defineConfig({
    store: sqlite({ file: h.file }),
    chains: { test: { id: 7, rpc: [url], pollMs: 50 } },
    watchers: { ledger: ledger() },
  })
  const tidemark = createTidemark(config)
  const happens = (type: 'failing' | 'recovered' | 'applied') =>
    new Promise<any>((resolve) => tidemark.on(type, resolve))
  const [failing, recovered, applied] = [happens('failing'), happens('recovered'), happens('applied')]
  await tidemark.start()
  expect((await failing).code).toBe('RPC_UNREACHABLE')
  expect((await tidemark.status()).watchers[0]).toMatchObject({
    health: 'failing',
    reason: null,
    failing: { code: 'RPC_UNREACHABLE' },
  })
  const again = fakeNode(fakeRpc(chain))
  await again.listen(Number(new URL(url).port))
  await Promise.all([recovered, applied])
  await tidemark.stop()
  await again.close()
  expect(h.sql((db) => differences(chain, db, ['balances', 'transfers']))).toEqual([])
})

test('a database of a newer version is refused, and left as it is', async () => {
  const { h, chain } = await running()
  await h.tidemark.stop()
  const meta = h.rows('SELECT name, value FROM tidemark_meta')
  h.sql((db) => db.prepare('UPDATE tidemark_meta SET value = ?').run(99))
  const before = h.rows('SELECT * FROM tidemark_watchers')
  await h.restart()
  const errors = [
    await refusal(() => h.tidemark.runOnce()),
    await refusal(() => h.tidemark.start()),
    await refusal(() => h.tidemark.status()),
  ]
  expect(errors.map(({ code }) => code)).toEqual(['STORE_NEWER', 'STORE_NEWER', 'STORE_NEWER'])
  expect(h.rows('SELECT * FROM tidemark_watchers')).toEqual(before)
  h.sql((db) => {
    for (const { name, value } of meta)
      db.prepare('UPDATE tidemark_meta SET value = ? WHERE name = ?').run(Number(value), String(name))
  })
  await endsWell(h, chain)
})

test('a file that is no database is refused, and left as it is', async () => {
  const { h } = await running()
  const file = join(h.file, '..', 'garbage.db')
  const text = 'not a database, and not a short text either. '.repeat(200)
  writeFileSync(file, text)
  await h.restart({ store: sqlite({ file }) })
  for (const work of [() => h.tidemark.runOnce(), () => h.tidemark.status()]) {
    const error = await refusal(work)
    expect([error.code, error.sentence]).toEqual(['STORE_FAILED', 'The file is not an SQLite database'])
  }
  expect(readFileSync(file, 'utf8')).toBe(text)
})

/** The connection that the store opened, to change what the disk lets it do. */
class Disk {
  #main: SqliteDatabaseLike | undefined

  readonly open = (file: string): SqliteDatabaseLike => {
    const database = openDefault(file)
    if (!file.endsWith('-lock')) this.#main = database
    return database
  }

  /** Not one page more. */
  fill(): void {
    const pages = Object.values(this.#main?.prepare('PRAGMA page_count').get() ?? {})[0]
    this.#main?.exec(`PRAGMA max_page_count = ${pages}`)
  }

  makeRoom(): void {
    this.#main?.exec('PRAGMA max_page_count = 1000000')
  }

  /** Each write is answered with SQLITE_READONLY. */
  allowWrites(on: boolean): void {
    this.#main?.exec(`PRAGMA query_only = ${on ? 0 : 1}`)
  }
}

test('a disk that fills up during the run: failing, nothing half done, and it heals by itself', async () => {
  const disk = new Disk()
  const { h, chain } = await running({ open: disk.open })
  const before = h.rows('SELECT * FROM balances')
  disk.fill()
  chain.mine(Array.from({ length: 200 }, () => pay(4)))
  await h.settle()
  expect(new Set(codes(h))).toEqual(new Set(['STORE_FULL']))
  expect(h.rows('SELECT * FROM balances')).toEqual(before)
  expect(h.rows('SELECT state, cursor_block FROM tidemark_watchers')).toEqual([{ state: 'running', cursor_block: 2 }])
  disk.makeRoom()
  await endsWell(h, chain)
})

test('a file that becomes read-only during the run: failing, and it heals by itself', async () => {
  const disk = new Disk()
  let readOnly = false
  const prepare = async () => void (readOnly && disk.allowWrites(false))
  const { h, chain } = await running({ open: disk.open, watchers: { ledger: ledger({ prepare }) } })
  readOnly = true
  chain.mine([pay(4)])
  await h.settle()
  expect(new Set(codes(h))).toEqual(new Set(['STORE_READ_ONLY']))
  expect(h.rows('SELECT state, cursor_block FROM tidemark_watchers')).toEqual([{ state: 'running', cursor_block: 2 }])
  readOnly = false
  disk.allowWrites(true)
  await endsWell(h, chain)
})

test('a file that is read-only at the start is refused', async () => {
  const { h, chain } = await running()
  await h.tidemark.stop()
  const { DatabaseSync } = createRequire(import.meta.url)('@photostructure/sqlite')
  const readOnly = (file: string) => (file === h.file ? new DatabaseSync(file, { readOnly: true }) : openDefault(file))
  await h.restart({ store: sqlite({ file: h.file, open: readOnly, world: h.world }) })
  expect((await refusal(() => h.tidemark.runOnce())).code).toBe('STORE_READ_ONLY')
  expect((await h.tidemark.status()).watchers[0]?.cursor?.number).toBe(2)
  await h.restart()
  await endsWell(h, chain)
})

/** A process of its own that takes the lease of a file, says so, and holds it until it is killed. */
async function holder(file: string): Promise<() => Promise<void>> {
  const jiti = pathToFileURL(createRequire(import.meta.url).resolve('jiti')).href
  const code = `
    import jiti from ${JSON.stringify(jiti)}
    const { sqlite } = await (jiti.createJiti ?? jiti)(${JSON.stringify(import.meta.url)}).import(${JSON.stringify(join(root, 'src/store/sqlite/index.ts'))})
    const store = sqlite({ file: ${JSON.stringify(file)} })
    console.log((await store.acquire('w/ethereum')) ? 'held' : 'refused')
    setInterval(() => {}, 1_000)`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', code], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [said] = await once(child.stdout, 'data')
  expect(String(said).trim()).toBe('held')
  return async () => {
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
}

test('a second process on the file: STORE_LOCKED or held, until the first one ends', async () => {
  const { h, chain } = await running()
  const kill = await holder(h.file)
  try {
    expect(await h.tidemark.runOnce()).toMatchObject({ did: 'held', events: 0 })
    expect((await refusal(() => h.tidemark.start())).code).toBe('STORE_LOCKED')
    expect((await h.tidemark.status()).watchers[0]?.cursor?.number).toBe(2) // looking is free
  } finally {
    await kill()
  }
  await endsWell(h, chain)
}, 60_000)
