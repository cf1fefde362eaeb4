import { describe, expect, test } from 'vitest'
import { type Checked, checkForgotten, checkWatcher } from './checks.ts'
import { SimulationFailure } from './failure.ts'
import type { EffectLine, MarkLine, WatcherState, WatcherTables } from './inspector.ts'
import { swarmOptions } from './options.ts'

/** A sound database of one watcher: blocks 1 to 9, events in 3, 5 (two) and 8, settled up to 5. Each test breaks one thing. */
const ids: Record<string, string> = {
  '3/0': '1'.repeat(32),
  '5/0': '2'.repeat(32),
  '5/1': '3'.repeat(32),
  '8/0': '4'.repeat(32),
}
const placeOf = (block: number, index: number) => `${block}/0xb${block}/0xt${block}/${index}`

const marks: MarkLine[] = Object.entries(ids).map(([key, stable]) => {
  const [block = 0, index = 0] = key.split('/').map(Number)
  return { block, stable, place: placeOf(block, index) }
})
const effects: EffectLine[] = marks.map(({ block, place }, i) => {
  return { n: i + 1, block, place, logIndex: Number(place.split('/')[3]), sender: '0xa', receiver: '0xb', amount: 2 }
})
const rows = marks.map(({ block, stable }) => ({
  block,
  stable,
  ordinal: 0,
  hash: `0xb${block}`,
  sender: '0xa',
  receiver: '0xb',
  amount: 2,
}))

const state: WatcherState = {
  id: 1,
  kind: 'undo',
  startBlock: 1,
  cursor: 9,
  cursorHash: '0xb9',
  epoch: 2,
  token: 'aa',
  settled: 5,
  finalized: 6,
  lowWater: null,
  state: 'running',
  code: '',
  above: null,
  applied: 7,
  undone: 3,
  duplicates: 0,
  reorgs: 2,
}

const xorOf = (from: number, to: number) => {
  const own = marks.filter(({ block }) => block >= from && block <= to)
  return own
    .reduce((sum, mark) => sum ^ BigInt(`0x${mark.stable}`), 0n)
    .toString(16)
    .padStart(32, '0')
}

const tables: WatcherTables = {
  marks,
  effects,
  rows,
  paid: [],
  totals: null,
  balances: new Map([
    ['0xa', -8],
    ['0xb', 8],
  ]),
  finals: [1, 2, 3].map((entry) => ({ entry, block: entry === 1 ? 3 : 5 })),
  kept: [8],
  trail: new Map([
    [5, '0xb5'],
    [8, '0xb8'],
    [9, '0xb9'],
  ]),
  commits: [
    { first: 1, last: 6, events: 3, digest: xorOf(1, 6) },
    { first: 7, last: 9, events: 1, digest: xorOf(7, 9) },
  ],
}

const options = {
  ...swarmOptions(1),
  logIndex: 'block',
  lies: 0,
  retentionBlocks: 10_000,
  undoLimitBlocks: 16,
} as const

function checked(
  change: Partial<WatcherTables> = {},
  now: Partial<WatcherState> = {},
  more: Partial<Checked> = {},
): Checked {
  return {
    options,
    now: { ...state, ...now },
    before: state,
    tables: { ...tables, ...change },
    catchingUp: false,
    tampered: false,
    ...more,
  }
}

function kindOf(one: Checked): string | null {
  try {
    checkWatcher(one)
    return null
  } catch (error) {
    if (error instanceof SimulationFailure) return error.kind
    throw error
  }
}

test('a sound database passes', () => {
  expect(kindOf(checked())).toBeNull()
})

