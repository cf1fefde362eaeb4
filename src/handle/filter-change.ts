/** What of a watcher's filter changed, in words: for whoever must decide whether the change was meant. */

/** What `fingerprintOf` in `compile.ts` writes. A database may hold what another version wrote: nothing is relied on. */
interface Filter {
  readonly addresses?: unknown
  readonly events?: unknown
  readonly startBlock?: unknown
}

/** Changes that are told one by one; the rest is counted. */
const MAX_CHANGES = 10
const UNREADABLE = 'it was written by another version of Tidemark'

function parse(fingerprint: string): Filter | null {
  try {
    const filter: unknown = JSON.parse(fingerprint)
    return typeof filter === 'object' ? (filter as Filter | null) : null
  } catch {
    return null
  }
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

function addressChange(old: unknown, now: unknown): string[] {
  if (JSON.stringify(old) === JSON.stringify(now)) return []
  if (old === null) return [`address: any contract before, ${listOf(now).length} given now`]
  if (now === null) return [`address: ${listOf(old).length} given before, any contract now`]
  const [before, after] = [new Set(listOf(old)), new Set(listOf(now))]
  const added = [...after].filter((one) => !before.has(one)).length
  const removed = [...before].filter((one) => !after.has(one)).length
  return [`address: ${added} added, ${removed} removed`]
}

/** The topics of each event by its signature: one event may be wanted several times, with other arguments. */
function bySignature(events: unknown): ReadonlyMap<string, string> {
  const found = new Map<string, string>()
  for (const one of listOf(events) as { event?: unknown; topics?: unknown }[]) {
    const event = String(one?.event)
    found.set(event, `${found.get(event) ?? ''}${JSON.stringify(one?.topics)}`)
  }
  return found
}

function eventChanges(old: unknown, now: unknown): string[] {
  const [before, after] = [bySignature(old), bySignature(now)]
  const added = [...after.keys()].filter((event) => !before.has(event)).map((event) => `event ${event} added`)
  const removed = [...before.keys()].filter((event) => !after.has(event)).map((event) => `event ${event} removed`)
  const others = [...after].filter(([event, topics]) => before.has(event) && before.get(event) !== topics)
  return [...removed, ...added, ...others.map(([event]) => `args of event ${event}`)]
}

/**
 * The differences of two fingerprints, at most 10 and a count. Addresses and wanted arguments are counted and not shown: who
 * is watched may be a secret (P12).
 */
export function filterChanges(stored: string, configured: string): readonly string[] {
  const [old, now] = [parse(stored), parse(configured)]
  if (!old || !now) return [UNREADABLE]
  const start = [old.startBlock, now.startBlock].map(String)
  const all = [
    ...(start[0] === start[1] ? [] : [`startBlock: ${start[0]} before, ${start[1]} now`]),
    ...addressChange(old.addresses, now.addresses),
    ...eventChanges(old.events, now.events),
  ]
  if (all.length === 0) return [UNREADABLE]
  return all.length <= MAX_CHANGES ? all : [...all.slice(0, MAX_CHANGES), `and ${all.length - MAX_CHANGES} more`]
}
