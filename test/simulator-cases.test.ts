import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import {
  type PlannedAction,
  type SimulationReport,
  type SwarmOptions,
  simulate,
  swarmOptions,
} from '../src/testkit/index.ts'
import { root } from './house/tree.ts'

/**
 * The real failures that a chain, its nodes and a cursor can bring (kinds C, D and K of the collection), each produced by the
 * simulator: the table of docs/proof.md, row by row. A row counts when what it names has really happened in a run, and that run
 * has kept every promise, which the simulator checks by itself.
 */

/** A quiet world in which only what a row asks for happens. */
const QUIET: Partial<SwarmOptions> = {
  processes: 1,
  watchers: ['undo'],
  at: 'latest',
  finality: 'depth',
  finalDepth: 8,
  minDepth: 0,
  reorgDepth: 8,
  history: 0,
  startBlock: 1,
  density: 0.8,
  bloom: 'true',
  logIndex: 'block',
  maxEvents: 500,
  maxRange: 500,
  pollMs: 50,
  retentionBlocks: 10_000,
  undoLimitBlocks: 20_000,
  latencyMs: 0,
  handlerMs: 0,
  staged: true,
  irreversible: false,
  confirmations: 5,
  faults: [{}],
  habits: [{}],
  lies: 0,
  mixes: 0,
  nulls: 0,
  gaps: 0,
  violation: false,
}

type Step = PlannedAction extends infer A ? (A extends PlannedAction ? Omit<A, 'id'> : never) : never
type Pay = readonly [from: number, to: number, value: number]

const log = ([from, to, value]: Pay) => ({ kind: 'pay', from, to, value }) as const
/** One block; each list is a transaction. */
const block = (...transactions: readonly (readonly Pay[])[]) => transactions.map((logs) => logs.map(log))
const mine = (...blocks: ReturnType<typeof block>[]): Step => ({ kind: 'mine', blocks })
const empty = (count: number): Step => mine(...Array.from({ length: count }, () => block()))
const run: Step = { kind: 'run', process: 0, budgetMs: 5_000 }
const restart: Step = { kind: 'restart', process: 0, at: null }
const resume: Step = { kind: 'resume' }
const winBack: Step = { kind: 'winBack', extraBlocks: 1, fresh: [] }
const reorg = (depth: number, reinclude: Extract<Step, { kind: 'reorg' }>['reinclude'], extraBlocks = 1): Step => {
  return { kind: 'reorg', depth, reinclude, extraBlocks, fresh: [] }
}
const arm = (mishap: Extract<Step, { kind: 'arm' }>['mishap'], at: number): Step => {
  return { kind: 'arm', process: 0, mishap, at }
}
const fault = (stage: 'handle' | 'undo', does: 'throw' | 'hang', after = 0): Step => {
  return { kind: 'handlerFault', watcher: 0, stage, does, after, times: 1 }
}

const ONE = block([[0, 1, 5]])
const TWO = block([[0, 1, 5]], [[2, 3, 4]])

interface Row {
  readonly case: string
  readonly variant?: string
  readonly options?: Partial<SwarmOptions>
  /** Left out: each seed draws its own plan. A function: for the n-th seed, where the right COMMIT is searched. */
  readonly plan?: readonly Step[] | ((n: number) => readonly Step[])
  /** Seeds 1 to this one are tried. Default 1. */
  readonly seeds?: number
  /** Faults of `report.acted`, all of which must have acted. */
  readonly acted?: readonly string[]
  /** Lines of the story, in this order. */
  readonly story?: readonly RegExp[]
  /** No line of the story is like this: what was done by a process that died is told by nobody. */
  readonly never?: RegExp
}

const nodes = (faults: SwarmOptions['faults'][number], more: Partial<SwarmOptions> = {}) => {
  return { history: 12, faults: [faults], ...more } as const
}

