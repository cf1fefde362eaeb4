import type { Hash } from '../chain/block.ts'
import type { At } from '../collect/source.ts'
import type { Tx } from '../store/store.ts'
import type { Hex } from '../util/bytes.ts'
import type { Op } from '../util/op.ts'
import type { ArgumentsFilter, EventOf, EventSpecs, ResolveEvent, TidemarkEvent } from './event.ts'
import { flawed, flawOf } from './flaw.ts'
import type { OpenTable } from './participant.ts'

export { type CompiledWatcher, compileWatcher } from './compile.ts'

/** Where a watcher runs on one chain. */
export interface ChainBinding {
  /** Contracts that may emit the events, in any spelling; left out: any contract. At most 10,000. */
  readonly address?: string | readonly string[]
  /** First block, inclusive; `'now'`: the head when the watcher is first started. */
  readonly startBlock: number | bigint | 'now'
  /** Last block, inclusive; left out: follow for ever. */
  readonly endBlock?: number | bigint
  /**
   * Which blocks to act on. Default `'finalized'`. `'safe'` and `'latest'` need `undo`. `{ confirmations: n }` (1 = the
   * head itself) is the user's own finality: no undo is needed, and a deeper reorg halts.
   */
  readonly at?: At
}

/** The events of a watcher: each key becomes `event.name`. */
export type EventDefinitions<E extends EventSpecs> = {
  readonly [K in keyof E]: {
    readonly event: E[K]
    readonly args?: ArgumentsFilter<ResolveEvent<E[K], K>>
  }
}

/** A managed write (`rows`, …) as a watcher declares it; `Api` is what its handler gets under `tables`. */
export interface ManagedDefinition<Api = unknown> {
  readonly kind: string
  /** Name of the table in the store. */
  readonly table: string
  /** Makes the table, or checks it, before a watcher runs. @throws {TidemarkError} `STORE_TABLE_MISMATCH` */
  ensure(tx: Tx): Op<void>
  /** Opens the table for one watcher, given by its row id. */
  open(watcher: number): OpenTable<Api>
  /** Never set: carries the type. */
  readonly _api?: Api
}

// biome-ignore lint/suspicious/noExplicitAny: any API is welcome here; `TablesOf` finds out which
export type ManagedDefinitions = Readonly<Record<string, ManagedDefinition<any>>>

/** What a handler gets under `tables`. */
export type TablesOf<T extends ManagedDefinitions> = {
  readonly [K in keyof T]: T[K] extends ManagedDefinition<infer Api> ? Api : never
}

/** Reads pinned to the block of the event: the same answers on every try. */
export interface PinnedChain {
  readonly blockHash: Hash
  call(request: { readonly to: Hex; readonly data: Hex }): Promise<Hex>
  /** In wei. */
  getBalance(address: Hex): Promise<bigint>
  getCode(address: Hex): Promise<Hex>
  /** @param slot 32 bytes */
  getStorageAt(address: Hex, slot: Hex): Promise<Hex>
}

export interface PrepareScope<Event> {
  readonly event: Event
  readonly chain: PinnedChain
  readonly signal: AbortSignal
}

/** What a handler gets. It dies with the callback. */
export interface HandleScope<Event, Db, Tables, Prepared> {
  readonly event: Event
  /** The open transaction, behind a guard. It is Tidemark's: a handler neither commits nor rolls back. */
  readonly db: Db
  readonly tables: Tables
  /** What `prepare` answered. */
  readonly prepared: Prepared
  readonly phase: 'backfill' | 'live'
  readonly signal: AbortSignal
  /** What `key` answered; null without it. */
  readonly key: string | null
  /** Runs `fn` in a nested savepoint: a throw undoes what it wrote, and a failed statement inside counts as handled. */
  savepoint<T>(fn: () => T): T
  /** Writes what `tables` has buffered, so that `db` can read it. */
  flush(): void
}

/** What the `final` stage gets, in order, when the event's block settles. */
export interface FinalScope<Event, Db, Tables, Memo> {
  readonly event: Event
  /** What the handler returned for this event. */
  readonly memo: Memo
  readonly db: Db
  readonly tables: Tables
  readonly signal: AbortSignal
  savepoint<T>(fn: () => T): T
}

/** What the undo function gets, newest event first, when the event's block was orphaned. */
export interface UndoScope<Event, Db, Memo> {
  readonly event: Event
  /** What the handler returned for this event. */
  readonly memo: Memo
  readonly db: Db
  readonly signal: AbortSignal
  savepoint<T>(fn: () => T): T
}

export interface BatchLimits {
  /** Events that one commit should not exceed by much: whole blocks only. 1 to 50,000, default 5,000. */
  readonly maxEvents?: number
  /** Milliseconds after which a commit ends with its block. 1 to 60,000, default 250. */
  readonly maxMs?: number
}

type Answer<Mode, T> = Mode extends 'async' ? T | PromiseLike<T> : T

/** What a user writes. `M` is the memo, `P` what `prepare` answers, `F` and `U` what `final` and `undo` return. */
export interface WatchDefinition<
  Db,
  Mode extends HandlerMode,
  E extends EventSpecs,
  T extends ManagedDefinitions,
  P,
  M,
  F,
  U,
