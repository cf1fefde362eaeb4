import { type FailureKind, must } from './failure.ts'
import type { CommitLine, EffectLine, MarkLine, RowLine, WatcherState, WatcherTables } from './inspector.ts'
import type { SwarmOptions } from './options.ts'
import { totals } from './totals-check.ts'

/**
 * What must hold in the database after each commit, whatever happened: no check here knows the chain, and none shares
 * code with the engine.
 */
export interface Checked {
  readonly options: SwarmOptions
  readonly now: WatcherState
  /** The same row at the last look; undefined at the first. */
  readonly before: WatcherState | undefined
  readonly tables: WatcherTables
  /** A person moved the cursor back, and it has not passed its old place yet: marks above it are right. */
  readonly catchingUp: boolean
  /** A person moved the cursor back once: the rows of the commits overlap since. */
  readonly tampered: boolean
}

function firstOf<T>(rows: readonly T[], wrong: (row: T, i: number) => boolean): T | undefined {
  return rows.find(wrong)
}

function none<T>(
  rows: readonly T[],
  kind: FailureKind,
  wrong: (row: T, i: number) => boolean,
  words: (row: T) => string,
): void {
  const found = firstOf(rows, wrong)
  must(found === undefined, kind, () => words(found as T))
}

/** Compares two lists as multisets. Answers what is only in one of them. */
function difference(
  a: readonly string[],
  b: readonly string[],
): { onlyA?: string | undefined; onlyB?: string | undefined } {
  const left = [...a].sort()
  const right = [...b].sort()
  for (let i = 0, k = 0; i < left.length || k < right.length; ) {
    if (left[i] === right[k]) {
      i++
      k++
    } else if (k >= right.length || (i < left.length && (left[i] as string) < (right[k] as string)))
      return { onlyA: left[i] }
    else return { onlyB: right[k] }
  }
  return {}
}

type Lists = readonly [name: string, rows: readonly string[]]

function same(kind: FailureKind, who: string, [nameA, a]: Lists, [nameB, b]: Lists): void {
  const { onlyA, onlyB } = difference(a, b)
  must(onlyA === undefined, kind, () => `${who}: ${onlyA} is among the ${nameA}, not among the ${nameB}`)
  must(onlyB === undefined, kind, () => `${who}: ${onlyB} is among the ${nameB}, not among the ${nameA}`)
}

function stableAt(row: MarkLine | RowLine): string {
  return `${row.block}/${row.stable}`
}

/** Marks, effects and managed rows tell the same events. Marks may be forgotten at or below the low-water mark. */
function oneCommit({ now, tables }: Checked): void {
  const low = now.lowWater ?? -1
  const marks = tables.marks.filter((mark) => mark.block > low)
  const own = now.kind !== 'managed'
  if (own) {
    const effects = tables.effects.filter((effect) => effect.block > low)
    same(
      'one commit',
      now.kind,
      ['marks', marks.map((mark) => mark.place)],
      ['effects', effects.map((effect) => effect.place)],
    )
  }
  if (now.kind === 'undo' || !own) {
    const rows = tables.rows.filter((row) => row.block > low)
    same('one commit', now.kind, ['marks', marks.map(stableAt)], ['managed rows', rows.map(stableAt)])
  }
  const standing = own ? tables.effects.length : tables.rows.length
  must(now.applied - now.undone === standing, 'one commit', () => {
    return `${now.kind}: ${now.applied} events applied less ${now.undone} undone, but ${standing} effects stand`
  })
}

function fold(effects: readonly EffectLine[]): Map<string, number> {
  const balances = new Map<string, number>()
  const add = (account: string, amount: number) => balances.set(account, (balances.get(account) ?? 0) + amount)
  for (const { sender, receiver, amount } of effects) {
    add(sender, -amount)
    add(receiver, amount)
  }
  return balances
}

function balances({ now, tables }: Checked): void {
  const expected = fold(tables.effects)
  for (const account of new Set([...expected.keys(), ...tables.balances.keys()])) {
    const is = tables.balances.get(account) ?? 0
    const should = expected.get(account) ?? 0
    must(
      is === should,
      'one commit',
      () => `${now.kind}: the balance of ${account} is ${is}, its effects make ${should}`,
    )
  }
}

/** Where log indexes begin anew in each transaction, those of two transactions cannot be compared. */
function isAfter(a: EffectLine, b: EffectLine, anew: boolean): boolean {
  if (a.block !== b.block) return a.block > b.block
  return a.logIndex > b.logIndex || (anew && transactionOf(a) !== transactionOf(b))
}