const ROWS: readonly Row[] = [
  { case: 'C16', options: nodes({ lag: 0.3 }), seeds: 5, acted: ['lag'] },
  {
    case: 'C16',
    variant: 'the newer node refuses',
    options: nodes({ lag: 0.3 }, { habits: [{ aboveHead: 'error' }] }),
    seeds: 5,
    acted: ['lag'],
  },
  { case: 'C17', options: nodes({ emptyFresh: 0.4 }), seeds: 5, acted: ['emptyFresh'] },
  { case: 'C17', variant: 'in a range only', options: nodes({}, { gaps: 0.5 }), seeds: 5, acted: ['gaps'] },
  { case: 'C17', variant: 'some of the logs', options: nodes({}, { lies: 0.5 }), seeds: 10, acted: ['lies'] },
  {
    case: 'C17',
    variant: 'blooms of zeros',
    options: nodes({}, { lies: 0.5, bloom: 'zero' }),
    seeds: 10,
    acted: ['lies'],
  },
  { case: 'C18', options: nodes({ foreignHash: 0.3 }), seeds: 5, acted: ['foreignHash'] },
  { case: 'C18', variant: 'the logs of both blocks', options: nodes({}, { mixes: 1 }), seeds: 20, acted: ['mixes'] },
  { case: 'C18', variant: 'another backend', options: nodes({ sibling: 0.3 }), seeds: 10, acted: ['sibling'] },
  { case: 'C19', options: nodes({ behindError: 0.3 }), seeds: 5, acted: ['behindError'] },
  { case: 'C20', options: nodes({ headZero: 0.3 }), seeds: 5, acted: ['headZero'] },
  {
    case: 'C20',
    variant: 'another chain',
    options: nodes({ otherGenesis: 1 }),
    plan: [run, restart, run],
    acted: ['otherGenesis'],
    story: [/undo\/sim applied/, /halted: CHAIN_MISMATCH/, /undo\/sim applied/],
  },
  {
    case: 'C21',
    plan: (n) => [run, mine(ONE), arm('die-after-commit', n), run, reorg(1, 'same'), run],
    seeds: 6,
    acted: ['die-after-commit'],
    story: [/^ {3}died/, /branch b, 0 transactions dropped/, /1 events undone \(reorg\)/, /applied 1 to 2, 1 events/],
  },
  {
    case: 'C22',
    plan: [mine(TWO), run, reorg(1, 'shuffled'), run],
    story: [/applied 1 to 1, 2 events/, /shuffled/, /2 events undone/, /applied 1 to 2, 2 events/],
  },
  {
    case: 'C23',
    plan: [mine(ONE), run, reorg(1, 'same', 0), run, reorg(1, 'same', 0), run, reorg(1, 'same', 0), run, empty(1), run],
    story: [
      /1 events undone/,
      /applied 1 to 1/,
      /1 events undone/,
      /applied 1 to 1/,
      /1 events undone/,
      /applied 1 to 1/,
    ],
  },
  {
    case: 'C24',
    // Killed before the rollback is committed, and, at the same COMMIT, after it: it is there then, and was not before.
    plan: (n) => [
      mine(ONE, ONE),
      run,
      restart,
      reorg(2, 'none'),
      arm('die-before-commit', n),
      run,
      empty(140),
      restart,
      arm('die-after-commit', n),
      run,
      run,
    ],
    seeds: 6,
    acted: ['die-before-commit', 'die-after-commit'],
    story: [/applied 1 to 2, 2 events/, /^ {3}died/, /head 14\d/, /^ {3}died/, /applied 1 to \d+, 0 events/],
    never: /went back/,
  },
  {
    case: 'C25',
    plan: [mine(ONE, ONE), run, reorg(2, 'some-dropped'), run, winBack, run],
    story: [/applied 1 to 2/, /events undone/, /branch a is back above 0/, /events undone/, /applied 1 to 4, 2 events/],
  },
  {
    case: 'C26',
    options: { faults: [{ removedLogs: 1 }], latencyMs: 5 },
    plan: [mine(ONE, ONE), run, reorg(1, 'same'), run],
    acted: ['removedLogs'],
    story: [/events undone/],
  },
  { case: 'C27', options: nodes({ removedLogs: 1 }), plan: [empty(8), run], acted: ['removedLogs'] },
  {
    case: 'C28',
    options: { watchers: ['confirmed'] },
    plan: [mine(ONE), empty(6), fault('handle', 'throw'), run, resume, run],
    acted: ['handle throw'],
    story: [/halted: HANDLER_FAILED/, /resumed confirmed/, /confirmed\/sim applied .* 1 events/],
  },
  {
    case: 'C28',
    variant: 'killed meanwhile',
    options: { watchers: ['confirmed'] },
    plan: [mine(ONE), run, arm('die-before', 3), run, empty(6), run],
    acted: ['die-before'],
    story: [/^ {3}died/, /confirmed\/sim applied .* 1 events/],
  },
  {
    case: 'C29',
    plan: [mine(ONE), run, reorg(1, 'none'), run],
    story: [/applied 1 to 1, 1 events/, /1 events undone/, /applied 1 to 2, 0 events/],
  },
  {
    case: 'C30',
    options: { finality: 'tag', finalDepth: 0, minDepth: 6 },
    plan: [mine(ONE, ONE, ONE, ONE), run, reorg(3, 'same'), run],
    story: [/applied 1 to 4/, /3 events undone/],
  },
  {
    case: 'C30',
    variant: 'what is needed to undo is gone',
    options: { finalDepth: 2, violation: true },
    plan: [mine(ONE, ONE), empty(6), run, { kind: 'violate', below: 6, fresh: [] }, run],
    story: [/settled/, /halted: REORG_BELOW_FINALITY/],
  },
  {
    case: 'C31',
    options: { watchers: ['undo', 'managed'] },
    plan: [
      mine(ONE),
      run,
      mine(ONE, ONE),
      { kind: 'reorgDuring', process: 0, atRequest: 2, depth: 2, reinclude: 'none', extraBlocks: 0, fresh: [] },
      winBack,
      run,
    ],
    story: [
      /held up at request 2 during a reorg/,
      /2 blocks above 1 replaced by branch b.*; (?!.*not held up)/,
      /a is back/,
    ],
  },
  {
    case: 'C31',
    variant: 'the block is unknown by then',
    options: { habits: [{ keepsOrphans: false }] },
    plan: [
      mine(ONE, ONE, ONE),
      { kind: 'reorgDuring', process: 0, atRequest: 3, depth: 2, reinclude: 'same', extraBlocks: 1, fresh: [] },
      run,
    ],
    story: [/2 blocks above 1 replaced by branch b.*; (?!.*not held up)/],
  },
  {
    case: 'C73',
    plan: [mine(ONE), run, reorg(1, 'changed-content'), run],
    seeds: 20,
    story: [/applied 1 to 1, 1 events/, /0 transactions dropped/, /1 events undone/, /applied 1 to 2, 0 events/],
  },
  {
    case: 'C68',
    plan: [mine(ONE, ONE, ONE), run, { kind: 'moveCursor', watcher: 0, back: 2, below: false }, run],
    story: [/applied 1 to 3, 3 events/, /from 3 to 1/, /2 known/],
  },
  {
    case: 'C68',
    variant: 'killed between the work and the cursor',
    plan: (n) => [
      run,
      restart,
      mine(ONE),
      arm('die-before-commit', n),
      run,
      restart,
      arm('die-after-commit', n),
      run,
      run,
    ],
    seeds: 6,
    acted: ['die-before-commit', 'die-after-commit'],
    story: [/^ {3}died/, /^ {3}died/, /idle/],
    never: /applied 1 to 1/,
  },
  {
    case: 'C70',
    options: { history: 20 },
    plan: [mine(ONE), run],
    story: [/undo\/sim applied 1 to 13/, /undo\/sim settled 13/, /undo\/sim applied 14 to 21/],
  },
  {
    case: 'C71',
    plan: [mine(block([[1, 1, 5]], [[0, 1, 5]])), run, reorg(1, 'none'), run, winBack, run],
    story: [/applied 1 to 1, 2 events/, /2 events undone/, /applied 1 to \d, 2 events/],
  },
  {
    case: 'C72',
    options: { watchers: ['confirmed'] },
    plan: [empty(6), mine(ONE, ONE, ONE, ONE), run, restart, run, restart, run, restart, empty(9), run],
    story: [/confirmed\/sim applied .* to 6, 0 events/, /is restarted/, /is restarted/, /is restarted/, /4 events/],
  },
]