> {
  /** By the name of the chain in the configuration. One watcher a chain comes of it: `deposits/ethereum`. */
  readonly on: Readonly<Record<string, ChainBinding>>
  readonly events: EventDefinitions<E>
  readonly tables?: T
  /** Order and park key: 1 to 255 characters. */
  readonly key?: (event: EventOf<E>) => string
  /** Before the transaction: the place for anything slow. Write it above `handle`, so that its type is known there. */
  readonly prepare?: (scope: PrepareScope<EventOf<E>>) => Promise<P>
  /** Applies the event. What it returns is the memo that `final` and `undo` get: a small plain value, or nothing. */
  readonly handle: (scope: HandleScope<EventOf<E>, Db, TablesOf<T>, P>) => Answer<Mode, M>
  /** Second stage, in order, when the block settles: show at latest, pay when final. */
  readonly final?: (scope: FinalScope<EventOf<E>, Db, TablesOf<T>, M>) => F
  /** How the event's effects are taken back when its block is orphaned. */
  readonly undo?: 'managed' | 'irreversible' | ((scope: UndoScope<EventOf<E>, Db, M>) => U)
  /** What an event does to its watcher when it cannot be handled. Default, and only choice so far: `'halt'`. */
  readonly onFailure?: 'halt'
  /** Milliseconds for each call of `handle`, `final`, `undo` and `prepare`. 1 to 3,600,000, default 10,000. */
  readonly handlerTimeout?: number
  readonly batch?: BatchLimits
}

/** Whether the functions that run inside the transaction may return a promise. */
export type HandlerMode = 'sync' | 'async'

type IsAny<T> = 0 extends 1 & T ? true : false

/** Refuses, at compile time, a function of an embedded store that returns a promise, or does so sometimes. */
type NoPromise<Mode, Key extends string, R> = Mode extends 'async'
  ? unknown
  : IsAny<R> extends true
    ? unknown
    : [Extract<R, PromiseLike<unknown>>] extends [never]
      ? unknown
      : { readonly [K in Key]: 'this function is synchronous on an embedded store: move slow work into `prepare`' }

/** A definition with its types taken off, as the engine sees it. */
export interface ErasedDefinition<Db = never> {
  readonly on: Readonly<Record<string, ChainBinding>>
  readonly events: Readonly<Record<string, { readonly event: unknown; readonly args?: unknown }>>
  readonly tables?: ManagedDefinitions
  readonly key?: (event: TidemarkEvent) => unknown
  readonly prepare?: (scope: PrepareScope<TidemarkEvent>) => Promise<unknown>
  readonly handle: (scope: HandleScope<TidemarkEvent, Db, Readonly<Record<string, unknown>>, unknown>) => unknown
  readonly final?: (scope: FinalScope<TidemarkEvent, Db, Readonly<Record<string, unknown>>, unknown>) => unknown
  readonly undo?: 'managed' | 'irreversible' | ((scope: UndoScope<TidemarkEvent, Db, unknown>) => unknown)
  readonly onFailure?: 'halt'
  readonly handlerTimeout?: number
  readonly batch?: BatchLimits
}

/** A checked watcher, before it has a name and a chain. `Db` is the client of the store that it is written for. */
export interface Watcher<Db = never> {
  /** Recognised by this mark, so that two copies of the package understand each other. */
  readonly isTidemarkWatcher: true
  /** @throws {TidemarkError} what is wrong with the definition: `watch` does not know yet how the watcher is called */
  readonly definition: ErasedDefinition<Db>
}

export function isWatcher(value: unknown): value is Watcher {
  return (
    typeof value === 'object' && value !== null && (value as { isTidemarkWatcher?: unknown }).isTidemarkWatcher === true
  )
}

/** The `watch` of one store: typed from the ABI, checked when it is called. */
export type Watch<Db, Mode extends HandlerMode> = <
  const E extends EventSpecs,
  const T extends ManagedDefinitions = Record<never, never>,
  P = undefined,
  M = void,
  F = void,
  U = void,
>(
  definition: WatchDefinition<Db, Mode, E, T, P, M, F, U> &
    NoPromise<Mode, 'handle', M> &
    NoPromise<Mode, 'final', F> &
    NoPromise<Mode, 'undo', U>,
) => Watcher<Db>

/**
 * Makes the `watch` function of a store: `defineWatch<SqliteDb, 'sync'>()`.
 *
 * What is wrong with a definition is found when `watch` is called, and thrown by `defineConfig` or whatever reads the
 * watcher first: only there it has a name. Nothing is ever run of such a watcher.
 */
export function defineWatch<Db, Mode extends HandlerMode>(): Watch<Db, Mode> {
  return (definition) => {
    const flaw = flawOf(definition)
    if (flaw) return flawed<Db>(flaw)
    const erased = definition as unknown as ErasedDefinition<Db>
    return Object.freeze({ isTidemarkWatcher: true as const, definition: Object.freeze({ ...erased }) })
  }
}
