import { expect, test } from 'vitest'
import type { SqliteDb } from '../../store/sqlite/index.ts'
import { TestWorld } from '../test-world.ts'
import type { Misbehaviour } from './plan.ts'
import { Probe } from './probe.ts'

// What stands inside the user's functions, on a handle that only notes what is written through it.

function handle(written: string[]): SqliteDb {
  const exec = (sql: string) => void written.push(sql)
  return { exec, prepare: () => expect.fail('nothing is prepared here'), raw: { exec } } as unknown as SqliteDb
}

function planned(does: Misbehaviour): Probe {
  const probe = new Probe(new TestWorld({ seed: 1 }), 0)
  probe.plan('undo', 'handle', does, 1, 1)
  probe.began()
  return probe
}

test('a transaction may be committed while every function behaves', () => {
  const probe = planned('swallow')
  expect(probe.call('undo', 'handle', handle([]), () => 7)).toBe(7)
  expect(() => probe.committed()).not.toThrow()
})

test('after a misbehaviour it may not, until another one begins', () => {
  const probe = planned('swallow')
  probe.call('undo', 'handle', handle([]), () => 1)
  probe.call('undo', 'handle', handle([]), () => 2)
  expect(() => probe.committed()).toThrow('a transaction was committed although handle of undo did swallow')
  expect(probe.hasProvoked('undo', 'HANDLER_SWALLOWED_ERROR')).toBe(true)
  probe.began()
  expect(() => probe.committed()).not.toThrow()
})

test('a transaction that a function began anew is not a clean one', () => {
  const probe = planned('reopen')
  const db = handle([])
  probe.call('undo', 'handle', db, () => 1)
  Object.assign(db, { raw: { exec: (sql: string) => sql.startsWith('BEGIN') && probe.began() } })
  probe.call('undo', 'handle', db, () => 2)
  expect(() => probe.committed()).toThrow('did reopen')
  probe.sawInside('undo', 'newest first')
  expect(probe.take()).toBeNull()
})

test('a handle of the call before is written through; the first call has none, and throws', () => {
  const [first, second]: string[][] = [[], []]
  const probe = planned('stale')
  probe.call('undo', 'handle', handle(first!), () => 1)
  probe.call('undo', 'handle', handle(second!), () => 2)
  expect([first!.length, second!.length]).toEqual([1, 0])
  const alone = new Probe(new TestWorld({ seed: 1 }), 0)
  alone.plan('undo', 'handle', 'stale', 0, 1)
  expect(() => alone.call('undo', 'handle', handle([]), () => 1)).toThrow('a fault of the handler')
})
