import type { BlockNumber, BlockRef } from '../../chain/block.ts'
import { invariant } from '../../util/invariant.ts'
import type { TrailPort } from '../store.ts'
import type { Connection } from './connection.ts'
import { blob, int, readBlock, readHash } from './values.ts'

const LIST = `
  SELECT block_number, block_hash FROM tidemark.unfinalized_blocks
  WHERE watcher = $1::int ORDER BY block_number DESC`
// Finds the row when the block is there already with this hash, and changes nothing when it has another one.
const ADD = `
  INSERT INTO tidemark.unfinalized_blocks AS known (watcher, block_number, block_hash)
  SELECT $1::int, number, hash FROM unnest($2::bigint[], $3::bytea[]) AS block (number, hash) ORDER BY number
  ON CONFLICT (watcher, block_number) DO UPDATE SET block_hash = known.block_hash
    WHERE known.block_hash = excluded.block_hash`
const DELETE_ABOVE = 'DELETE FROM tidemark.unfinalized_blocks WHERE watcher = $1::int AND block_number > $2::bigint'
const DELETE_BELOW = 'DELETE FROM tidemark.unfinalized_blocks WHERE watcher = $1::int AND block_number < $2::bigint'

/** Each height once; two hashes for one height are a bug. */
function distinct(blocks: readonly BlockRef[]): BlockRef[] {
  const byNumber = new Map(blocks.map((block) => [block.number, block]))
  for (const { number, hash } of blocks) {
    const same = byNumber.get(number)?.hash === hash
    invariant(same, 'a remembered block may not be replaced without a rollback', { block: number })
  }
  return [...byNumber.values()]
}

/** Rows of `unfinalized_blocks`: one hash a height and watcher. */
export class PgTrail implements TrailPort {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  async list(watcher: number): Promise<readonly BlockRef[]> {
    const rows = await this.#connection.all(LIST, int(watcher))
    return rows.map((row) => ({ number: readBlock(row, 'block_number'), hash: readHash(row, 'block_hash') }))
  }

  async add(watcher: number, blocks: readonly BlockRef[]): Promise<void> {
    const all = distinct(blocks)
    if (all.length === 0) return
    const numbers = all.map((block) => int(block.number))
    const found = await this.#connection.run(
      ADD,
      int(watcher),
      numbers,
      all.map((block) => blob(block.hash)),
    )
    invariant(found === all.length, 'a remembered block may not be replaced without a rollback', { watcher })
  }

  async deleteAbove(watcher: number, block: BlockNumber | -1): Promise<void> {
    await this.#connection.run(DELETE_ABOVE, int(watcher), int(block))
  }

  async deleteBelow(watcher: number, block: BlockNumber): Promise<void> {
    await this.#connection.run(DELETE_BELOW, int(watcher), int(block))
  }
}
