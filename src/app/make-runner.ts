import type { Hash } from '../chain/block.ts'
import type { Log } from '../chain/log.ts'
import type { EvmSource } from '../collect/evm.ts'
import type { WatchPlan } from '../collect/source.ts'
import type { Config } from '../config.ts'
import { stableId } from '../dedup/identity.ts'
import { decodeEvent } from '../handle/event.ts'
import type { OpenTable } from '../handle/participant.ts'
import type { Run } from '../handle/run.ts'
import type { CompiledWatcher } from '../handle/watch.ts'
import type { Lease, WatcherRow } from '../store/store.ts'
import { Alarm } from '../util/alarm.ts'
import { invariant } from '../util/invariant.ts'
import type { World } from '../util/world.ts'

import { keepGenesis } from './chains.ts'
import { type Emit, type OnError, WatcherRunner } from './runner.ts'
import type { Seen } from './seen.ts'

export interface RunnerParts {
  readonly watcher: CompiledWatcher
  readonly row: WatcherRow
  readonly chain: EvmSource | undefined
  readonly lease: Lease
  readonly config: Config
  readonly world: World
  readonly signal: AbortSignal
  readonly emit: Emit
  readonly onError: OnError
  readonly seen: Seen
}

/** A log that fits and does not decode is one all the same: it halts the watcher, it is not passed over. */
function isEvent(watcher: CompiledWatcher, log: Log): boolean {
  try {
    return decodeEvent(watcher, { log, stableId: stableId(watcher.chainId, log) }) !== null
  } catch {
    return true
  }
}

function planOf(watcher: CompiledWatcher, row: WatcherRow): WatchPlan {
  return {
    name: watcher.name,
    filters: watcher.filters,
    startBlock: row.startBlock,
    endBlock: watcher.endBlock,
    at: watcher.at,
    keepsUndo: watcher.undo !== undefined,
    maxEvents: watcher.batch.maxEvents,
    accepts: (log) => isEvent(watcher, log),
  }
}

function openTables(watcher: CompiledWatcher, row: WatcherRow): Record<string, OpenTable> {
  const opened = Object.entries(watcher.tables).map(([name, definition]) => [name, definition.open(row.id)] as const)
  return Object.fromEntries(opened)
}

/** Wires one watcher: its row, its chain's source, its managed tables as participants of the commit. */
export function makeRunner(parts: RunnerParts): WatcherRunner {
  const { watcher, row, chain, lease, config, world, signal, emit, onError, seen } = parts
  invariant(chain, 'a watcher must be on a chain that is open', { watcher: watcher.name })
  const tables = openTables(watcher, row)
  const run: Run = {
    watcher,
    id: row.id,
    token: lease.token,
    store: config.store,
    world,
    alarm: new Alarm(world, signal),
    tables,
    participants: Object.values(tables).map((table) => table.participant),
    build: config.build,
    signal,
  }
  const ready = { watcher, world, signal, pinned: (blockHash: Hash) => chain.pinned(blockHash) }
  const rememberChain = async () => keepGenesis(config, watcher.chainId, await chain.genesis(signal))
  return new WatcherRunner({
    run,
    plan: planOf(watcher, row),
    source: chain,
    ready,
    retentionBlocks: config.retentionBlocks,
    emit,
    onError,
    seen,
    rememberChain,
  })
}