/** Whether the lines are found in this order. */
function inOrder(story: readonly string[], wanted: readonly RegExp[]): boolean {
  let at = 0
  for (const line of story) if (wanted[at]?.test(line)) at += 1
  return at === wanted.length
}

function hasHappened({ acted = [], story = [], never }: Row, report: SimulationReport): boolean {
  if (never && report.story.some((line) => never.test(line))) return false
  return acted.every((name) => (report.acted[name] ?? 0) > 0) && inOrder(report.story, story)
}

async function play({ options, plan }: Row, seed: number): Promise<SimulationReport> {
  const steps = typeof plan === 'function' ? plan(seed) : plan
  const planned = steps?.map((step, id) => ({ id, ...step }) as PlannedAction)
  const all = { ...swarmOptions(seed), ...QUIET, ...options }
  return simulate({ seed, options: all, ...(planned && { plan: planned }) })
}

const nameOf = ({ case: name, variant }: Row) => (variant === undefined ? name : `${name}, ${variant}`)

/** The first cells of the table in docs/proof.md. */
function documented(): string[] {
  const page = readFileSync(join(root, 'docs/proof.md'), 'utf8')
  const start = page.indexOf('## Real failures')
  const section = page.slice(start, page.indexOf('\n## ', start + 1))
  return [...section.matchAll(/^\| (C\d+[^|]*?) \|/gm)].map((found) => found[1] as string)
}

describe('each real failure of the chain, its nodes and the cursor is produced, and survived', () => {
  for (const row of ROWS) {
    test(nameOf(row), { timeout: 60_000 }, async () => {
      const last: string[] = []
      for (let seed = 1; seed <= (row.seeds ?? 1); seed++) {
        const report = await play(row, seed)
        expect(report.failure, `seed ${seed}`).toBeNull()
        if (hasHappened(row, report)) return
        last.splice(0, last.length, ...report.story.slice(0, 60), JSON.stringify(report.acted))
      }
      expect.fail(`it has not happened in seeds 1 to ${row.seeds ?? 1}; the last story:\n${last.join('\n')}`)
    })
  }

  test('docs/proof.md has a line for each row, and no other', () => {
    expect(documented()).toEqual(ROWS.map(nameOf))
  })

  test('control: in a quiet world none of it has happened', { timeout: 60_000 }, async () => {
    const quiet = await play({ case: '', plan: [mine(ONE), run] }, 1)
    expect(quiet.failure).toBeNull()
    expect(quiet.acted).toEqual({})
    expect(ROWS.filter((row) => hasHappened(row, quiet)).map(nameOf)).toEqual([])
  })
})
