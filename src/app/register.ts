import { type BlockNumber, blockNumber } from '../chain/block.ts'
import { TidemarkError } from '../errors.ts'
import type { CompiledWatcher } from '../handle/watch.ts'
import type { NewWatcher, Store, Tx, WatcherRow } from '../store/store.ts'
import { type Op, wait } from '../util/op.ts'

export interface Registration {
  /** The watchers to run now. */
  readonly watchers: readonly CompiledWatcher[]
  /** The names of all that are configured: a row with none of these names is orphaned. */
  readonly configured: ReadonlySet<string>
  /** The fencing token of the lease: whoever held these watchers before can commit no more. */
  readonly token: Uint8Array
  /** `from-here`: a changed filter is taken over, from the cursor on. */
  readonly accept: 'from-here' | undefined
  /** Block heights to use for `startBlock: 'now'`, by watcher name. */
  readonly heads: ReadonlyMap<string, BlockNumber>
  readonly now: number
}

/** The row of another name that this watcher was known by, if there is one: same chain, same fingerprint, not configured. */
function formerName(watcher: CompiledWatcher, rows: readonly WatcherRow[], names: ReadonlySet<string>): string | null {
  const orphan = rows.find(
    (row) => !names.has(row.name) && row.chainId === watcher.chainId && row.fingerprint === watcher.fingerprint,
  )
  return orphan?.name ?? null
}

function newRow(watcher: CompiledWatcher, registration: Registration): NewWatcher {
  const head = registration.heads.get(watcher.name)
  const startBlock = watcher.startBlock === 'now' ? blockNumber(head ?? 0) : watcher.startBlock
  return { name: watcher.name, chainId: watcher.chainId, fingerprint: watcher.fingerprint, startBlock }
}

/**
 * An unknown name with a past start block, beside an orphaned one with the same filter, is most likely a rename: to
 * start it afresh would apply its whole history again.
 */
function refuseRename(watcher: CompiledWatcher, former: string | null): void {
  if (former === null || watcher.startBlock === 'now') return
  throw new TidemarkError('WATCHER_RENAMED', 'A new watcher has the filter of one that is no longer configured', {
    values: { watcher: watcher.name, formerly: former },
  })
}

function* acceptFilter(tx: Tx, row: WatcherRow, watcher: CompiledWatcher, registration: Registration): Op<void> {
  if (row.fingerprint === watcher.fingerprint) return
  if (registration.accept !== 'from-here') {
    throw new TidemarkError('WATCHER_FILTER_CHANGED', 'The filter or start of a watcher changed', {
      values: { watcher: watcher.name, cursor: row.cursor?.number ?? null },
    })
  }
  const { fingerprint } = watcher
  yield* wait(tx.cursors.change(row.id, { fingerprint, ...settledUnder(row, watcher), updatedAt: registration.now }))
}

/**
 * Before blocks settle they are read again with the new filter, and differ from what the old one let through. A watcher
 * that can undo takes them back and does them again; elsewhere they can only stand as they are, so the line moves up to
 * the cursor.
 */
function settledUnder(row: WatcherRow, watcher: CompiledWatcher): { settled?: BlockNumber } {
  const canUndo = typeof watcher.undo === 'function' || watcher.undo === 'managed'
  if (canUndo || row.cursor === null) return {}
  return { settled: blockNumber(Math.max(row.cursor.number, row.settled ?? 0)) }
}

function* registerOne(
  tx: Tx,
  watcher: CompiledWatcher,
  rows: readonly WatcherRow[],
  registration: Registration,
): Op<WatcherRow> {
  let row = rows.find((one) => one.name === watcher.name)
  if (row) {
    if (row.chainId !== watcher.chainId) {
      throw new TidemarkError('CHAIN_MISMATCH', 'The watcher was made for another chain id', {
        values: { watcher: watcher.name, stored: row.chainId, configured: watcher.chainId },
      })
    }
    yield* acceptFilter(tx, row, watcher, registration)
  } else {
    refuseRename(watcher, formerName(watcher, rows, registration.configured))
    row = yield* wait(tx.cursors.create(newRow(watcher, registration), registration.now))
  }
  yield* wait(tx.cursors.change(row.id, { token: registration.token, updatedAt: registration.now }))
  return row
}

/**
 * Finds or makes the row of each configured watcher and writes the lease's token into it, in one transaction.
 * @throws {TidemarkError} `WATCHER_FILTER_CHANGED`, `WATCHER_RENAMED`, `CHAIN_MISMATCH`: nothing was changed
 */
export async function registerWatchers(store: Store, registration: Registration): Promise<Map<string, WatcherRow>> {
  return store.transact(function* (tx) {
    const rows = yield* wait(tx.cursors.list())
    const registered = new Map<string, WatcherRow>()
    for (const watcher of registration.watchers) {
      registered.set(watcher.name, yield* registerOne(tx, watcher, rows, registration))
      for (const definition of Object.values(watcher.tables)) {
        yield* wait(tx.managed.ensureTable({ table: definition.table, columns: definition.columns }))
      }
    }
    return registered
  })
}
