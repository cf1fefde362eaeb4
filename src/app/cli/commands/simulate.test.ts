import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { testIo } from '../../../../test/support/cli-io.ts'
import { openDefault } from '../../../store/sqlite/driver.ts'
import { realWorld } from '../../../util/world.ts'
import { runCli } from '../cli.ts'
import { EXIT } from '../exit-codes.ts'

// The command on real projects: a configuration file in a folder of its own, and a database that must stay as it is.

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tidemark-simulate-'))
})
afterEach(() => {
  rmSync(folder, { recursive: true, force: true })
})

const TABLE = 'CREATE TABLE accounts (account TEXT PRIMARY KEY, balance INTEGER NOT NULL, at INTEGER)'
const CREDIT =
  'INSERT INTO accounts (account, balance) VALUES (?, ?) ON CONFLICT (account) DO UPDATE SET balance = balance + excluded.balance'

/** Two chains, an argument filter, one watcher more than is looked at. */
function writeProject({ after = '', more = '' }: { after?: string; more?: string } = {}): void {
  const text = `import { defineConfig } from 'tidemark'
    import { sqlite, watch } from 'tidemark/sqlite'
    const deposits = watch({
      on: { one: { startBlock: 19_000_000n, at: { confirmations: 12 } }, two: { startBlock: 'now' } },
      events: { Transfer: {
        event: 'event Transfer(address indexed from, address indexed to, uint256 value)',
        args: { to: ['0x1111111111111111111111111111111111111111', '0x2222222222222222222222222222222222222222'] },
      } },
      handle({ event, db }) {
        db.prepare('${CREDIT}').run(event.args.to, event.args.value)
        ${after}
      },
    })
    const broken = watch({ on: { one: { startBlock: 0 } }, events: { Odd: { event: 'event Odd()' } }, handle() { throw new Error('broken') } })
    export default defineConfig({
      store: sqlite({ file: '${join(folder, 'data.db')}' }),
      chains: { one: { id: 1, rpc: ['http://127.0.0.1:1'] }, two: { id: 10, rpc: ['http://127.0.0.1:1'], finality: { depth: 64 } } },
      watchers: { deposits, broken },
    })
    ${more}`
  writeFileSync(join(folder, 'tidemark.config.ts'), text)
}

function writeDatabase(): void {
  const db = openDefault(join(folder, 'data.db'))
  db.exec(
    `${TABLE}; CREATE INDEX accounts_by_balance ON accounts (balance); INSERT INTO accounts VALUES ('0xdead', 5, 0)`,
  )
  db.exec(
    'CREATE TABLE tidemark_watchers (name TEXT); CREATE VIEW rich AS SELECT account FROM accounts WHERE balance > 100',
  )
  db.close()
}

async function command(
  ...argv: string[]
): Promise<{ code: number; out: string; err: string; last: Record<string, unknown> | null }> {
  const io = testIo({ cwd: folder, world: realWorld })
  const code = await runCli(['simulate', ...argv], io)
  const out = io.stdout.text
  const last = out.trim().split('\n').at(-1) ?? ''
  return {
    code,
    out,
    err: io.stderr.text,
    last: last.startsWith('{') ? (JSON.parse(last) as Record<string, unknown>) : null,
  }
}

describe('tidemark simulate', { timeout: 120_000 }, () => {
  test('a good handler on the tables of the configured file: equal, one object, the file as it was', async () => {
    writeProject()
    writeDatabase()
    const before = readFileSync(join(folder, 'data.db'))
    const { code, err, last } = await command('--seeds', '2', '--watcher', 'deposits', '--json')
    expect(err).toBe('')
    expect(code).toBe(EXIT.ok)
    expect(Object.keys(last ?? {}).sort()).toEqual([
      'crashes',
      'events',
      'failed',
      'faults',
      'reorgs',
      'seeds',
      'steps',
      'verdict',
    ])
    expect(last).toMatchObject({ seeds: 2, failed: 0, verdict: 'equal' })
    expect(Number(last?.events)).toBeGreaterThan(3)
    expect(readFileSync(join(folder, 'data.db')).equals(before)).toBe(true)
  })

  test('a bad one: the row, the reason and the command that repeats it; the same from the export `simulation`', async () => {
    writeProject({
      after: `db.prepare('UPDATE accounts SET at = ? WHERE account = ?').run(Date.now(), event.args.to)`,
      more: `export const simulation = { schema: '${TABLE}', generate: (random, { events }) => [{ name: events[0], args: { from: '0x3333333333333333333333333333333333333333', to: '0x1111111111111111111111111111111111111111', value: random.int(1, 9) } }] }`,
    })
    const { code, out, last } = await command('--seeds', '1', '--from', '4', '--watcher', 'deposits', '--json')
    expect(code).toBe(EXIT.different)
    expect(out).toMatch(
      /seed 4:\n {2}table accounts, row account=0x1{40}(, balance=\d+)?: at is \d+ in one clean run, \d+ in another/,
    )
    expect(out).toContain('read the clock (Date.now() ')
    expect(out).toContain('repeat: tidemark simulate --seeds 1 --from 4 --watcher deposits\n')
    expect(last).toMatchObject({ seeds: 1, failed: 1, verdict: 'different' })
    expect(existsSync(join(folder, 'data.db'))).toBe(false)
    expect(
      (await command('--seeds', '1', '--from', '4', '--watcher', 'deposits', '--ignore', 'accounts.at')).code,
    ).toBe(EXIT.ok)
  })

  test('every watcher together, the broken one by its name', async () => {
    writeProject({ more: `export const simulation = { schema: '${TABLE}' }` })
    const { code, out } = await command('--seeds', '1')
    expect(code).toBe(EXIT.different)
    expect(out).toMatch(
      /broken\/one halted at Odd in block \d+: The handle function threw: Error: broken \(HANDLER_FAILED\)/,
    )
    expect(out).toContain('1 seeds differ from a clean run')
  })

  test.each([
    ['a number of seeds that is none', ['--seeds', 'many'], '', 'FLAG_INVALID'],
    ['columns that are none', ['--ignore', 'a.b.c'], '', 'FLAG_INVALID'],
    ['a watcher that is not there', ['--watcher', 'depositz'], '', 'WATCHER_UNKNOWN'],
    ['a misspelt key', [], 'export const simulation = { scheme: "" }', 'CONFIG_UNKNOWN_KEY'],
    ['a wrong value', [], 'export const simulation = { generate: 5 }', 'CONFIG_INVALID'],
  ])('%s is refused', async (_what, argv, more, code) => {
    writeProject({ more })
    const { err, out } = await command(...argv)
    expect(err).toContain(`error ${code}`)
    expect(out).toBe('')
  })
})
