import type { Hash } from '../chain/block.ts'
import { bloomMayContain } from '../chain/proof.ts'
import { isProviderFault } from '../chain/rpc-errors.ts'
import type { World } from '../util/world.ts'
import { BoundedCache } from './cache.ts'
import type { BlockLogs, ChainReader, View } from './reader.ts'

/**
 * A block that looks empty while its bloom says "perhaps" (C17). Just after a block appears some nodes answer `[]` for it,
 * so it is asked for again, elsewhere where there is another provider. After these tries the empty answer is taken: the
 * sweep before settling catches what is still withheld.
 *
 * On a busy chain blooms are nearly full (of strangers to full Ethereum blocks about 70 % get through), so a chain whose
 * blooms were wrong 16 times in a row is waited for less. One log found in this way brings the long waits back.
 */

/** Waits before the tries for a fresh block: 3.5 s together. */
const FRESH_WAITS_MS = [500, 1000, 2000]
const WEAK_WAITS_MS = [500]
const WEAK_AFTER = 16
/** An older block is asked for once more, at once: what a node indexes late it has by then. */
const OLDER_WAITS_MS = [0]
/** A block this far below the head is no longer fresh. */
const FRESH_DEPTH = 8
const ACCEPTED_LIMIT = 4096

export class EmptyBlocks {
  readonly #reader: ChainReader
  readonly #world: World
  readonly #accepted = new BoundedCache<Hash, true>(ACCEPTED_LIMIT)
  #wrong = 0
  /** Blocks taken as empty against their bloom, since the process started. */
  doubts = 0

  constructor(reader: ChainReader, world: World) {
    this.#reader = reader
    this.#world = world
  }

  /** The same blocks, with the logs that were withheld at first. At most 12 blocks. */
  async check(view: View, blocks: readonly BlockLogs[], signal?: AbortSignal): Promise<BlockLogs[]> {
    const found = new Map<Hash, BlockLogs>()
    const doubtful = () => blocks.filter((block) => this.#doubtful(block) && !found.has(block.header.hash))
    const fresh = doubtful().some((block) => view.head.number - block.header.number < FRESH_DEPTH)
    for (const [attempt, wait] of this.#waits(fresh).entries()) {
      const asked = doubtful()
      if (asked.length === 0) break
      if (wait > 0) await this.#world.sleep(wait, signal)
      for (const block of await this.#again(view, asked, attempt, signal)) found.set(block.header.hash, block)
    }
    for (const block of doubtful()) this.#accept(block)
    if (found.size > 0) this.#wrong = 0
    return blocks.map((block) => found.get(block.header.hash) ?? block)
  }

  #doubtful({ header, logs }: BlockLogs): boolean {
    if (logs.length > 0 || header.logsBloom === null || this.#reader.bloomSilent) return false
    return !this.#accepted.get(header.hash) && bloomMayContain(header.logsBloom, this.#reader.filters)
  }

  #waits(fresh: boolean): readonly number[] {
    if (!fresh) return OLDER_WAITS_MS
    return this.#wrong < WEAK_AFTER ? FRESH_WAITS_MS : WEAK_WAITS_MS
  }

  #accept(block: BlockLogs): void {
    this.#wrong += 1
    this.#accepted.set(block.header.hash, true)
    this.doubts += 1
  }

  /** Asks other providers in turn with the own one, and answers only the blocks that do have logs. */
  async #again(view: View, blocks: readonly BlockLogs[], attempt: number, signal?: AbortSignal): Promise<BlockLogs[]> {
    const others = this.#reader.providers.others(view.provider)
    const provider = attempt % 2 === 0 ? (others[0] ?? view.provider) : view.provider
    const headers = blocks.map((block) => block.header)
    try {
      const answers = await this.#reader.freshBlocks(provider, headers, signal)
      return answers.filter((block): block is BlockLogs => block !== null && block.logs.length > 0)
    } catch (error) {
      // The other provider was only asked for a second opinion: its failure is not the watcher's.
      if (provider !== view.provider && isProviderFault(error)) return []
      throw error
    }
  }
}
