import { describe, expect, test } from 'vitest'
import { TidemarkError } from '../errors.ts'
import { testWorld } from '../testkit/test-world.ts'
import { LineLogger, type LoggerOptions } from './logger.ts'
import { painter } from './terminal.ts'

function logger(options: Partial<LoggerOptions> = {}): { lines: string[]; log: LineLogger['log'] } {
  const lines: string[] = []
  const made = new LineLogger({
    level: 'info',
    format: 'json',
    world: testWorld({ start: Date.UTC(2030, 0, 1) }),
    write: (line) => lines.push(line),
    ...options,
  })
  return { lines, log: made.log.bind(made) }
}

const url = 'https://node.example/v3/s3cretkey'
const nasty: Readonly<Record<string, unknown>> = {
  text: `call ${url}`,
  error: new TidemarkError('RPC_UNREACHABLE', `Tried ${url}`, {
    cause: Object.assign(new Error(`connect ${url}`), { code: 'ECONNREFUSED' }),
  }),
  list: [{ deep: [url] }],
  [url]: url,
  password: 's3cretkey',
}

describe.each(['json', 'human'] as const)('%s lines', (format) => {
  test('hold no URL and no secret, in sentence, values, keys, errors or causes (P12)', () => {
    const { lines, log } = logger({ format })
    log('error', `Could not reach ${url}`, nasty)
    expect(lines).toHaveLength(1)
    expect(lines[0]).not.toMatch(/s3cretkey|node\.example|:\/\//)
    // Control: what may be told is still there.
    expect(lines[0]).toMatch(/Could not reach <url>.*RPC_UNREACHABLE.*ECONNREFUSED/)
  })

  test('stay one line whatever a node sends', () => {
    const { lines, log } = logger({ format })
    log('warn', 'two\nlines', { answer: 'a\r\n{"level":"info"}\u001b[31m' })
    expect(lines[0]?.split('\n')).toHaveLength(1)
    expect(lines[0]).not.toContain('\u001b')
  })

  test('below the level are not written', () => {
    const { lines, log } = logger({ format, level: 'warn' })
    for (const level of ['debug', 'info', 'warn', 'error'] as const) log(level, level)
    expect(lines.map((line) => /warn|error/.test(line))).toEqual([true, true])
  })
})

test('a JSON line has time, level and message, and a value of the same name does not replace them', () => {
  const { lines, log } = logger()
  log('info', 'blocks applied', { watcher: 'deposits/ethereum', to: 5, level: 'fake', at: 7n })
  expect(JSON.parse(lines[0] ?? '')).toEqual({
    time: '2030-01-01T00:00:00.000Z',
    level: 'info',
    message: 'blocks applied',
    watcher: 'deposits/ethereum',
    to: 5,
    level_: 'fake',
    at: '7',
  })
})

test('a human line reads like a sentence', () => {
  const { lines, log } = logger({ format: 'human' })
  log('info', 'blocks applied', { watcher: 'deposits/ethereum', to: 5, why: 'two words', gone: undefined })
  expect(lines[0]).toBe('00:00:00.000 info  blocks applied watcher=deposits/ethereum to=5 why="two words"')
})

test('colours are for terminals, and not for those who set NO_COLOR', () => {
  const output = { write: () => undefined, columns: 80 }
  expect(painter({ ...output, isTTY: true }, {})('red', 'x')).toBe('\u001b[31mx\u001b[0m')
  expect(painter({ ...output, isTTY: false }, {})('red', 'x')).toBe('x')
  expect(painter({ ...output, isTTY: true }, { NO_COLOR: '1' })('red', 'x')).toBe('x')
  expect(painter({ ...output, isTTY: true }, { NO_COLOR: '' })('red', 'x')).not.toBe('x')
})