describe('what is broken is told by its kind', () => {
  const [first, second, third, fourth] = effects as [EffectLine, EffectLine, EffectLine, EffectLine]
  const broken: Record<string, [string, Checked]> = {
    'a mark without its effect': ['one commit', checked({ effects: [first, second, fourth] })],
    'an effect without its mark': ['one commit', checked({ marks: marks.slice(0, 3) })],
    'an effect twice': ['one commit', checked({ effects: [...effects, { ...fourth, n: 5 }] })],
    'a managed row that is missing': ['one commit', checked({ rows: rows.slice(1) })],
    'a balance that was credited twice': [
      'one commit',
      checked({
        balances: new Map([
          ['0xa', -8],
          ['0xb', 10],
        ]),
      }),
    ],
    'counters that do not add up': ['one commit', checked({}, { undone: 2 })],
    'a commit row that is missing': ['one commit', checked({ commits: tables.commits.slice(1) })],
    'a commit that counts what is not there': [
      'one commit',
      checked({ commits: [{ first: 1, last: 9, events: 5, digest: xorOf(1, 9) }] }),
    ],
    'a digest of other events': [
      'one commit',
      checked({ commits: [{ first: 1, last: 9, events: 4, digest: xorOf(1, 6) }] }),
    ],
    'events applied in another order': [
      'order',
      checked({ effects: [first, third, second, fourth].map((one, i) => ({ ...one, n: i + 1 })) }),
    ],
    'a mark above the cursor': ['marks', checked({}, { cursor: 7 })],
    'a cursor that goes back in its epoch': ['cursor', checked({}, {}, { before: { ...state, cursor: 10 } })],
    'an epoch that falls': ['cursor', checked({}, {}, { before: { ...state, epoch: 3 } })],
    'a settled line that goes back': ['settled', checked({}, {}, { before: { ...state, settled: 6 } })],
    'a line settled above what is final': ['settled', checked({}, { finalized: 4 })],
    'a second stage that did not run': ['final', checked({ finals: tables.finals.slice(1) })],
    'a second stage that ran twice': ['final', checked({ finals: [...tables.finals, { entry: 3, block: 5 }] })],
    'a second stage that came too early': ['final', checked({ finals: [...tables.finals, { entry: 4, block: 8 }] })],
    'undo that is not kept': ['undo', checked({ kept: [] })],
    'undo that is kept too long': ['undo', checked({ kept: [5, 8] })],
    'a block with events that is not remembered': [
      'undo',
      checked({
        trail: new Map([
          [5, '0xb5'],
          [9, '0xb9'],
        ]),
      }),
    ],
    'a block remembered by another hash': [
      'undo',
      checked({
        trail: new Map([
          [8, '0xc8'],
          [9, '0xb9'],
        ]),
      }),
    ],
    'more blocks remembered than applied': [
      'bounds',
      checked({
        trail: new Map([
          [2, ''],
          [3, ''],
          [8, '0xb8'],
        ]),
      }),
    ],
    'marks forgotten too early': ['marks', checked({}, { lowWater: 3 })],
    'more unsettled blocks than the limit': [
      'bounds',
      checked({}, {}, { options: { ...options, undoLimitBlocks: 3 } }),
    ],
  }
  for (const [danger, [kind, one]] of Object.entries(broken)) {
    test(danger, () => {
      expect(kindOf(one)).toBe(kind)
    })
  }
})

test('what is due to be forgotten is, but for one step; and what is forgotten has no marks', () => {
  const forgotten = (now: Partial<WatcherState>, left: readonly MarkLine[]) => () =>
    checkForgotten({ ...options, retentionBlocks: 10 }, { ...state, ...now }, { ...tables, marks: left })
  const far = { cursor: 290, settled: 285 }
  expect(forgotten({ ...far, lowWater: 30 }, [])).not.toThrow()
  expect(forgotten({ ...far, lowWater: 20 }, [])).toThrow(/were due up to 280/)
  expect(forgotten({ ...far, lowWater: null }, marks)).toThrow(/forgotten up to 0, and were due up to 280/)
  expect(forgotten({ ...far, lowWater: 30 }, marks)).toThrow(/still marked, at or below the low-water mark 30/)
  expect(forgotten({ ...far, lowWater: 30 }, [{ block: 31, stable: '', place: '' }])).not.toThrow()
})

test('the low-water mark is judged where it is raised: a reorg takes the cursor back below it', () => {
  const before = { ...state, lowWater: 3 }
  const marked = tables.marks.filter(({ block }) => block > 3)
  expect(kindOf(checked({ marks: marked }, { lowWater: 3 }, { before }))).toBeNull()
  expect(kindOf(checked({ marks: marked }, { lowWater: 4 }, { before }))).toBe('marks')
})

test('while a person has moved the cursor back, marks above it are right', () => {
  expect(kindOf(checked({}, { cursor: 6 }, { catchingUp: true, tampered: true }))).toBeNull()
})
