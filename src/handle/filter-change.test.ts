import { describe, expect, test } from 'vitest'
import { compileWatcher } from './compile.ts'
import { filterChanges } from './filter-change.ts'
import { defineWatch } from './watch.ts'

const TRANSFER = 'event Transfer(address indexed from, address indexed to, uint256 value)'
const APPROVAL = 'event Approval(address indexed owner, address indexed spender, uint256 value)'
const [A, B, C] = ['11', '22', '33'].map((byte) => `0x${byte.repeat(20)}`) as [string, string, string]
const watch = defineWatch<unknown, 'sync'>()

/** The fingerprint as it stands in the database. */
function fingerprint(binding: object, events: object = { T: { event: TRANSFER } }): string {
  const watcher = watch({ on: { ethereum: { startBlock: 5, ...binding } }, events, handle: () => {} } as never)
  return compileWatcher('deposits', watcher, 'ethereum', 1).fingerprint
}

describe('what changed of a filter, in words', () => {
  const T = 'Transfer(address indexed,address indexed,uint256)'
  const P = 'Approval(address indexed,address indexed,uint256)'
  const wanted = (...values: string[]) => ({ T: { event: TRANSFER, args: { to: values } } })
  const twice = { X: { event: TRANSFER, args: { to: A } }, Y: { event: TRANSFER, args: { from: A } } }

  test.each<[string, string, string, string[]]>([
    ['the start block', fingerprint({}), fingerprint({ startBlock: 6 }), ['startBlock: 5 before, 6 now']],
    ['a start from now on', fingerprint({ startBlock: 'now' }), fingerprint({}), ['startBlock: now before, 5 now']],
    ['contracts', fingerprint({ address: [A, B] }), fingerprint({ address: [B, C] }), ['address: 1 added, 1 removed']],
    ['any contract', fingerprint({}), fingerprint({ address: A }), ['address: any contract before, 1 given now']],
    ['any from now on', fingerprint({ address: A }), fingerprint({}), ['address: 1 given before, any contract now']],
    [
      'an event for another',
      fingerprint({}),
      fingerprint({}, { P: { event: APPROVAL } }),
      [`event ${T} removed`, `event ${P} added`],
    ],
    ['wanted arguments', fingerprint({}, wanted(A)), fingerprint({}, wanted(A, B)), [`args of event ${T}`]],
    ['one of two filters of an event', fingerprint({}, wanted(A)), fingerprint({}, twice), [`args of event ${T}`]],
    [
      'all of it',
      fingerprint({}),
      fingerprint({ startBlock: 7, address: C }, wanted(A)),
      ['startBlock: 5 before, 7 now', 'address: any contract before, 1 given now', `args of event ${T}`],
    ],
  ])('%s', (_, stored, configured, changes) => {
    expect(stored).not.toBe(configured)
    expect(filterChanges(stored, configured)).toEqual(changes)
  })

  test('no address and no argument is shown (P12)', () => {
    const text = filterChanges(fingerprint({ address: A }, wanted(B)), fingerprint({ address: B }, wanted(C))).join()
    for (const secret of [A, B, C]) expect(text).not.toContain(secret.slice(2, 12))
  })

  test('a long list is cut, and what another version wrote is called that', () => {
    const many = Array.from({ length: 15 }, (_, n) => [`E${n}`, { event: `event E${n}(uint256 a)` }])
    const changes = filterChanges(fingerprint({}), fingerprint({}, Object.fromEntries(many)))
    expect([changes.length, changes.at(-1)]).toEqual([11, 'and 6 more'])
    for (const odd of ['', 'null', '5', '[]', '{"events":5}', '{"events":[null]}', '{"addresses":{}}']) {
      expect(filterChanges(odd, fingerprint({})).length).toBeGreaterThan(0)
      expect(filterChanges(fingerprint({}), odd).length).toBeGreaterThan(0)
    }
  })
})