function transactionOf({ place }: EffectLine): string {
  return place.split('/')[2] as string
}

/** What stands was applied in the order of the chain (P5). */
function order({ now, tables, options }: Checked): void {
  const { effects } = tables
  // A log that was made up has an index from nowhere.
  const anew = options.logIndex === 'transaction' || options.lies > 0
  none(
    effects,
    'order',
    (effect, i) => i > 0 && !isAfter(effect, effects[i - 1] as EffectLine, anew),
    (effect) => `${now.kind}: ${effect.place} was applied after a later event`,
  )
  const hashes = new Map<number, string>()
  none(
    tables.marks,
    'marks',
    ({ block, place }) => {
      const hash = place.split('/')[1] as string
      const known = hashes.get(block) ?? hash
      hashes.set(block, known)
      return known !== hash
    },
    (mark) => `${now.kind}: marks of two blocks at height ${mark.block}`,
  )
}

function cursor({ now, before, tables, catchingUp }: Checked): void {
  const at = now.cursor ?? now.startBlock - 1
  if (!catchingUp)
    none(
      tables.marks,
      'marks',
      (mark) => mark.block > at,
      (mark) => `${now.kind}: ${mark.place} is marked above the cursor ${at}`,
    )
  must(
    now.settled === null || now.settled <= at,
    'settled',
    () => `${now.kind}: settled ${now.settled} is above the cursor ${at}`,
  )
  must(
    now.settled === null || (now.finalized !== null && now.settled <= now.finalized),
    'settled',
    () => `${now.kind}: settled ${now.settled}, but only ${now.finalized} is final`,
  )
  if (!before) return
  must(now.epoch >= before.epoch, 'cursor', () => `${now.kind}: the epoch fell from ${before.epoch} to ${now.epoch}`)
  const back = at < (before.cursor ?? before.startBlock - 1)
  must(
    !back || now.epoch > before.epoch || catchingUp,
    'cursor',
    () => `${now.kind}: the cursor went back from ${before.cursor} to ${at} in one epoch`,
  )
  for (const line of ['settled', 'finalized', 'lowWater'] as const) {
    const was = before[line] ?? -1
    must(
      (now[line] ?? -1) >= was,
      line === 'lowWater' ? 'marks' : 'settled',
      () => `${now.kind}: ${line} went back from ${was} to ${now[line]}`,
    )
  }
}

function isStaged({ kind }: WatcherState, options: SwarmOptions): boolean {
  return options.staged || kind === 'undo' || kind === 'managed'
}

/** The `final` stage ran once for each settled event, in order, and for no other. */
function finals({ now, tables, options }: Checked): void {
  const settled = isStaged(now, options) ? (now.settled ?? -1) : -1
  if (now.kind === 'managed') {
    const due = tables.rows.filter((row) => row.block <= settled)
    return same('final', now.kind, ['settled rows', due.map(stableAt)], ['paid rows', tables.paid.map(stableAt)])
  }
  const due = tables.effects.filter((effect) => effect.block <= settled).map((effect) => effect.n)
  const paid = tables.finals.map((row) => row.entry)
  must(due.length === paid.length && due.every((n, i) => n === paid[i]), 'final', () => {
    return `${now.kind}: with ${settled} settled the entries ${due.join(' ')} are due, and ${paid.join(' ')} are paid`
  })
}

/** Undo is kept for what may still be undone, and for nothing else. */
function kept({ now, tables, options }: Checked): void {
  const settled = isStaged(now, options) ? (now.settled ?? -1) : Number.POSITIVE_INFINITY
  const events = now.kind === 'managed' ? tables.rows : tables.effects
  const due = events.filter((event) => event.block > settled).map((event) => event.block)
  must(
    tables.kept.length === due.length && tables.kept.every((block, i) => block === [...due].sort((a, b) => a - b)[i]),
    'undo',
    () => {
      return `${now.kind}: above the settled block ${settled} there are ${due.length} events, and ${tables.kept.length} are kept`
    },
  )
}

