import type { TidemarkEvents } from '../../app/types.ts'
import type { Mishap } from '../simulator/plan.ts'
import type { Reached, Stage } from './observer.ts'

const FUNCTION: Readonly<Record<Stage, string>> = { handle: 'handler', undo: 'undo function', final: 'final stage' }

function at(sql: string): string {
  const text = sql.trim().replace(/\s+/g, ' ')
  return text.length > 48 ? `"${text.slice(0, 47)}…"` : `"${text}"`
}

/** What happened to the process or its disk, as the end of "first seen after: …". */
export function mishapWords(mishap: Mishap, sql: string): string {
  switch (mishap) {
    case 'die-before-commit':
      return 'the process was killed before COMMIT'
    case 'die-after-commit':
      return 'the process was killed after COMMIT, before it heard the answer'
    case 'die-before':
      return `the process was killed before ${at(sql)}`
    case 'die-after':
      return `the process was killed after ${at(sql)}`
    case 'commit-answer-lost':
      return 'COMMIT went through and its answer was lost'
    case 'commit-rolled-back':
      return 'COMMIT failed and was rolled back, so that the events were handled once more'
    case 'commit-busy':
    case 'busy':
      return `another connection had the lock at ${at(sql)}`
    default:
      return `the disk was ${mishap.startsWith('full') ? 'full' : 'not readable'} at ${at(sql)}`
  }
}

export function throwWords(watcher: string, stage: Stage): string {
  return `the ${FUNCTION[stage]} of ${watcher} threw at its end, its transaction was rolled back, and the operator resumed`
}

function eventWords(values: Readonly<Record<string, unknown>>): string {
  return values.event === undefined ? '' : ` at ${String(values.event)} in block ${String(values.block)}`
}

const SWALLOWED = 'a statement failed, and the handler swallowed the error and went on'
const LOCKED = 'the handler wrote on another connection while its transaction was open, and met the lock'

/** Whether a halt shows a mistake that other events would show as well. */
export function isPlain(code: string, locked: boolean): boolean {
  return locked || code === 'HANDLER_SWALLOWED_ERROR'
}

/** Why a watcher stopped, without a plan for it. */
export function haltWords({ watcher, reason }: TidemarkEvents['halted'], locked: boolean): string {
  const { code, sentence, next, values } = reason
  const where = `${watcher} halted${eventWords(values)}`
  if (code === 'HANDLER_SWALLOWED_ERROR') {
    return `${where}: ${SWALLOWED} (${code}). Use \`savepoint(fn)\` or ON CONFLICT DO NOTHING where failure is expected.`
  }
  if (locked) {
    return `${where}: ${LOCKED} (${code}). Write through the \`db\` that the handler receives: what another connection writes is not part of the commit.`
  }
  return `${where}: ${sentence} (${code}). ${next.replace(/,? then (resume|run `tidemark resume`)/, '')}`
}

function list(reached: readonly Reached[]): string {
  return reached.map(({ what, times }) => `${what} ${times === 1 ? 'once' : `${times} times`}`).join(' and ')
}

function grouped(reached: readonly Reached[]): [string, Reached[]][] {
  const groups = new Map<string, Reached[]>()
  for (const one of reached) {
    const name = `the ${FUNCTION[one.stage]} of ${one.watcher}`
    groups.set(name, [...(groups.get(name) ?? []), one])
  }
  return [...groups]
}

/** Calls to the outside, with how many there should have been. */
export function outsideWords(reached: readonly Reached[], events: number): string[] {
  return grouped(reached).map(([name, calls]) => {
    return `${name} called ${list(calls)} for ${events} events: a call to the outside is not taken back, and is made again when an event is handled again. Write what is to be sent into a table, in the same transaction, and send it from there.`
  })
}

/** What the user's functions read that is not the event: the likely reason of rows that differ between two clean runs. */
export function readWords(reached: readonly Reached[]): string[] {
  return grouped(reached.filter(({ reach }) => reach !== 'outside')).map(([name, reads]) => {
    const clock = reads.some(({ reach }) => reach === 'clock')
    const what = clock ? 'the clock' : 'a random value'
    const instead = clock ? 'Take the time from the event or its block' : 'Derive the value from event.stableId'
    return `${name} read ${what} (${list(reads)}): it is another one when an event is handled again. ${instead}, or leave the column out with \`ignore\`.`
  })
}
