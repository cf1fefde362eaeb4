import type { BlockNumber, BlockRef } from '../../chain/block.ts'
import { invariant } from '../../util/invariant.ts'
import type { TrailPort } from '../store.ts'
import type { Connection } from './connection.ts'
import { blob, int, readBlock, readHash } from './values.ts'

const LIST =
  'SELECT block_number, block_hash FROM tidemark_unfinalized_blocks WHERE watcher = ? ORDER BY block_number DESC'
// Finds the row when the block is there already with this hash, and changes nothing when it has another one.
const ADD = `
  INSERT INTO tidemark_unfinalized_blocks (watcher, block_number, block_hash) VALUES (?, ?, ?)
  ON CONFLICT (watcher, block_number) DO UPDATE SET block_hash = block_hash WHERE block_hash = excluded.block_hash`
const DELETE_ABOVE = 'DELETE FROM tidemark_unfinalized_blocks WHERE watcher = ? AND block_number > ?'
const DELETE_BELOW = 'DELETE FROM tidemark_unfinalized_blocks WHERE watcher = ? AND block_number < ?'

/** Rows of `tidemark_unfinalized_blocks`: one hash a height and watcher. */
export class SqliteTrail implements TrailPort {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  list(watcher: number): readonly BlockRef[] {
    const rows = this.#connection.all(LIST, int(watcher))
    return rows.map((row) => ({ number: readBlock(row, 'block_number'), hash: readHash(row, 'block_hash') }))
  }

  add(watcher: number, blocks: readonly BlockRef[]): void {
    for (const { number, hash } of blocks) {
      const found = this.#connection.run(ADD, int(watcher), int(number), blob(hash))
      invariant(found === 1, 'a remembered block may not be replaced without a rollback', { block: number })
    }
  }

  deleteAbove(watcher: number, block: BlockNumber | -1): void {
    this.#connection.run(DELETE_ABOVE, int(watcher), int(block))
  }

  deleteBelow(watcher: number, block: BlockNumber): void {
    this.#connection.run(DELETE_BELOW, int(watcher), int(block))
  }
}
