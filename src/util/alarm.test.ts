import { expect, test } from 'vitest'
import { testWorld } from '../testkit/index.ts'
import { Alarm } from './alarm.ts'
import { realWorld, type World } from './world.ts'

const never = new Promise<never>(() => {})
const late = (name: string) => () => new Error(name)

test('a wait that never ends is ended at its deadline, and not before', async () => {
  const world = testWorld()
  const alarm = new Alarm(world)
  let ended = ''
  const wait = alarm.race(never, world.monotonic() + 100, late('a')).catch((error: Error) => {
    ended = error.message
  })
  await world.advance(99)
  expect(ended).toBe('')
  await world.advance(1)
  await wait
  expect(ended).toBe('a')
})

test('answers and failures come through, and leave nothing to be rung', async () => {
  const world = testWorld()
  const alarm = new Alarm(world)
  expect(await alarm.race(Promise.resolve(7), 10, late('a'))).toBe(7)
  await expect(alarm.race(Promise.reject(new Error('own')), 10, late('a'))).rejects.toThrow('own')
  await world.advance(1_000)
})

test('an earlier deadline behind a later one rings in time, and the later one still rings', async () => {
  const world = testWorld()
  const alarm = new Alarm(world)
  const rung: string[] = []
  const note = (error: Error) => void rung.push(`${error.message} at ${world.monotonic()}`)
  const start = world.monotonic()
  const waits = [
    alarm.race(never, start + 500, late('later')).catch(note),
    alarm.race(never, start + 100, late('sooner')).catch(note),
  ]
  for (let i = 0; i < 6; i++) await world.advance(100)
  await Promise.all(waits)
  expect(rung).toEqual([`sooner at ${start + 100}`, `later at ${start + 500}`])
})

test('many waits one after the other set one timer', async () => {
  const world = testWorld()
  let sleeps = 0
  const counting: World = {
    ...realWorld,
    monotonic: () => world.monotonic(),
    sleep: (ms, signal) => {
      sleeps++
      return world.sleep(ms, signal)
    },
  }
  const alarm = new Alarm(counting)
  for (let i = 0; i < 1_000; i++) await alarm.race(Promise.resolve(i), world.monotonic() + 10_000, late('a'))
  expect(sleeps).toBe(1)
})
