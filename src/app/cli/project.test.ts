import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type TestIo, testIo } from '../../../test/support/cli-io.ts'
import { fakeChain } from '../../testkit/fake-chain.ts'
import { testAddress, transfer } from '../../testkit/fake-log.ts'
import { type FakeNode, fakeNode } from '../../testkit/fake-node.ts'
import { fakeRpc } from '../../testkit/fake-rpc.ts'
import { realWorld } from '../../util/world.ts'
import { runCli } from './cli.ts'
import { EXIT } from './exit-codes.ts'

// Commands on real projects: a configuration file in a folder of its own, a real database, a node behind a real URL.

const TOKEN = testAddress('TOKEN')
const SECRET = 's3cretkey0123456789'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tidemark-cli-'))
})
afterEach(() => {
  rmSync(folder, { recursive: true, force: true })
})

function write(name: string, text: string): void {
  writeFileSync(join(folder, name), text)
}

function io(given: Parameters<typeof testIo>[0] = {}): TestIo {
  return testIo({ cwd: folder, world: realWorld, ...given })
}

async function command(...argv: string[]): Promise<{ code: number; out: string; err: string }> {
  const at = io()
  const code = await runCli(argv, at)
  return { code, out: at.stdout.text, err: at.stderr.text }
}

interface Project {
  readonly url?: string
  readonly on?: string
  readonly handle?: string
  readonly more?: string
}

/** The watcher stands in a file of its own, so that imports of the file count as well. */
function writeProject({
  url = `http://127.0.0.1:1/${SECRET}`,
  on = 'startBlock: 1',
  handle = '',
  more = '',
}: Project = {}): void {
  write(
    'deposits.ts',
    `import { watch } from 'tidemark/sqlite'
     const event: string = 'event Transfer(address indexed from, address indexed to, uint256 value)'
     export const deposits = watch({
       on: { ethereum: { address: '${TOKEN}', ${on} } },
       events: { Transfer: { event: event as 'event Transfer(address indexed from, address indexed to, uint256 value)' } },
       handle({ event, db }) { ${handle} },
     })`,
  )
  write(
    'tidemark.config.ts',
    `import { defineConfig } from 'tidemark'
     import { sqlite } from 'tidemark/sqlite'
     import { deposits } from './deposits'
     export default defineConfig({
       store: sqlite({ file: ${JSON.stringify(join(folder, 'data.db'))} }),
       chains: { ethereum: { id: 1, rpc: ['${url}'], pollMs: 50 } },
       watchers: { deposits },
       ${more}
     })`,
  )
}

describe('a configuration file needs no build step', () => {
  test.each(['module', 'commonjs'])('in a project of type %s, with imports of its own', async (type) => {
    write('package.json', JSON.stringify({ type }))
    writeProject()
    expect(await command('migrate')).toMatchObject({ code: EXIT.ok, err: '' })
  })

  test.each(['tidemark.config.mjs', 'tidemark.config.js', 'other.mts'])('%s', async (name) => {
    writeProject()
    write(name, `export { default } from './tidemark.config.ts'`)
    expect(await command('migrate', '--config', name)).toMatchObject({ code: EXIT.ok })
  })

  test('a .env file beside it is not read', async () => {
    write('.env', 'TIDEMARK_LOG_LEVEL=loud')
    writeProject()
    expect(await command('migrate')).toMatchObject({ code: EXIT.ok, err: '' })
  })
})

describe('a file that cannot be used says why, without what it holds (P12)', () => {
  const url = `postgres://user:${SECRET}@db.example/app`
  test.each<[string, string, RegExp]>([
    [
      'throws',
      `throw new Error('cannot reach ${url}')`,
      /CONFIG_INVALID.*file="tidemark.config.ts".*\n {2}cause: Error: cannot reach <url>/,
    ],
    ['is not TypeScript', `const url = '${url}' export default {`, /CONFIG_INVALID.*could not be run.*\n {2}cause: /],
    ['imports what is not there', `import '${url}'`, /CONFIG_INVALID.*could not be run/],
    ['exports nothing', `const url = '${url}'`, /CONFIG_(INVALID|UNKNOWN_KEY)/],
    ['exports a URL', `export default '${url}'`, /CONFIG_INVALID/],
    [
      'asks for an undefined database',
      `import { sqlite } from 'tidemark/sqlite'\nexport default { store: sqlite({ file: process.env.NO_SUCH_VARIABLE }) }`,
      /STORE_URL_UNDEFINED/,
    ],
    [
      'holds an unknown key',
      `import { defineConfig } from 'tidemark'\nexport default defineConfig({ sotre: '${url}', chains: {}, watchers: {} })`,
      /CONFIG_UNKNOWN_KEY.*did you mean 'store'/,
    ],
  ])('one that %s', async (_, text, told) => {
    write('tidemark.config.ts', text)
    for (const level of ['info', 'debug']) {
      const { code, out, err } = await command('migrate', '--log-level', level)
      expect([code, out]).toEqual([EXIT.usage, ''])
      expect(err).toMatch(told)
      expect(err).not.toMatch(/s3cret|db\.example/)
    }
  })

  test('a misspelt variable of the environment is refused before anything is opened', async () => {
    writeProject()
    const at = io({ env: { TIDEMARK_LOGLEVEL: 'debug' } })
    expect(await runCli(['migrate'], at)).toBe(EXIT.usage)
    expect(at.stderr.text).toContain('did you mean TIDEMARK_LOG_LEVEL?')
  })
})

