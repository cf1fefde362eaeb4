import { defineWatch, type Watch } from '../../handle/watch.ts'
import type { PgDb } from './scope.ts'

export { type RowsApi, type RowsDefinition, rows } from '../../managed/rows.ts'
export {
  type TotalKey,
  type TotalSums,
  type TotalsApi,
  type TotalsDefinition,
  type TotalsOptions,
  totals,
} from '../../managed/totals.ts'
export type {
  PgClientLike,
  PgField,
  PgPoolClientLike,
  PgPoolLike,
  PgQueryConfig,
  PgResult,
  PgRow,
  PgTypes,
} from './driver.ts'
export type { DrizzleTransactionLike, KyselyTransactionLike, PrismaTransactionLike } from './executors.ts'
export type { PgIsolation, PostgresOptions } from './place.ts'
export type { PgBuilderClient, PgBuilderCursor, PgCallback, PgConnection, PgDb, PgRaw, PgStatement } from './scope.ts'
export { type PgTransaction, type PostgresStore, postgres } from './store.ts'

/** Declares a watcher whose handlers run inside a PostgreSQL transaction and may return promises. */
export const watch: Watch<PgDb, 'async'> = defineWatch<PgDb, 'async'>()
