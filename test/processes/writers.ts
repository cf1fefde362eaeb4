import type { Database, Row } from './database.ts'

/** A line of the history, in the order in which the commits of one watcher happened. */
export interface Line {
  readonly id: number
  readonly atMs: number
  /** `row`: a change of the watcher's row, told by the server; `effect`: a write of the handler, told by the process. */
  readonly kind: 'row' | 'effect'
  readonly watcher: string
  readonly who: string
  readonly block: number | null
  readonly token: string | null
  readonly revision: number
}

function lineOf(row: Row): Line {
  return {
    id: Number(row['id']),
    atMs: Number(row['at_ms']),
    kind: row['kind'] as Line['kind'],
    watcher: String(row['watcher']),
    who: String(row['who']),
    block: row['block'] === null ? null : Number(row['block']),
    token: row['token'] === null ? null : String(row['token']),
    revision: Number(row['revision']),
  }
}

export async function readHistory(database: Database, after = 0): Promise<Line[]> {
  return (await database.query('SELECT * FROM history WHERE id > ? ORDER BY id', after)).map(lineOf)
}

/** A time on duty: from the taking of a watcher by a new token to the next one. */
export interface Duty {
  readonly watcher: string
  readonly who: string
  readonly token: string
  readonly takenAt: number
  readonly takenId: number
  /** Changes of the row under that token, the taking not counted. */
  commits: number
  effects: number
  lastAt: number
}

/**
 * Reads times on duty from the history, and who wrote in another one's.
 *
 * The row of a watcher is locked from the first statement of each commit to its end, so lines of one watcher stand in the
 * order of commits. Each new token begins a time on duty of whoever wrote it; until the next one every change of the row
 * and every effect must be by the same process. Admin's changes (`test`) and the tokens that `restored` writes belong to
 * nobody: after one of those nobody may write before the watcher was taken anew.
 */
export function readDuties(history: readonly Line[]): { duties: Duty[]; intruders: string[] } {
  const duties: Duty[] = []
  const intruders: string[] = []
  const current = new Map<string, Duty>()
  for (const line of history) {
    const duty = current.get(line.watcher)
    if (line.kind === 'row' && line.token !== (duty?.token ?? null)) {
      const next = dutyOf(line)
      duties.push(next)
      current.set(line.watcher, next)
      continue
    }
    if (line.who === 'test') continue
    if (duty?.who !== line.who) intruders.push(`${line.watcher}: ${line.kind} by ${line.who} while ${duty?.who} has it`)
    else note(duty, line)
  }
  return { duties, intruders }
}

function dutyOf({ watcher, who, token, atMs, id }: Line): Duty {
  return { watcher, who, token: token ?? '', takenAt: atMs, takenId: id, commits: 0, effects: 0, lastAt: atMs }
}

function note(duty: Duty, line: Line): void {
  if (line.kind === 'row') {
    duty.commits += 1
    duty.lastAt = line.atMs
  } else duty.effects += 1
}

/** Revisions of a watcher's row go up by one with each line: none is lost, and none was written on an older state. */
export function brokenRevisions(history: readonly Line[]): string[] {
  const last = new Map<string, number>()
  return history
    .filter(({ kind }) => kind === 'row')
    .flatMap(({ watcher, revision }) => {
      const before = last.get(watcher)
      last.set(watcher, revision)
      return before === undefined || revision === before + 1 ? [] : [`${watcher}: ${before} then ${revision}`]
    })
}

/** A time during which a process did not work: killed, stopped or frozen, until it was brought back. */
export interface Out {
  readonly who: string
  readonly from: number
  to: number
}

/** Times on duty that began although the holder before had worked all the while: two leases at once. */
export function stolen(duties: readonly Duty[], outs: readonly Out[]): string[] {
  return duties.flatMap((duty, i) => {
    const before = duties.slice(0, i).findLast(({ watcher }) => watcher === duty.watcher)
    if (!before || before.who === 'test') return []
    const wasOut = outs.some(({ who, from, to }) => who === before.who && from <= duty.takenAt && to >= before.takenAt)
    return wasOut ? [] : [`${duty.watcher}: taken by ${duty.who} from ${before.who}, which was at work`]
  })
}