function trail({ now, tables }: Checked): void {
  const line = Math.max(now.settled ?? -1, now.finalized ?? -1)
  none(
    tables.marks,
    'undo',
    ({ block, place }) => block > line && tables.trail.get(block) !== place.split('/')[1],
    (mark) => `${now.kind}: block ${mark.block} has events and is not remembered as it was applied`,
  )
  // The block on the line stays until the next one settles, also when that settles in the commit that applies it.
  const below = [...tables.trail.keys()].filter((block) => block < (now.settled ?? -1))
  must(
    below.length <= 1,
    'bounds',
    () => `${now.kind}: blocks ${below.join(' ')} are remembered below the settled ${now.settled}`,
  )
}

function xor(marks: readonly MarkLine[]): string {
  return marks
    .reduce((sum, mark) => sum ^ BigInt(`0x${mark.stable}`), 0n)
    .toString(16)
    .padStart(32, '0')
}

/** The rows of the commits cover the applied blocks without a gap, and count and sum up what is applied there. */
function commits({ now, tables, tampered }: Checked): void {
  if (tampered) return
  const end = tables.commits.reduce((next, row) => {
    must(
      row.first === next && row.last >= row.first,
      'one commit',
      () => `${now.kind}: a commit covers ${row.first} to ${row.last}, expected one from ${next}`,
    )
    return row.last + 1
  }, now.startBlock)
  must(
    end - 1 === (now.cursor ?? now.startBlock - 1),
    'one commit',
    () => `${now.kind}: commits reach to ${end - 1}, the cursor is ${now.cursor}`,
  )
  for (const row of tables.commits) sums(now, tables, row)
}

function sums(now: WatcherState, tables: WatcherTables, row: CommitLine): void {
  const within = (one: { readonly block: number }) => one.block >= row.first && one.block <= row.last
  const found = (now.kind === 'managed' ? tables.rows : tables.effects).filter(within).length
  must(
    found === row.events,
    'one commit',
    () => `${now.kind}: ${row.first} to ${row.last} were committed with ${row.events} events, and ${found} stand`,
  )
  if (row.first <= (now.lowWater ?? -1)) return
  must(
    xor(tables.marks.filter(within)) === row.digest,
    'one commit',
    () => `${now.kind}: the digest of ${row.first} to ${row.last} is not that of its marks`,
  )
}

/** Everything that grows has a limit (P6), and forgetting stays behind it (P7). */
function bounds({ now, before, tables, options, catchingUp, tampered }: Checked): void {
  const { retentionBlocks, undoLimitBlocks } = options
  const at = now.cursor ?? now.startBlock - 1
  const settled = now.settled ?? now.startBlock - 1
  if (catchingUp) return
  // Judged where it is raised: a reorg later takes the cursor back, and not the mark.
  const raised = now.lowWater !== (before?.lowWater ?? null)
  must(!raised || (now.lowWater ?? 0) <= Math.min(settled, at - retentionBlocks), 'marks', () => {
    return `${now.kind}: marks are forgotten up to ${now.lowWater}; settled ${settled}, cursor ${at}, kept for ${retentionBlocks} blocks`
  })
  must(
    // A range that holds known events, since a person moved the cursor back, settles in a step of its own.
    at - settled <= undoLimitBlocks + (tampered ? options.maxRange : 0),
    'bounds',
    () => `${now.kind}: ${at - settled} blocks are applied and not settled`,
  )
  must(
    tables.trail.size <= at - settled + 2,
    'bounds',
    () => `${now.kind}: ${tables.trail.size} blocks are remembered for ${at - settled}`,
  )
}

/** Marks are forgotten in steps of so many blocks. */
export const FORGET_STEP = 256

/** At rest what was due to be forgotten is, but for one step (P6). */
export function checkForgotten({ retentionBlocks }: SwarmOptions, now: WatcherState, tables: WatcherTables): void {
  const due = Math.min(now.settled ?? -1, (now.cursor ?? -1) - retentionBlocks)
  const low = now.lowWater ?? now.startBlock - 1
  must(
    due - low < FORGET_STEP,
    'bounds',
    () => `${now.kind}: marks are forgotten up to ${low}, and were due up to ${due}`,
  )
  none(
    tables.marks,
    'bounds',
    (mark) => now.lowWater !== null && mark.block <= now.lowWater,
    (mark) => `${now.kind}: ${mark.place} is still marked, at or below the low-water mark ${now.lowWater}`,
  )
}

const CHECKS = [oneCommit, balances, totals, order, cursor, finals, kept, trail, commits, bounds]

/** @throws {SimulationFailure} the first promise that is broken */
export function checkWatcher(checked: Checked): void {
  for (const check of CHECKS) check(checked)
}
