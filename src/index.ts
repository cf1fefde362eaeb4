export { connectAdmin, createTidemark, type TidemarkOptions } from './app/tidemark.ts'
export type {
  Admin,
  By,
  Health,
  Logger,
  RunOnceOptions,
  RunOnceResult,
  Status,
  Tidemark,
  TidemarkEvents,
  WatcherStatus,
} from './app/types.ts'
export { type ChainConfig, type Config, type ConfigInput, defineConfig } from './config.ts'
export { BoundedDeduplicator, type BoundedDeduplicatorOptions } from './dedup/bounded-deduplicator.ts'
export type { ClaimOutcome, EventClaim, ExpiredClaim } from './dedup/claim.ts'
export {
  type Answer,
  type CursorBlock,
  DeduplicationManager,
  type DeduplicationManagerOptions,
  type DeduplicationState,
  type OnceOutcome,
} from './dedup/deduplication-manager.ts'
export { type DeduplicationEvent, numberIdenticalLogs } from './dedup/event-key.ts'
export type { CleanupReport } from './dedup/forget.ts'
export { eventId, parseEventId, stableId } from './dedup/identity.ts'
export { type ErrorCode, errorCodes, TidemarkError } from './errors.ts'
export type { Store } from './store/store.ts'
export { realWorld, type World } from './util/world.ts'
