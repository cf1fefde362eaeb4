import assert from 'node:assert/strict'
import type { BlockNumber, BlockRef, Hash, LogIndex } from '../../chain/block.ts'
import type { StableId } from '../../dedup/identity.ts'
import { type ErrorCode, TidemarkError } from '../../errors.ts'
import type { KeptEvent, Mark, Store, Tx } from '../../store/store.ts'
import { type Maybe, type Op, wait } from '../../util/op.ts'

/** What a case of the store contract works on. */
export interface ContractKit<Db> {
  /** Freshly made, migrated, empty. */
  readonly store: Store<Db>
  readonly probe: DbProbe<Db>
}

export interface ContractCase {
  /** Named after the danger. */
  readonly name: string
  run<Db>(kit: ContractKit<Db>): Promise<void>
}

/** The few things that a contract asks of a handler's `db`: the SQL belongs to the store under test. */
export interface DbProbe<Db> {
  /** Makes an empty table of distinct numbers. */
  makeTable(db: Db): Maybe<unknown>
  /** Fails when the number is there already. */
  insert(db: Db, n: number): Maybe<unknown>
  /** The numbers, ascending. */
  numbers(db: Db): Maybe<readonly number[]>
  /** Tries to end the transaction by a statement through `db`. */
  commit(db: Db): Maybe<unknown>
}

export const number = (n: number): BlockNumber => n as BlockNumber

/** 32 bytes that end in `n`. */
export const hash = (n: number): Hash => `0x${n.toString(16).padStart(64, '0')}` as Hash

export const id = (n: number): StableId => `0x${n.toString(16).padStart(32, '0')}` as StableId

export const ref = (n: number, fork = 0): BlockRef => ({ number: number(n), hash: hash(n + fork * 0x1000000) })

export function mark(block: number, n: number): Mark {
  return {
    blockNumber: number(block),
    blockHash: hash(block),
    stableId: id(n),
    transactionHash: hash(n),
    logIndex: n as LogIndex,
  }
}

export function kept(block: number, sequence: number): KeptEvent {
  return {
    eventName: 'Transfer',
    log: {
      address: `0x${'a1'.repeat(20)}` as KeptEvent['log']['address'],
      topics: [hash(1), hash(2)],
      data: '0x00ff',
      blockNumber: number(block),
      blockHash: hash(block),
      transactionHash: hash(block * 100 + sequence),
      transactionIndex: sequence,
      logIndex: (sequence * 2) as LogIndex,
    },
    stableId: id(block * 100 + sequence),
    sequence,
    key: sequence % 2 ? 'alice' : null,
    memo: sequence % 2 ? null : '{"a":1}',
  }
}

/** The code that `work` fails with; fails itself when it does not fail. */
export async function codeOf(work: Promise<unknown>): Promise<ErrorCode> {
  try {
    await work
  } catch (error) {
    if (!TidemarkError.is(error)) throw error
    return error.code
  }
  return assert.fail('expected a TidemarkError, but the work succeeded')
}

/** Makes a watcher and answers its id. */
export function* makeWatcher<Db>(tx: Tx<Db>, name = 'deposits/ethereum'): Op<number> {
  const row = yield* wait(tx.cursors.create({ name, chainId: 1, fingerprint: 'f', startBlock: number(1) }, 1))
  return row.id
}

export const rules = { mayWrite: true, values: { watcher: 'w' }, deadline: Number.POSITIVE_INFINITY }
