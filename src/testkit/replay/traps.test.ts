import { randomUUID } from 'node:crypto'
import http, { get } from 'node:http'
import { expect, test } from 'vitest'
import { inFrame, type TrapFrame, withTraps } from './traps.ts'

class Notes implements TrapFrame {
  readonly all: string[] = []
  now = () => 86_400_000
  random = () => 0.25
  note = (reach: string, what: string) => void this.all.push(`${reach} ${what}`)
}

test('inside a frame the clock and chance are those of the run, and are noted', async () => {
  const notes = new Notes()
  await withTraps(async () => {
    inFrame(notes, () => {
      const [now, date] = [Date.now(), new Date()]
      expect([now, date.getTime(), Math.random()]).toEqual([86_400_000, 86_400_000, 0.25])
      expect(Date()).toContain('1970')
      expect(randomUUID()).not.toBe(globalThis.crypto.randomUUID())
    })
  })
  expect(notes.all).toEqual([
    'clock Date.now()',
    'clock new Date()',
    'chance Math.random()',
    'clock Date()',
    'chance crypto.randomUUID()',
    'chance crypto.randomUUID()',
  ])
})

test('a date that is given its time is none of the clock, and dates stay of one class', async () => {
  const notes = new Notes()
  const before = new Date(5)
  await withTraps(async () =>
    inFrame(notes, () => {
      expect(before instanceof Date && new Date(5) instanceof Date).toBe(true)
      expect([new Date(5).getTime(), new Date('2030-01-01').getUTCFullYear(), Date.UTC(2030, 0, 1)]).toEqual([
        5, 2030, 1_893_456_000_000,
      ])
    }),
  )
  expect(notes.all).toEqual([])
})

test('requests are noted and go nowhere, also from what a function left running', async () => {
  const notes = new Notes()
  await withTraps(async () => {
    const left = inFrame(notes, () => {
      get('http://127.0.0.1:1/').end()
      http.request({ host: '127.0.0.1', port: 1 }).end('text')
      return Promise.resolve().then(() => void fetch('http://127.0.0.1:1/'))
    })
    await left
  })
  expect(notes.all).toEqual(['outside http.get', 'outside http.request', 'outside fetch'])
})

test('outside a frame, and afterwards, all is as it was', async () => {
  const real = { Date, fetch, get: http.get, random: Math.random, uuid: globalThis.crypto.randomUUID }
  await withTraps(async () => {
    expect(Date).not.toBe(real.Date)
    expect(Math.abs(Date.now() - real.Date.now())).toBeLessThan(60_000)
    await withTraps(async () => {})
    expect(Date).not.toBe(real.Date)
  })
  expect({ Date, fetch, get: http.get, random: Math.random, uuid: globalThis.crypto.randomUUID }).toEqual(real)
  expect(Object.hasOwn(globalThis.crypto, 'randomUUID')).toBe(false)
})
