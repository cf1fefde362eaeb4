import type { BlockNumber, BlockRef } from '../../chain/block.ts'
import { invariant } from '../../util/invariant.ts'
import type { TrailPort } from '../store.ts'
import { chunks, type SqlRows } from './literals.ts'
import type { Session } from './session.ts'
import { blob, readBlock, readHash, readNumber } from './values.ts'

const LIST = `
  SELECT block_number, block_hash FROM {unfinalized_blocks} WHERE watcher = ? ORDER BY block_number DESC`
const ADD = `
  INSERT INTO {unfinalized_blocks} (watcher, block_number, block_hash) VALUES ?
  ON DUPLICATE KEY UPDATE watcher = VALUES(watcher)`
const SAME = `
  SELECT count(*) AS n FROM {unfinalized_blocks} WHERE (watcher, block_number, block_hash) IN (?) LOCK IN SHARE MODE`
const DELETE_ABOVE = 'DELETE FROM {unfinalized_blocks} WHERE watcher = ? AND block_number > ?'
const DELETE_BELOW = 'DELETE FROM {unfinalized_blocks} WHERE watcher = ? AND block_number < ?'

/** Rows of `unfinalized_blocks`: one hash a height and watcher. */
export class MysqlTrail implements TrailPort {
  readonly #session: Session

  constructor(session: Session) {
    this.#session = session
  }

  async list(watcher: number): Promise<readonly BlockRef[]> {
    const rows = await this.#session.all(LIST, watcher)
    return rows.map((row) => ({ number: readBlock(row, 'block_number'), hash: readHash(row, 'block_hash') }))
  }

  async add(watcher: number, blocks: readonly BlockRef[]): Promise<void> {
    const rows = blocks.map(({ number, hash }) => [watcher, number, blob(hash)])
    for (const some of chunks(rows)) {
      await this.#session.run(ADD, some)
      await this.#checkSame(some)
    }
  }

  async deleteAbove(watcher: number, block: BlockNumber | -1): Promise<void> {
    await this.#session.run(DELETE_ABOVE, watcher, block)
  }

  async deleteBelow(watcher: number, block: BlockNumber): Promise<void> {
    await this.#session.run(DELETE_BELOW, watcher, block)
  }

  /** Whether each block is there with the hash it was given: a row that was there already was left as it is. */
  async #checkSame(rows: SqlRows): Promise<void> {
    const found = await this.#session.get(SAME, rows)
    const heights = new Set(rows.map(([, number]) => number)).size
    invariant(found && readNumber(found, 'n') === heights, 'a remembered block may not be replaced without a rollback')
  }
}
