/** Longest text compared: names of settings, flags and commands are far shorter, and the cost grows with the square. */
const MAX_LENGTH = 64

/** Levenshtein distance: single characters inserted, deleted or replaced. */
export function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[b.length] ?? 0
}

/** Case and separators do not count as mistakes: `poll_ms` is `pollMs` to a person. */
function plain(name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9]/g, '')
}

/**
 * The candidate that `name` was most likely meant to be, or undefined when none is near.
 * Near is: a third of the letters wrong, at least 2; or one is the beginning of the other (`rpcUrls` for `rpc`).
 */
export function nearest(name: string, candidates: readonly string[]): string | undefined {
  if (name.length > MAX_LENGTH) return undefined
  const wanted = plain(name)
  const ranked = candidates
    .map((candidate) => ({ candidate, distance: distanceTo(wanted, plain(candidate)) }))
    .sort((a, b) => a.distance - b.distance)
  const best = ranked[0]
  return best && best.distance <= Math.max(2, Math.floor(wanted.length / 3)) ? best.candidate : undefined
}

function distanceTo(wanted: string, candidate: string): number {
  const begins =
    wanted.length >= 3 && candidate.length >= 3 && (wanted.startsWith(candidate) || candidate.startsWith(wanted))
  return begins ? 1 : editDistance(wanted, candidate)
}
