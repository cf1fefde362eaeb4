import type { Hash } from '../chain/block.ts'
import { refusalOf } from '../chain/rpc-errors.ts'
import { TidemarkError } from '../errors.ts'
import type { Maybe } from '../util/op.ts'
import type { ChainReader, View } from './reader.ts'

/**
 * Recognises another chain with the same id behind a URL: a restarted test node, a reset test net (C20). Block 0 of each
 * provider is compared with the one first seen for this chain.
 */
export class GenesisCheck {
  readonly #reader: ChainReader
  readonly #known: () => Maybe<Hash | null>
  readonly #passed = new Set<number>()
  #first: Hash | null = null

  /** @param known the hash kept in the store, null while there is none */
  constructor(reader: ChainReader, known: () => Maybe<Hash | null>) {
    this.#reader = reader
    this.#known = known
  }

  /** Block 0's hash as the view's provider has it; null where it does not keep that block. */
  async read(view: View, signal?: AbortSignal): Promise<Hash | null> {
    try {
      const [header] = await this.#reader.freshHeaders(view.provider, [0], signal)
      return header?.hash ?? null
    } catch (error) {
      const meaning = refusalOf(error)?.meaning
      if (meaning === 'history-pruned' || meaning === 'block-not-found') return null
      throw error
    }
  }

  /**
   * Compares the provider's block 0, once a provider; with `again` even if it passed before.
   * @throws {TidemarkError} `CHAIN_MISMATCH`; the provider is set aside
   */
  async check(view: View, again: boolean, signal?: AbortSignal): Promise<void> {
    if (this.#passed.has(view.provider) && !again) return
    const expected = (await this.#known()) ?? this.#first
    const found = await this.read(view, signal)
    // A single wrong answer may be a fault; a chain says the same twice.
    const differs =
      expected !== null && found !== null && found !== expected && (await this.read(view, signal)) === found
    if (differs) throw this.#mismatch(view, expected, found)
    if (found !== null && (expected === null || found === expected)) this.#first = found
    this.#passed.add(view.provider)
  }

  #mismatch(view: View, expected: Hash, found: Hash): TidemarkError {
    const { providers } = this.#reader
    const node = providers.label(view.provider)
    const values = { node, expected, found }
    const error = new TidemarkError('CHAIN_MISMATCH', `${node} has another block 0: it is another chain.`, { values })
    this.#passed.delete(view.provider)
    providers.setAside(view.provider, error)
    this.#reader.dropView()
    return error
  }
}
