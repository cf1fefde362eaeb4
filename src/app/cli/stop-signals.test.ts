import { expect, test } from 'vitest'
import { testIo } from '../../../test/support/cli-io.ts'
import { testWorld } from '../../testkit/test-world.ts'
import { StopSignals } from './stop-signals.ts'

test('the first signal asks for a clean stop, the second forces it', async () => {
  const world = testWorld()
  const io = testIo({ world })
  const signals = new StopSignals(io)
  expect(signals.stop.aborted).toBe(false)
  io.signal('SIGTERM')
  expect([signals.stop.aborted, signals.first]).toEqual([true, 'SIGTERM'])
  await world.advance(300)
  io.signal('SIGTERM')
  expect(await signals.forced).toBe(143)
})

test('another kind of signal forces at once: it is not an echo of the first', async () => {
  const io = testIo()
  const signals = new StopSignals(io)
  io.signal('SIGTERM')
  io.signal('SIGINT')
  expect(await signals.forced).toBe(130)
})

test('Ctrl-C under npm arrives twice at once, and still lets the open step finish', async () => {
  const world = testWorld()
  const io = testIo({ world })
  const signals = new StopSignals(io)
  io.signal('SIGINT')
  await world.advance(50)
  io.signal('SIGINT')
  expect(await Promise.race([signals.forced, Promise.resolve('waiting')])).toBe('waiting')
})

test('signals are the process’s own again when the command has ended', () => {
  const io = testIo()
  const signals = new StopSignals(io)
  signals.end()
  io.signal('SIGINT')
  expect(signals.stop.aborted).toBe(false)
})