describe('migrate', () => {
  test('--check and --sql change nothing; then it migrates once', async () => {
    writeProject()
    expect((await command('migrate', '--sql')).out).toContain('CREATE TABLE')
    expect(await command('migrate', '--check')).toMatchObject({ code: EXIT.store, out: '' })
    expect((await command('migrate')).out).toMatch(/^Migrated from version 0 to \d+/)
    expect((await command('migrate')).out).toContain('nothing to do')
    expect(await command('migrate', '--check')).toMatchObject({ code: EXIT.ok })
  })
})

describe('run, status, resume on a chain of 100 blocks', () => {
  let node: FakeNode
  let url: string
  beforeEach(async () => {
    const chain = fakeChain({ chainId: 1 })
    for (let i = 1; i <= 100; i++) chain.mine([transfer(TOKEN, testAddress('ALICE'), testAddress('BOB'), i)])
    node = fakeNode(fakeRpc(chain))
    url = `${await node.listen()}/v3/${SECRET}`
  })
  afterEach(() => node.close())

  /** Looks until `wanted` is in what the command wrote. */
  async function until(at: TestIo, wanted: string): Promise<void> {
    while (!at.stdout.text.includes(wanted)) await realWorld.sleep(20)
  }

  test('a run to its end block ends with 0 and logs JSON lines without the URL', async () => {
    writeProject({ url, on: 'startBlock: 1, endBlock: 30' })
    const { code, out, err } = await command('run')
    expect({ code, err }).toEqual({ code: EXIT.ok, err: '' })
    const lines = out
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(lines.at(-1)).toMatchObject({ message: 'ended', done: 30, total: 30, events: 30 })
    expect(out).not.toMatch(/s3cret|127\.0\.0\.1/)
    const status = JSON.parse((await command('status', '--json')).out)
    expect(status).toMatchObject({
      running: false,
      store: 'sqlite',
      watchers: [{ name: 'deposits/ethereum', cursor: { number: 30 } }],
    })
    expect((await command('status')).out).toMatch(/^watcher +health +cursor.*\ndeposits\/ethereum +stopped +30 /)
  })

  test('a terminal sees a line that is rewritten, and is left clean', async () => {
    writeProject({ url, on: 'startBlock: 1, endBlock: 30' })
    const at = io({ tty: true })
    expect(await runCli(['run'], at)).toBe(EXIT.ok)
    expect(at.stdout.text).toContain('\r\u001b[2K')
    expect(at.stdout.text.endsWith('\r\u001b[2K')).toBe(true)
  })

  test('one signal stops it cleanly with 0, and the next run goes on', async () => {
    writeProject({ url })
    const at = io()
    const running = runCli(['run'], at)
    await until(at, '"message":"live"')
    at.signal('SIGTERM')
    expect(await running).toBe(EXIT.ok)
    expect((await command('status', '--json')).code).toBe(EXIT.ok)
  })

  test('a halted watcher does not end the run: status tells, resume heals', async () => {
    write('broken', '')
    writeProject({
      url,
      on: 'startBlock: 1, endBlock: 30',
      handle: `if (Number(event.blockNumber) === 20 && require('node:fs').existsSync(${JSON.stringify(join(folder, 'broken'))})) throw new Error('${url}')`,
    })
    const at = io()
    const running = runCli(['run'], at)
    await until(at, 'HANDLER_FAILED')
    const halted = await command('status')
    expect(halted.code).toBe(EXIT.halted)
    expect((await command('status', '--json')).out).not.toMatch(/s3cret/)
    expect(halted.out).toMatch(/deposits\/ethereum is halted: HANDLER_FAILED/)
    rmSync(join(folder, 'broken'))
    expect(await command('resume', 'deposits/ethereum', '--reason', 'corrected')).toMatchObject({
      code: EXIT.ok,
      err: '',
    })
    expect(await running).toBe(EXIT.ok)
    expect(at.stdout.text + halted.out).not.toMatch(/s3cret/)
  })

  test('a second run on the same database is refused with 3', async () => {
    writeProject({ url })
    const at = io()
    const running = runCli(['run'], at)
    await until(at, '"message":"live"')
    expect(await command('run')).toMatchObject({ code: EXIT.store, err: expect.stringContaining('STORE_LOCKED') })
    at.signal('SIGINT')
    expect(await running).toBe(EXIT.ok)
  })

  test('resume and rename of a watcher that is not there say so', async () => {
    writeProject({ url })
    await command('migrate')
    expect(await command('resume', 'nobody/ethereum')).toMatchObject({
      code: EXIT.usage,
      err: expect.stringContaining('WATCHER_UNKNOWN'),
    })
    expect(await command('rename', 'nobody/a', 'nobody/b')).toMatchObject({
      code: EXIT.usage,
      err: expect.stringContaining('WATCHER_UNKNOWN'),
    })
  })
})
