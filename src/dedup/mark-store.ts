import type { StoreCapabilities, Tx } from '../store/store.ts'
import { type Op, runAsync, runSync } from '../util/op.ts'

/** What marks need of a transaction. */
export type MarkTx = Pick<Tx, 'handled' | 'inTransaction' | 'savepoint' | 'release' | 'rollbackTo'>

/**
 * What the parts used alone need of a store: the store port, as far as they use it. `Db` is the connection that the
 * application brings, which is not the guarded handle of a watcher's handler. Every `Store` has this shape.
 */
export interface MarkStore<Db = never, Async extends boolean = boolean> {
  readonly capabilities: StoreCapabilities & { readonly asyncHandlers: Async }
  transact<T>(body: (tx: MarkTx) => Op<T>): Promise<T>
  read<T>(body: (tx: MarkTx) => Op<T>): Promise<T>
  /** @throws {TidemarkError} `NOT_IN_TRANSACTION` */
  join(db: Db): MarkTx
}

/** How a method inside the caller's transaction answers: at once on an embedded store, else with a promise. */
export type Answer<Async extends boolean, T> = [Async] extends [false]
  ? T
  : [Async] extends [true]
    ? Promise<T>
    : T | Promise<T>

/** Runs an operation in the store's way. */
export function answer<Async extends boolean, T>(store: MarkStore<never, Async>, op: Op<T>): Answer<Async, T> {
  return (store.capabilities.asyncHandlers ? runAsync(op) : runSync(op)) as Answer<Async, T>
}
