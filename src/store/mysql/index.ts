import { defineWatch, type Watch } from '../../handle/watch.ts'
import type { MysqlDb } from './scope.ts'

export { type RowsApi, type RowsDefinition, rows } from '../../managed/rows.ts'
export {
  type TotalKey,
  type TotalSums,
  type TotalsApi,
  type TotalsDefinition,
  type TotalsOptions,
  totals,
} from '../../managed/totals.ts'
export { decodeInt256, decodeUint256, encodeInt256, encodeUint256 } from '../amounts.ts'
export type { MysqlPool } from './driver.ts'
export { type KyselyConnection, type KyselyPool, type KyselyResult, kyselyPool } from './kysely-pool.ts'
export type { MysqlDb } from './scope.ts'
export type { Isolation } from './settings.ts'
export { type MysqlOptions, type MysqlStore, mysql } from './store.ts'

/** Declares a watcher whose handlers run inside a transaction of MariaDB or MySQL, and may return a promise. */
export const watch: Watch<MysqlDb, 'async'> = defineWatch<MysqlDb, 'async'>()
