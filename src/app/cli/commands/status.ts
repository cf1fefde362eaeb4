import { redact } from '../../../util/redact.ts'
import type { Paint } from '../../terminal.ts'
import { duration, painter, thousands } from '../../terminal.ts'
import type { Status, WatcherStatus } from '../../types.ts'
import type { Call } from '../command.ts'
import { EXIT } from '../exit-codes.ts'
import { withTidemark } from '../open.ts'
import { table } from '../table.ts'

const HEADING = [
  'watcher',
  'health',
  'cursor',
  'head',
  'behind',
  'final',
  'settled',
  'events',
  'undone',
  'reorgs',
  'last commit',
]

function count(value: number | null | undefined): string {
  return value === null || value === undefined ? '-' : thousands(value)
}

function rowOf(watcher: WatcherStatus, now: number): string[] {
  const { counters } = watcher
  const age = watcher.updatedAt === null ? '-' : `${duration(now - Date.parse(watcher.updatedAt))} ago`
  const blocks = [watcher.cursor?.number, watcher.head, watcher.lagBlocks, watcher.finalized, watcher.settled]
  const totals = [counters.applied, counters.undone, counters.reorgs]
  return [watcher.name, watcher.health, ...[...blocks, ...totals].map(count), age]
}

/** Why a watcher does not go on, and what to do. */
function troubleOf({ name, health, reason, failing }: WatcherStatus, paint: Paint): string[] {
  const trouble = reason ?? failing
  if (!trouble) return []
  const values = reason && Object.keys(reason.values).length > 0 ? ` ${JSON.stringify(reason.values)}` : ''
  const tries = failing && !reason ? `, ${failing.tries} tries` : ''
  return [
    '',
    paint('red', `${name} is ${health}: ${trouble.code}: ${trouble.sentence}${values}${tries}`),
    `  next: ${trouble.next}`,
  ]
}

/** The table that `tidemark status` prints. */
export function statusText(status: Status, now: number, paint: Paint): string {
  if (status.watchers.length === 0) return 'No watcher was started on this store yet. Run `tidemark run`.\n'
  const lines = table(
    HEADING,
    status.watchers.map((watcher) => rowOf(watcher, now)),
  )
  const troubles = status.watchers.flatMap((watcher) => troubleOf(watcher, paint))
  return `${[paint('bold', lines[0] ?? ''), ...lines.slice(1), ...troubles].join('\n')}\n`
}

/** What a handler or a node said is kept in the database as it was said; it is shown without URLs (P12). */
function withoutSecrets(status: Status): Status {
  const clean = (watcher: WatcherStatus) =>
    ({ ...watcher, reason: redact(watcher.reason), failing: redact(watcher.failing) }) as WatcherStatus
  return { ...status, watchers: status.watchers.map(clean) }
}

/** `tidemark status [--json]`: reads the store and takes no lease, so it works beside a running process. */
export async function status(call: Call): Promise<number> {
  const { io, flags } = call
  const found = withoutSecrets(await withTidemark(call, (tidemark) => tidemark.status()))
  const text = flags.json
    ? `${JSON.stringify(found, null, 2)}\n`
    : statusText(found, io.world.now(), painter(io.stdout, io.env))
  io.stdout.write(text)
  return found.watchers.some((watcher) => watcher.health === 'halted') ? EXIT.halted : EXIT.ok
}
