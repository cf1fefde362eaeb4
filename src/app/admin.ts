import { TidemarkError } from '../errors.ts'
import { REORG_ACCEPTED, type Store, type Tx, type WatcherRow } from '../store/store.ts'
import { bytesToHex } from '../util/bytes.ts'
import { type Op, wait } from '../util/op.ts'
import type { World } from '../util/world.ts'
import { checkWholeName, unknownWatcher } from './names.ts'
import { markRestored } from './seen.ts'
import type { Admin, By } from './types.ts'

function* lockByName(tx: Tx, name: string): Op<WatcherRow> {
  const found = yield* wait(tx.cursors.find(name))
  const row = found && (yield* wait(tx.cursors.lock(found.id)))
  if (row) return row
  const known = yield* wait(tx.cursors.list())
  throw unknownWatcher(
    name,
    known.map((one) => one.name),
  )
}

const ACCEPTED = {
  code: REORG_ACCEPTED,
  sentence: 'An operator accepted a reorg of blocks that were final or confirmed',
  next: 'Nothing: it ends with the next commit.',
}

/** What an operator does, with nothing but a store: works beside a running process, which sees it at its next step. */
export function createAdmin(store: Store, world: World): Admin {
  const act = (action: string, watcher: string, by: By, change: (tx: Tx, row: WatcherRow, now: number) => Op<void>) =>
    store.transact(function* (tx) {
      const now = world.now()
      yield* change(tx, yield* lockByName(tx, watcher), now)
      yield* wait(tx.audit.add({ at: now, actor: by.actor, action, watcher, reason: by.reason }))
    })
  return {
    resume: (watcher, by, { acceptReorg = false } = {}) =>
      act(acceptReorg ? 'resume, reorg accepted' : 'resume', watcher, by, function* (tx, row, now) {
        const reason = acceptReorg ? { ...ACCEPTED, values: {}, at: now } : null
        yield* wait(tx.cursors.change(row.id, { state: 'running', reason, updatedAt: now }))
      }),
    pause: (watcher, by) =>
      act('pause', watcher, by, function* (tx, row, now) {
        const reason = { code: 'PAUSED', sentence: by.reason, next: 'Run `tidemark resume`.', values: {}, at: now }
        yield* wait(tx.cursors.change(row.id, { state: 'paused', reason, updatedAt: now }))
      }),
    restored: (by) =>
      store.transact(function* (tx) {
        const now = world.now()
        for (const { id, reason } of yield* wait(tx.cursors.list())) {
          const halted = reason?.code === 'STORE_WENT_BACK'
          const token = world.randomBytes(16)
          yield* wait(
            tx.cursors.change(id, { token, updatedAt: now, ...(halted ? { state: 'running', reason: null } : {}) }),
          )
        }
        yield* markRestored(tx, bytesToHex(world.randomBytes(8)))
        yield* wait(tx.audit.add({ at: now, actor: by.actor, action: 'restored', watcher: '*', reason: by.reason }))
      }),
    rename: (from, to, by) =>
      act('rename', from, by, function* (tx, row, now) {
        checkWholeName(to, from)
        if (yield* wait(tx.cursors.find(to))) {
          throw new TidemarkError('WATCHER_INVALID', 'The new name is taken', { values: { watcher: to } })
        }
        yield* wait(tx.cursors.change(row.id, { name: to, updatedAt: now }))
      }),
  }
}
