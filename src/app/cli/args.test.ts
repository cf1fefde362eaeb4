import { describe, expect, test } from 'vitest'
import { type ErrorCode, TidemarkError } from '../../errors.ts'
import { parseCommandLine } from './args.ts'
import { commands } from './commands.ts'

function refused(...argv: string[]): TidemarkError {
  try {
    parseCommandLine(argv)
  } catch (error) {
    if (TidemarkError.is(error)) return error
    throw error
  }
  throw new Error('was accepted')
}

describe('a wrong word is refused with the nearest right one', () => {
  test.each<[string, string[], ErrorCode, string]>([
    ['command', ['statsu'], 'COMMAND_UNKNOWN', "did you mean 'status'?"],
    ['flag', ['run', '--loglevel', 'debug'], 'FLAG_INVALID', "did you mean '--log-level'?"],
    ['flag of another command', ['status', '--sql'], 'FLAG_INVALID', "There is no flag '--sql'"],
    ['short flag', ['run', '-x'], 'FLAG_INVALID', "There is no flag '-x'"],
    ['flag without its value', ['run', '--config'], 'FLAG_INVALID', '--config <file>'],
    ['flag whose value is the next flag', ['status', '--config', '--json'], 'FLAG_INVALID', '--config <file>'],
    ['value for a flag that takes none', ['status', '--json=yes'], 'FLAG_INVALID', 'takes no value'],
    ['missing argument', ['resume'], 'FLAG_INVALID', 'needs <NAME/CHAIN>'],
    ['second missing argument', ['rename', 'a/b'], 'FLAG_INVALID', 'needs <NEW/CHAIN>'],
    ['command to be helped with', ['help', 'rnu'], 'COMMAND_UNKNOWN', "did you mean 'run'?"],
    ['argument too many for help', ['help', 'run', 'now'], 'FLAG_INVALID', "no use for 'now'"],
    ['argument too many', ['status', 'deposits'], 'FLAG_INVALID', "no use for 'deposits'"],
    ['name of a property of every object', ['constructor'], 'COMMAND_UNKNOWN', 'constructor'],
  ])('%s', (_, argv, code, words) => {
    const error = refused(...argv)
    expect(error.code).toBe(code)
    expect(error.sentence).toContain(words)
  })
})

test('values arrive under their names, however they are written', () => {
  const wanted = { config: 'a.ts', json: true }
  for (const argv of [
    ['status', '--config', 'a.ts', '--json'],
    ['status', '--json', '--config=a.ts'],
  ]) {
    expect(parseCommandLine(argv)).toMatchObject({ kind: 'call', flags: wanted, args: [] })
  }
  expect(parseCommandLine(['resume', '--reason=-', 'a/b'])).toMatchObject({ args: ['a/b'], flags: { reason: '-' } })
})

test('help is asked for with or without a command; no command at all is a mistake', () => {
  expect(parseCommandLine(['--help'])).toEqual({ kind: 'help', command: null, asked: true })
  expect(parseCommandLine(['resume', '-h'])).toMatchObject({ kind: 'help', command: { name: 'resume' }, asked: true })
  expect(parseCommandLine([])).toMatchObject({ kind: 'help', asked: false })
  for (const argv of [['help'], ['help', '--help'], ['help', '-h']]) {
    expect(parseCommandLine(argv)).toEqual(parseCommandLine(['--help']))
  }
  expect(parseCommandLine(['help', 'run'])).toEqual(parseCommandLine(['run', '--help']))
})

test('every example in the help is a command line that is accepted', () => {
  for (const { name, examples } of commands) {
    expect(examples.length, name).toBeGreaterThan(0)
    for (const example of examples) {
      const words = example.replace(/ [|>].*/, '').match(/"[^"]*"|\S+/g) ?? []
      const argv = words.slice(1).map((word) => word.replaceAll('"', ''))
      expect(parseCommandLine(argv), example).toMatchObject({ kind: 'call', command: { name } })
    }
  }
})
