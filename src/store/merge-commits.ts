import type { CommitRow } from './store.ts'

function xor(a: Uint8Array, b: Uint8Array): Uint8Array {
  return a.map((byte, i) => byte ^ (b[i] ?? 0))
}

/** Two ranges as one: counts add up, digests are XORs of the ids and so combine by XOR; the rest is the later one's. */
function merge(a: CommitRow, b: CommitRow): CommitRow {
  const { to, committedAt, build } = b
  const attempt = Math.max(a.attempt, b.attempt)
  return { from: a.from, to, events: a.events + b.events, digest: xor(a.digest, b.digest), committedAt, attempt, build }
}

/** Neighbours merged from the left while they stay within `span` blocks. Gaps stay gaps. */
export function mergeCommits(rows: readonly CommitRow[], span: number): CommitRow[] {
  const merged: CommitRow[] = []
  for (const row of rows) {
    const last = merged.at(-1)
    const fits = last && row.from === last.to + 1 && row.to - last.from < span
    if (fits) merged[merged.length - 1] = merge(last, row)
    else merged.push(row)
  }
  return merged
}
