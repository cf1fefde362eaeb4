import { defineWatch, type Watch } from '../../handle/watch.ts'
import type { SqliteDb } from './scope.ts'

export { type RowsApi, type RowsDefinition, rows } from '../../managed/rows.ts'
export {
  type SyncTotalsApi as TotalsApi,
  syncTotals as totals,
  type TotalKey,
  type TotalSums,
  type TotalsDefinition,
  type TotalsOptions,
} from '../../managed/totals.ts'
export { decodeInt256, decodeUint256, encodeInt256, encodeUint256 } from '../amounts.ts'
export type { BetterSqlite3Like, BetterSqlite3Statement } from './better-sqlite3.ts'
export type {
  SqliteDatabaseLike,
  SqliteDriverDatabase,
  SqliteParameter,
  SqliteRow,
  SqliteRunResult,
  SqliteStatementLike,
  SqliteValue,
} from './driver.ts'
export type { SqliteConnection, SqliteDb, SqliteStatement } from './scope.ts'
export { type SqliteOptions, type SqliteStore, sqlite } from './store.ts'

/** Declares a watcher whose handlers run, synchronously, inside a SQLite transaction. */
export const watch: Watch<SqliteDb, 'sync'> = defineWatch<SqliteDb, 'sync'>()
