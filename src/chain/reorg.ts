import type { BlockRef, Hash } from './block.ts'

/**
 * Where the chain and what we remember of it part. Pure: the caller brings the chain's hashes by number.
 *
 *     ours    96a ── 97a ── 98a ── 99a          trail, newest first: 99a 98a 96a
 *     chain   96a ── 97b ── 98b ── 99b ── 100b
 *
 * The answer is 96a, although 96 might not be the last block in common: only remembered blocks can be compared, and each
 * block with effects is remembered, so nothing between the answer and the real fork has effects to keep.
 */
export type AncestorSearch =
  /** The newest remembered block that is still on the chain. */
  | { readonly kind: 'found'; readonly block: BlockRef }
  /** None of the remembered blocks is. */
  | { readonly kind: 'none' }
  /** Heights to look up before the answer is known. */
  | { readonly kind: 'ask'; readonly numbers: readonly number[] }

/**
 * @param trail remembered blocks, newest first
 * @param chain the chain's hash by height; null: the chain is shorter than that
 * @param batch how many heights to ask for at once
 */
export function commonAncestor(
  trail: readonly BlockRef[],
  chain: ReadonlyMap<number, Hash | null>,
  batch = 32,
): AncestorSearch {
  const unknown = trail.findIndex((block) => !chain.has(block.number))
  const known = unknown < 0 ? trail : trail.slice(0, unknown)
  const block = known.find((one) => chain.get(one.number) === one.hash)
  if (block) return { kind: 'found', block }
  if (unknown < 0) return { kind: 'none' }
  return { kind: 'ask', numbers: trail.slice(unknown, unknown + batch).map((one) => one.number) }
}

/** The remembered blocks that a rollback to `ancestor` gives up, oldest first. */
export function orphaned(trail: readonly BlockRef[], ancestor: BlockRef | null): BlockRef[] {
  return trail.filter((block) => ancestor === null || block.number > ancestor.number).reverse()
}

interface Linked extends BlockRef {
  readonly parentHash: Hash
}

/** The longest beginning of `blocks` in which each block names the one before as its parent, `base` first. */
export function linkedPrefix<B extends Linked>(base: BlockRef | null, blocks: readonly (B | null | undefined)[]): B[] {
  const prefix: B[] = []
  let parent = base
  for (const block of blocks) {
    if (!block || (parent && (block.parentHash !== parent.hash || block.number !== parent.number + 1))) break
    prefix.push(block)
    parent = block
  }
  return prefix
}
