import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { testIo } from '../../../test/support/cli-io.ts'
import { errorCodes, TidemarkError } from '../../errors.ts'
import { runCli } from './cli.ts'
import { printError } from './errors.ts'
import { EXIT, EXIT_HELP, exitCodeOf } from './exit-codes.ts'

describe('without a project', () => {
  test('--version is that of the package', async () => {
    const io = testIo()
    const { version } = JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8'))
    expect(await runCli(['--version'], io)).toBe(EXIT.ok)
    expect(io.stdout.text).toBe(`${version}\n`)
  })

  test('help lists the commands and the exit codes, and is never wider than a terminal should be', async () => {
    const io = testIo()
    expect(await runCli(['--help'], io)).toBe(EXIT.ok)
    for (const name of ['run', 'status', 'resume <NAME/CHAIN>', 'rename <OLD/CHAIN> <NEW/CHAIN>', 'migrate', 'demo'])
      expect(io.stdout.text).toContain(`  ${name}`)
    for (const [code] of EXIT_HELP) expect(io.stdout.text).toMatch(new RegExp(`^ +${code} `, 'm'))
    expect(Math.max(...io.stdout.text.split('\n').map((line) => line.length))).toBeLessThanOrEqual(100)
  })

  test('a command without its file says which names were looked for', async () => {
    const io = testIo({ cwd: '/nowhere' })
    expect(await runCli(['status'], io)).toBe(EXIT.usage)
    expect(io.stdout.text).toBe('')
    expect(io.stderr.text).toMatch(
      /^error CONFIG_NOT_FOUND: .*tidemark\.config\.ts.*\n {2}next: .*\n {2}docs: https:.*\n$/,
    )
  })

  test('what was typed is not repeated when it is a URL', async () => {
    const io = testIo()
    await runCli(['postgres://user:s3cret@host/db'], io)
    await runCli(['status', 'https://node.example/s3cret'], io)
    expect(io.stderr.text).toContain('COMMAND_UNKNOWN')
    expect(io.stderr.text).not.toMatch(/s3cret|@host|node\.example/)
  })
})

describe('a printed error', () => {
  const cause = Object.assign(new Error('connect https://node.example/s3cret'), { code: 'ECONNREFUSED' })
  const error = new TidemarkError('RPC_UNREACHABLE', 'No node answered', { values: { chain: 'ethereum' }, cause })

  test('says what, why, what next and where to read on, without URLs and without a stack', () => {
    const io = testIo()
    printError(error, io, false)
    expect(io.stderr.text.split('\n')).toEqual([
      'error RPC_UNREACHABLE: No node answered (chain="ethereum")',
      '  cause: ECONNREFUSED: connect <url>',
      `  next: ${errorCodes.RPC_UNREACHABLE.next}`,
      `  docs: ${error.link}`,
      '',
    ])
  })

  test('its first line is red on a terminal', () => {
    const io = testIo({ tty: true })
    printError(error, io, false)
    const [first = ''] = io.stderr.text.split('\n')
    expect(first.startsWith('\u001b[31merror RPC_UNREACHABLE')).toBe(true)
    expect(first.endsWith('\u001b[0m')).toBe(true)
  })

  test('shows stacks when debugging, still without URLs', () => {
    const io = testIo()
    printError(error, io, true)
    expect(io.stderr.text).toMatch(/\n +at /)
    expect(io.stderr.text).not.toContain('s3cret')
  })

  test.each([[undefined], [null], ['text'], [{}], [new Error('')]])('of %s is not a second error', (thrown) => {
    const io = testIo()
    printError(thrown, io, true)
    expect(io.stderr.text).toMatch(/^error /)
  })
})

describe('exit codes', () => {
  test('every code of the table has the one that its family has', () => {
    const exits = Object.fromEntries(
      Object.keys(errorCodes).map((code) => [
        code,
        exitCodeOf(new TidemarkError(code as keyof typeof errorCodes, 'x')),
      ]),
    )
    expect(exits).toMatchObject({
      CONFIG_INVALID: 2,
      FLAG_INVALID: 2,
      WATCHER_FILTER_CHANGED: 2,
      STORE_URL_UNDEFINED: 2,
    })
    expect(exits).toMatchObject({ STORE_LOCKED: 3, STORE_NEWER: 3, STORE_READ_ONLY: 3, STORE_MIGRATION_NEEDED: 3 })
    expect(exits).toMatchObject({ INVARIANT_BROKEN: 1 })
    expect(exitCodeOf(new Error('other'))).toBe(1)
  })

  test('are all in the help', () => {
    const told = EXIT_HELP.map(([code]) => code)
    expect(Object.values(EXIT).filter((code) => code !== EXIT.terminated)).toEqual(told)
  })
})
